"""Run CuPy's own tests of ``cupy.matmul``, from its repository, on the simulator's matmul.

    python -m tools.cupys_tests CUPY/tests/cupy_tests/math_tests/test_matmul.py [arguments of pytest]

Needs CuPy, but no GPU. Most tests loop over all pairs of types and compile a kernel for each, which takes hours the
first time. CuPy's own ``CUPY_TEST_RANDOM_SUBSAMPLE=1`` selects one pair per test, by ``_CUPY_TEST_SUBSAMPLE_SEED``.

One difference from CuPy is intended: the simulator ignores cuBLAS's compute types, which some tests set before they
multiply.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tiledmm import simulator


class Simulated(np.ndarray):
    """An array whose products are simulated."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
        """Call the simulator for matmul, and NumPy for everything else."""
        plain = [np.asarray(x) if isinstance(x, Simulated) else x for x in inputs]
        if out is not None:
            keywords["out"] = tuple(map(np.asarray, out))
        if ufunc is np.matmul:
            CALLS.append(1)
            result = simulator.matmul(*plain, **keywords)
        else:
            result = getattr(ufunc, method)(*plain, **keywords)
        if out is not None:
            return out[0]
        return result.view(Simulated) if isinstance(result, np.ndarray) else result


#: One entry for each product that was simulated.
CALLS: list[int] = []


class _InPlaceOfCupy(ModuleType):
    """A stand-in for CuPy with NumPy's functions, whose arrays are simulated."""

    ndarray = Simulated
    asnumpy = staticmethod(np.asarray)
    _core = SimpleNamespace(get_compute_type=lambda dtype: 0, set_compute_type=lambda dtype, kind: None)

    def __getattr__(self, name: str) -> Any:
        if name in ("array", "asarray", "zeros", "ones"):
            return lambda *arguments, **keywords: getattr(np, name)(*arguments, **keywords).view(Simulated)
        if hasattr(np, name):
            return getattr(np, name)
        import cupy

        return getattr(cupy, name)


class _OnTheSimulator:
    """The pytest plugin that replaces CuPy in the tests and checks that each multiplies on the simulator."""

    @pytest.fixture(autouse=True)
    def _in_place_of_cupy(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        module, stand_in = request.module, _InPlaceOfCupy("cupy")
        monkeypatch.setattr(module, "cupy", stand_in)
        decorators = ("numpy_cupy_allclose", "numpy_cupy_array_equal", "assert_allclose", "assert_array_equal")
        for function in (getattr(module.testing, name) for name in decorators):
            monkeypatch.setitem(function.__globals__, "cupy", stand_in)
        before = len(CALLS)
        yield
        assert len(CALLS) > before, "this test multiplied nothing on the simulator"


if __name__ == "__main__":
    options = ["-c", "/dev/null", "--noconftest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    sys.exit(pytest.main([*sys.argv[1:], *options], plugins=[_OnTheSimulator()]))
