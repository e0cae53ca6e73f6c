"""Compilation of kernels for every target without a GPU: registers, shared memory, spills and occupancy."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tiledmm.bench.kept import kept
from tiledmm.bench.variant_tiles import VariantTile, multiplying
from tiledmm.codegen.rendering import render
from tiledmm.compile.inspection import Resources, compile_for
from tiledmm.errors import CompilationError, ConfigError
from tiledmm.hardware.architectures import TARGETS, find_target
from tiledmm.hardware.occupancy import Occupancy, occupancy
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec


@dataclass(frozen=True, slots=True)
class Compiled:
    """Result of compiling one kernel for one target architecture.

    Attributes:
        spec: Specification of the kernel.
        target: Name of the target.
        resources: Registers, shared memory and spills; None if the kernel was not compiled.
        error: Compiler's message if the kernel does not compile; else empty.
        unknown: True if the installed compiler is too old for the target, which is not an error of the kernel.
    """

    spec: KernelSpec
    target: str
    resources: Resources | None
    error: str = ""
    unknown: bool = False

    @property
    def spilled(self) -> int:
        """Sum of spill stores and spill loads, in bytes per thread; 0 if the kernel was not compiled."""
        return 0 if self.resources is None else _spilled(self.resources)

    @property
    def ok(self) -> bool:
        """Whether the kernel compiles without spills, or the installed compiler is too old for the target."""
        return not self.error and not self.spilled

    @property
    def occupancy(self) -> Occupancy | None:
        """Occupancy of an SM of the target by this kernel; None if the kernel was not compiled."""
        if self.resources is None:
            return None
        shared = self.resources.shared_bytes + self.spec.dynamic_shared_bytes
        return occupancy(TARGETS[self.target], self.spec.threads, self.resources.registers, shared)


def _spilled(resources: Resources) -> int:
    return resources.spill_store_bytes + resources.spill_load_bytes


def specs(variant_tiles: Iterable[VariantTile], dtype: str, layout: str) -> list[KernelSpec]:
    """Return the specification of each variant's kernel for a type and layout, without duplicates.

    Variants that do not multiply the type are left out, and so is ``auto``, which has no kernel.

    Args:
        variant_tiles: Variants with tiles.
        dtype: Computation type.
        layout: Layout of A and B, as for ``tiledmm.source``.

    Raises:
        TiledmmError: If there is no such type or layout, none of the variants multiplies the type, or a tile is not
            available.
    """
    kernels = (
        kernel_spec(r.variant, tile=r.tile, dtype=dtype, layout=layout).kernel
        for r in multiplying(variant_tiles, dtype)
        if r.variant != "auto"
    )
    return list(dict.fromkeys(kernels))  # two tiles may be one kernel, as with complex128


def _resources(text: str, symbol: str, target: str) -> Resources:
    """Compile a kernel, and return its resources without its machine code, which no table shows."""
    return replace(compile_for(text, symbol, target), cubin=b"")


def compile_all(
    specs: Iterable[KernelSpec],
    targets: Iterable[str] = tuple(TARGETS),
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Compiled]:
    """Compile kernels for target architectures, in parallel on all cores.

    Args:
        specs: Specifications of the kernels.
        targets: Names of targets. A kernel is compiled only for the targets on which it can run.
        progress: Function that is called, from any thread, with the current activity, the number of finished
            compilations and the number of all compilations.

    Returns:
        One result per kernel and target, also for a kernel that does not compile.

    Raises:
        MissingDependencyError: If NVRTC is not installed; the message has the command that installs it.
    """
    found = [find_target(target) for target in targets]
    jobs = [
        (spec, each.name) for spec in specs for each in found if spec.variant.runs_on(each.capability, spec.compute)
    ]
    finished = itertools.count(1)

    def one(job: tuple[KernelSpec, str]) -> Compiled:
        spec, target = job
        text, arch = render(spec), spec.variant.hopper.arch or target
        try:
            return Compiled(spec, target, kept((text, spec.symbol, arch), lambda: _resources(text, spec.symbol, arch)))
        except CompilationError as error:
            return Compiled(spec, target, None, error=str(error))
        except ConfigError:
            return Compiled(spec, target, None, unknown=True)
        finally:
            if progress is not None:
                progress(f"compiling {len(jobs)} kernels", next(finished), len(jobs))

    pool = ThreadPoolExecutor(_cores())
    try:
        return list(pool.map(one, jobs))
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: the cores that this process may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
