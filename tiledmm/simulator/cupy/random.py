"""``cupy.random`` of the simulator: NumPy's generators, with ``dtype=``. The numbers are not those of CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledmm.errors import UnsupportedTypeError
from tiledmm.simulator.cupy.arrays import on_device, wrapped_function

# Legacy functions that take dtype= in CuPy and not in NumPy.
_WITH_DTYPE = frozenset({
    "beta", "binomial", "chisquare", "exponential", "gamma", "geometric", "laplace", "logistic", "lognormal", "normal",
    "poisson", "power", "rand", "randn", "random", "random_sample", "ranf", "rayleigh", "sample", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "uniform", "wald", "weibull",
})  # fmt: skip
_FROM_ZERO_TO_ONE = frozenset({"rand", "random", "random_sample", "ranf", "sample"})


def _function(generator: Any, name: str, title: str) -> Any:
    of_numpy = None if name.startswith("_") else getattr(generator, name, None)
    if of_numpy is None or not callable(of_numpy):
        raise AttributeError(f"the simulator's {title} has no {name!r}")
    call = wrapped_function(of_numpy)
    if name not in _WITH_DTYPE:
        return call

    def with_dtype(*args: Any, dtype: Any = float, **keywords: Any) -> Any:
        if np.dtype(dtype).kind not in "fiu":
            raise UnsupportedTypeError(f"dtype of {title}.{name} must be float32 or float64; got {np.dtype(dtype)}")
        values = np.asarray(of_numpy(*args, **keywords)).astype(dtype)
        if name in _FROM_ZERO_TO_ONE:  # rounding may have reached 1
            values = np.minimum(values, np.nextafter(values.dtype.type(1), values.dtype.type(0)))
        return on_device(values)

    with_dtype.__name__ = name
    return with_dtype


class RandomState:
    """``cupy.random.RandomState``, whose numbers are those of ``numpy.random.RandomState``."""

    def __init__(self, seed: int | None = None, method: int | None = None) -> None:
        self._generator = np.random.RandomState(seed)

    def __getattr__(self, name: str) -> Any:
        return _function(self._generator, name, "cupy.random.RandomState")


class Generator:
    """``cupy.random.Generator``, whose numbers are those of a NumPy generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        of_numpy = None if name.startswith("_") else getattr(self._generator, name, None)
        if of_numpy is None or not callable(of_numpy):
            raise AttributeError(f"the simulator's cupy.random.Generator has no {name!r}")
        return wrapped_function(of_numpy)


def default_rng(seed: Any = None) -> Generator:
    """Return a generator whose methods return the simulator's arrays, with the numbers of NumPy's ``default_rng``."""
    return Generator(np.random.default_rng(seed))


def seed(seed: int | None = None) -> None:
    """Set the seed of this module's functions; None for a random seed."""
    global _state
    _state = np.random.RandomState(seed)


_state = np.random.RandomState()


def __getattr__(name: str) -> Any:
    return _function(_state, name, "cupy.random")
