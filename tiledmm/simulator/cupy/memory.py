"""Pointers to memory with CuPy's interface. Each refers to the whole memory, so that accesses beyond it are refused."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.execute.known_arrays import KNOWN
from tiledmm.simulator.execute.memory import owner_of


class MemoryPointer:
    """A pointer to memory, with CuPy's attributes and methods.

    Args:
        mem: The memory, as an array of uint8.
        offset: Offset of the pointer's address from the beginning of the memory, in bytes.

    Attributes:
        mem: The memory.
    """

    device_id = 0

    def __init__(self, mem: np.ndarray[Any, Any], offset: int = 0) -> None:
        self.mem, self._offset = mem, int(offset)

    @classmethod
    def to(cls, array: np.ndarray[Any, Any]) -> MemoryPointer:
        """Return a pointer to an array's first element."""
        owner = owner_of(array).view(np.ndarray)
        memory = owner.ravel(order="K").view(np.uint8)
        return cls(memory, array.ctypes.data - owner.ctypes.data)

    @property
    def ptr(self) -> DevicePointer:
        """Address that the pointer holds, as an integer with a reference to the pointer."""
        return DevicePointer(self)

    @property
    def bytes(self) -> np.ndarray[Any, Any]:
        """The memory from the pointer's address to the end, as an array of uint8."""
        if not 0 <= self._offset <= self.mem.size:
            raise ConfigError(f"this memory has {self.mem.size} bytes, but the pointer points to byte {self._offset}")
        return self.mem[self._offset :]

    def copy_from_host(self, mem: Any, size: int) -> None:
        """Copy ``size`` bytes from host memory to this pointer's address; ``mem`` is an int or ``ctypes.c_void_p``."""
        self._check(size)
        ctypes.memmove(self.bytes.ctypes.data, _address(mem), size)

    def copy_to_host(self, mem: Any, size: int) -> None:
        """Copy ``size`` bytes from this pointer's address to host memory; ``mem`` is an int or ``ctypes.c_void_p``."""
        self._check(size)
        ctypes.memmove(_address(mem), self.bytes.ctypes.data, size)

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Copy ``size`` bytes from the address of another pointer to this pointer's address."""
        self._check(size)
        src._check(size)
        self.bytes[:size] = src.bytes[:size]

    def copy_from(self, mem: Any, size: int) -> None:
        """Copy ``size`` bytes from another pointer's address, or from host memory, to this pointer's address."""
        if isinstance(mem, MemoryPointer):
            self.copy_from_device(mem, size)
        else:
            self.copy_from_host(mem, size)

    def memset(self, value: int, size: int) -> None:
        """Set ``size`` bytes from this pointer's address on to ``value``."""
        self._check(size)
        self.bytes[:size] = value

    def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copy ``size`` bytes from host memory, before the call returns: see ``copy_from_host``."""
        self.copy_from_host(mem, size)

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copy ``size`` bytes to host memory, before the call returns: see ``copy_to_host``."""
        self.copy_to_host(mem, size)

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        """Copy ``size`` bytes from another pointer's address, before the call returns: see ``copy_from_device``."""
        self.copy_from_device(src, size)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copy ``size`` bytes from a pointer or from host memory, before the call returns: see ``copy_from``."""
        self.copy_from(mem, size)

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Set ``size`` bytes to ``value``, before the call returns: see ``memset``."""
        self.memset(value, size)

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self._offset + int(offset))

    __radd__ = __add__

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -int(offset)

    def __int__(self) -> int:
        return int(self.ptr)

    def _check(self, size: int) -> None:
        if not 0 <= self._offset <= self._offset + size <= self.mem.size:
            raise ConfigError(
                f"this memory has {self.mem.size} bytes; got {size} bytes, starting at byte {self._offset}"
            )


class DevicePointer(int):
    """The address ``x.data.ptr``: an integer that keeps its memory alive, and by which a launch finds its array."""

    memory: MemoryPointer

    def __new__(cls, memory: MemoryPointer) -> DevicePointer:
        """Make an integer that holds the address of ``memory`` and refers to it."""
        KNOWN.remember(memory.mem)
        self = super().__new__(cls, memory.mem.ctypes.data + memory._offset)
        if not 0 <= memory._offset <= memory.mem.size and memory.mem.size:
            KNOWN.remember_beyond(int(self), memory.mem)
        self.memory = memory
        return self

    def __add__(self, offset: int) -> DevicePointer:
        return DevicePointer(self.memory + offset)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return int(self) - int(other) if isinstance(other, DevicePointer) else DevicePointer(self.memory - other)


def _address(mem: Any) -> int:
    address = mem.value if isinstance(mem, ctypes.c_void_p) else mem
    if not isinstance(address, int):
        raise OperandTypeError(f"a host address must be an int or ctypes.c_void_p; got {type(mem).__name__}")
    return address
