"""A kernel chosen for a product: which way round it computes it, and with what packed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiledmm.codegen.rendering import Specialization
from tiledmm.problem.operands import Product
from tiledmm.problem.strides import TRANSPOSED
from tiledmm.registry.config import Config
from tiledmm.registry.variant import Variant
from tiledmm.registry.variants import find_variant
from tiledmm.schedule.tensor_maps import can_be_mapped


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel for a product, and what the model makes of it.

    Attributes:
        product: The product as the kernel computes it: as it is, or transposed; or a part of it.
        specialization: The kernel.
        microseconds: What the model expects, of all parts; None for a kernel that was asked for by name.
        others: Of a product whose C is cut into parts, what computes the others.
    """

    product: Product
    specialization: Specialization
    microseconds: float | None = None
    others: tuple[Choice, ...] = ()

    @property
    def parts(self) -> tuple[Choice, ...]:
        """All that is computed, this first."""
        return self, *self.others

    @property
    def cut(self) -> tuple[int, int] | None:
        """Rows and columns of the first part; None if there are no others."""
        return (self.product.problem.m, self.product.problem.n) if self.others else None

    @property
    def needs_operands(self) -> bool:
        """Whether operands are packed or mapped before they are multiplied."""
        specs = [part.specialization for part in self.parts]
        launches = [spec.config.launch for spec in specs]
        packs = any(each.pack_a or each.pack_b or each.pack_elements for each in launches)
        return packs or any(spec.variant.tma for spec in specs)

    def packed(self) -> Choice:
        """The same kernels, with operands packed first where the copy engine would read them in place."""
        spec = self.specialization.packing_unless(False, False)
        return replace(self, specialization=spec, others=tuple(other.packed() for other in self.others))

    def __str__(self) -> str:
        if not self.others:
            return str(self.specialization)
        return "; ".join(f"{_part_of_c(each.product)}: {each.specialization}" for each in self.parts)


def _part_of_c(product: Product) -> str:
    m, n = product.problem.m, product.problem.n
    return f"{n} x {m} of C" if product.is_transposed else f"{m} x {n} of C"


def transposed_if_preferred(variant: Variant, product: Product) -> Product:
    """A product, or C^T = B^T A^T where its kernels are made for that: for few rows, or for operands that lie so."""
    problem, compute = product.problem, variant.computes_in(product.compute)
    if variant.skinny:
        return product.transposed() if problem.n < problem.m else product

    def unsuited(layout: str) -> int:
        return sum(not variant.reads_fast(i, letter, compute) for i, letter in enumerate(layout))

    transposed = problem.layout[::-1].translate(TRANSPOSED)
    return product.transposed() if unsuited(transposed) < unsuited(problem.layout) else product


def specialization_of(name: str, config: Config, product: Product) -> Specialization:
    """The kernel of a variant for a product."""
    variant = find_variant(name)
    a, b, problem, compute = product.a, product.b, product.problem, variant.computes_in(product.compute)
    spec = Specialization(variant, config, a, b, compute, product.c, problem.layout)
    return spec.packing_unless(can_be_mapped(problem, 0, a), can_be_mapped(problem, 1, b))
