"""Base class of the formats of operands, whose defaults describe arrays that are read as they are.

A format is a subclass of ``Operands``. It must implement ``prepare`` and ``cost``, and overrides another method only if
the default is wrong for it. Comments between the methods name the callers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiledmm.elements import SCHEMES, Element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

if TYPE_CHECKING:
    from tiledmm.kernels.config import Config, LaunchConfig
    from tiledmm.kernels.launches import Schedule
    from tiledmm.kernels.operands.copies import PreparedOperands
    from tiledmm.kernels.spec import KernelSpec
    from tiledmm.kernels.variant import Variant


@dataclass(frozen=True, slots=True)
class OperandCost:
    """Cost of preparing and reading the operands of a product.

    Attributes:
        sizes: Bytes of A and of B as the kernel reads them.
        layout: One letter per operand, A then B: N for K-major, T for MN-major, G for neither.
        aligned: Whether the rows of A, and those of B, begin at cache lines.
        k: Number of elements along K, or of packed elements if they are packed.
        before: Time of the launches before the kernel, in microseconds.
        reads: Number of times that the kernel reads each byte of a tile.
        planes: Number of planes whose products the kernel computes separately, such as residues modulo each modulus.
        writing: Bytes that the kernel writes instead of C; None if it writes C.
        after: Time of the launches after the kernel in microseconds, without a split-K reduction.
        host: Time that the host needs for all launches, in microseconds. In a loop, no call takes less.
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


def bytes_of(product: Product) -> tuple[int, int]:
    """Return the sizes of A and of B in memory, in bytes, with broadcast matrices counted once."""
    problem = product.problem
    return problem.elements(0) * product.a.itemsize, problem.elements(1) * product.b.itemsize


@dataclass(frozen=True)
class Operands:
    """Format of operands. The defaults describe arrays that the kernel reads as they are.

    Attributes:
        schemes: Names of decomposition schemes, which are values of ``precision=`` and of ``config={"scheme": ...}``.
            The first that is for a computation type is the default for that type.
        otherwise: Names of the variants that compute the product if the format cannot represent the operands' values,
            the fastest first; the first that multiplies the computation type and can read the operands in place does.
            Empty for a format that represents all values.
    """

    schemes: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()

    # True if the kernel reads elements of the operands' type, in place or packed; False if they are decomposed.
    reads_elements = True

    # True if products are multiply-adds in the elements' own type, as ``precision="ieee"`` asks for.
    is_ieee = True

    # True if a kernel adds the terms of C[i, j] and those of C[j, i] of a symmetric, real C in the same order.
    sums_in_order = True

    # Minimum number of real terms per sum. The kernel of ``otherwise`` computes shorter sums, whatever the values.
    shortest = 0

    # True if the kernel that multiplies also computes the epilogue; False if a later kernel does.
    has_epilogue = True

    # Maximum ``prepared_bytes`` of one product. ``auto`` computes a larger product in parts of C.
    most_bytes: ClassVar[float] = math.inf

    # Batches that calibration times in addition to its other products: number of products, m, n, k.
    timed_batches: ClassVar[tuple[tuple[int, int, int, int], ...]] = ()

    def schemes_of(self, compute: Element) -> tuple[str, ...]:
        """Return the names of the schemes for products of a computation type, beginning with the default."""
        return tuple(name for name in self.schemes if SCHEMES[name].computes(compute))

    def format_by(self, launch: LaunchConfig) -> Operands:
        """Return the format in which operands are read after the packing that a launch config asks for.

        It is this format if the launch config asks for no packing.
        """
        return self

    # Called by ``selection``: the form of the product that the kernel computes

    def form(self, variant: Variant, product: Product) -> Product:
        """Return the product in the form that a kernel named by a caller computes.

        Args:
            variant: The kernel's variant.
            product: The product.

        Raises:
            ShapeError: If the kernel cannot compute a product of these sizes.
        """
        return product

    def remarks(self, spec: KernelSpec, problem: Problem) -> tuple[str, ...]:
        """Return remarks on what is done to a product's arrays beyond the launch config, such as ``"A copied"``.

        Args:
            spec: The kernel with the types and layout of the arrays.
            problem: The product's problem.
        """
        return ()

    # Called by ``KernelSpec`` and compilation: which kernel multiplies

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that multiplies operands of this format, without auxiliary kernels.

        Args:
            spec: The kernel with the types and layout of the arrays, and with the parameters of its launches.

        Returns:
            The same kernel with the types and layout of the prepared operands.
        """
        return spec.alone()

    def for_tma(self, spec: KernelSpec, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """Return the specification of a TMA kernel with packing of the operands that it cannot read in place.

        Args:
            spec: The kernel.
            a_in_place, b_in_place: Whether TMA can read A and B where they are.
        """
        return spec

    def limbs(self, config: Config, compute: Element) -> int:
        """Return the number of planes of limbs, bytes or residues per element; 1 if elements are not decomposed."""
        return 1

    def product_type(self, spec: KernelSpec) -> Element:
        """Return the computation type of the product to which a kernel's products belong.

        For kernels that multiply limbs it is the type that the limbs stand for; for all others, it is ``spec.compute``.
        """
        return spec.compute

    def packed_b_letter(self, variant: Variant, compute: Element) -> str:
        """Return the layout letter of a packed B: N for contiguous rows, T for K-major.

        It is T if tensor cores cannot transpose such elements.
        """
        return "T" if variant.tensor_cores and compute.itemsize in (1, 4) else "N"

    # Called by ``schedule`` and compilation in advance: the launches of a product

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return ``PreparedOperands``: the arrays that a product's kernel reads, and the launches that write them.

        Args:
            spec: The kernel with the types and layout of the arrays.
            problem: The product's problem. The caller repeats the launches for each step of its outer dimensions.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement prepare()")

    def products(self, spec: KernelSpec, problem: Problem, ready: PreparedOperands) -> Schedule | None:
        """Return the ``Schedule`` of the launches that multiply prepared operands and write C.

        Args:
            spec: The kernel with the types and layout of the arrays.
            problem: The product's problem.
            ready: The prepared operands.

        Returns:
            The launches with their scratch memory; None if the kernel that multiplies also writes C, perhaps with a
            split-K reduction.
        """
        return None

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield all kernels that products with this format may launch, so that they can be compiled in advance.

        Split-K reductions and the kernel of ``otherwise`` are not among them.

        Args:
            spec: The kernel that multiplies, for one layout.
            by_auto: Whether ``auto`` chooses the kernel. It may then pack operands that the kernel can also read in
                place.
        """
        yield spec.kernel

    # Called by ``selection`` and calibration: how long a product takes

    def is_short(self, problem: Problem, compute: Element) -> bool:
        """Return whether each element of C sums fewer terms than this format's minimum, ``shortest``.

        The kernel of the variant ``otherwise`` then computes the product, whatever the operands' values.
        """
        return problem.k * compute.components < self.shortest

    def packings(self, variant: Variant, tile: int, product: Product) -> Iterator[tuple[str, ...]]:
        """Yield the packings among which ``auto`` may choose for a product; nothing if the kernel is unsuitable for it.

        Args:
            variant: The kernel's variant.
            tile: The kernel's tile.
            product: The product.

        Yields:
            The fields of ``LaunchConfig`` to set to 1, such as ``("pack_b",)``; an empty tuple to pack nothing.
        """
        problem, compute = product.problem, product.compute
        if self.fits(problem, compute) and not self.is_short(problem, compute):
            yield ()

    def prepared_bytes(self, problem: Problem, compute: Element) -> int:
        """Return the size of both operands after decomposition, in bytes; 0 if they are not decomposed."""
        return 0

    def fits(self, problem: Problem, compute: Element) -> bool:
        """Return whether ``auto`` may decompose the operands of the whole product at once.

        It may if the decomposed operands need at most ``most_bytes``.
        """
        return self.prepared_bytes(problem, compute) <= self.most_bytes

    def access(self, variant: Variant, packs: Iterable[str], product: Product) -> str:
        """Return the width of the kernel's accesses to the operands.

        Args:
            variant: The kernel's variant.
            packs: The fields of ``LaunchConfig`` that pack operands, such as ``("pack_b",)``.
            product: The product.

        Returns:
            ``"chunks"`` for 16 bytes, ``"words"`` for 4 or 8 bytes, or ``"elements"`` for single elements: the narrower
            of A's and B's.
        """
        return "chunks"

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of preparing the operands of a product and of reading them.

        Args:
            variant: The kernel's variant.
            config: The kernel's config. Its own launch parameters do not count.
            launch: The parameters of the launches, which select the packing.
            product: The product.
            times: Times of moving data on the device.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement cost()")

    def rates(self, compute: Element) -> tuple[str, ...]:
        """Return the names of the ``DeviceRates`` fields that only this format's ``cost`` uses.

        Calibration fits these fields together.
        """
        return ()

    # Called for peak rates, charts and predicted counts: what the unit that multiplies does

    def multiplied(self, compute: Element, scheme: str = "") -> tuple[int, int]:
        """Return the size of a factor that tensor cores multiply, and how many such products make one product.

        Args:
            compute: Computation type.
            scheme: Name of the decomposition scheme; empty for the default.

        Returns:
            The size in bytes of an element, limb, byte or residue, whichever is multiplied; and the number of
            products of these per product of two elements.
        """
        return compute.itemsize, 1

    def unit(self, spec: KernelSpec) -> str:
        """Return which products make up one product of two elements, as text; empty for a single multiply-add."""
        return ""

    def fragment(self, spec: KernelSpec) -> tuple[int, int]:
        """Return what a warp reads from shared memory for its tile, as two numbers from which wavefronts are counted.

        Returns:
            The number of columns of C that share one read of an element of A; and the bytes read per element of A or B,
            counting each repeated read.
        """
        return spec.config.wn, spec.compute.itemsize


#: Format of the operands of auxiliary kernels.
AS_THEY_ARE = Operands()
