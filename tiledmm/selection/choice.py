"""Kernel chosen for a product: whether it computes C transposed, and which operands are packed first."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace

from tiledmm.kernels.config import Config
from tiledmm.kernels.launches import Schedule
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.tensor_maps import can_be_mapped
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import TRANSPOSED
from tiledmm.schedule.schedule import schedule

#: Maximum size in bytes of all workspaces together if each part of C has its own, so that launches of parts overlap.
#: Larger parts run so long that overlapping saves nothing.
MOST_APART = 1 << 30


@dataclass(frozen=True, slots=True)
class Choice:
    """Kernel for a product, or kernels for the parts of C, with the expected time.

    Attributes:
        product: The product as the kernel computes it: perhaps transposed, perhaps a part of C.
        spec: The kernel.
        microseconds: Expected time of all parts; None for a kernel that was asked for by name.
        others: The kernels of the other parts, where C is cut into parts. One of these may be cut itself.
        aligned: Whether the operands' addresses are multiples of 16 bytes.
    """

    product: Product
    spec: KernelSpec
    microseconds: float | None = None
    others: tuple[Choice, ...] = ()
    aligned: bool = True

    @property
    def parts(self) -> tuple[Choice, ...]:
        """All parts of C, this one first."""
        return self, *(part for other in self.others for part in other.parts)

    @property
    def cut(self) -> tuple[int, int] | None:
        """Rows and columns of the part of C that this kernel computes; None if it computes all of C."""
        return (self.product.problem.m, self.product.problem.n) if self.others else None

    @property
    def needs_operands(self) -> bool:
        """True if no operand may be empty: operands are packed, have tensor maps, or are those of a plain kernel."""
        specs = [part.spec for part in self.parts]
        launches = [spec.config.launch for spec in specs]
        packs = any(each.pack_a or each.pack_b or each.pack_elements for each in launches)
        return packs or any(spec.variant.hopper.tma or spec.variant.plain for spec in specs)

    @property
    def schedule(self) -> Schedule:
        """Schedule of this part: its launches, with their scratch memory."""
        return schedule(self.spec, self.product.problem, self.product.prepared, self.aligned)

    @property
    def schedules(self) -> list[Schedule]:
        """List of the schedules of all parts."""
        return [part.schedule for part in self.parts]

    @property
    def kernels(self) -> list[KernelSpec]:
        """Specifications of the kernels that all parts launch, in order of the launches."""
        return [launch.spec for each in self.schedules for launch in each.launches]

    @property
    def shares_workspace(self) -> bool:
        """True if all parts use one workspace in turn, because separate ones would be too large together.

        The limit is ``MOST_APART`` bytes.
        """
        return bool(self.others) and sum(self._workspaces) > MOST_APART

    @property
    def workspace(self) -> int:
        """Size in bytes of the scratch memory that all parts need for limbs, packed operands and partial sums."""
        sizes = self._workspaces
        return max(sizes) if sum(sizes) > MOST_APART else sum(sizes)

    @property
    def _workspaces(self) -> list[int]:
        """Size in bytes of the scratch memory of each part. Most parts of a grid need the same number of bytes."""
        parts = [(each.spec, each.product.problem.anywhere(), each.product.prepared) for each in self.parts]
        sizes = {part: schedule(*part).workspace for part in dict.fromkeys(parts)}
        return [sizes[part] for part in parts]

    def of(self, part: Product) -> Choice:
        """Return this choice for another part of C that has the same size, perhaps beyond the diagonal."""
        own = part.computed_in(self.spec.compute)
        return replace(self, product=part, spec=kernel_spec_of(self.spec.variant.name, self.spec.config, own))

    def unprepared(self) -> Choice:
        """Return this choice for operands that are not prepared, whose preparation is part of the product."""
        product = replace(self.product, prepared=(False, False))
        return replace(self, product=product, others=tuple(other.unprepared() for other in self.others))

    def with_packing(self) -> Choice:
        """Return this choice with packing of the operands that TMA would read in place, for any addresses."""
        spec = self.spec.with_packing_for_tma(False, False)
        return replace(self, spec=spec, others=tuple(other.with_packing() for other in self.others), aligned=False)

    def __str__(self) -> str:
        if not self.others:
            return ", ".join([str(self.spec), *self.spec.variant.operands.remarks(self.spec, self.product.problem)])
        sizes: dict[KernelSpec, Counter[str]] = {}
        for part in self.parts:
            sizes.setdefault(part.spec, Counter())[_size(part.product)] += 1
        return "; ".join(f"{_counted(each)} of C: {spec}" for spec, each in sizes.items())


def _counted(sizes: Counter[str]) -> str:
    return ", ".join(f"{count} x ({size})" if count > 1 else size for size, count in sizes.items())


def _size(product: Product) -> str:
    problem = product.problem
    times = f"{problem.products} x " if problem.products != 1 else ""
    return times + (f"{problem.n} x {problem.m}" if product.is_transposed else f"{problem.m} x {problem.n}")


def named_choice(variant: Variant, config: Config, product: Product) -> Choice:
    """Return a ``Choice`` of the kernel with the given variant and config for a product.

    The kernel computes the product transposed if that is faster.
    """
    product = variant.operands.form(variant, transposed_if_preferred(variant, config, product))
    return Choice(product, kernel_spec_of(variant.name, config, product))


def transposed_if_preferred(variant: Variant, config: Config, product: Product) -> Product:
    """Return the product in the form that a kernel computes faster: as it is, or transposed, C^T = B^T A^T.

    A kernel for few rows prefers the form with fewer rows of C, one for few columns the form with fewer columns, a
    kernel for short K the form with contiguous rows of C, of one column if C is a vector and the kernel is for few
    columns, and all others the layouts that they read fast.
    """
    problem, compute = product.problem, variant.computes_in(product.compute)
    if variant.reads.few_rows(config):
        return product.transposed() if problem.n < problem.m else product
    if variant.reads.few_columns(config):
        return product.transposed() if problem.m < problem.n else product
    if variant.reads.narrow and min(problem.m, problem.n) == 1:
        return product.transposed() if problem.m == 1 else product
    if variant.reads.short_k:
        return product.transposed() if problem.strides[4] < problem.strides[5] else product

    def unsuited(layout: str) -> int:
        return sum(not variant.reads_fast(i, letter, compute) for i, letter in enumerate(layout))

    transposed = problem.layout[::-1].translate(TRANSPOSED)
    return product.transposed() if unsuited(transposed) < unsuited(problem.layout) else product


def kernel_spec_of(name: str, config: Config, product: Product) -> KernelSpec:
    """Return the specification of the kernel of a variant and a config for a product.

    Args:
        name: Name of the variant.
        config: The kernel's config.
        product: The product.
    """
    variant = find_variant(name)
    a, b, problem, compute = product.a, product.b, product.problem, variant.computes_in(product.compute)
    epilogue = product.epilogue.with_strides(problem.epilogue) if product.epilogue else None
    conjugates = "".join(itertools.compress("ab", product.conjugates))
    hermitian = product.hermitian and bool(config.triangle)
    spec = KernelSpec(
        variant, config, a, b, compute, product.c, problem.layout,
        epilogue=epilogue, conjugates=conjugates, hermitian=hermitian,
    )  # fmt: skip
    return spec.with_packing_for_tma(can_be_mapped(problem, 0, a), can_be_mapped(problem, 1, b))
