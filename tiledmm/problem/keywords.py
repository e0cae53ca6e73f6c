"""Keyword arguments of ``matmul``: those of NumPy's ufunc and those that select a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from tiledmm.errors import ConfigError, KeywordError, KeywordTypeError, KeywordValueError

#: Values of ``precision=``.
Precision: TypeAlias = Literal["full", "float32", "ieee", "tf32", "fp16x3", "bf16x6", "bf16x9", "tf32x3", "fp16x1"]


#: Values of ``precision=`` in a tuple; ``"float32"`` is another name of ``"full"``.
PRECISIONS: tuple[str, ...] = get_args(Precision)

#: What C is if B is A's own transpose, or A's own adjoint.
Symmetry: TypeAlias = Literal["none", "symmetric", "hermitian"]
SYMMETRIES: tuple[str, ...] = get_args(Symmetry)

#: Value of ``variant=`` that selects the fastest kernel.
AUTO = "auto"


def is_ieee(precision: str) -> bool:
    """Return whether a precision allows only multiply-adds in the operands' own type.

    Raises:
        ConfigError: If the precision does not exist.
    """
    if precision not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise ConfigError(f"precision must be one of {known}; got {precision!r}")
    return precision == "ieee"


class UfuncKeywords(NamedTuple):
    """Keyword arguments of the generalized ufunc ``matmul``; the docstring of ``tiledmm.matmul`` describes them."""

    casting: str = "same_kind"
    order: str = "K"
    dtype: Any = None
    axes: Any = None
    axis: Any = None
    keepdims: Any = False
    signature: Any = None

    @classmethod
    def of(cls, function: str, keywords: Mapping[str, Any]) -> UfuncKeywords:
        """Return the ufunc's keywords in a call of ``function``, with defaults for those that are not given.

        Raises:
            TypeError: If the function does not have a keyword. The message is Python's.
        """
        for name in keywords.keys() - set(cls._fields):
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        return cls(**keywords)

    def given(self) -> dict[str, Any]:
        """Return a dict of the keywords whose values differ from their defaults."""
        defaults = UfuncKeywords()._asdict()
        return {name: value for name, value in self._asdict().items() if value is not defaults[name]}


class KernelKeywords(NamedTuple):
    """Keyword arguments that select a kernel; the docstring of ``tiledmm.matmul`` describes them."""

    variant: str = AUTO
    tile: int | None = None
    config: Mapping[str, Any] | None = None
    precision: str = "full"


def no_such_text(value: Any, message: str) -> KeywordError:
    """Return the error for a value that is not among a keyword's strings.

    As in NumPy, it is a ``KeywordValueError`` for another string, and a ``KeywordTypeError`` for any other value.
    """
    return KeywordValueError(message) if isinstance(value, (str, bytes)) else KeywordTypeError(message)


def only_entry(out: tuple[Any, ...]) -> Any:
    """Return the array from a tuple with one entry that was given as ``out``.

    Raises:
        ConfigError: If the tuple does not have exactly one entry.
    """
    if len(out) != 1:
        raise ConfigError(f"a tuple for out must have exactly one entry, for the one result; got {len(out)}")
    return out[0]
