"""The epilogue of ``gemm``: what becomes of a sum before it is stored.

``activation(alpha * sum + beta * addend + bias)``. The addend is the ``c`` of ``gemm``; kernels call the result C.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiledmm.elements import Element, element
from tiledmm.errors import KeywordError, ShapeError, UnsupportedTypeError
from tiledmm.problem.casting import check_cast

#: Activations in floating point. Integers have ``"relu"``, complex numbers none.
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")

_WRAPS = 1 << 64


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An epilogue, as a kernel's text depends on it.

    Attributes:
        operands: The arrays that it reads, out of ``"addend"``, ``"bias"``, ``"alpha"`` and ``"beta"`` in this order,
            and their types in memory.
        scalars: Those of ``"alpha"`` and ``"beta"`` that are kernel arguments. What is neither these nor an array is 1.
        activation: One of ``ACTIVATIONS``, or empty.
    """

    operands: tuple[tuple[str, Element], ...] = ()
    scalars: tuple[str, ...] = ()
    activation: str = ""

    @property
    def name(self) -> str:
        """The end of a kernel's symbol: ``alpha_addend_f32_relu``."""
        arrays = (f"{name}_{each.name}" for name, each in self.operands)
        return "_".join([*self.scalars, *arrays, *([self.activation] if self.activation else [])])


class EpilogueKeywords(NamedTuple):
    """Keywords of ``gemm`` that ``matmul`` does not have; ``gemm`` describes them."""

    c: Any = None
    alpha: Any = 1
    beta: Any = 0
    bias: Any = None
    activation: str | None = None


@dataclass(frozen=True, slots=True)
class EpilogueCall:
    """The epilogue of a call.

    Attributes:
        epilogue: The epilogue; None if the sums are the result.
        arrays: What it reads, in the order of ``epilogue.operands``.
        scalars: The kernel arguments that are numbers, two of 8 bytes each: real and imaginary part.
        without_product: Whether alpha is 0, so that the operands are not read.
    """

    epilogue: Epilogue | None = None
    arrays: tuple[Any, ...] = ()
    scalars: bytes = b""
    without_product: bool = False


def resolve_epilogue(compute: np.dtype[Any], casting: str, keywords: EpilogueKeywords) -> EpilogueCall:
    """Checks the keywords of an epilogue.

    Args:
        compute: The product's computation type.
        casting: How freely c, bias and arrays of factors become that type.
        keywords: The keywords; arrays are of any library.

    Raises:
        UnsupportedTypeError: A type that has no such epilogue, or a cast that ``casting`` forbids.
        KeywordError: A factor that is no number, a ``beta`` without ``c``, no such activation.
        ShapeError: A ``beta`` with dimensions.
    """
    c, alpha, beta, bias, activation = keywords
    kind = _kind(compute)
    activation = _activation(activation, kind, compute)
    if c is None and not (_is_number(beta) and beta == 0):
        raise KeywordError("beta scales c, which is not given; leave beta out, or pass c")
    if not _is_number(beta) and np.ndim(beta) != 0 and getattr(beta, "shape", ()) != ():
        raise ShapeError(f"beta is a number, or an array without dimensions; its shape is {beta.shape}")
    reads_c = c is not None and not (_is_number(beta) and beta == 0)
    operands: list[tuple[str, Element]] = []
    arrays: list[Any] = []
    scalars: list[str] = []
    numbers = b""
    for name, value in (("addend", c if reads_c else None), ("bias", bias), ("alpha", alpha), ("beta", beta)):
        if value is None or (name == "beta" and not reads_c):
            continue
        if name in ("alpha", "beta") and _is_number(value):
            if value != 1:
                scalars.append(name)
                numbers += _words(name, value, kind, compute)
            continue
        what = {"addend": "c"}.get(name, name)
        if not hasattr(value, "dtype") or not hasattr(value, "strides"):
            raise KeywordError(
                f"{what} is an array{' or a number' if what in ('alpha', 'beta') else ''}; got {value!r}"
            )
        check_cast(value.dtype, compute, casting, what)
        operands.append((name, element(value.dtype)))
        arrays.append(value)
    nothing = not (operands or scalars or activation)
    without_product = _is_number(alpha) and alpha == 0
    epilogue = None if nothing else Epilogue(tuple(operands), tuple(scalars), activation)
    return EpilogueCall(epilogue, tuple(arrays), numbers, without_product)


def _kind(compute: np.dtype[Any]) -> str:
    """``"f"``, ``"c"``, ``"i"`` or ``"u"``."""
    if compute.kind == "b":
        raise UnsupportedTypeError("gemm does not compute in bool; dtype='int32' counts, and matmul takes any-of-alls")
    return "f" if compute.name == "bfloat16" else compute.kind


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.generic)) and not isinstance(value, np.ndarray)


def _activation(name: str | None, kind: str, compute: np.dtype[Any]) -> str:
    if name is None:
        return ""
    if name not in ACTIVATIONS:
        raise KeywordError(f"activation is one of {', '.join(map(repr, ACTIVATIONS))}, or None; got {name!r}")
    if kind == "c":
        raise UnsupportedTypeError(f"complex numbers have no activation; {name!r} is for floating point")
    if kind in "iu" and name != "relu":
        raise UnsupportedTypeError(f"{name!r} is for floating point; {compute} has 'relu', and dtype='float32' has all")
    return "" if kind == "u" else name


def _words(name: str, value: Any, kind: str, compute: np.dtype[Any]) -> bytes:
    """A factor as a kernel argument."""
    if kind in "iu":
        if not isinstance(value, (int, np.integer)):
            raise UnsupportedTypeError(f"{name} of a product of {compute} is a whole number; got {value!r}")
        whole = int(value) % _WRAPS
        return struct.pack("Qq", whole, 0)
    if kind == "f" and isinstance(value, (complex, np.complexfloating)):
        raise UnsupportedTypeError(f"{name} of a product of {compute} is real; got {value!r}")
    number = complex(value)
    return struct.pack("dd", number.real, number.imag)
