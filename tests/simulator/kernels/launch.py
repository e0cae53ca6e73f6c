"""How a kernel is launched, and arrays for its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent

Dimensions = int | tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """One launch.

    Attributes:
        grid, block: Dimensions.
        arguments: Arrays and scalars, in the order of the parameters.
        expected: What arrays hold afterwards, by the parameter's name.
        any_order: Elements that arrays hold afterwards in an order that the threads decide.
        name: The kernel, where the text has no other way to say which.
        shared_bytes: Dynamic shared memory, in bytes.
        rtol: Relative error that rounding may make.
    """

    grid: Dimensions
    block: Dimensions
    arguments: list[Any]
    expected: dict[str, Any]
    any_order: dict[int, Any] = field(default_factory=dict)
    name: str | None = None
    shared_bytes: int = 0
    rtol: float = 0.0


@dataclass(frozen=True)
class Kernel:
    """A file, and its launch with fresh arguments."""

    name: str
    launch: Callable[[np.random.Generator], Launch]
    folder: Path = FOLDER

    @property
    def path(self) -> Path:
        """Where the text is."""
        return self.folder / f"{self.name}.cu"

    def prepare(self) -> Launch:
        """The launch, the same each time."""
        return self.launch(np.random.default_rng(0))


KERNELS: dict[str, Kernel] = {}


def kernel(launch: Callable[[np.random.Generator], Launch]) -> Callable[[np.random.Generator], Launch]:
    """Enters a function whose name is a file's."""
    KERNELS[launch.__name__] = Kernel(launch.__name__, launch)
    return launch


def small(rng: np.random.Generator, *shape: int, dtype: Any = np.float32, bound: int = 9) -> np.ndarray[Any, Any]:
    """Integers from -bound to bound."""
    return rng.integers(-bound, bound + 1, shape).astype(dtype)


def uniform(rng: np.random.Generator, *shape: int, low: float = -1, high: float = 1) -> np.ndarray[Any, Any]:
    """Numbers of float32."""
    return rng.uniform(low, high, shape).astype(np.float32)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """What a kernel adds to."""
    return np.zeros(shape, dtype)


def unset(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Memory for results: every byte is 0xEE."""
    return np.frombuffer(bytearray(b"\xee" * (int(np.prod(shape)) * np.dtype(dtype).itemsize)), dtype).reshape(shape)
