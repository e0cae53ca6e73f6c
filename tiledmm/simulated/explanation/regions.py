"""Parts of C that are wrong while the rest is right: rows from a number on, every 16th column, edges of tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiledmm.simulated.explanation.wrong_product import Array, WrongProduct

# The longest period of wrong rows or columns.
_MOST_PERIOD = 64


@dataclass(frozen=True, slots=True)
class _Lines:
    """Rows or columns of C.

    Attributes:
        name: ``"row"`` or ``"column"``.
        size: Number of them.
        bad: Mask of those that are wrong.
    """

    name: str
    size: int
    bad: Array


@dataclass(frozen=True, slots=True)
class Region:
    """A part of C of which all elements are wrong, while all others are right.

    Attributes:
        pattern: Short name of the kind of mistake: ``"partial tile not computed"``.
        part: The elements, as a noun: ``"elements of the last 5 rows (rows 32 to 36)"``.
        content: What they hold, as a predicate; empty if it is neither zero nor what was there before.
        why: A cause, or a question about one; may be empty.
    """

    pattern: str
    part: str
    content: str
    why: str

    @property
    def said(self) -> str:
        """Clause that says what is wrong with the part."""
        content = self.content or "are wrong, and all others are right"
        return f"{self.part} {content}" + (f": {self.why}" if self.why else "")


def wrong_region(wrong: WrongProduct) -> Region | None:
    """Return the part of C that is wrong; None if it has no simple form."""
    if not wrong.is_complete or wrong.wrong.all():
        return None
    # Elements that no thread has written may be right by chance.
    bad = wrong.wrong if (wrong.wrong & wrong.changed).any() else ~wrong.changed
    rows = _Lines("row", wrong.m, np.all(bad, axis=1))
    cols = _Lines("column", wrong.n, np.all(bad, axis=0))
    content = _content(wrong)
    for parts in ((rows,), (cols,), (rows, cols)):
        mask = np.zeros_like(bad)
        for part in parts:
            mask |= part.bad[:, None] if part is rows else part.bad[None, :]
        if not all(part.bad.any() for part in parts) or (wrong.wrong & ~mask).any():
            continue
        if not content and bad.sum() > bad.size // 2:
            continue  # where most is wrong, what is right is no hint
        found = [
            each
            for part in parts
            if (each := _edge(wrong, part, bool(content)) or _periodic(wrong, part, bool(content)))
        ]
        if len(found) == len(parts):
            whys = "; ".join(dict.fromkeys(why for _, _, why in found if why))
            return Region(found[0][0], " and ".join(part for _, part, _ in found), content, whys)
    return None


def _content(wrong: WrongProduct) -> str:
    """Return what the wrong elements hold, as a predicate; empty if it is neither zero nor what was there before."""
    got = wrong.c[wrong.wrong]
    if wrong.before is not None:
        before = wrong.before[wrong.wrong]
        if (got.view(np.uint8) == before.view(np.uint8)).all():
            return "are not computed (C still holds what was there before the launch)"
    return "are zero" if not got.any() else ""


def _edge(wrong: WrongProduct, lines: _Lines, is_known: bool) -> tuple[str, str, str] | None:
    """Return pattern, clause and cause if all rows or columns from a number on are wrong, or all up to one.

    Args:
        wrong: The wrong product.
        lines: The rows or the columns.
        is_known: Whether no thread computed the elements. Others have no cause in the grid or in a guard.
    """
    first, size = int(np.flatnonzero(lines.bad)[0]), lines.size
    if not lines.bad[first:].all():
        right = np.flatnonzero(~lines.bad)
        if lines.bad[: right[0]].all() and not lines.bad[right[0] :].any():
            count = int(right[0])
            return "first rows or columns", f"elements of the first {_count(count, lines.name)}", ""
        return None
    count = size - first
    numbers = f"{lines.name} {first}" if count == 1 else f"{lines.name}s {first} to {size - 1}"
    said = f"elements of the last {_count(count, lines.name)} ({numbers})"
    if not is_known:
        return "last rows or columns", said, ""
    other, sizes = ("N", wrong.n) if lines.name == "row" else ("M", wrong.m)
    threads = " x ".join(map(str, wrong.covered))
    if wrong.covered and max(wrong.covered) < size:
        return "grid too small", said, f"the grid has {threads} threads"
    if first in (sizes, wrong.k) and wrong.n != wrong.m:
        name = other if first == sizes else "K"
        why = f"does a guard compare the {lines.name} with {name}, or does the grid's size depend on {name}?"
        return "guard of another size", said, why
    if first in wrong.covered:
        return "grid too small", said, f"the grid has {threads} threads"
    partial = [tile for tile in wrong.tiles if first == size // tile * tile and size % tile]
    rest = f"a partial tile of {partial[0]}, left out by a division that rounds down" if partial else ""
    if count == 1:
        why = f"does the guard exclude the last {lines.name}" + (f", or is it {rest}?" if partial else "?")
        return "last row or column", said, why
    if partial:
        return "partial tile not computed", said, f"are they {rest}?"
    return "last rows or columns", said, ""


def _periodic(wrong: WrongProduct, lines: _Lines, is_known: bool) -> tuple[str, str, str] | None:
    """Return pattern, clause and cause if the same rows or columns of each tile are wrong."""
    numbers = np.arange(lines.size)
    for period in range(2, min(_MOST_PERIOD, lines.size // 2) + 1):
        residues = np.unique(numbers[lines.bad] % period)
        if (
            len(residues) > (period - 1 if is_known else period // 2)
            or (np.isin(numbers % period, residues) != lines.bad).any()
        ):
            continue
        which = ", ".join(map(str, residues[:4])) + (", ..." if len(residues) > 4 else "")
        if len(residues) == 1:
            said = f"elements of one of {period} {lines.name}s ({lines.name} % {period} == {which})"
        else:
            said = f"elements of {len(residues)} of {period} {lines.name}s ({lines.name} % {period} is {which})"
        edge = {0: "first", period - 1: "last"}.get(int(residues[0]), "") if len(residues) == 1 else ""
        why = f"it is the {edge} {lines.name} of each tile of {period}" if edge and period in wrong.tiles else ""
        return "rows or columns of each tile", said, why
    return None


def _count(count: int, name: str) -> str:
    return f"{name}" if count == 1 else f"{count:,} {name}s"
