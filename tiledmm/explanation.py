"""Why ``auto`` takes the kernel it takes, in words."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.operands import Product
from tiledmm.selection import Choice, rank

# What else is shown.
_RUNNERS_UP = 4


@dataclass(frozen=True, slots=True)
class Explanation:
    """What ``auto`` considers for a product, the best first.

    Attributes:
        product: The product; ``problem.is_empty`` if there is nothing to compute.
        choices: Kernels with the microseconds that the model expects of each on an H100.
    """

    product: Product
    choices: tuple[Choice, ...]

    def __str__(self) -> str:
        problem = self.product.problem
        times = f"{problem.products} x " if problem.products != 1 else ""
        types = self.product.compute.dtype_name
        swapped = ", computed transposed" if self.product.swapped else ""
        shapes = f"{times}({problem.m} x {problem.k}) @ ({problem.k} x {problem.n})"
        head = f"{shapes}, {types}, layout {problem.layout}{swapped}"
        if problem.is_empty:
            return f"{head}\nnothing to compute"
        best, *others = self.choices
        lines = [head, f"{best}: {best.microseconds:.3g} us expected on an H100"]
        lines += [f"  {each}: {each.microseconds:.3g} us" for each in others[:_RUNNERS_UP]]
        return "\n".join(lines)


def explanation(product: Product) -> Explanation:
    """What ``auto`` makes of a product."""
    return Explanation(product, tuple(sorted(rank(product), key=lambda choice: choice.microseconds or 0.0)))
