"""Table of element types: the types of arrays, packed elements, computation types, and decomposition schemes."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.errors import UnsupportedTypeError


@dataclass(frozen=True, slots=True)
class Element:
    """One element type.

    Attributes:
        name: Short name, used in kernel symbols: ``"f32"``.
        dtype_name: NumPy's name of the type: ``"float32"``.
        itemsize: Size of one element in memory, in bytes.
        sum_bytes: Size of one accumulator, in bytes; also that of one element in shared memory and registers if the
            kernel converts elements to the accumulator's type (``Accumulator`` in ``cuda_src/elements.cuh.j2``).
        multiplies: Number of real multiplications per product of two elements; 4 for complex types.
        per_packed: Number of narrow elements per packed element; 1 for types that are not packed.
        held_as: NumPy's name of the type that stores such elements in memory, if NumPy has no type of this name; else
            empty.
        components: Number of real numbers per element; 2 for complex types.
        result_name: NumPy's name of the result type if it is wider than the operands' type; else empty.
    """

    name: str
    dtype_name: str
    itemsize: int
    sum_bytes: int
    multiplies: int = 1
    per_packed: int = 1
    held_as: str = ""
    components: int = 1
    result_name: str = ""

    @property
    def stored(self) -> Element:
        """``Element`` of the type that stores these elements in memory.

        It is float32 for tf32, uint32 for packed elements, the operands' type for a type with wide results, and this
        ``Element`` itself for all other types.
        """
        return ELEMENTS[self.held_as] if self.held_as else self

    @property
    def result(self) -> Element:
        """``Element`` of the results in memory, such as int32 for ``int8_int32``; ``stored`` if results are not wider.

        Variants that do not support this computation type compute in the results' type instead.
        """
        return ELEMENTS[self.result_name] if self.result_name else self.stored

    @property
    def multiplied(self) -> str:
        """Name of the operands' type without the result type: ``"int8"`` for ``"int8_int32"``."""
        return self.dtype_name.removesuffix(f"_{self.result_name}") if self.result_name else self.dtype_name

    @property
    def c_type(self) -> str:
        """Name of the operands' type in CUDA C: NumPy's name, but ``boolean`` for bool, which is a keyword there."""
        return self.multiplied.replace("bool", "boolean")

    @property
    def packed(self) -> Element | None:
        """``Element`` that packs several of these elements into one; None for types that are not packed."""
        into = PACKED_ELEMENTS.get(self.multiplied)
        return _with_result(into, ELEMENTS[self.result_name]) if into and self.result_name else into

    @property
    def is_summed_as_it_is(self) -> bool:
        """True if the accumulator has the same CUDA C type as the elements, so that nothing is converted."""
        return self.itemsize == self.sum_bytes and self.dtype_name in ("float32", "float64", "uint32", "uint64")

    @property
    def is_narrow_float(self) -> bool:
        """True for floating-point types of less than 32 bits, whose products are summed in float32."""
        return not self.held_as and self.itemsize < self.sum_bytes and kind_of(self.dtype) == "f"

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of an array of these elements; that of ``stored`` for tf32, packed elements and wide results."""
        name = self.held_as or self.dtype_name
        try:
            return np.dtype(name)
        except TypeError:
            import ml_dtypes  # it defines the types of machine learning, such as bfloat16

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
            return found


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return the character code of a dtype's kind, as ``dtype.kind``, but ``"f"`` for types such as bfloat16.

    NumPy gives ``"V"`` for floating-point types that it does not define itself.
    """
    return "f" if dtype.kind == "V" else dtype.kind


ELEMENTS: dict[str, Element] = {
    row.dtype_name: row
    for row in (
        Element("f32", "float32", 4, 4),
        Element("f64", "float64", 8, 8),
        Element("f16", "float16", 2, 4),
        Element("bf16", "bfloat16", 2, 4),
        Element("c64", "complex64", 8, 8, multiplies=4, components=2),
        Element("c128", "complex128", 16, 16, multiplies=4, components=2),
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

#: Types of packed elements, by the type that is packed. A packed element holds contiguous elements along K, which one
#: instruction multiplies.
PACKED_ELEMENTS: dict[str, Element] = {
    "int8": Element("i8x4", "int8x4", 4, 4, per_packed=4, held_as="uint32"),
    "uint8": Element("u8x4", "uint8x4", 4, 4, per_packed=4, held_as="uint32"),
    "bool": Element("b1x32", "boolx32", 4, 4, per_packed=32, held_as="uint32"),
}

#: Type that tensor cores round float32 to: 11 significant bits. It is a computation type; no array has it.
TF32 = Element("tf32", "tf32", 4, 4, held_as="float32")


def _with_result(operand: Element, result: Element) -> Element:
    """Return the computation type for operands of one type and results of another, such as ``int8_int32``."""
    return replace(
        operand, name=f"{operand.name}{result.name}", dtype_name=f"{operand.dtype_name}_{result.dtype_name}",
        held_as=operand.held_as or operand.dtype_name, result_name=result.dtype_name,
    )  # fmt: skip


#: Computation types of 8-bit operands whose results are wider, so that sums do not wrap at 8 bits. No array has such a
#: type: ``int8_int32`` is the computation type of int8 operands with ``dtype="int32"``.
WIDE_RESULTS: dict[str, Element] = {
    wide.dtype_name: wide
    for operand, results in (
        ("int8", ("int16", "int32", "int64")),
        ("uint8", ("int16", "int32", "int64", "uint16", "uint32", "uint64")),
    )
    for wide in (_with_result(ELEMENTS[operand], ELEMENTS[result]) for result in results)
}

# Computation types of products whose epilogue computes in float32, by the type of operands (or of partial sums) and the
# type of results.
_FLOAT_RESULTS: dict[tuple[str, str], Element] = {
    (operand, result): _with_result(ELEMENTS[operand], ELEMENTS[result])
    for operand in ("int8", "uint8", "int32", "uint32")
    for result in ("float16", "float32")
}

# Largest K whose sums fit into 32 bits for any operands, by the operands' type: the largest products of two elements
# are -128 * -128 and 255 * 255.
_EXACT_IN_32_BITS = {"int8": (2**31 - 1) // 128**2, "uint8": (2**32 - 1) // 255**2}


def compute_element_of(a: Element, b: Element, loop: Element, k: int | None = None) -> Element:
    """Return the computation type of a product.

    Args:
        a, b: Types of the operands.
        loop: The type that NumPy converts both operands to, and in which it multiplies and adds.
        k: Number of terms per sum; None for any number.

    Returns:
        The type with wide results, such as ``int8_int32``, if both operands have the same 8-bit type and sums in 32
        bits give the same results as sums in ``loop``; else ``loop``.
    """
    wide = WIDE_RESULTS.get(f"{a.dtype_name}_{loop.dtype_name}") if a == b else None
    if wide is None or (loop.itemsize > 4 and (k is None or k > _EXACT_IN_32_BITS[a.dtype_name])):
        return loop
    return wide


def with_float_epilogue(a: Element, b: Element, loop: Element, k: int) -> Element:
    """Return the computation type of a product with an epilogue that computes in ``loop``.

    If both operands have the same 8-bit integer type, ``loop`` is float16 or float32, and sums of ``k`` terms fit
    into 32 bits, the kernel sums integers and converts the sums for the epilogue. Otherwise the type is ``loop``.

    Args:
        a, b: Types of the operands.
        loop: The type in which NumPy would compute the product.
        k: Number of terms per sum.
    """
    known = _FLOAT_RESULTS.get((a.dtype_name, loop.dtype_name)) if a == b and a.itemsize == 1 else None
    return known if known is not None and k <= _EXACT_IN_32_BITS[a.dtype_name] else loop


def partial_sums(compute: Element) -> tuple[Element, Element, Element]:
    """Return the three types that a split-K product uses, so wide that nothing is rounded before the last sum.

    Returns:
        The computation type of the partitions, the type of partial sums in memory, and the computation type of the
        reduction.
    """
    if compute.is_narrow_float:
        return compute, ELEMENTS["float32"], ELEMENTS["float32"]
    if compute.result_name not in ("float16", "float32"):
        return compute, compute.result, compute.result
    sums = "int32" if compute.multiplied == "int8" else "uint32"
    return WIDE_RESULTS[f"{compute.multiplied}_{sums}"], ELEMENTS[sums], _FLOAT_RESULTS[sums, compute.result_name]


@dataclass(frozen=True, slots=True)
class Scheme:
    """Decomposition of float32, or of the parts of complex64, into narrower limbs, which tensor cores multiply.

    Attributes:
        name: Name of the scheme, a value of ``precision=``.
        limb: Type of a limb.
        limbs: Number of limbs per element.
        products: Number of products of limbs per product of two elements. Products of low limbs may be left out.
        emulates: Name of the type whose accuracy the products have, also for parts of complex numbers.
    """

    name: str
    limb: Element
    limbs: int
    products: int
    emulates: str = "float32"

    def computes(self, compute: Element) -> bool:
        """Return whether the scheme is for products of a computation type: tf32, or float32 and complex64."""
        return (compute == TF32) == (self.emulates == TF32.dtype_name)

    def limb_of(self, compute: Element) -> Element:
        """Return the type of the limbs of a computation type; for a complex type, a complex type of two limbs."""
        limb = self.limb
        return limb if compute.components == 1 else replace(limb, name=f"c{limb.name}", multiplies=4, components=2)


SCHEMES: dict[str, Scheme] = {
    row.name: row
    for row in (
        Scheme("fp16x3", ELEMENTS["float16"], limbs=2, products=3),
        Scheme("bf16x6", ELEMENTS["bfloat16"], limbs=3, products=6),
        Scheme("bf16x9", ELEMENTS["bfloat16"], limbs=3, products=9),
        Scheme("tf32x3", TF32, limbs=2, products=3),
        Scheme("fp16x1", ELEMENTS["float16"], limbs=1, products=1, emulates="tf32"),
    )
}


@functools.lru_cache(maxsize=256)  # every call of gemm asks for two, and NumPy takes microseconds to name one
def _row_of(dtype: np.dtype[Any]) -> Element | None:
    return ELEMENTS.get(dtype.name) if dtype.isnative else None


def element(dtype: Any) -> Element:
    """Return the ``Element`` of a dtype of arrays.

    Args:
        dtype: Anything that ``numpy.dtype`` accepts, or the name ``"bfloat16"``.

    Raises:
        UnsupportedTypeError: If products of this type are not supported; the message lists the supported types.
    """
    if isinstance(dtype, str) and dtype in ELEMENTS:
        return ELEMENTS[dtype]
    if isinstance(dtype, str) and dtype == TF32.dtype_name:
        raise UnsupportedTypeError(
            "no array has type 'tf32': precision='tf32' makes it the computation type of float32 products"
        )
    if isinstance(dtype, str) and dtype in WIDE_RESULTS:
        wide = WIDE_RESULTS[dtype]
        raise UnsupportedTypeError(
            f"no array has type {dtype!r}: dtype={wide.result_name!r} makes it the computation type of "
            f"{wide.held_as} products"
        )
    try:
        if dtype is None:  # numpy.dtype(None) is float64
            raise TypeError("a type is needed")
        resolved = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError, DeprecationWarning) as error:  # the last one where warnings are errors
        raise UnsupportedTypeError(
            f"{dtype!r} is not a supported dtype ({error}); the types are {', '.join(ELEMENTS)}"
        ) from None
    row = _row_of(resolved)
    if row is None:
        named = dtype if isinstance(dtype, str) else repr(resolved)
        raise UnsupportedTypeError(f"matrix products of {named} are not supported; the types are {', '.join(ELEMENTS)}")
    return row


def compute_element(dtype: Any) -> Element:
    """Return the ``Element`` of a computation type.

    The type is a dtype, ``"tf32"``, or a type with wide results such as ``"int8_int32"``.

    Raises:
        UnsupportedTypeError: If there are no products of this type.
    """
    apart = {TF32.dtype_name: TF32, **WIDE_RESULTS}.get(dtype) if isinstance(dtype, str) else None
    return apart or element(dtype)
