"""Global memory of a launch, and the arrays in it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint8, c_uint64
from typing import Any

import numpy as np

from tiledmm.simulator.execute.interface import Operand, runtime
from tiledmm.simulator.execute.unwritten import unwritten_in

# CuPy's allocations are aligned to this, and so are the simulator's: sectors are counted alike.
_ALIGNMENT = 512

#: Recorded in place of the thread that wrote an element: it was written before the launch (``build/native/state.h``).
BEFORE = 1

#: Inaccessible memory around each operand: an index that is wrong by less never reaches another operand.
GUARD_BYTES = 256 << 20


class Memory:
    """Global memory of a run: regions with inaccessible memory around each.

    Args:
        sizes: Size of each region in bytes.

    Raises:
        MemoryError: If there is not so much memory.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._library = runtime()
        count = len(sizes)
        addresses = (c_uint64 * count)()
        self._reserved = c_uint64()
        self._base = self._library.tiledmm_reserve(
            c_uint64(count), (c_uint64 * count)(*sizes), c_uint64(GUARD_BYTES), addresses, byref(self._reserved)
        )
        if not self._base:
            raise MemoryError(f"there is not enough memory for the operands: {sum(sizes):,} bytes")
        self.addresses = list(addresses)

    def bytes(self, region: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the first ``size`` bytes of a region as an array, which must not be used after ``release``.

        Args:
            region: Number of the region.
            size: Number of bytes.
        """
        return np.ctypeslib.as_array((c_uint8 * size).from_address(self.addresses[region]))

    def release(self) -> None:
        """Return all regions to the operating system."""
        if self._base:
            self._library.tiledmm_release(self._base, self._reserved)
            self._base = None


def owner_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns a view's memory."""
    base = array.base
    while isinstance(base, (np.ndarray, memoryview)):
        if isinstance(base, memoryview):  # the array was made in the memory of another one
            base = base.obj
            continue
        array, base = base, base.base
    return array


def bounds_of(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the addresses of the first byte of an array's elements and of the byte after the last."""
    start, stop = span_of(array)
    return array.ctypes.data + start, array.ctypes.data + stop


def span_of(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the range of bytes that an array spans, as two offsets from its first element.

    The first offset is that of the first byte, which is negative if a stride is; the second is that of the byte after
    the last.
    """
    if not array.size:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return sum(each for each in reach if each < 0), sum(each for each in reach if each > 0) + array.dtype.itemsize


class Placed:
    """An array in the simulator's memory, with the strides that it has outside.

    Args:
        name: Name of the array in messages, or a function that returns it.
        array: The array.
        span: Offsets of the first byte of its memory and of the byte after the last, from its first element; None for
            ``span_of(array)``.
    """

    def __init__(
        self, name: str | Callable[[], str], array: np.ndarray[Any, Any], span: tuple[int, int] | None = None
    ) -> None:
        self._name, self.array = name, array
        self.start, self.stop = span or span_of(array)
        self.itemsize = array.dtype.itemsize
        self.bytes = self.stop - self.start
        # The offset from the array's own allocation decides its alignment, as in CuPy's memory.
        self.phase = (array.ctypes.data + self.start - owner_of(array).ctypes.data) % _ALIGNMENT if array.size else 0
        self.reserved_bytes = self.bytes + _ALIGNMENT
        self.begin = 0
        self.filled = False
        self.pointee = 0  # bytes of what the kernel's pointer points to, where it subscripts that
        self.holds_pointers = False
        self.pending = False  # whether the launch before, which may not have ended, accesses it
        self.result = array
        self.writable = True
        # Elements of more than 16 bytes, such as structures, are looked at in parts.
        self.granule = math.gcd(self.itemsize, 16) if self.itemsize > 16 else self.itemsize
        self.writes = np.zeros((0, 2), np.uint64)
        self.reads = np.zeros((0, 4), np.uint64)
        self.before = np.zeros(0, np.bool_)
        self.unwritten: np.ndarray[Any, Any] | None = None

    @functools.cached_property
    def name(self) -> str:
        """Name of the array in messages."""
        return self._name if isinstance(self._name, str) else self._name()

    @property
    def note(self) -> str:
        """What a message says about a view with several elements at one address; empty for other arrays."""
        repeats = self.array.size * self.itemsize > self.bytes
        return f"a view of shape {self.array.shape} with strides {self.array.strides}" if repeats else ""

    @property
    def offset(self) -> int:
        """Bytes from an aligned address to the array's first element, in the simulator's memory as in CuPy's."""
        return self.phase - self.start

    @property
    def origin(self) -> int:
        """Address of the array's first element in the simulator's memory."""
        return self.begin - self.start

    def place(self, memory: Memory, region: int, *, filled: bool, written: bool | None = None) -> None:
        """Assign an address and, if ``filled``, copy the array there. All other bytes are 0xff, which is NaN in floats.

        Args:
            memory: The simulator's global memory.
            region: Number of the region that the array gets.
            filled: Whether the array's elements are there before the launch.
            written: Whether the kernel may write the array; by default, only if it is not filled.
        """
        self.begin = memory.addresses[region] + self.phase
        self.memory = memory.bytes(region, self.phase + self.bytes)[self.phase :]
        self.memory[:] = 255
        self.filled = filled
        if filled:
            self.view()[...] = self.array
        if written if written is not None else not filled:
            granules = self.bytes // self.granule
            self.writes = np.zeros((granules, 2), np.uint64)
            self.reads = np.zeros((granules, 4), np.uint64)
            self.before = np.zeros(granules, np.bool_)
        dense = self.array.size * self.itemsize == self.bytes or self.granule < self.itemsize
        self.valid = None if dense else np.zeros(self.bytes // self.itemsize, np.uint8)
        if self.valid is not None:
            self.of_elements(self.valid)[...] = 1

    def mark_unwritten(self, fill: int | None = None) -> None:
        """Find the elements that nobody has written before the launch, and fill them if a value is given.

        Args:
            fill: Value of each of their bytes; None for what is there.
        """
        self.unwritten = unwritten_in(self.array, self.memory, self.granule, self.start)
        if self.unwritten is not None and fill is not None:
            self.memory.reshape(-1, self.granule)[self.unwritten] = fill

    def allow_rewriting(self) -> None:
        """Record earlier writes as those before the next launch, which may then read and write the same elements."""
        self.before |= self.writes[:, 0] != 0
        self.writes[:] = 0
        self.writes[self.before, 0] = BEFORE
        self.reads[:] = 0

    @property
    def written(self) -> np.ndarray[Any, Any]:
        """For each element of memory, whether any launch wrote it."""
        written: np.ndarray[Any, Any] = self.before | (self.writes[:, 0] != 0)
        return written

    def view(self) -> np.ndarray[Any, Any]:
        """Return the simulator's copy of the array, as a view with the array's shape, type and strides."""
        shape, strides = self.array.shape, self.array.strides
        array: np.ndarray[Any, Any] = np.ndarray(shape, self.array.dtype, self.memory.data, -self.start, strides)
        return array

    def element_at(self, offset: int) -> str:
        """Return the element at a byte offset as a programmer writes it, such as ``"A[1, 2]"``.

        It has one subscript, as in ``"x[7]"``, if the kernel subscripts a pointer. The string is empty if no element of
        the array is at that offset.
        """
        if self.pointee:
            return f"{self.name}[{(offset + self.start) // self.pointee}]"
        number = self.indices()[offset // self.itemsize]
        index = np.unravel_index(max(number, 0), self.array.shape)
        return f"{self.name}[{', '.join(str(int(i)) for i in index)}]" if number >= 0 else ""

    def of_elements(self, marks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the entries of ``marks`` that belong to elements of the array, as a view in the array's shape.

        Args:
            marks: One entry for each element of memory, including gaps between the array's elements.
        """
        strides = tuple(stride // self.itemsize * marks.itemsize for stride in self.array.strides)
        first = -self.start // self.itemsize * marks.itemsize
        array: np.ndarray[Any, Any] = np.ndarray(self.array.shape, marks.dtype, marks.data, first, strides)
        return array

    def indices(self) -> np.ndarray[Any, Any]:
        """Return, for each element of memory, the number of the array's element there, counted in C order.

        It is -1 for a gap. Where several of the array's elements are at one address, it is the last one's.
        """
        numbers = np.full(self.bytes // self.itemsize, -1, np.int64)
        self.of_elements(numbers)[...] = np.arange(self.array.size).reshape(self.array.shape)
        return numbers

    def operand(self, *, writable: bool) -> Operand:
        """Return the description of this memory by which the runtime checks accesses.

        Args:
            writable: Whether the kernel may write the array.
        """
        return Operand(
            begin=self.begin,
            bytes=self.bytes,
            granule=self.granule,
            valid=None if self.valid is None else self.valid.ctypes.data,
            writes=self.writes.ctypes.data if writable else None,
            reads=self.reads.ctypes.data if writable else None,
            defined=self.filled,
            unwritten=None if self.unwritten is None else self.unwritten.ctypes.data,
            pending=self.pending,
        )
