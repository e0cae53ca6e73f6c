from __future__ import annotations

import functools
import operator
import os
import time

import pytest

from tools.bugs import children
from tools.bugs.children import Children, End


def test_a_child_is_replaced_when_it_hangs_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_START", 10)
    with Children(1, seconds=0.5) as pool:
        assert pool.run(functools.partial(operator.add, 1, 2)) == 3
        assert pool.run(functools.partial(time.sleep, 60)) is End.HUNG
        assert pool.run(functools.partial(os._exit, 3)) is End.KILLED
        assert isinstance(pool.run(functools.partial(operator.truediv, 1, 0)), ZeroDivisionError)
        assert pool.run(os.getpid) != os.getpid()
