"""Tests that examples in docstrings print what they show, if they need no GPU."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import tiledmm

# Examples of products on a GPU, by the name of what they explain.
ON_A_GPU = {"tiledmm.own_kernels.registration.register"}

# Examples that simulate a block of 32 x 32 threads, which takes a second each.
SLOW = {"tiledmm.simulated.tracing.Trace.requests", "tiledmm.simulated.tracing.explain_conflicts"}


def examples() -> dict[str, doctest.DocTest]:
    """Return the docstrings with printing examples in modules that can be imported here, by name."""
    found: dict[str, doctest.DocTest] = {}
    for info in pkgutil.walk_packages(tiledmm.__path__, "tiledmm."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:
            continue  # it needs CuPy, or another library
        found |= {each.name: each for each in doctest.DocTestFinder().find(module)}
    return {name: each for name, each in found.items() if any(one.want for one in each.examples)}


@pytest.mark.parametrize("slow_ones", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_examples_print_what_they_show(slow_ones: bool) -> None:
    found, printed = examples(), list[str]()
    assert found.keys() >= {"tiledmm.api.explain", "tiledmm.hardware.banks.wavefronts", *ON_A_GPU, *SLOW}
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64), dtype=np.float32)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name in sorted(SLOW if slow_ones else found.keys() - ON_A_GPU - SLOW):
        found[name].globs |= {"tiledmm": tiledmm, "np": np, "a": a, "b": b}
        runner.run(found[name], out=printed.append)
    assert not printed, "".join(printed)
