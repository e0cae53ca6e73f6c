"""Cells of tables: figures as people read them, which keep their values for programs."""

from __future__ import annotations

from typing import Any

#: A cell without a value.
NONE = "-"


class Figure(str):
    """A cell that shows a value: text for people, with the value itself for programs."""

    value: Any

    def __new__(cls, text: str, value: Any) -> Figure:
        """A text and its value."""
        self = super().__new__(cls, text)
        self.value = value
        return self


def value_of(cell: str) -> Any:
    """The value of a cell, for programs."""
    if isinstance(cell, Figure):
        return None if cell.value != cell.value else cell.value  # JSON has no NaN
    return None if cell == NONE else str(cell)


def significant(value: float | None, digits: int = 3) -> Figure:
    """A figure to so many significant digits, without exponents: ``0.0123``, ``1.23``, ``12,346``."""
    if value is None:
        return Figure(NONE, None)
    if value == 0:
        return Figure("0", value)
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded figure
    return Figure(f"{value:,.{max(0, digits - 1 - exponent)}f}", value)


def count(value: int | None) -> Figure:
    """A whole number, with commas."""
    return Figure(NONE if value is None else f"{value:,}", value)


def percent(value: float | None) -> Figure:
    """A fraction as a whole percentage; a small one is not shown as none."""
    if value is None:
        return Figure(NONE, None)
    return Figure("<1%" if 0 < value < 0.01 else f"{value:.0%}", value)


def error_figure(error: float | None) -> Figure:
    """An error in units of |A| |B|; ``NaN`` where there is a NaN or an infinity."""
    return Figure("NaN" if error is None else f"{error:.1e}" if error else "0", error)
