"""Epilogue of ``gemm``: the operations on a sum before it is stored.

A kernel stores ``activation(alpha * sum + beta * addend + bias)``. The addend is the argument ``c`` of ``gemm``; it has
another name here because kernels call the result C.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tiledmm.elements import Element, element, kind_of
from tiledmm.errors import KeywordTypeError, KeywordValueError, ShapeError, UnsupportedTypeError
from tiledmm.problem.casting import check_cast
from tiledmm.problem.keywords import no_such_text
from tiledmm.problem.prepared import PreparedOperand

#: Activations for floating-point types. Integers support only ``"relu"``, complex numbers none.
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")

_WRAPS = 1 << 64

# Strides that are compiled into a kernel: 0 along a broadcast axis, 1 along a contiguous one.
_KNOWN_STRIDES = (0, 1)


class EpilogueOperand(NamedTuple):
    """An array that an epilogue reads.

    Attributes:
        name: Name of the term: ``"addend"``, ``"bias"``, ``"alpha"`` or ``"beta"``.
        element: Element type in memory.
        strides: Row and column stride in elements, each 0, 1 or None; None for a stride that the kernel reads at run
            time.
    """

    name: str
    element: Element
    strides: tuple[int | None, int | None] = (None, None)

    @property
    def symbol(self) -> str:
        """Part of a kernel's symbol that describes this array, such as ``bias_f32_01``."""
        strides = ("x" if each is None else str(each) for each in self.strides)
        return f"{self.name}_{self.element.name}_{''.join(strides)}"

    @property
    def view(self) -> str:
        """Template arguments of this array's type in CUDA C, such as ``float32, 0, 1``."""
        known = ("ANY_STRIDE" if each is None else str(each) for each in self.strides)
        return ", ".join((self.element.c_type, *known))


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operations of ``gemm`` on each sum, by the properties that a kernel's source depends on.

    Attributes:
        operands: Arrays that the epilogue reads, in the order addend, bias, alpha, beta.
        scalars: Which of the factors ``"alpha"`` and ``"beta"`` are kernel arguments. A factor that is neither a
            kernel argument nor an array is 1.
        activation: One of ``ACTIVATIONS``, or empty.
    """

    operands: tuple[EpilogueOperand, ...] = ()
    scalars: tuple[str, ...] = ()
    activation: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays that the epilogue reads."""
        return tuple(each.name for each in self.operands)

    @property
    def name(self) -> str:
        """Suffix of a kernel's symbol, such as ``alpha_addend_f32_x1_relu``."""
        arrays = (each.symbol for each in self.operands)
        return "_".join([*self.scalars, *arrays, *([self.activation] if self.activation else [])])

    def transposed(self) -> Epilogue:
        """Return this epilogue for the transposed product, whose rows are columns."""
        return replace(self, operands=tuple(each._replace(strides=each.strides[::-1]) for each in self.operands))

    def with_strides(self, strides: Iterable[tuple[int, int]]) -> Epilogue:
        """Return this epilogue for arrays with the given row and column strides, in elements.

        Strides of 0 and 1 are compiled into the kernel, which reads all others at run time.
        """
        operands = []
        for each, (row, col) in zip(self.operands, strides, strict=True):
            known = (row if row in _KNOWN_STRIDES else None, col if col in _KNOWN_STRIDES else None)
            operands.append(each._replace(strides=known))
        return replace(self, operands=tuple(operands))


class EpilogueKeywords(NamedTuple):
    """Keyword arguments of ``gemm`` that ``matmul`` does not have; the docstring of ``gemm`` describes them."""

    c: Any = None
    alpha: Any = 1
    beta: Any = 0
    bias: Any = None
    activation: str | None = None
    adjoint_a: bool = False
    adjoint_b: bool = False


@dataclass(frozen=True, slots=True)
class EpilogueCall:
    """Epilogue of one call of ``gemm``, with the values of its terms.

    Attributes:
        keywords: Keywords of the call, unchanged.
        epilogue: The epilogue; None if the sums are stored unchanged.
        arrays: Arrays that the epilogue reads, in the order of ``epilogue.operands``.
        scalars: Numeric kernel arguments, 16 bytes per number: real and imaginary part.
        without_product: True if alpha is 0, so that kernels do not read A and B.
    """

    keywords: EpilogueKeywords = field(default_factory=EpilogueKeywords)
    epilogue: Epilogue | None = None
    arrays: tuple[Any, ...] = ()
    scalars: bytes = b""
    without_product: bool = False

    @property
    def adjoint(self) -> tuple[bool, bool]:
        """Whether the first operand, and the second, are conjugated and transposed.

        Raises:
            KeywordTypeError: If a keyword that says so is neither True nor False.
        """
        keywords = self.keywords
        return _is_true("adjoint_a", keywords.adjoint_a), _is_true("adjoint_b", keywords.adjoint_b)


def _is_true(name: str, value: Any) -> bool:
    """Return the value of a keyword that is True or False."""
    if value is True or value is False:  # a call has only microseconds
        return bool(value)
    if isinstance(value, np.bool_):
        return bool(value)
    raise KeywordTypeError(f"{name} must be True or False; got {value!r}")


def resolve_epilogue(compute: np.dtype[Any], casting: str, keywords: EpilogueKeywords) -> EpilogueCall:
    """Check the keywords of an epilogue, and return the epilogue of the call.

    Args:
        compute: Computation type of the product.
        casting: NumPy's casting rule for converting c, bias and arrays of factors to that type.
        keywords: The keywords. Arrays may be of any library.

    Raises:
        UnsupportedTypeError: If the type does not support this epilogue, or ``casting`` forbids a conversion.
        KeywordError: If a factor is not a number, ``beta`` is given without ``c``, or the activation does not exist.
        ShapeError: If ``beta`` is an array with dimensions.
    """
    c, alpha, beta, bias, activation, *_ = keywords
    key = compute, casting, activation, _form(c), _form(alpha), _form(beta), _form(bias)
    try:
        epilogue = _kept[key]
    except (KeyError, TypeError):  # not kept yet, or a value cannot be hashed, for which the checks raise an error
        epilogue = _checked(compute, casting, keywords)
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = epilogue
    if epilogue is None:
        return EpilogueCall(keywords)
    without_product = _is_number(alpha) and alpha == 0
    values = {"addend": c, "bias": bias, "alpha": alpha, "beta": beta}
    arrays = tuple(values[name] for name in epilogue.names)
    numbers = b"".join(_words(name, values[name], compute.kind) for name in epilogue.scalars)
    return EpilogueCall(keywords, epilogue, arrays, numbers, without_product)


# Epilogues of earlier calls by the properties that they depend on, and the maximum number that are kept. They are kept
# because a call has only microseconds for its epilogue.
_kept: dict[Any, Epilogue | None] = {}
_MOST_KEPT = 1024


def _form(value: Any) -> Any:
    """Return the properties of an array or a number on which the choice of an epilogue depends.

    They can be hashed, as parts of a dict's key.
    """
    if value is None:
        return None
    if _is_number(value):
        return type(value), value == 0, value == 1
    return type(value), getattr(value, "dtype", None), getattr(value, "shape", None) == ()


def _checked(compute: np.dtype[Any], casting: str, keywords: EpilogueKeywords) -> Epilogue | None:
    """Check the keywords of ``gemm``, and return their epilogue; None if the sums are stored unchanged."""
    c, alpha, beta, bias, activation, *_ = keywords
    kind = _kind(compute)
    activation = _activation(activation, kind, compute)
    is_read = not (_is_number(beta) and beta == 0)
    if c is None and is_read:
        raise KeywordTypeError("beta scales c, which is not given; leave beta out, or pass c")
    if getattr(beta, "shape", ()) != ():
        raise ShapeError(f"beta must be a number or a 0-d array; its shape is {beta.shape}")
    operands: list[EpilogueOperand] = []
    scalars: list[str] = []
    values = {"addend": c if is_read else None, "bias": bias, "alpha": alpha, "beta": beta if is_read else None}
    for name, value in values.items():
        if value is None:
            continue
        if name in ("alpha", "beta") and _is_number(value):
            _check_number(name, value, kind, compute)
            scalars += [name] if value != 1 else []
            continue
        what = {"addend": "c"}.get(name, name)
        is_array = hasattr(value, "dtype") and hasattr(value, "strides")
        if not is_array or isinstance(value, PreparedOperand):
            or_number = " or a number" if what in ("alpha", "beta") else ""
            raise KeywordTypeError(f"{what} must be an array{or_number}; got {value!r}")
        check_cast(value.dtype, compute, casting, what)
        operands.append(EpilogueOperand(name, element(value.dtype)))
    if not (operands or scalars or activation):
        return None
    return Epilogue(tuple(operands), tuple(scalars), activation)


def _kind(compute: np.dtype[Any]) -> str:
    """Return NumPy's character for the kind of a computation type: ``"f"``, ``"c"``, ``"i"`` or ``"u"``.

    Raises:
        UnsupportedTypeError: If the type is bool.
    """
    if compute.kind == "b":
        raise UnsupportedTypeError(
            "gemm does not support bool: dtype='int32' counts, and matmul computes logical products"
        )
    return kind_of(compute)


# NumPy's scalar types that are not numbers.
_NO_NUMBERS = (np.flexible, np.datetime64, np.timedelta64, np.object_)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.generic)) and not isinstance(value, _NO_NUMBERS)


def _activation(name: str | None, kind: str, compute: np.dtype[Any]) -> str:
    if name is None:
        return ""
    if name not in ACTIVATIONS:
        known = ", ".join(map(repr, ACTIVATIONS))
        raise no_such_text(name, f"activation must be one of {known}, or None; got {name!r}")
    if kind == "c":
        raise UnsupportedTypeError(f"products of complex numbers support no activation; got {name!r}")
    if kind in "iu" and name != "relu":
        raise UnsupportedTypeError(
            f"activation {name!r} needs a floating-point product (dtype='float32'); {compute} supports only 'relu'"
        )
    return "" if kind == "u" else name


def _check_number(name: str, value: Any, kind: str, compute: np.dtype[Any]) -> None:
    if kind in "iu" and not isinstance(value, (int, np.integer)):
        raise UnsupportedTypeError(f"{name} must be an integer in a product of {compute}; got {value!r}")
    if kind == "f" and isinstance(value, (complex, np.complexfloating)):
        raise UnsupportedTypeError(f"{name} must be real in a product of {compute}; got {value!r}")


def _words(name: str, value: Any, kind: str) -> bytes:
    """Return a factor as a kernel argument of 16 bytes: its real and its imaginary part.

    Args:
        name: ``"alpha"`` or ``"beta"``, for the message.
        value: The factor.
        kind: NumPy's character for the kind of the computation type. For integers, the factor wraps at 64 bits.

    Raises:
        KeywordValueError: If the factor exceeds the range of float64.
    """
    if kind in "iu":
        return struct.pack("Qq", int(value) % _WRAPS, 0)
    try:
        number = complex(value)
    except OverflowError:
        raise KeywordValueError(f"{name} exceeds the range of float64; pass {name}=math.inf for infinity") from None
    return struct.pack("dd", number.real, number.imag)
