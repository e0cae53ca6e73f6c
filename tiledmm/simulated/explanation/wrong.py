"""Explanations of wrong products: variants of the product that give what a kernel computed."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiledmm.errors import ShapeError
from tiledmm.simulated.explanation.index_guesses import index_guesses
from tiledmm.simulated.explanation.precision_guesses import precision_guess
from tiledmm.simulated.explanation.regions import wrong_region
from tiledmm.simulated.explanation.step_guesses import step_guesses
from tiledmm.simulated.explanation.tile_guesses import tile_guesses
from tiledmm.simulated.explanation.value_guesses import value_guesses
from tiledmm.simulated.explanation.wrong_product import Array, Guess, Verdict, WrongProduct
from tiledmm.simulator.check.finding_kinds import WRONG_RESULT
from tiledmm.simulator.check.findings import OVERFLOWED, Finding
from tiledmm.simulator.report.report import Report

# Guesses that may hold for one result: operands that allow more do not tell them apart.
_MOST = 3

_AT_ONE_LINE = "several threads access one element at {at} in undefined order"

# Findings that say by themselves what is wrong with a result: an order that the kernel leaves open.
_UNORDERED = {
    "race on shared memory": (
        "an element of shared memory is read before it is written, or overwritten before it is read (race at {at})"
    ),
    "copy not waited for": "an element of shared memory is read before its cp.async at {at} has completed",
    "uninitialised shared memory": "an element of shared memory is read at {at} that no thread has written",
    "race on global memory": _AT_ONE_LINE,
    "element read before it is set": "an element of a local array is read at {at} before it is set",
}


# Patterns that say where the wrong elements are, and not why: a finding says more.
_PLACES = ("first rows or columns", "last rows or columns")


@dataclass(frozen=True, slots=True)
class Resemblance:
    """What a wrong product looks like.

    Attributes:
        pattern: Short name of the kind of mistake: ``"last partial tile missing"``.
        message: Sentence that begins with "looks as if" and ends with the line that stores the first wrong element.
        line: Line of ``Report.text`` that stores the first wrong element; 0 if unknown.
        location: File and line: ``"mine.cu:57"``; empty if unknown.
        text: Text of the line.
    """

    pattern: str
    message: str
    line: int = 0
    location: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.message


def explain_wrong_product(
    a: Array,
    b: Array,
    c: Array,
    *,
    expected: Array | None = None,
    before: Array | None = None,
    alpha: complex = 1,
    beta: complex = 0,
    tiles: tuple[int, ...] = (),
    report: Report | None = None,
    rtol: float | None = None,
) -> list[Resemblance]:
    """Return what a wrong product looks like: mistakes in ``alpha * (a @ b) + beta * before`` that explain all of it.

    The result of each mistake is compared with every element that the kernel has written. The list is empty if no
    mistake gives the kernel's result, if so many do that the operands cannot distinguish them, or if the result is
    right.

    Args:
        a: Left factor, (M, K), or (batch, M, K), with the strides that it has in the kernel's memory.
        b: Right factor, (K, N), or (batch, K, N): a view of a transposed array if the kernel reads one.
        c: The kernel's result, (M, N), or (batch, M, N).
        expected: The right result; None for ``alpha * (a @ b) + beta * before``.
        before: Contents of C before the launch; None if they are not known. Random numbers distinguish most.
        alpha, beta: Factors of the product and of ``before``.
        tiles: Sizes of the kernel's tiles, if they are known. The sizes of the report's block are tried, too.
        report: The simulator's report of the launch, from which lines and findings are taken.
        rtol: Relative tolerance of floating-point elements; None for 1e-2 (2 bytes), 1e-4 (4) or 1e-10 (8).

    Raises:
        ShapeError: If the arrays are not those of a product.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.standard_normal((40, 37)), rng.standard_normal((37, 30))
        >>> print(*explain_wrong_product(a, b, a[:, :32] @ b[:32], tiles=(16,)))
        looks as if the last 5 steps along K (k = 32 to 36, the last partial tile of 16) are missing
    """
    if a.ndim not in (2, 3) or a.shape[:-2] != c.shape[:-2] or b.ndim not in (2, 3):
        raise ShapeError(f"a, b and c must be matrices or batches; got the shapes {a.shape}, {b.shape} and {c.shape}")
    if a.shape[-2:] != (c.shape[-2], b.shape[-2]) or b.shape[-1] != c.shape[-1]:
        raise ShapeError(f"shapes must be (M, K), (K, N) and (M, N); got a {a.shape}, b {b.shape} and c {c.shape}")
    if report is not None:
        tiles = (*tiles, *(size for size in report.block if size > 1))
    is_complete = report is None or not any(each.ends_launch for each in report.findings)
    covered = () if report is None else tuple(map(operator.mul, report.grid[:2], report.block[:2]))
    keywords = {
        "alpha": alpha, "beta": beta, "tiles": tiles, "is_complete": is_complete, "covered": covered, "rtol": rtol,
    }  # fmt: skip
    if c.ndim == 3:
        found = _explain_batch(a, np.broadcast_to(b, (len(a), *b.shape[-2:])), c, expected, before, keywords)
    else:
        found = _explain(a, b, c, expected, before, keywords)
    begins = ["looks as if", *["or as if"] * len(found)][: len(found)]
    if report is not None:
        others = list(_of_findings(report))
        if others and found and found[0].pattern in _PLACES:
            found, begins = [], []
        found, begins = found + others, begins + ["looks as if"] * len(others)
    where = _stored_at(report)
    return [
        replace(each, message=f"{begin} {each.message}{where[0]}", line=where[1], location=where[2], text=where[3])
        for begin, each in zip(begins, found, strict=True)
    ]


def _explain(
    a: Array, b: Array, c: Array, expected: Array | None, before: Array | None, keywords: dict[str, Any]
) -> list[Resemblance]:
    if not min(*a.shape, *b.shape):
        return []
    right = c if expected is None else expected
    wrong = WrongProduct(a, b, c, right, before, **keywords)
    if expected is None:
        right = wrong.finish(wrong.sums, (slice(None), slice(None))).astype(c.dtype)
        wrong = WrongProduct(a, b, c, right, before, **keywords)
    if not (wrong.wrong & wrong.compared).any():
        return []
    if found := _explained(_holding(wrong)):
        return found
    if wrong.is_complete and (narrow := precision_guess(wrong)):
        return [Resemblance(*narrow)]
    region = wrong_region(wrong)
    if region is None or not region.content:
        part = region.part if region else f"{wrong.wrong.sum():,} of {wrong.wrong.size:,} elements"
        if found := _explained(_holding(wrong.narrowed()), f"in {part}, and nowhere else, "):
            return found
    return [Resemblance(region.pattern, region.said)] if region else []


def _explained(guesses: list[Guess], where: str = "") -> list[Resemblance]:
    """Return an explanation for each pattern of some guesses; none if they are too many.

    Args:
        guesses: Guesses that hold.
        where: Phrase that says which elements they are about; empty for all.
    """
    if len({guess.said for guess in guesses}) > _MOST:
        return []
    found: dict[str, Resemblance] = {}
    for guess in guesses:
        found.setdefault(guess.pattern, Resemblance(guess.pattern, where + guess.said))
    return list(found.values())


def _holding(wrong: WrongProduct) -> list[Guess]:
    """Return the guesses that give the result, the likeliest first.

    Guesses that know only a part of the result count only if none gives all of it. A launch that ended early did so
    because of an index: its sums may be cut off anywhere. Of guesses about tiles, which differ in the tile's size, one
    is enough.
    """
    if not wrong.tells:
        return []
    families = (step_guesses, value_guesses, index_guesses) if wrong.is_complete else (index_guesses,)
    verdicts = [(guess, wrong.holds(guess)) for guesses in families for guess in guesses(wrong)]
    if wrong.is_complete and not any(verdict is Verdict.HOLDS for _, verdict in verdicts):
        of_tiles = ((guess, wrong.holds(guess)) for guess in tile_guesses(wrong))
        verdicts += itertools.islice((each for each in of_tiles if each[1] is not Verdict.REFUTED), 1)
    for verdict in (Verdict.HOLDS, Verdict.HOLDS_IN_PART):
        if found := [guess for guess, given in verdicts if given is verdict]:
            return [each for each in found if not any(_adds_to(each, other) for other in found)]
    return []


def _adds_to(guess: Guess, other: Guess) -> bool:
    """Return whether a guess is another one and a second mistake, which a launch that ended early does not rule out."""
    return guess.said.startswith(f"{other.said}, and ") or guess.said.endswith(f", and {other.said}")


def _explain_batch(
    a: Array, b: Array, c: Array, expected: Array | None, before: Array | None, keywords: dict[str, Any]
) -> list[Resemblance]:
    """Return what the products of a batch look like, if all that are wrong look alike."""
    found: list[list[Resemblance]] = []
    right = [_matrix(expected, at) for at in range(len(c))]
    for name, left, other in (
        ("A", a[:1].repeat(len(a), 0), b),
        ("B", a, b[:1].repeat(len(b), 0)),
        ("A and B", a[:1].repeat(len(a), 0), b[:1].repeat(len(b), 0)),
    ):
        wrongs = [
            WrongProduct(left[at], other[at], c[at], c[at], _matrix(before, at), **keywords) for at in range(len(c))
        ]
        if len(c) > 1 and all(_is_right(each) for each in wrongs):
            said = f"each product of the batch reads the first matrix of {name}: its offset in the batch is missing"
            honest = [WrongProduct(a[at], b[at], c[at], c[at], _matrix(before, at), **keywords) for at in range(len(c))]
            return [] if all(map(_is_right, honest)) else [Resemblance("batch offset missing", said)]
    for at in range(len(c)):
        each = _explain(a[at], b[at], c[at], right[at], _matrix(before, at), keywords)
        wrong = WrongProduct(a[at], b[at], c[at], c[at], _matrix(before, at), **keywords)
        if each or not _is_right(wrong):
            found.append(each)
    alike = bool(found) and all([one.message for one in each] == [one.message for one in found[0]] for each in found)
    return found[0] if alike else []


def _matrix(batch: Array | None, at: int) -> Array | None:
    return None if batch is None else batch[at]


def _is_right(wrong: WrongProduct) -> bool:
    every = (slice(None), slice(None))
    return bool(wrong.equal(wrong.finish(wrong.sums, every), every)[wrong.compared].all())


def _of_findings(report: Report) -> Iterator[Resemblance]:
    """Yield an explanation for the first finding about an order that the kernel leaves open, or about an index."""
    for each in report.findings:
        if OVERFLOWED in each.message:
            yield Resemblance("index overflow", f"an index overflows 32 bits at {each.location}: {each.text.strip()}")
            return
        if each.kind in _UNORDERED:
            # The other line of an element that is not set is its declaration.
            other = None if each.kind == "element read before it is set" else each.other_location
            of_read = None if each.kind == "copy not waited for" and other else each.location
            lines = list(dict.fromkeys(location for location in (other, of_read) if location))
            said = _UNORDERED[each.kind] if len(lines) > 1 or "race" not in each.kind else _AT_ONE_LINE
            yield Resemblance("read before written", said.format(at=" and ".join(lines)))
            return


def _stored_at(report: Report | None) -> tuple[str, int, str, str]:
    """Return a clause about the line that stores the first wrong element, and its number, location and text."""
    found: Finding | None = None
    if report is not None:
        found = next((each for each in report.findings if each.kind == WRONG_RESULT), None)
    if found is None or not found.line:
        return "", 0, "", ""
    text = found.text.strip()
    return f"; the first wrong element is stored at {found.location}: {text}", found.line, found.location, text
