"""The record of matrix products: the kernel that computed each product, or the reason why CuPy did."""

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

# Maximum number of plans whose group is remembered, and of rows of a table.
_MAX_PLANS, _MOST_ROWS = 4096, 40


@dataclass(slots=True)
class ProductGroup:
    """Products of equal shapes, types and layout that were computed in the same way.

    Either the same kernels of this package computed all of them, or CuPy did, for the same reason.

    Attributes:
        operands: Shapes of the operands: ``"(512, 300) @ (300, 400)"``.
        types: Types of the operands, and the computation type if it differs.
        layout: Layout letters of A and B, see ``tiledmm.source``; ``"-"`` if there are none.
        variants: Names of the variants that computed the products; empty if CuPy did.
        kernel: Description of the kernels; empty if CuPy computed the products.
        reason: Reason why CuPy computed the products; empty if this package did.
        count: Number of products in the group.
    """

    operands: str
    types: str
    layout: str
    variants: tuple[str, ...] = ()
    kernel: str = ""
    reason: str = ""
    count: int = 0


class Products:
    """Record of matrix products of CuPy arrays, counted by what computed them. ``print`` shows it as a table.

    Any thread may count products. The counts may be read at any time, even while products are still counted.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], ProductGroup] = {}
        self._of_plan: dict[Any, ProductGroup] = {}
        self._lock = threading.Lock()

    def took(self, plan: Any, x1: Any, x2: Any) -> None:
        """Count a product that this package has computed.

        Args:
            plan: Plan that computed it.
            x1, x2: Operands.
        """
        with self._lock:
            group = self._of_plan.get(plan)
            if group is None:
                if len(self._of_plan) >= _MAX_PLANS:
                    self._of_plan.clear()
                group = self._of_plan[plan] = self._group(_taken(plan.choice, x1, x2))
            group.count += 1

    def left(self, x1: Any, x2: Any, reason: str, *, matmul: bool = True) -> None:
        """Count a product that CuPy has computed.

        Args:
            x1, x2: Operands.
            reason: Reason why this package did not compute it.
            matmul: Whether CuPy's function has the semantics of ``cupy.matmul``, so that the operands have a layout.
        """
        with self._lock:
            layout = _layout(x1, x2) if matmul else "-"
            self._group(ProductGroup(_shapes(x1, x2), _types(x1, x2), layout, reason=reason)).count += 1

    def _group(self, described: ProductGroup) -> ProductGroup:
        key = described.operands, described.types, described.layout, described.kernel, described.reason
        return self._groups.setdefault(key, described)

    @property
    def groups(self) -> tuple[ProductGroup, ...]:
        """Groups of the products so far, the group with most products first."""
        with self._lock:
            groups = [replace(group) for group in self._groups.values()]
        return tuple(sorted(groups, key=lambda group: -group.count))

    @property
    def taken(self) -> int:
        """Number of products so far that this package computed."""
        return sum(group.count for group in self.groups if not group.reason)

    @property
    def total(self) -> int:
        """Number of products so far, including those that CuPy computed."""
        return sum(group.count for group in self.groups)

    def summary(self) -> str:
        """Return a line with the number of products that each variant and CuPy have computed."""
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
        """Return a table with one row per group of products, the group with most products first."""
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
            notes.append(
                f"Not shown: {sum(group.count for group in unseen):,} products of {len(unseen):,} other kinds."
            )
        return Table(self.summary(), ("products", "<operands", "<type", "<layout", "<computed by"), rows, tuple(notes))

    def to_json(self) -> dict[str, Any]:
        """Return all counts and groups as a dictionary of JSON types."""
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
    except TiledmmError:  # for types that only CuPy has, or for axes in other places
        return "-"


def _shapes(x1: Any, x2: Any) -> str:
    return f"{x1.shape} @ {x2.shape}"


def _types(x1: Any, x2: Any, compute: str = "") -> str:
    types = list(dict.fromkeys((x1.dtype.name, x2.dtype.name)))
    return " @ ".join(types) + (f" in {compute}" if compute and types != [compute] else "")
