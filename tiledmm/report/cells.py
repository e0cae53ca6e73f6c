"""Cells of tables: figures as text for people, which keep their values for programs."""

from __future__ import annotations

from typing import Any

#: A cell without a value.
NONE = "-"


class Figure(str):
    """A cell's text, for people, together with the value that it shows, for programs."""

    value: Any

    def __new__(cls, text: str, value: Any) -> Figure:
        """Create a figure from its text and its value."""
        self = super().__new__(cls, text)
        self.value = value
        return self


def value_of(cell: str) -> Any:
    """Return the value of a cell, for programs; None if the cell has none."""
    if isinstance(cell, Figure):
        return None if cell.value != cell.value else cell.value  # JSON has no NaN
    return None if cell == NONE else str(cell)


def significant(value: float | None, digits: int = 3) -> Figure:
    """Format a number with ``digits`` significant digits and without an exponent: ``0.0123``, ``1.23``, ``12,346``."""
    if value is None:
        return Figure(NONE, None)
    if value == 0:
        return Figure("0", value)
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded figure
    return Figure(f"{value:,.{max(0, digits - 1 - exponent)}f}", value)


def count(value: int | None) -> Figure:
    """Format a whole number with commas between thousands."""
    return Figure(NONE if value is None else f"{value:,}", value)


def percent(value: float | None) -> Figure:
    """Format a fraction as a whole percentage. A fraction below 1% is shown as ``<1%``, not as 0%."""
    if value is None:
        return Figure(NONE, None)
    return Figure("<1%" if 0 < value < 0.01 else f"{value:.0%}", value)


def error_figure(error: float | None) -> Figure:
    """Format an error in units of |A| |B|. None, for a result with a NaN or an infinity, is shown as ``NaN``."""
    return Figure("NaN" if error is None else f"{error:.1e}" if error else "0", error)
