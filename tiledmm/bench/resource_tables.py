"""Tables of kernels without a GPU: resources on each target, and bounds on the speed of reference GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tiledmm.bench.comparison_tables import product_about
from tiledmm.bench.kernel_resources import Compiled
from tiledmm.bench.sizes import Size
from tiledmm.hardware.architectures import TARGETS, find_target
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.config import LaunchConfig
from tiledmm.kernels.spec import KernelSpec
from tiledmm.report.cells import NONE, Figure, count, percent, significant
from tiledmm.report.roofline import roofline
from tiledmm.report.tables import Table

_LETTERS = {"warps": "W", "blocks": "B", "registers": "R", "shared memory": "S"}
_LEGEND = (
    "What limits occupancy: R registers, S shared memory, W the number of warps per SM, B the number of blocks per SM."
)


def resource_table(kernels: list[Compiled], target: str) -> Table:
    """Return a table of kernels with the registers, shared memory, spills and occupancy of each on one target.

    Args:
        kernels: Results of compilation; those for other targets are ignored.
        target: Name of the target.
    """
    shown = [kernel for kernel in kernels if kernel.target == target]
    return Table(
        title=f"Compiled for {target} ({REFERENCE_GPUS[target].name})  {_kind(shown)}",
        columns=(
            "<variant",
            "tile",
            "threads",
            "registers",
            "shared (B)",
            "spilled (B)",
            "blocks/SM",
            "occupancy",
            "<limited by",
        ),
        rows=tuple(_resource_cells(kernel) for kernel in shown),
        notes=_errors(shown),
        bad=frozenset(i for i, kernel in enumerate(shown) if not kernel.ok),
        about={"target": target, **_about(shown)},
    )


def _resource_cells(kernel: Compiled) -> tuple[str, ...]:
    spec, resources, filled = kernel.spec, kernel.resources, kernel.occupancy
    head = (spec.variant.name, tile_name(spec), count(spec.threads))
    if resources is None or filled is None:
        why = "does not compile" if kernel.error else "compiler too old for this target"
        return (*head, NONE, NONE, NONE, NONE, NONE, why)
    return (
        *head,
        count(resources.registers),
        count(resources.shared_bytes + spec.dynamic_shared_bytes),
        count(kernel.spilled),
        count(filled.blocks),
        percent(filled.fraction),
        filled.limited_by,
    )


def matrix_table(kernels: list[Compiled]) -> Table:
    """Return a table of registers and occupancy, with one row per kernel and one column per target."""
    targets = [target for target in TARGETS if any(kernel.target == target for kernel in kernels)]
    by_symbol: dict[str, dict[str, Compiled]] = {}
    for kernel in kernels:
        by_symbol.setdefault(kernel.spec.symbol, {})[kernel.target] = kernel
    rows = []
    for found in by_symbol.values():
        spec = next(iter(found.values())).spec
        rows.append((spec.variant.name, tile_name(spec), *(_matrix_cell(found.get(target)) for target in targets)))
    return Table(
        title=f"Registers, occupancy and its limit, on every target  {_kind(kernels)}",
        columns=("<variant", "tile", *targets),
        rows=tuple(rows),
        notes=(_LEGEND, *_errors(kernels)),
        bad=frozenset(i for i, found in enumerate(by_symbol.values()) if not all(k.ok for k in found.values())),
        about=_about(kernels),
    )


def details_table(kernels: list[Compiled], size: Size) -> Table:
    """Return a table of one variant's kernels: resources on each target, and bounds on the speed of a product.

    The bounds are for the reference GPU of the target.
    """
    targets = dict.fromkeys(kernel.target for kernel in kernels)
    only = "" if len(targets) > 1 else next(iter(targets))
    spec = kernels[0].spec
    rows = []
    for kernel in kernels:
        bounds = roofline(kernel.spec, REFERENCE_GPUS[kernel.target], *size)
        _, *costs = _resource_cells(kernel)
        rows.append(
            (
                *([] if only else [kernel.target]),
                *costs,
                NONE if kernel.spec.variant.plain else significant(bounds.intensity),
                *(
                    (NONE, "does not fit")
                    if kernel.occupancy and not kernel.occupancy.blocks
                    else (NONE, NONE)
                    if kernel.spec.variant.plain
                    else (significant(bounds.bound / 1e12), bounds.limited_by)
                ),
            )
        )
    return Table(
        title=f"{spec.variant.name}  {_kind(kernels)}  {size}" + (f"  on {_machine(only)}" if only else ""),
        columns=(
            *([] if only else ["<target"]),
            "tile", "threads", "registers", "shared (B)", "spilled (B)", "blocks/SM", "occupancy", "<limited by",
            "FLOP/byte", "TFLOP/s bound", "<bound by",
        ),
        rows=tuple(rows),
        notes=((_PLAIN_NOTE,) if spec.variant.plain else ()) + _errors(kernels),
        bad=frozenset(i for i, kernel in enumerate(kernels) if not kernel.ok),
        about={"variant": spec.variant.name, **_product(size, spec), **({"target": only} if only else {})},
    )  # fmt: skip


def targets_table(kernels: list[Compiled]) -> Table:
    """Return a table of one variant's registers and occupancy, with one row per target and one column per tile."""
    tiles = list(dict.fromkeys(tile_name(kernel.spec) for kernel in kernels))
    by_place = {(kernel.target, tile_name(kernel.spec)): kernel for kernel in kernels}
    targets = list(dict.fromkeys(kernel.target for kernel in kernels))
    return Table(
        title=f"{kernels[0].spec.variant.name}  {_kind(kernels)}  registers, occupancy and its limit, on every target",
        columns=("<target", *(f"tile {tile}" if tile != NONE else "any size" for tile in tiles)),
        rows=tuple((_machine(target), *(_matrix_cell(by_place.get((target, t))) for t in tiles)) for target in targets),
        notes=(_LEGEND, *_errors(kernels)),
        bad=frozenset(i for i, target in enumerate(targets) if not all(k.ok for k in kernels if k.target == target)),
        about=_about(kernels),
    )


def _machine(target: str) -> str:
    return f"{target}, {REFERENCE_GPUS[target].name}"


def _matrix_cell(kernel: Compiled | None) -> str:
    if kernel is None:  # the kernel does not run on this target
        return NONE
    if kernel.resources is None or kernel.occupancy is None:
        return "fails" if kernel.error else "unknown"
    limits = "".join(letter for limit, letter in _LETTERS.items() if limit in kernel.occupancy.limited_by)
    spilled = f", spills {kernel.spilled} B" if kernel.spilled else ""
    return f"{kernel.resources.registers}  {percent(kernel.occupancy.fraction)} {limits}{spilled}"


def _errors(kernels: list[Compiled]) -> tuple[str, ...]:
    """Return a note for each kernel that does not compile, with the compiler's message for the first such target."""
    first: dict[str, str] = {}
    for kernel in kernels:
        if kernel.error:
            first.setdefault(kernel.spec.symbol, f"{kernel.spec.symbol}, {kernel.target}: {kernel.error}")
    return tuple(first.values())


def bounds_table(specs: list[KernelSpec], size: Size, target: str) -> Table:
    """Return a table of upper bounds on the speed of kernels, for one product on the reference GPU of a target.

    Each row has a kernel's arithmetic intensity, and its bound in TFLOP/s by the roofline model.
    """
    gpu = REFERENCE_GPUS[find_target(target).name]
    rows = []
    for spec in specs:
        bounds = roofline(spec, gpu, *size)
        rows.append(
            (
                spec.variant.name,
                tile_name(spec),
                NONE if spec.variant.plain else count(spec.shared_bytes),
                NONE if spec.variant.plain else significant(bounds.intensity),
                significant(bounds.compulsory_intensity),
                *(
                    (NONE, NONE, NONE)
                    if spec.variant.plain
                    else (
                        significant(bounds.bound / 1e12),
                        significant(bounds.flops / bounds.bound * 1e6),
                        bounds.limited_by,
                    )
                ),
            )
        )
    spec = specs[0]
    plain = any(each.variant.plain for each in specs)
    return Table(
        title=f"Bounds on {gpu.name}  {size}  {_type(spec)}  {spec.layout}",
        columns=(
            "<variant",
            "tile",
            "shared (B)",
            "FLOP/byte",
            "max FLOP/byte",
            "TFLOP/s bound",
            "time bound (us)",
            "<bound by",
        ),
        rows=tuple(rows),
        notes=(_PLAIN_NOTE,) if plain else (),
        about={"target": gpu.arch.name, **_product(size, spec)},
    )


#: Note that explains the columns with bounds.
BOUNDS_NOTE = (
    "FLOP/byte: operations per byte that the kernel requests from global memory; caches serve part of the requests. "
    "Bounds come from a model and the data sheet. Each is the lowest of three rates: the peak of the CUDA or tensor "
    "cores; the rate that memory bandwidth allows if A and B are read once and C is written once; and the rate that "
    "the loads of the inner loop from shared memory and L1 allow. The rate at which instructions are issued may limit "
    "a kernel further, as the roofline page shows. Nothing was measured."
)

#: Note that explains the column "max FLOP/byte" of ``bounds_table``.
MAX_NOTE = "Max FLOP/byte: that of a kernel that reads nothing twice."

# The same about a plain kernel.
_PLAIN_NOTE = (
    "The memory accesses of a plain kernel are unknown here: tiledmm check counts them, and bounds the kernel's speed."
)


def tile_name(spec: KernelSpec) -> str:
    """Return the name of a kernel's tile for a table, such as ``"32"``.

    If several tiles have the kernel's config, all are named. If no tile has it, the name is the block tile, such as
    ``"64x32"``. For a variant without tiles it is ``NONE``.
    """
    config = spec.kernel.config
    scheme = (config.scheme,) if config.scheme else ()
    same = [
        tile
        for tile in spec.variant.tiles
        if replace(spec.variant.configure(tile, spec.compute, *scheme), launch=LaunchConfig()) == config
    ]
    if same:
        return Figure(", ".join(map(str, same)), same[0])
    return f"{config.bm}x{config.bn}" if spec.variant.tiles else NONE


def _kind(kernels: list[Compiled]) -> str:
    return "  ".join(_about(kernels).values())


def _product(size: Size, spec: KernelSpec) -> dict[str, Any]:
    return product_about(size, _type(spec), spec.layout)


def _type(spec: KernelSpec) -> str:
    """Return the name of a kernel's computation type. For a kernel that multiplies limbs, name the decomposed type."""
    return spec.variant.operands.product_type(spec).dtype_name


def _about(kernels: list[Compiled]) -> dict[str, str]:
    spec = kernels[0].spec
    return {"dtype": _type(spec), "layout": spec.layout}
