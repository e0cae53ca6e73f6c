"""Fixtures of the tests of commands."""

from __future__ import annotations

import pytest

from tiledmm.bench import kernel_resources, simulated


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute everything anew: tests replace the compiler and the simulator."""
    for module in (kernel_resources, simulated):
        monkeypatch.setattr(module, "kept", lambda key, compute: compute())
