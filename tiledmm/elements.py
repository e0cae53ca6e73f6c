"""The element types of the package, and how they are packed and decomposed: one row each, listed here only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.errors import UnsupportedTypeError


@dataclass(frozen=True, slots=True)
class Element:
    """One element type.

    Attributes:
        name: Short name, as kernel symbols have it: ``"f32"``.
        dtype_name: NumPy's name: ``"float32"``.
        itemsize: Bytes of one element in memory.
        sum_bytes: Bytes of one element in shared memory and registers, where it has the accumulator's type
            (``Accumulator`` in ``cuda_src/elements.cuh.j2``).
        multiplies: Real multiplications in one product of two elements; 4 for complex types.
        per_packed: Narrow elements in one packed element; 1 if it is not packed.
        held_as: NumPy's name of its type in memory, where NumPy has no such type; empty where NumPy has it.
        parts: Real numbers in one element; 2 for complex types.
    """

    name: str
    dtype_name: str
    itemsize: int
    sum_bytes: int
    multiplies: int = 1
    per_packed: int = 1
    held_as: str = ""
    parts: int = 1

    @property
    def stored(self) -> Element:
        """The type of such elements in memory: this one, except for tf32, which is float32 there."""
        return ELEMENTS[self.held_as] if self.held_as else self

    @property
    def c_type(self) -> str:
        """Its name in CUDA C: NumPy's own, except for bool, which is a keyword there."""
        return self.dtype_name.replace("bool", "boolean")

    @property
    def is_summed_as_it_is(self) -> bool:
        """Whether the accumulator has the elements' own type, in CUDA C."""
        return self.itemsize == self.sum_bytes and self.dtype_name in ("float32", "float64", "uint32", "uint64")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; for packed elements and tf32, that of their memory."""
        if self.dtype_name == "bfloat16":
            import ml_dtypes

            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        dtype: np.dtype[Any] = np.dtype(self.held_as or self.dtype_name)
        return dtype


ELEMENTS: dict[str, Element] = {
    row.dtype_name: row
    for row in (
        Element("f32", "float32", 4, 4),
        Element("f64", "float64", 8, 8),
        Element("f16", "float16", 2, 4),
        Element("bf16", "bfloat16", 2, 4),
        Element("c64", "complex64", 8, 8, multiplies=4, parts=2),
        Element("c128", "complex128", 16, 16, multiplies=4, parts=2),
        Element("b8", "bool", 1, 4),
        Element("i8", "int8", 1, 4),
        Element("i16", "int16", 2, 4),
        Element("i32", "int32", 4, 4),
        Element("i64", "int64", 8, 8),
        Element("u8", "uint8", 1, 4),
        Element("u16", "uint16", 2, 4),
        Element("u32", "uint32", 4, 4),
        Element("u64", "uint64", 8, 8),
    )
}

#: Packed elements, by the type that is packed: contiguous elements along K, which one instruction multiplies.
PACKED_ELEMENTS: dict[str, Element] = {
    "int8": Element("i8x4", "int8x4", 4, 4, per_packed=4, held_as="uint32"),
    "uint8": Element("u8x4", "uint8x4", 4, 4, per_packed=4, held_as="uint32"),
    "bool": Element("b1x32", "boolx32", 4, 4, per_packed=32, held_as="uint32"),
}

#: The type that tensor cores round float32 to: 11 significant bits. It is a computation type, and no array has it.
TF32 = Element("tf32", "tf32", 4, 4, held_as="float32")


@dataclass(frozen=True, slots=True)
class Scheme:
    """A decomposition scheme: how tensor cores multiply float32, and the parts of complex64, by limbs.

    Attributes:
        name: The name that ``precision=`` takes.
        limb: Type of a limb.
        limbs: Limbs of an element.
        products: Products of limbs in the product of two elements. Those of low limbs may be left out.
    """

    name: str
    limb: Element
    limbs: int
    products: int

    def limb_of(self, compute: Element) -> Element:
        """The type of a computation type's limbs: for complex types, complex numbers of limbs."""
        limb = self.limb
        return limb if compute.parts == 1 else replace(limb, name=f"c{limb.name}", multiplies=4, parts=2)


SCHEMES: dict[str, Scheme] = {
    row.name: row
    for row in (
        Scheme("fp16x3", ELEMENTS["float16"], limbs=2, products=3),
        Scheme("bf16x6", ELEMENTS["bfloat16"], limbs=3, products=6),
        Scheme("bf16x9", ELEMENTS["bfloat16"], limbs=3, products=9),
        Scheme("tf32x3", TF32, limbs=2, products=3),
    )
}


def element(dtype: Any) -> Element:
    """The row of a dtype.

    Args:
        dtype: Anything ``numpy.dtype`` takes, or the name ``"bfloat16"``.

    Raises:
        UnsupportedTypeError: If products of this type are not supported; the message lists the types that are.
    """
    if isinstance(dtype, str) and dtype in ELEMENTS:
        return ELEMENTS[dtype]
    if isinstance(dtype, str) and dtype == TF32.dtype_name:
        raise UnsupportedTypeError(
            "no array has type 'tf32': precision='tf32' makes it the computation type of float32 products"
        )
    try:
        if dtype is None:  # NumPy would take it for float64
            raise TypeError("a type is needed")
        resolved = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError, DeprecationWarning) as error:  # a warning, where those are errors
        raise UnsupportedTypeError(f"{dtype!r} is not a dtype: {error}; the types are {', '.join(ELEMENTS)}") from None
    row = ELEMENTS.get(resolved.name) if resolved.isnative else None
    if row is None:
        raise UnsupportedTypeError(
            f"matrix products of {resolved!r} are not supported; the types are {', '.join(ELEMENTS)}"
        )
    return row


def compute_element(dtype: Any) -> Element:
    """The row of a computation type: any dtype, or ``"tf32"``.

    Raises:
        As ``element``.
    """
    return TF32 if isinstance(dtype, str) and dtype == TF32.dtype_name else element(dtype)
