"""Launches of kernels, and arrays for their arguments."""

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
    """A launch of a kernel.

    Attributes:
        grid, block: Dimensions of the grid in blocks and of a block in threads.
        arguments: Arrays and scalars, in the order of the parameters.
        expected: Contents of arrays after the launch, by the parameter's name.
        any_order: Elements of arrays after the launch, in an order that depends on the threads.
        name: Name of the kernel, if the text has several.
        shared_bytes: Dynamic shared memory, in bytes.
        rtol: Relative error that rounding may cause.
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
    """A kernel's file, and its launch with fresh arguments."""

    name: str
    launch: Callable[[np.random.Generator], Launch]
    folder: Path = FOLDER

    @property
    def path(self) -> Path:
        """Path of the text."""
        return self.folder / f"{self.name}.cu"

    def prepare(self) -> Launch:
        """Return the launch, with the same arguments each time."""
        return self.launch(np.random.default_rng(0))


KERNELS: dict[str, Kernel] = {}


def kernel(launch: Callable[[np.random.Generator], Launch]) -> Callable[[np.random.Generator], Launch]:
    """Register a launch under its function's name, which is that of the kernel's file."""
    KERNELS[launch.__name__] = Kernel(launch.__name__, launch)
    return launch


def small(rng: np.random.Generator, *shape: int, dtype: Any = np.float32, bound: int = 9) -> np.ndarray[Any, Any]:
    """Draw integers from -bound to bound."""
    return rng.integers(-bound, bound + 1, shape).astype(dtype)


def uniform(rng: np.random.Generator, *shape: int, low: float = -1, high: float = 1) -> np.ndarray[Any, Any]:
    """Draw float32 numbers."""
    return rng.uniform(low, high, shape).astype(np.float32)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Return an array of zeros to which a kernel adds."""
    return np.zeros(shape, dtype)


def unset(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Return memory for results in which every byte is 0xEE."""
    return np.frombuffer(bytearray(b"\xee" * (int(np.prod(shape)) * np.dtype(dtype).itemsize)), dtype).reshape(shape)
