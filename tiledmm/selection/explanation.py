"""What ``auto`` takes for a product, and why."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.config import Config
from tiledmm.problem.product import Product
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import measured
from tiledmm.selection.model import Model
from tiledmm.selection.tuned import TunedTable

# Other kernels that are shown.
_RUNNERS_UP = 4

# Fields that are chosen by product, whatever the tile.
_CHOSEN_APART = {"split_k", "pack_a", "pack_b", "pack_elements", "triangle"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The kernels that ``auto`` considers for a product, fastest first.

    Attributes:
        product: The product; ``problem.is_empty`` if there is nothing to compute.
        choices: Kernels with their expected microseconds.
        tuned: The measured kernel of the device's tuned table, which comes before these; None if it has none.
        gpu: Name of the device.
        bound_us: Microseconds of the roofline: the fastest unit that may multiply, or the memory.
        rates: The rates that expectations rest on: where and when they were measured, and whether they are scaled.
    """

    product: Product
    choices: tuple[Choice, ...]
    tuned: Choice | None
    gpu: str
    bound_us: float = 0.0
    rates: str = ""

    @property
    def best(self) -> Choice:
        """What ``auto`` takes."""
        return self.tuned or self.choices[0]

    @property
    def variant(self) -> str:
        """Name of the variant that ``auto`` takes, of the first part where C is cut into parts."""
        return self.best.spec.variant.name

    @property
    def tile(self) -> int | None:
        """Its tile; None for a tuned kernel that is none of the variant's tiles."""
        spec = self.best.spec
        fields = {name: value for name, value in spec.config.as_dict().items() if name not in _CHOSEN_APART}
        for tile in spec.variant.tiles:
            own = spec.variant.config(tile, spec.compute).as_dict()
            if all(own[name] == value for name, value in fields.items()):
                return tile
        return None

    @property
    def config(self) -> Config:
        """Its config."""
        return self.best.spec.config

    @property
    def expected_us(self) -> float:
        """The microseconds that it is expected to take, or took when it was tuned."""
        return self.best.microseconds or 0.0

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
        how = "measured" if self.tuned else "expected"
        others = self.choices if self.tuned else self.choices[1:]
        return "\n".join(
            [
                head,
                f"{self.best}: {_figure(self.expected_us)} us {how} on {self.gpu}",
                *(f"  {each}: {_figure(each.microseconds or 0.0)} us expected" for each in others[:_RUNNERS_UP]),
                f"roofline {_figure(self.bound_us)} us; rates {self.rates}",
            ]
        )


def _figure(microseconds: float) -> str:
    return f"{microseconds:.3g}" if microseconds < 999.5 else f"{microseconds:,.0f}"


def explanation(product: Product, model: Model, table: TunedTable) -> Explanation:
    """The explanation of a product on a device."""
    choices = sorted(model.rank(product), key=lambda choice: choice.microseconds or 0.0)
    return Explanation(
        product, tuple(choices), measured(product, table, model), model.gpu.name, model.bound(product), origin(model)
    )


def origin(model: Model) -> str:
    """Where a model's rates come from."""
    rates = model.rates
    text = f"measured on {rates.gpu.name}, {rates.date}"
    if _unscaled(rates.gpu, model.gpu):
        return text
    never = ", where no kernel was ever measured" if model.gpu.arch is not rates.gpu.arch else ""
    return f"{text}, scaled to the data sheet of {model.gpu.name}{never}"


def _unscaled(measured: Gpu, gpu: Gpu) -> bool:
    """Whether rates that were measured on a GPU are another's: of the same name, or the same data sheet."""
    sheets = ((each.arch, each.sms, round(each.clock / 1e7), round(each.bandwidth / 1e11)) for each in (measured, gpu))
    return measured.name == gpu.name or len({*sheets}) == 1
