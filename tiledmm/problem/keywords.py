"""The keywords of a call of ``matmul``: those of NumPy's ufunc, and those that name a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from tiledmm.errors import ConfigError, KeywordError, KeywordTypeError, KeywordValueError

#: What ``precision=`` takes.
Precision: TypeAlias = Literal["full", "float32", "ieee", "tf32", "fp16x3", "bf16x6", "bf16x9", "tf32x3"]


#: The names that ``precision=`` takes; ``"float32"`` is another name of ``"full"``.
PRECISIONS: tuple[str, ...] = get_args(Precision)

#: The name that ``variant=`` takes for the fastest kernel.
AUTO = "auto"


def is_ieee(precision: str) -> bool:
    """Return whether a precision asks for multiply-adds of the operands' own type only.

    Raises:
        ConfigError: If there is no such precision.
    """
    if precision not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise ConfigError(f"precision is one of {known}; got {precision!r}")
    return precision == "ieee"


class UfuncKeywords(NamedTuple):
    """Keywords of the generalized ufunc ``matmul``; ``tiledmm.matmul`` describes them."""

    casting: str = "same_kind"
    order: str = "K"
    dtype: Any = None
    axes: Any = None
    axis: Any = None
    keepdims: Any = False
    signature: Any = None

    @classmethod
    def of(cls, function: str, keywords: Mapping[str, Any]) -> UfuncKeywords:
        """The keywords of a call of ``function``.

        Raises:
            TypeError: As Python does, for a keyword that there is not.
        """
        for name in keywords.keys() - set(cls._fields):
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        return cls(**keywords)

    def given(self) -> dict[str, Any]:
        """Those that differ from their defaults."""
        defaults = UfuncKeywords()._asdict()
        return {name: value for name, value in self._asdict().items() if value is not defaults[name]}


class KernelKeywords(NamedTuple):
    """Keywords that name a kernel; ``tiledmm.matmul`` describes them."""

    variant: str = AUTO
    tile: int | None = None
    config: Mapping[str, Any] | None = None
    precision: str = "full"


def no_such_text(value: Any, message: str) -> KeywordError:
    """Return the error of a keyword that takes one of some texts: NumPy tells another text from what is none."""
    return KeywordValueError(message) if isinstance(value, (str, bytes)) else KeywordTypeError(message)


def only_entry(out: tuple[Any, ...]) -> Any:
    """The array of a tuple for ``out``.

    Raises:
        ConfigError: If it has several entries, or none.
    """
    if len(out) != 1:
        raise ConfigError(f"a tuple for out has exactly one entry, for the one result; got {len(out)}")
    return out[0]
