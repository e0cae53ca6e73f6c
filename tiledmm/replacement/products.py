"""The account of matrix products: the kernel that computed each, or the reason why CuPy did."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tiledmm.errors import TiledmmError
from tiledmm.problem.arrays import describe
from tiledmm.problem.product import resolve

if TYPE_CHECKING:
    from tiledmm.report.tables import Table

# Plans whose group is remembered, and rows of a table that anybody reads.
_MAX_PLANS, _MOST_ROWS = 4096, 40


@dataclass(slots=True)
class ProductGroup:
    """Products of one kind.

    Attributes:
        operands: Their shapes: ``"(512, 300) @ (300, 400)"``.
        types: Types of the operands, and the computation type where it differs.
        layout: Layout of A and B in memory, see ``tiledmm.source``; ``"-"`` where they have none.
        variants: Variants that computed them; empty where CuPy did.
        kernel: Their kernels, as text.
        reason: Why CuPy computed them; empty where this package did.
        count: Products in the group.
    """

    operands: str
    types: str
    layout: str
    variants: tuple[str, ...] = ()
    kernel: str = ""
    reason: str = ""
    count: int = 0


class Products:
    """Matrix products of CuPy arrays, counted by what computed them. Print it.

    Any thread may count, and it may be read at any time, also while products are still counted.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], ProductGroup] = {}
        self._of_plan: dict[Any, ProductGroup] = {}
        self._lock = threading.Lock()

    def took(self, plan: Any, x1: Any, x2: Any) -> None:
        """Counts a product that a plan has computed."""
        with self._lock:
            group = self._of_plan.get(plan)
            if group is None:
                if len(self._of_plan) >= _MAX_PLANS:
                    self._of_plan.clear()
                group = self._of_plan[plan] = self._group(_taken(plan.choice, x1, x2))
            group.count += 1

    def left(self, x1: Any, x2: Any, reason: str, *, matmul: bool = True) -> None:
        """Counts a product that CuPy has computed: one of ``matmul``'s, or of another kind."""
        with self._lock:
            layout = _layout(x1, x2) if matmul else "-"
            self._group(ProductGroup(_shapes(x1, x2), _types(x1, x2), layout, reason=reason)).count += 1

    def _group(self, described: ProductGroup) -> ProductGroup:
        key = described.operands, described.types, described.layout, described.kernel, described.reason
        return self._groups.setdefault(key, described)

    @property
    def groups(self) -> tuple[ProductGroup, ...]:
        """The groups so far, most frequent first."""
        with self._lock:
            groups = [replace(group) for group in self._groups.values()]
        return tuple(sorted(groups, key=lambda group: -group.count))

    @property
    def taken(self) -> int:
        """Products that this package computed."""
        return sum(group.count for group in self.groups if not group.reason)

    @property
    def total(self) -> int:
        """Products in all."""
        return sum(group.count for group in self.groups)

    def summary(self) -> str:
        """The number of products, and their kernels, in a sentence."""
        groups = self.groups
        total, taken = (sum(group.count for group in some) for some in (groups, _taken_of(groups)))
        if not total:
            return "no matrix products of CuPy arrays"
        variants: Counter[str] = Counter()
        for group in _taken_of(groups):
            variants[" and ".join(dict.fromkeys(group.variants))] += group.count
        by = ", ".join(f"{name} {count:,}" for name, count in variants.most_common())
        parts = [f"{taken:,} by tiledmm ({by})"] * bool(taken) + [f"{total - taken:,} by CuPy"] * (taken < total)
        return f"{total:,} matrix product{'s' * (total != 1)}: {', '.join(parts)}"

    def table(self) -> Table:
        """A row for each group, most frequent first."""
        from tiledmm.report.tables import Table

        groups = self.groups
        left = dict.fromkeys(group.reason for group in groups if group.reason)
        reasons = {reason: i for i, reason in enumerate(left, 1)}
        rows = tuple(
            (
                f"{group.count:,}",
                group.operands,
                group.types,
                group.layout,
                f"CuPy ({reasons[group.reason]})" if group.reason else group.kernel,
            )
            for group in groups[:_MOST_ROWS]
        )
        notes = [f"({i}) {reason}" for reason, i in reasons.items()]
        if unseen := groups[_MOST_ROWS:]:
            notes.append(f"And {sum(group.count for group in unseen):,} of {len(unseen):,} other kinds.")
        return Table(self.summary(), ("products", "<operands", "<type", "<layout", "<taken by"), rows, tuple(notes))

    def to_json(self) -> dict[str, Any]:
        """All of it, for a program to read."""
        groups = self.groups
        taken = sum(group.count for group in _taken_of(groups))
        total = sum(group.count for group in groups)
        return {"total": total, "taken": taken, "products": [asdict(group) for group in groups]}

    def __str__(self) -> str:
        return str(self.table()) if self.total else self.summary()


def _taken_of(groups: tuple[ProductGroup, ...]) -> Iterator[ProductGroup]:
    return (group for group in groups if not group.reason)


def _taken(choice: Any, x1: Any, x2: Any) -> ProductGroup:
    product = choice.product.transposed() if choice.product.is_transposed else choice.product
    return ProductGroup(
        operands=_shapes(x1, x2),
        types=_types(x1, x2, choice.product.compute.dtype_name),
        layout=product.problem.layout,
        variants=tuple(part.spec.variant.name for part in choice.parts),
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
