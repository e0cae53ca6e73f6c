"""What ``auto`` takes for a product, and why."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.problem.operands import Product
from tiledmm.selection.choice import Choice
from tiledmm.selection.model import Model
from tiledmm.selection.select import measured
from tiledmm.selection.tuned import TunedTable

# Other kernels that are shown.
_RUNNERS_UP = 4


@dataclass(frozen=True, slots=True)
class Explanation:
    """The kernels that ``auto`` considers for a product, fastest first.

    Attributes:
        product: The product; ``problem.is_empty`` if there is nothing to compute.
        choices: Kernels with their expected microseconds.
        tuned: The measured kernel of the device's tuned table, which comes before these; None if it has none.
        gpu: Name of the device.
    """

    product: Product
    choices: tuple[Choice, ...]
    tuned: Choice | None
    gpu: str

    def __str__(self) -> str:
        problem = self.product.problem
        times = f"{problem.products} x " if problem.products != 1 else ""
        types = self.product.compute.dtype_name
        transposed = ", computed transposed" if self.product.is_transposed else ""
        symmetric = ", C symmetric" if self.product.symmetric else ""
        shapes = f"{times}({problem.m} x {problem.k}) @ ({problem.k} x {problem.n})"
        head = f"{shapes}, {types}, layout {problem.layout}{transposed}{symmetric}"
        if problem.is_empty:
            return f"{head}\nnothing to compute"
        best = self.tuned or self.choices[0]
        how = "measured" if self.tuned else "expected"
        others = self.choices if self.tuned else self.choices[1:]
        lines = [head, f"{best}: {best.microseconds:.3g} us {how} on {self.gpu}"]
        return "\n".join(lines + [f"  {each}: {each.microseconds:.3g} us expected" for each in others[:_RUNNERS_UP]])


def explanation(product: Product, model: Model, table: TunedTable) -> Explanation:
    """The explanation of a product on a device."""
    choices = sorted(model.rank(product), key=lambda choice: choice.microseconds or 0.0)
    return Explanation(product, tuple(choices), measured(product, table, model), model.gpu.name)
