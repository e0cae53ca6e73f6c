"""Collection of profiles of variants on a product: the expected launches, a run under ncu, and both combined."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.codegen.rendering import render
from tiledmm.compile.disassembly import MachineCode, disassemble_cubin
from tiledmm.elements import compute_element
from tiledmm.errors import CompilationError, MissingDependencyError, ProfilingError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.problem.arrays import Array
from tiledmm.problem.call import dtype_of, precision_of, resolve_call
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.profile import ncu
from tiledmm.profile.application import CUBLAS, arguments
from tiledmm.profile.kernel_profile import METRICS, SECTION, Profile, reduced, with_lines
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choose import choose
from tiledmm.simulated.scheduled_launch import lines_of

#: Options that select launches and leave the clocks as they are. At ncu's base clocks memory would seem faster than it
#: is.
OPTIONS = ("--profile-from-start", "off", "--clock-control", "none")


@dataclass(frozen=True, slots=True)
class Collection:
    """Profiles of several variants on one product.

    Attributes:
        command: Command line of ncu.
        profiles: Profile of each variant.
    """

    command: tuple[str, ...]
    profiles: tuple[Profile, ...]


def command_of(variant_tiles: Sequence[VariantTile], size: Size, dtype: str, layout: str) -> ncu.Command:
    """Return the command of ncu that profiles a product, computed by each of the given variants."""
    program = (sys.executable, "-m", "tiledmm.profile.application", *arguments(size, dtype, layout, variant_tiles))
    return ncu.Command(program, tuple(METRICS.values()), (SECTION,), OPTIONS)


def collect(
    variant_tiles: Sequence[VariantTile],
    size: Size,
    dtype: str = "float32",
    layout: str = "NN",
    *,
    report: Path | None = None,
) -> Collection:
    """Run ncu with one product, computed by each of the given variants, and return their profiles.

    Args:
        variant_tiles: Variants with their tiles. The names ``"auto"`` and ``"cublas"`` are allowed, too.
        size: Sizes m, n and k.
        dtype: Computation type: NumPy's name of a type, ``"tf32"``, or a type with wide results, such as
            ``"int8_int32"``.
        layout: Layout letters of A and B, see ``tiledmm.source``.
        report: Path where ncu's report is kept, for Nsight Compute's user interface; None to discard it.

    Raises:
        ProfilingError: If ncu is missing, may not read the counters, or profiled other launches than expected.
        TiledmmError: If a variant does not support the product or the device.
    """
    every = [
        kernels_of(variant_tile, size, dtype, layout) for variant_tile in variant_tiles
    ]  # first of all, to report mistakes early
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "profile.ncu-rep")
        command = ncu.profile(command_of(variant_tiles, size, dtype, layout), file)
        if report is not None:
            shutil.copyfile(file, report)
        launches, counted = ncu.raw_page(file), ncu.source_page(file)
    taken = iter(zip(launches, instructions_of(launches, counted, _names(every)), strict=True))
    profiles = []
    for variant_tile, specs, count in zip(variant_tiles, every, shares(every, launches), strict=True):
        own = [next(taken) for _ in range(count)]
        profiles.append(_profile(variant_tile, specs, own))
    line = command.line(ncu.find_ncu() or "ncu", str(report or "profile.ncu-rep"))
    return Collection(tuple(line), tuple(profiles))


def kernels_of(variant_tile: VariantTile, size: Size, dtype: str, layout: str) -> list[KernelSpec]:
    """Compile the kernels with which a variant computes a product, and return their specifications in launch order.

    The list is empty for ``"cublas"``, whose kernels are unknown.

    Raises:
        TiledmmError: If the variant does not support the product or the device.
    """
    if variant_tile.variant == CUBLAS:
        return []
    from tiledmm.compile.compilation import raw_kernels
    from tiledmm.launch.devices import device_model

    kind = compute_element(dtype)
    shapes = (size.m, size.k), (size.k, size.n), (size.m, size.n)
    types = kind.dtype, kind.dtype, kind.result.dtype
    a, b, c = (Array.laid_out(*each) for each in zip(shapes, types, f"{layout}N", strict=True))
    kernel = KernelKeywords(variant_tile.variant, variant_tile.tile, None, precision_of(kind))
    choice = choose(resolve_call(a, b, c, UfuncKeywords(dtype=dtype_of(kind))), kernel, device_model)
    kernels = [launch.spec for part in choice.parts for launch in schedule(part.spec, part.product.problem).launches]
    raw_kernels(kernels)
    return kernels


def _profile(
    variant_tile: VariantTile,
    specs: Sequence[KernelSpec],
    measured: Sequence[tuple[ncu.ProfiledLaunch, ncu.Instructions]],
) -> Profile:
    """Return the profile of a variant: that of its longest launch, with the names and durations of the others.

    Args:
        variant_tile: Variant and tile.
        specs: Kernels that the variant launches, in order; empty if they are unknown.
        measured: Metrics of each launch, and of the launch's instructions.
    """
    every = [
        reduced(variant_tile.label, replace(launch, name=launch.code_name) if specs else launch)
        for launch, _ in measured
    ]
    longest = max(range(len(every)), key=lambda i: every[i].nanoseconds or 0.0)
    others: dict[str, float] = {}
    for i, each in enumerate(every):
        if i != longest:
            others[each.kernel] = others.get(each.kernel, 0.0) + (each.nanoseconds or 0.0)
    profile, counted = replace(every[longest], others=others), measured[longest][1]
    if not specs:
        return profile
    if not counted.rows:
        return replace(profile, note="no source lines: this ncu has no counts by instruction")
    try:
        code = machine_code_with_lines(specs[longest], _target(specs[longest]))
    except (MissingDependencyError, CompilationError) as error:
        return replace(profile, note=f"no source lines: {error}")
    return with_lines(profile, counted, code, *lines_of(specs[longest]))


def machine_code_with_lines(spec: KernelSpec, target: str) -> MachineCode:
    """Compile a kernel with line information, and return its machine code.

    The instructions are the same as without line information.

    Args:
        spec: Specification of the kernel.
        target: Target architecture.

    Raises:
        MissingDependencyError: If nvdisasm is not installed.
        CompilationError: If nvdisasm cannot read the code.
    """
    from tiledmm.compile.cubins import machine_code
    from tiledmm.compile.inspection import COMPILE_OPTIONS

    options = (*COMPILE_OPTIONS, f"-arch={target}", "-lineinfo")
    return disassemble_cubin(machine_code(render(spec), spec.symbol, options))


def instructions_of(
    launches: Sequence[ncu.ProfiledLaunch], counted: Sequence[ncu.Instructions], ours: set[str]
) -> list[ncu.Instructions]:
    """Return the metrics of instructions for each launch, without rows if they are unknown.

    They are unknown for kernels of a library: ncu's page of instructions may give these other names, list them more
    than once, or omit them. If the page does not list all launches of our kernels, they are unknown for all.

    Args:
        launches: All launches, from ncu's page of launches.
        counted: Metrics of instructions by kernel, from ncu's page of instructions.
        ours: Names of the kernels that the variants launch.
    """
    known = [each for each in counted if each.code_name in ours]
    if [each.code_name for each in known] != [each.code_name for each in launches if each.code_name in ours]:
        known = []
    left = iter(known)
    none = ncu.Instructions("", ())
    return [next(left, none) if launch.code_name in ours else none for launch in launches]


def _target(spec: KernelSpec) -> str:
    """Return the name of the architecture for which a kernel is compiled on the current device."""
    import cupy

    return spec.variant.hopper.arch or f"sm_{cupy.cuda.Device().compute_capability}"


def shares(expected: Sequence[Sequence[KernelSpec]], launches: Sequence[ncu.ProfiledLaunch]) -> list[int]:
    """Return how many of the profiled launches belong to each variant.

    Args:
        expected: Kernels that each variant launches, in order; empty if they are unknown.
        launches: All profiled launches, in order.

    Raises:
        ProfilingError: If the names are not those of the expected kernels.
    """
    names, ours = [each.code_name for each in launches], _names(expected)
    counts, begin = [], 0
    for kernels in expected:
        symbols = [_name(each) for each in kernels]
        left = names[begin:]
        seen = left[: len(symbols)] if symbols else list(itertools.takewhile(lambda name: name not in ours, left))
        if not seen or (symbols and seen != symbols):
            raise ProfilingError(f"ncu profiled {left}, but {symbols or ['a kernel of cuBLAS']} was launched")
        counts.append(len(seen))
        begin += len(seen)
    if begin != len(names):
        raise ProfilingError(f"ncu profiled {names[begin:]} after all expected launches")
    return counts


def _names(expected: Sequence[Sequence[KernelSpec]]) -> set[str]:
    return {_name(each) for kernels in expected for each in kernels}


def _name(spec: KernelSpec) -> str:
    return ncu.code_name(spec.symbol)
