"""Explanation of which kernel ``auto`` launches for a product, and of how long it and others are expected to take."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.config import Config
from tiledmm.kernels.launches import Form
from tiledmm.problem.product import Product
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import may_be_tuned, measured
from tiledmm.selection.model import Model
from tiledmm.selection.tuned import TunedTable

# Maximum number of other kernels that are shown.
_RUNNERS_UP = 4

# Config fields that are chosen per product and do not belong to the tile.
_CHOSEN_APART = {"cluster_k", "split_k", "pack_a", "pack_b", "pack_elements", "triangle"}


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a kernel reads of a prepared operand.

    Attributes:
        name: ``"x1"`` or ``"x2"``.
        forms: Forms that the kernel reads; empty if it reads the array in place.
        held_bytes: Size of all forms that the operand holds now, in bytes, including those for other products.
    """

    name: str
    forms: tuple[Form, ...]
    held_bytes: int

    @property
    def bytes(self) -> int:
        """Size of the forms that the kernel reads, in bytes."""
        return sum(form.bytes for form in self.forms)

    def __str__(self) -> str:
        reads = " and ".join(dict.fromkeys(map(str, self.forms)))
        reused = f"the kernel reuses its {reads}, {self.bytes:,} bytes" if reads else "the kernel reads it in place"
        return f"{self.name} is prepared: {reused}; it holds {self.held_bytes:,} bytes now"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Kernels that ``auto`` considers for a product, fastest first.

    Attributes:
        product: The product; ``problem.is_empty`` if there is nothing to compute.
        choices: The kernels with their expected times in microseconds.
        tuned: The kernel of the device's tuned table, which ``auto`` prefers to these; None if the table has none.
        gpu: Name of the device.
        bound_us: Lower bound of the time by the roofline, in microseconds: the limit of the fastest unit or of memory.
        rates: Source of the rates as text: where and when they were measured, and whether they are scaled.
        held: Sizes of the forms that x1 and x2 hold now, in bytes; 0 for operands that are not prepared.
    """

    product: Product
    choices: tuple[Choice, ...]
    tuned: Choice | None
    gpu: str
    bound_us: float = 0.0
    rates: str = ""
    held: tuple[int, int] = (0, 0)

    @property
    def best(self) -> Choice:
        """Choice of the kernel that ``auto`` launches, or of the kernels if C is cut into parts."""
        return self.tuned or self.choices[0]

    @property
    def variant(self) -> str:
        """Name of the variant that ``auto`` launches; for a C that is cut into parts, the variant of the first part."""
        return self.best.spec.variant.name

    @property
    def tile(self) -> int | None:
        """Tile of the kernel that ``auto`` launches; None for a tuned kernel whose config belongs to no tile."""
        spec = self.best.spec
        fields = {name: value for name, value in spec.config.as_dict().items() if name not in _CHOSEN_APART}
        for tile in spec.variant.tiles:
            own = spec.variant.config(tile, spec.compute).as_dict()
            if all(own[name] == value for name, value in fields.items()):
                return tile
        return None

    @property
    def config(self) -> Config:
        """Config of the kernel that ``auto`` launches."""
        return self.best.spec.config

    @property
    def expected_us(self) -> float:
        """Time of the kernel that ``auto`` launches, in microseconds: measured if it is tuned, else expected."""
        return self.best.microseconds or 0.0

    @property
    def prepared(self) -> tuple[Preparation, ...]:
        """What the kernel that ``auto`` launches reads of each prepared operand; empty if none is prepared."""
        product = self.product.transposed() if self.product.is_transposed else self.product
        uses: dict[tuple[str, Form], None] = {}  # in order, and each form once
        for part, planned in zip(self.best.parts, self.best.schedules, strict=True):
            names = ("x2", "x1") if part.product.is_transposed else ("x1", "x2")
            uses |= {(names[each.operand], each.form): None for each in planned.forms}
        return tuple(
            Preparation(name, tuple(form for own, form in uses if own == name), held)
            for name, is_prepared, held in zip(("x1", "x2"), product.prepared, self.held, strict=True)
            if is_prepared
        )

    def __str__(self) -> str:
        problem = self.product.problem
        times = f"{problem.products} x " if problem.products != 1 else ""
        types = self.product.compute.dtype_name
        transposed = ", computed transposed" if self.product.is_transposed else ""
        names = itertools.compress("AB", self.product.conjugates)
        conjugated = "".join(f", {name} conjugated" for name in names)
        symmetric = ", C Hermitian" if self.product.hermitian else ", C symmetric" if self.product.symmetric else ""
        shapes = f"{times}({problem.m} x {problem.k}) @ ({problem.k} x {problem.n})"
        head = f"{shapes}, {types}, layout {problem.layout}{transposed}{conjugated}{symmetric}"
        if problem.is_empty:
            return f"{head}\nnothing to compute"
        how = "measured" if self.tuned else "expected"
        others = self.choices if self.tuned else self.choices[1:]
        return "\n".join(
            [
                head,
                f"{self.best}: {_figure(self.expected_us)} us {how} on {self.gpu}",
                *map(str, self.prepared),
                *(f"  {each}: {_figure(each.microseconds or 0.0)} us expected" for each in others[:_RUNNERS_UP]),
                f"roofline {_figure(self.bound_us)} us; rates {self.rates}",
            ]
        )


def _figure(microseconds: float) -> str:
    return f"{microseconds:.3g}" if microseconds < 999.5 else f"{microseconds:,.0f}"


def explanation(product: Product, model: Model, table: TunedTable, held: tuple[int, int] = (0, 0)) -> Explanation:
    """Return an explanation of which kernel ``auto`` launches for a product.

    Args:
        product: The product.
        model: Model of the device.
        table: Tuned table of the device, which is not used if an operand is prepared or conjugated.
        held: Sizes of the forms that prepared operands hold, in bytes.
    """
    choices = sorted(model.rank(product), key=lambda choice: choice.microseconds or 0.0)
    tuned = measured(product, table, model) if may_be_tuned(product) else None
    return Explanation(product, tuple(choices), tuned, model.gpu.name, model.bound(product), origin(model), held)


def origin(model: Model) -> str:
    """Return where and when a model's rates were measured, and whether they are scaled, as text."""
    rates = model.rates
    text = f"measured on {rates.gpu.name}, {rates.date}"
    if _unscaled(rates.gpu, model.gpu):
        return text
    never = ", where no kernel was ever measured" if model.gpu.arch is not rates.gpu.arch else ""
    return f"{text}, scaled to the data sheet of {model.gpu.name}{never}"


def _unscaled(measured: Gpu, gpu: Gpu) -> bool:
    """Return whether rates measured on one GPU hold for another without scaling.

    They do if the GPUs have the same name or the same data sheet.
    """
    sheets = ((each.arch, each.sms, round(each.clock / 1e7), round(each.bandwidth / 1e11)) for each in (measured, gpu))
    return measured.name == gpu.name or len({*sheets}) == 1
