"""Arrays in the simulator's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledmm.problem.strides import Span
from tiledmm.simulator import execution

# CuPy's allocations begin at multiples of this, and so do the simulator's: sectors are counted alike.
_ALIGNMENT = 512


class Placed:
    """An array in the simulator's memory, with the strides that it has."""

    def __init__(self, name: str, array: np.ndarray[Any, Any], span: Span) -> None:
        self.name, self.array, self.span = name, array, span
        self.itemsize = array.dtype.itemsize
        self.bytes = span.stop - span.start
        # As far from a boundary of CuPy's allocations as it is from its own memory's beginning.
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self.phase = (array.ctypes.data + span.start - owner.ctypes.data) % _ALIGNMENT if array.size else 0
        self.room = self.bytes + _ALIGNMENT
        self.begin = 0
        self.cells = np.zeros(0, np.uint64)
        self.before = np.zeros(0, np.bool_)

    @property
    def origin(self) -> int:
        """Address of the array's first element."""
        return self.begin - self.span.start

    def place(self, memory: execution.Memory, piece: int, *, filled: bool) -> None:
        """Gives it an address, and its elements (others are NaNs)."""
        self.begin = memory.addresses[piece] + self.phase
        self.memory = memory.bytes(piece, self.phase + self.bytes)[self.phase :]
        self.memory[:] = 255
        if filled:
            self.view()[...] = self.array
        else:
            self.cells = np.zeros(self.bytes // self.itemsize, np.uint64)
            self.before = np.zeros(self.cells.shape, np.bool_)
        dense = self.array.size * self.itemsize == self.bytes
        self.valid = None if dense else np.zeros(self.bytes // self.itemsize, np.uint8)
        if self.valid is not None:
            self.of_elements(self.valid)[...] = 1

    def begin_anew(self) -> None:
        """Lets what was written be written again."""
        self.before |= self.cells != 0
        self.cells[:] = 0

    @property
    def written(self) -> np.ndarray[Any, Any]:
        """Of each place, whether something was ever written there."""
        written: np.ndarray[Any, Any] = self.before | (self.cells != 0)
        return written

    def view(self) -> np.ndarray[Any, Any]:
        """The array there."""
        shape, strides = self.array.shape, self.array.strides
        array: np.ndarray[Any, Any] = np.ndarray(shape, self.array.dtype, self.memory.data, -self.span.start, strides)
        return array

    def of_elements(self, marks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Of marks by place in memory, those of the array's elements, in the array's shape."""
        strides = tuple(stride // self.itemsize * marks.itemsize for stride in self.array.strides)
        first = -self.span.start // self.itemsize * marks.itemsize
        array: np.ndarray[Any, Any] = np.ndarray(self.array.shape, marks.dtype, marks.data, first, strides)
        return array

    def indices(self) -> np.ndarray[Any, Any]:
        """For each place in memory, the number of the element there (of one that is there several times, the last)."""
        found = np.full(self.bytes // self.itemsize, -1, np.int64)
        self.of_elements(found)[...] = np.arange(self.array.size).reshape(self.array.shape)
        return found

    def operand(self, *, writable: bool) -> execution.Operand:
        """As the machine checks accesses to it."""
        return execution.Operand(
            begin=self.begin,
            bytes=self.bytes,
            granule=self.itemsize,
            valid=None if self.valid is None else self.valid.ctypes.data,
            cells=self.cells.ctypes.data if writable else None,
        )
