"""The report of a simulated product: counts and findings of a launch, and figures that follow from its sizes."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.simulator.report.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductReport(Report):
    """Counts and findings of a simulated product.

    Attributes:
        sizes: m, n and k as the kernel computed them, and the number of products in the batch.
        element_bytes: Size of an element of A in bytes.
    """

    sizes: tuple[int, int, int, int]
    element_bytes: int

    @property
    def multiply_adds(self) -> int:
        """Number of multiply-adds of all products: m * n * k for each."""
        m, n, k, products = self.sizes
        return m * n * k * products

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations (two per multiply-add) per byte of ``global_bytes``; 0 without traffic."""
        return 2 * self.multiply_adds / self.global_bytes if self.global_bytes else 0.0

    @property
    def reuse(self) -> float:
        """Mean number of multiply-adds that use an element loaded from global memory; 0 without loads."""
        traffic = self.source
        loaded = traffic.global_load.bytes + traffic.copy_load.bytes + traffic.bulk_load.bytes  # a lane loads several
        return 2 * self.multiply_adds * self.element_bytes / loaded if loaded else 0.0

    def _derived(self) -> dict[str, object]:
        return {
            "ok": self.ok,
            "multiply_adds": self.multiply_adds,
            "global_bytes": self.global_bytes,
            "intensity": self.intensity,
            "reuse": self.reuse,
            "nsight": (self.sass or self.source).nsight(),
        }

    def _size(self) -> str:
        m, n, k, products = self.sizes
        return f"{m} x {n} x {k}" + (f", {products} products" if products != 1 else "") + "  "

    def _figures(self) -> tuple[str, ...]:
        return (
            f"{self.intensity:.3g} FLOP per byte of global traffic. Each element loaded from global memory is used in "
            f"{self.reuse:.3g} multiply-adds on average.",
        )
