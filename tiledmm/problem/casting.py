"""Computation type of a product, and the rules for conversions in a kernel or before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiledmm.elements import element, kind_of
from tiledmm.errors import KeywordTypeError, KeywordValueError, UnsupportedTypeError


def loop_type(x1: np.dtype[Any], x2: np.dtype[Any], dtype: Any = None, signature: Any = None) -> np.dtype[Any]:
    """Return the type that a product is computed in: the operands' common type unless a keyword names another.

    The rules are NumPy's. (In CuPy ``dtype=`` sets only the type of the output buffer.)

    Args:
        x1, x2: Types of the operands.
        dtype: Anything that ``numpy.dtype`` accepts, or None.
        signature: A string such as ``"ff->f"``, a tuple of three types or Nones, or None. The three types must be the
            same, because matmul multiplies one type only.

    Raises:
        KeywordError: If both keywords are given, or the signature is malformed.
        UnsupportedTypeError: If the type is not supported, the three types differ, or the operands have no common type.
    """
    if signature is not None:
        if dtype is not None:
            raise KeywordTypeError("cannot specify both signature and dtype")
        return _signature_type(signature, x1, x2)
    if dtype is not None:
        return _named(dtype)
    return _common_type(x1, x2)


def _named(dtype: Any) -> np.dtype[Any]:
    """Convert ``dtype`` to a supported NumPy dtype.

    An alias stays a type of its own: ``"q"`` gives ``longlong``, not int64.

    Raises:
        UnsupportedTypeError: If products of this type are not supported.
    """
    known = element(dtype).dtype
    return known if isinstance(dtype, str) and dtype == known.name else np.dtype(dtype)


def _common_type(x1: np.dtype[Any], x2: np.dtype[Any]) -> np.dtype[Any]:
    for x in (x1, x2):
        element(x)
    if x1.num == x2.num:
        return x1
    try:
        return np.promote_types(x1, x2)
    except TypeError:
        raise UnsupportedTypeError(f"{x1} and {x2} have no common type; convert one, or name one with dtype=") from None


def _signature_type(signature: Any, x1: np.dtype[Any], x2: np.dtype[Any]) -> np.dtype[Any]:
    if isinstance(signature, str):
        inputs, arrow, output = signature.replace(" ", "").partition("->")
        if not arrow or len(inputs) != 2 or len(output) != 1:
            raise _malformed(
                signature,
                f"signature must be two type characters, '->' and one more, such as 'ff->f'; got {signature!r}",
            )
        if unknown := [name for name in (*inputs, output) if not _is_character(name)]:
            raise KeywordValueError(f"signature {signature!r} has {unknown[0]!r}, which is not the character of a type")
        names: tuple[Any, ...] = (*inputs, output)
    elif isinstance(signature, tuple):
        names = signature
        if len(names) != 3:
            raise _malformed(
                signature,
                f"a tuple signature must have three types or Nones, for two operands and the result; got {signature!r}",
            )
    else:
        raise KeywordTypeError(f"signature must be a string or a tuple; got {signature!r}")
    left, right, result = (None if name is None else _named(name) for name in names)
    loop = result if result is not None else _common_type(left or x1, right or x2)
    if any(named is not None and named != loop for named in (left, right)):
        raise UnsupportedTypeError(f"matmul has no loop with signature {signature!r}: its three types must be the same")
    return loop


def _is_character(name: str) -> bool:
    try:
        np.dtype(name)
    except TypeError:
        return False
    return True


def _malformed(signature: str | tuple[Any, ...], message: str) -> KeywordTypeError | KeywordValueError:
    """Return the error for a signature with the wrong number of types.

    As in NumPy, it is a ``KeywordTypeError`` if the signature has length 1, and else a ``KeywordValueError``.
    """
    return KeywordTypeError(message) if len(signature) == 1 else KeywordValueError(message)


def can_cast(source: np.dtype[Any], target: np.dtype[Any], casting: str) -> bool:
    """Return what ``numpy.can_cast`` returns, but count bfloat16 as a floating-point type for ``"same_kind"``."""
    if casting != "same_kind":
        return np.can_cast(source, target, casting)  # type: ignore[arg-type]
    half = np.dtype(np.float16)  # stands for types whose kind NumPy does not know, such as bfloat16
    stand_ins = [half if dtype.kind != kind_of(dtype) else dtype for dtype in (source, target)]
    return np.can_cast(stand_ins[0], stand_ins[1], "same_kind")


def check_cast(
    source: np.dtype[Any], target: np.dtype[Any], casting: str, what: str, to: str = "the product's type"
) -> None:
    """Check that a casting rule allows a conversion.

    Args:
        source, target: Types before and after the conversion.
        casting: NumPy's rule: ``"no"``, ``"equiv"``, ``"safe"``, ``"same_kind"`` or ``"unsafe"``.
        what: What is converted, for the message.
        to: What it is converted to, for the message.

    Raises:
        UnsupportedTypeError: If the rule forbids the conversion.
    """
    if source != target and not can_cast(source, target, casting):
        raise UnsupportedTypeError(f"cannot cast {what} from {source} to {to}, {target}, under casting={casting!r}")


def converts_in_kernel(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether kernels convert one type to another as they read or write elements.

    CuPy does all other conversions.
    """
    return source == target or can_cast(source, target, "same_kind")
