"""Cells of tables: text that people read, with the value that JSON and CSV get."""

from __future__ import annotations

from typing import Any

#: A cell without a value.
NONE = "-"


class Figure(str):
    """A cell's text, together with the value that JSON and CSV show in its place.

    Attributes:
        value: Value of the cell; None if it has none.
    """

    value: Any

    def __new__(cls, text: str, value: Any) -> Figure:
        """Create a figure from its text and its value."""
        self = super().__new__(cls, text)
        self.value = value
        return self


def value_of(cell: str) -> Any:
    """Return the value of a cell for JSON and CSV: that of a ``Figure``, else its text; None for ``NONE`` and NaN."""
    if isinstance(cell, Figure):
        return None if cell.value != cell.value else cell.value  # JSON has no NaN
    return None if cell == NONE else str(cell)


def significant(value: float | None, digits: int = 3) -> Figure:
    """Return a cell with a number in ``digits`` significant digits, without exponent: ``0.0123``, ``1.23``, ``12,346``.

    For None the cell is ``NONE``.
    """
    if value is None:
        return Figure(NONE, None)
    if value == 0:
        return Figure("0", value)
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded figure
    return Figure(f"{value:,.{max(0, digits - 1 - exponent)}f}", value)


def count(value: int | None) -> Figure:
    """Return a cell with a whole number, with commas between thousands; ``NONE`` for None."""
    return Figure(NONE if value is None else f"{value:,}", value)


def percent(value: float | None) -> Figure:
    """Return a cell with a fraction as a whole percentage; ``NONE`` for None. Less than 1% is shown as ``<1%``."""
    if value is None:
        return Figure(NONE, None)
    return Figure("<1%" if 0 < value < 0.01 else f"{value:.0%}", value)


def error_figure(error: float | None) -> Figure:
    """Return a cell with an error in units of |A| |B|: ``4.9e-07``.

    The error is None if a result has a NaN or an infinity. It is shown as ``NaN``.
    """
    return Figure("NaN" if error is None else f"{error:.1e}" if error else "0", error)
