"""The questions that every format of operands answers; the answers here are those of arrays as they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiledmm.elements import Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

if TYPE_CHECKING:
    from tiledmm.kernels.config import Config, LaunchConfig
    from tiledmm.kernels.launches import Ready, Schedule
    from tiledmm.kernels.spec import KernelSpec
    from tiledmm.kernels.variant import Variant


@dataclass(frozen=True, slots=True)
class OperandCost:
    """Cost of preparing and reading the operands of a product.

    Attributes:
        sizes: Bytes of A and of B as the kernel reads them.
        layout: Letters of A and of B: N K-major, T MN-major, G neither.
        aligned: Whether rows of A, and of B, begin at cache lines.
        k: Elements along K, packed ones where they are packed.
        before: Microseconds of the launches before the kernel.
        reads: Times that the kernel reads each byte of a tile.
        planes: Products of planes, such as residues of one modulus, that make the product; a kernel computes each.
        writing: Bytes that the kernel writes instead of C; None where it writes C.
        after: Microseconds of the launches after the kernel, apart from a split-K reduction.
        host: Microseconds that the host needs for all launches: the shortest time of a call in a loop of calls.
    """

    sizes: tuple[float, float]
    layout: str
    aligned: tuple[bool, bool]
    k: int
    before: float
    reads: float = 1.0
    planes: int = 1
    writing: float | None = None
    after: float = 0.0
    host: float = 0.0


@dataclass(frozen=True)
class Operands:
    """A format of operands; here arrays as they are, which auxiliary kernels read.

    Attributes:
        schemes: Names of decomposition schemes, which ``precision=`` and ``config={"scheme": ...}`` take; the first is
            the default.
        otherwise: Name of the variant for operands whose values the format does not represent. Empty for a format that
            represents all values.
    """

    schemes: tuple[str, ...] = ()
    otherwise: str = ""

    # Whether the kernel reads elements of the operands' type, in rows that lie as they came or are packed.
    reads_elements = True

    # Whether products are multiply-adds of the elements' own type.
    is_ieee = True

    # Fewest real terms of a sum of operands in this format: the kernel of ``otherwise`` computes shorter sums.
    shortest = 0

    # Whether the kernel that multiplies also computes the epilogue.
    has_epilogue = True

    # Most bytes of prepared operands of one product. ``auto`` cuts a larger C into parts.
    most_bytes: ClassVar[float] = math.inf

    # Batches of products that calibration also times: count, m, n, k.
    timed_batches: ClassVar[tuple[tuple[int, int, int, int], ...]] = ()

    def packed_by(self, launch: LaunchConfig) -> Operands:
        """Return the format after the packing that a launch config asks for."""
        return self

    # The kernel

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the kernel that reads operands of this format, without its auxiliary kernels."""
        return spec.alone()

    def for_tma(self, spec: KernelSpec, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """Return a kernel that reads by TMA with what it has to pack first.

        Args:
            spec: The kernel.
            a_in_place, b_in_place: Whether TMA can read A and B where they are.
        """
        return spec

    def limbs(self, config: Config, compute: Element) -> int:
        """Return how many planes of limbs, bytes or residues an element becomes; 1 if it is not decomposed."""
        return 1

    def product_type(self, variant: Variant, compute: Element) -> Element:
        """Return the computation type of the products that a kernel serves, given the type that it multiplies."""
        return compute

    def packed_b(self, variant: Variant, compute: Element) -> str:
        """Return B's layout once it is packed: K-major for tensor cores that cannot transpose elements of its size."""
        return "T" if variant.tensor_cores and compute.itemsize in (1, 4) else "N"

    # The launches of a product

    def prepare(self, spec: KernelSpec, problem: Problem) -> Ready:
        """Return the launches that prepare the operands of a product, and where the kernel finds them."""
        raise NotImplementedError

    def products(self, spec: KernelSpec, problem: Problem, ready: Ready) -> Schedule | None:
        """Return the launches that multiply and write C; None for one kernel, perhaps with split-K."""
        return None

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield the kernels that products of a kernel may launch, apart from split-K reductions.

        Args:
            spec: The kernel, of one layout.
            by_auto: Whether ``auto`` takes it, which may pack operands that a named kernel reads in place.
        """
        yield spec.kernel

    # What the cost model asks

    def is_short(self, problem: Problem, compute: Element) -> bool:
        """Return whether sums have so few terms that the kernel of ``otherwise`` computes them, whatever the values."""
        return problem.k * compute.parts < self.shortest

    def packings(self, variant: Variant, tile: int, product: Product) -> Iterator[tuple[str, ...]]:
        """Yield what ``auto`` may pack first: fields of ``LaunchConfig``. Yield nothing if the kernel is unsuitable."""
        problem, compute = product.problem, product.compute
        if self.fits(problem, compute) and not self.is_short(problem, compute):
            yield ()

    def prepared_bytes(self, problem: Problem, compute: Element) -> int:
        """Return the bytes of both operands once they are decomposed; 0 if they are not."""
        return 0

    def fits(self, problem: Problem, compute: Element) -> bool:
        """Return whether ``auto`` lets a kernel prepare operands of this size all at once."""
        return self.prepared_bytes(problem, compute) <= self.most_bytes

    def access(self, variant: Variant, packs: Iterable[str], product: Product) -> str:
        """Return how wide the kernel's accesses to the operands are.

        Returns:
            ``"chunks"`` of 16 bytes, ``"words"`` of 4 or 8 bytes, or ``"elements"``: the slower of A's and B's.
        """
        return "chunks"

    def cost(self, variant: Variant, config: Config, product: Product, times: DeviceTimes) -> OperandCost:
        """Return what preparing and reading the operands costs."""
        raise NotImplementedError

    def rates(self, compute: Element) -> tuple[str, ...]:
        """Return the names of the ``DeviceRates`` that ``cost`` depends on alone, and calibration fits together."""
        return ()

    # The unit that multiplies

    def multiplied(self, compute: Element, scheme: str = "") -> tuple[int, int]:
        """Return the bytes of an element that tensor cores multiply, and their products per product of two elements."""
        return compute.itemsize, 1

    def unit(self, spec: KernelSpec) -> str:
        """Return which products make one product of two elements, in words; empty if that is one multiply-add."""
        return ""

    def fragment(self, spec: KernelSpec) -> tuple[int, int]:
        """Return the columns of a warp's tile per read from shared memory, and the bytes read per element of them."""
        return spec.config.wn, spec.compute.itemsize


#: The operands of auxiliary kernels.
AS_THEY_ARE = Operands()
