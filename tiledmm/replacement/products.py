"""What became of matrix products: which kernel took each, or why CuPy did."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tiledmm.errors import TiledmmError
from tiledmm.problem.operands import describe, resolve

if TYPE_CHECKING:
    from tiledmm.report.tables import Table

# Plans for which it is kept what they are, and lines of a table that anybody reads.
_MAX_PLANS, _MOST_LINES = 4096, 40

# Wide enough for any line: what is printed is not cut.
_WIDTH = 1000


@dataclass(slots=True)
class Line:
    """Products of one kind.

    Attributes:
        operands: Their shapes: ``"(512, 300) @ (300, 400)"``.
        types: Of the operands, and what products are taken in where that differs.
        layout: How A and B lie in memory, see ``tiledmm.source``; ``"-"`` where that means nothing.
        variants: Whose kernels took them; empty where CuPy did.
        kernel: Those kernels, in words.
        reason: Why CuPy did; empty where this package did.
        count: How many there were.
    """

    operands: str
    types: str
    layout: str
    variants: tuple[str, ...] = ()
    kernel: str = ""
    reason: str = ""
    count: int = 0


class Products:
    """Matrix products of CuPy arrays, counted by what took them. Print it.

    Any thread may count, and it may be read at any time, also while products are still counted.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[Any, ...], Line] = {}
        self._of_plan: dict[Any, Line] = {}
        self._lock = threading.Lock()

    def took(self, plan: Any, x1: Any, x2: Any) -> None:
        """Counts a product that a plan has computed."""
        with self._lock:
            line = self._of_plan.get(plan)
            if line is None:
                if len(self._of_plan) >= _MAX_PLANS:
                    self._of_plan.clear()
                line = self._of_plan[plan] = self._line(_taken(plan.choice, x1, x2))
            line.count += 1

    def left(self, x1: Any, x2: Any, reason: str, *, matmul: bool = True) -> None:
        """Counts a product that CuPy has computed: one of ``matmul``'s, or of another kind."""
        with self._lock:
            layout = _layout(x1, x2) if matmul else "-"
            self._line(Line(_shapes(x1, x2), _types(x1, x2), layout, reason=reason)).count += 1

    def _line(self, described: Line) -> Line:
        key = described.operands, described.types, described.layout, described.kernel, described.reason
        return self._lines.setdefault(key, described)

    @property
    def lines(self) -> tuple[Line, ...]:
        """What there was so far, most frequent first."""
        with self._lock:
            lines = [replace(line) for line in self._lines.values()]
        return tuple(sorted(lines, key=lambda line: -line.count))

    @property
    def taken(self) -> int:
        """Products that this package took."""
        return sum(line.count for line in self.lines if not line.reason)

    @property
    def total(self) -> int:
        """Products in all."""
        return sum(line.count for line in self.lines)

    def summary(self) -> str:
        """How many there were, and through which kernels, in a sentence."""
        lines = self.lines
        total, taken = (sum(line.count for line in some) for some in (lines, _taken_of(lines)))
        if not total:
            return "no matrix products of CuPy arrays"
        variants: Counter[str] = Counter()
        for line in _taken_of(lines):
            variants[" and ".join(dict.fromkeys(line.variants))] += line.count
        by = ", ".join(f"{name} {count:,}" for name, count in variants.most_common())
        parts = [f"{taken:,} by tiledmm ({by})"] * bool(taken) + [f"{total - taken:,} by CuPy"] * (taken < total)
        return f"{total:,} matrix product{'s' * (total != 1)}: {', '.join(parts)}"

    def table(self) -> Table:
        """A row for each kind of products, most frequent first."""
        from tiledmm.report.tables import Table

        lines = self.lines
        reasons = {reason: i for i, reason in enumerate(dict.fromkeys(line.reason for line in lines if line.reason), 1)}
        rows = tuple(
            (
                f"{line.count:,}",
                line.operands,
                line.types,
                line.layout,
                f"CuPy ({reasons[line.reason]})" if line.reason else line.kernel,
            )
            for line in lines[:_MOST_LINES]
        )
        notes = [f"({i}) {reason}" for reason, i in reasons.items()]
        if unseen := lines[_MOST_LINES:]:
            notes.append(f"And {sum(line.count for line in unseen):,} of {len(unseen):,} other kinds.")
        return Table(self.summary(), ("products", "<operands", "<type", "<layout", "<taken by"), rows, tuple(notes))

    def to_json(self) -> dict[str, Any]:
        """All of it, for a program to read."""
        lines = self.lines
        taken = sum(line.count for line in _taken_of(lines))
        total = sum(line.count for line in lines)
        return {"total": total, "taken": taken, "products": [asdict(line) for line in lines]}

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        if not self.total:
            return self.summary()
        text = StringIO()
        Console(file=text, width=_WIDTH, color_system=None, force_terminal=False).print(self.table().rich())
        return "\n".join(line.rstrip() for line in text.getvalue().strip().splitlines())


def _taken_of(lines: tuple[Line, ...]) -> Iterator[Line]:
    return (line for line in lines if not line.reason)


def _taken(choice: Any, x1: Any, x2: Any) -> Line:
    product = choice.product.transposed() if choice.product.is_transposed else choice.product
    return Line(
        operands=_shapes(x1, x2),
        types=_types(x1, x2, choice.product.compute.dtype_name),
        layout=product.problem.layout,
        variants=tuple(part.specialization.variant.name for part in choice.parts),
        kernel="nothing to multiply" if product.problem.is_empty or not product.problem.k else str(choice),
    )


def _layout(x1: Any, x2: Any) -> str:
    try:
        return resolve(describe(x1), describe(x2)).problem.layout
    except TiledmmError:  # of types that only CuPy has, or with axes elsewhere
        return "-"


def _shapes(x1: Any, x2: Any) -> str:
    return f"{x1.shape} @ {x2.shape}"


def _types(x1: Any, x2: Any, compute: str = "") -> str:
    types = list(dict.fromkeys((x1.dtype.name, x2.dtype.name)))
    return " @ ".join(types) + (f" in {compute}" if compute and types != [compute] else "")
