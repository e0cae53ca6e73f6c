"""Prepared operands: arrays whose packed or decomposed forms are kept from product to product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Forms(Protocol):
    """Forms that a prepared operand keeps, in the memory of a device or of the host."""

    @property
    def bytes(self) -> int:
        """Size of all forms that have been made, in bytes."""

    def read(self) -> None:
        """Make the array and its forms readable by the work that follows on the current stream.

        Raises:
            PreparedOperandError: If the array is checked and has changed.
        """


class PreparedOperand:
    """Operand of products whose limbs, residues or packed copy are made once. ``tiledmm.prepare`` returns it.

    It has the shape and the type of its array, and is an operand of ``matmul``, ``gemm`` and ``@`` on either side. It
    must not be used any more after its array was written. Its forms are freed with it.

    Attributes:
        array: The array.
        shape: Shape of the array.
        strides: Strides of the array, in bytes.
        dtype: Type of the array's elements.
        data: Memory of the array, for a CuPy array its ``MemoryPointer``.
        forms: The forms that it keeps.
    """

    __slots__ = ("_multiply", "array", "data", "dtype", "forms", "shape", "strides")

    # So that NumPy and CuPy leave ``array @ operand`` to ``__rmatmul__``.
    __array_ufunc__ = None

    def __init__(self, array: Any, forms: Forms, multiply: Callable[[Any, Any], Any]) -> None:
        self.array, self.forms, self._multiply = array, forms, multiply
        self.shape: tuple[int, ...] = array.shape
        self.strides: tuple[int, ...] = array.strides
        self.dtype, self.data = array.dtype, array.data

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the array."""
        return int(self.array.size)

    @property
    def itemsize(self) -> int:
        """Size of one element of the array, in bytes."""
        return int(self.dtype.itemsize)

    @property
    def held_bytes(self) -> int:
        """Size of the forms that have been made so far, in bytes. The array itself is not included."""
        return self.forms.bytes

    def __matmul__(self, other: Any) -> Any:
        return self._multiply(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._multiply(other, self)

    def __repr__(self) -> str:
        return f"PreparedOperand(shape={self.shape}, dtype={self.dtype}, held_bytes={self.held_bytes:,})"


def array_of(x: Any) -> Any:
    """Return the array of a prepared operand. Any other object is returned unchanged."""
    return x.array if isinstance(x, PreparedOperand) else x
