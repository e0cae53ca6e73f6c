"""Launches of any kernel on the CPU: from CUDA C and NumPy arrays to a report."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiledmm import simulator
from tiledmm.errors import CompilationError, ConfigError
from tiledmm.hardware.architectures import find_compile_target
from tiledmm.simulator.build.compile_options import CompileOptions
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.build.variable_values import copy_back, state_with
from tiledmm.simulator.check.expected import Tolerance, expected_arrays, wrong_results
from tiledmm.simulator.check.finding_kinds import (
    BARRIER,
    IF_USED,
    NOT_RETURNED,
    SHUFFLE_UNDEFINED,
    UNWRITTEN_GLOBAL,
    VIEW,
)
from tiledmm.simulator.check.full_checks import FullChecks, block_number, blocks_again
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.check.limits import beyond_limits, too_many_blocks
from tiledmm.simulator.check.schedules import MANY_STEPS, Schedules, may_differ
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.events import Event, events_of
from tiledmm.simulator.report.report import Report


def launch(
    source: str | Path,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[Any],
    *,
    name: str | None = None,
    options: tuple[str, ...] = (),
    shared_bytes: int = 0,
    variables: Mapping[str, Any] | None = None,
    target: str = "sm_90a",
    expected: Mapping[int | str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    checks: bool | str = True,
    counts: bool = True,
    sass: bool = False,
    threads: str = "forward",
    seed: int = 0,
    max_steps: int = 0,
    timeout: float | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    cooperative: bool = False,
    prints: bool = True,
    cluster: int | Sequence[int] | None = None,
    dependent_on: Sequence[Any] = (),
) -> Report:
    """Run a kernel of your own on the CPU, and return a report of its counts and findings.

    Args:
        source: CUDA C, or the path of a file with it as a string or ``pathlib.Path``. Host code in it (``main``,
            ``<<<>>>``, headers of host libraries) is left out.
        grid: Number of blocks along x, y and z; an int or a shorter sequence for fewer dimensions.
        block: Number of threads per block along x, y and z; an int or a shorter sequence for fewer dimensions.
        arguments: One argument for each parameter: a number; for a pointer, a NumPy array, which the kernel reads and
            writes in place; for ``float**``, a list of arrays; for a structure, a dict of its members, a tuple, a
            dataclass, a NumPy scalar, bytes or a ctypes structure. For a pointer in a structure, pass an array in the
            dict, or an array's address (``x.ctypes.data``). For a ``CUtensorMap``, pass what ``tensor_map`` returns.
            Arrays that share memory also share it in the kernel.
        name: The kernel's name, with its template arguments (``"scale<float, 16>"``); None if the source has only one
            kernel.
        options: Compile options of nvcc or NVRTC, such as ``("-DN=4", "-Iinclude")``.
        shared_bytes: Dynamic shared memory per block, in bytes.
        variables: Values of ``__constant__`` and ``__device__`` variables by name: NumPy arrays, numbers, or structures
            as among the arguments. Other variables have their initial values. After the launch, an array that was
            passed for a ``__device__`` variable holds the variable's new value.
        target: The target architecture, such as ``"sm_75"``, which has no cp.async.
        expected: Expected contents of arrays after the launch, by the number or the name of their parameter, or by the
            name of a pointer in a structure (``"C.elements"``). A finding reports the first element that differs, with
            the thread and the line that wrote it.
        rtol, atol: Tolerances for ``expected`` as in ``numpy.isclose``. By default integers must be equal, and
            floating-point numbers must agree within 1e-10 (8 bytes), 1e-4 (4 bytes) or 1e-2 (2 bytes), relative to
            themselves and to the mean absolute value of the expected array.
        checks: Whether every access is checked. ``"full"`` also finds variables that are read before they are set, and
            accesses outside of a thread's local arrays. For this it runs the kernel four to eight times, and up to
            three times more in other orders of threads if the kernel has atomics other than sums, volatile accesses,
            fences or named barriers. Without checks, a kernel runs several times as fast, but an access out of bounds
            can crash the process.
        counts: Whether traffic is counted.
        sass: Whether traffic is also counted for the accesses in the machine code (SASS) of ``target``, where
            contiguous accesses are vectorized. Needs the extra ``inspect``.
        threads: The order in which threads run between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``; or
            ``"preemptive"``, in which threads also yield to others before atomics, volatile accesses, fences and
            barriers, and up to six blocks run in turn. A finding of full checks names the seed of its order.
        seed: Seed of the orders ``"random"`` and ``"preemptive"``.
        max_steps: Maximum number of accesses per thread; a thread that makes more ends the launch with a finding. 0 for
            no limit.
        timeout: Seconds after which the launch ends with a finding; None for no limit.
        workers: Number of CPU cores to use; None for all.
        progress: Function that is called from time to time with the number of finished blocks and the total number of
            blocks.
        cooperative: Whether the launch is cooperative (``cudaLaunchCooperativeKernel``): all blocks are resident, so
            that they can wait for each other at ``this_grid().sync()``.
        prints: Whether the output of ``printf`` calls is written to ``sys.stdout`` when the kernel has ended, even if a
            finding ended it. ``report.output`` contains the text in either case.
        cluster: Number of blocks per thread block cluster along x, y and z; an int or a shorter sequence for fewer
            dimensions. None for what the kernel's ``__cluster_dims__`` says, or no clusters if it has none.
        dependent_on: For a programmatic dependent launch, which may begin before the launch before it has ended: the
            arrays that the launch before writes, or reads and this one writes. The kernel must execute
            ``griddepcontrol.wait`` before it accesses them.

    Returns:
        The report. Errors in the kernel do not raise an exception here: see ``report.ok`` and ``report.check()``.

    Raises:
        ConfigError: If there is no such file or kernel, if grid, block, cluster or shared memory exceed the limits of
            the target, or if the grid does not consist of whole clusters.
        OperandTypeError: If an argument does not fit its parameter.
        CompilationError: If the source does not compile.
        MissingDependencyError: If there is no C++ compiler.

    Example:
        >>> text = "__global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }"
        >>> report = launch(text, 1, 32, (np.ones(20, np.float32), 20))
        >>> report.ok
        True
    """
    settings = Settings(
        checks=checks, counts=counts, sass=simulator.disassemble if sass else None, order=threads, seed=seed,
        target=target, workers=workers, progress=progress, max_steps=max_steps, timeout=timeout,
        cooperative=cooperative,
    )  # fmt: skip
    kernel = compile_kernel(source, name, settings, options)
    tolerance = Tolerance(rtol, atol)
    state = None if variables is None else state_with(kernel, variables)
    report = launch_kernel(
        kernel, grid, block, arguments, shared_bytes, settings, expected=expected, tolerance=tolerance, state=state,
        held=(variables or {}).values(), prints=prints, cluster=cluster, dependent_on=dependent_on,
    )  # fmt: skip
    if variables is not None and state is not None:
        copy_back(kernel, state, variables)
    return report


def trace_block(
    source: str | Path,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[Any],
    traced_block: Sequence[int] = (0, 0, 0),
    *,
    name: str | None = None,
    shared_bytes: int = 0,
    target: str = "sm_90a",
    cluster: int | Sequence[int] | None = None,
) -> tuple[Event, ...]:
    """Run a kernel of your own on the CPU, and return the accesses of one block. The arrays are not changed.

    Args:
        source, grid, block, arguments, name, shared_bytes, target, cluster: As for ``launch``.
        traced_block: Index (x, y, z) of the block.

    Returns:
        The accesses in the order in which the simulator ran them, up to the finding that ended the launch, if any.

    Raises:
        TiledmmError: If ``launch`` raises it for such arguments.

    Example:
        >>> text = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }"
        >>> [event.kind for event in trace_block(text, 1, 2, (np.ones(2, np.float32),))]
        ['load', 'store', 'load', 'store']
    """
    settings = Settings(counts=False, target=target, workers=1)
    kernel = compile_kernel(source, name, settings)
    this = Launch(kernel, grid, block, arguments, shared_bytes, exact=False, cluster=cluster)
    x, y, z = traced_block
    number = x + this.grid[0] * (y + this.grid[1] * z)
    outcome = this.run(kernel, replace(settings, traced_block=number), None)
    return tuple(events_of(kernel, outcome, this.placed, this.block))


def compile_kernel(
    source: str | Path, name: str | None, settings: Settings, options: tuple[str, ...] = ()
) -> NativeKernel:
    """Compile a kernel of the user for the CPU, or load it from the cache.

    Args:
        source: CUDA C, or the path of a file with it.
        name: The kernel's name, with its template arguments; None if the source has only one kernel.
        settings: Settings of the run, which decide the target architecture and the build.
        options: Compile options.

    Raises:
        OperandTypeError: If ``source`` is neither a string nor a path.
        ConfigError: If the file cannot be read, or if the source has no such kernel.
        CompilationError: If the kernel does not compile.
    """
    parsed = CompileOptions.of(options)
    return compile_program(
        Program.read(source, options=parsed, target=find_compile_target(settings.target)), name, settings.built
    )


def compile_program(program: Program, name: str | None, build: str) -> NativeKernel:
    """Compile a kernel of a program for the CPU, or load it from the cache.

    Args:
        program: The program.
        name: The kernel's name, with its template arguments; None if the program has only one kernel.
        build: The kernel's build, one of ``kernel_flags.BUILDS``.

    Raises:
        ConfigError: If the program has no such kernel.
        CompilationError: If the kernel does not compile.
    """
    text, places, symbol = program.kernel_text(name)
    try:
        return NativeKernel(text, places, symbol, program.target, build=build)
    except CompilationError as error:
        raise program.hint(error) from None


def launch_kernel(
    kernel: NativeKernel,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[Any],
    shared_bytes: int,
    settings: Settings,
    *,
    exact: bool = False,
    expected: Mapping[int | str, Any] | None = None,
    tolerance: Tolerance | None = None,
    state: ModuleState | None = None,
    held: Iterable[Any] = (),
    prints: bool = False,
    cluster: int | Sequence[int] | None = None,
    dependent_on: Sequence[Any] = (),
) -> Report:
    """Run a compiled kernel on the CPU, and return a report of its counts and findings.

    The other arguments, and the errors, are explained at ``launch``.

    Args:
        exact: Whether an argument that is a number must have the size that CuPy would pass for it.
        state: Values of the variables outside of functions, which the kernel reads and changes; None for their initial
            values in the source.
        held: Values from which ``state`` was made, in which arrays may be that the variables point to.
        prints: Whether the kernel's output is written to ``sys.stdout``: that of the first run only, before any other.
    """
    this = Launch(kernel, grid, block, arguments, shared_bytes, exact, state, held, cluster, dependent_on)
    if settings.cooperative and math.prod(this.cluster) > 1:
        raise ConfigError("clusters and cooperative=True are not supported together: launch with one of them")
    wanted = expected_arrays(this, {} if expected is None else expected)
    full = settings.checks == "full"
    values = {name: raw.copy() for name, raw in state.items()} if state is not None else None
    findings, has_sass = KernelFindings(kernel), settings.sass is not None
    refused = too_many_blocks(kernel, findings, this.grid, this.block, shared_bytes) if settings.cooperative else None
    if refused:
        return Report.of(kernel, [], [refused], grid=this.grid, block=this.block, sass=has_sass)
    outcome = this.run(kernel, settings, state, writers=bool(wanted))
    if prints:
        sys.stdout.write(outcome.output)
    found = beyond_limits(kernel, findings, this.block, shared_bytes)
    found += findings.of([outcome], this.placed, shared_bytes)
    found += findings.deep_calls(outcome)
    found += [findings.of_launch(VIEW, said) for said in this.views()]
    unreturned = any(each.kind == NOT_RETURNED for each in found)
    unwritten = [each for each in found if each.kind == UNWRITTEN_GLOBAL]
    undefined = [each for each in found if each.kind == SHUFFLE_UNDEFINED and settings.checks]
    misses = [each for each in found if each.kind == BARRIER]
    uncertain = unreturned or unwritten or undefined or misses
    before = this.contents() if full or uncertain or (settings.checks and wanted) else []
    for placed in this.placed:
        if placed.writable:
            placed.array[...] = placed.result
    tolerance = tolerance or Tolerance()
    wrong = list(wrong_results(this, findings, outcome, wanted, tolerance))
    errors = [each for each in found if not each.is_warning]
    found = [each for each in found if each.kind not in IF_USED]
    blocks = tuple(sorted({block_number(this, each) for each in (*unwritten, *undefined, *wrong)}))
    chosen = settings if full else replace(settings, chosen=blocks)
    if unwritten:
        found += FullChecks(this, findings, chosen, values, before).reads_of_unwritten(unwritten)
    if undefined and not errors:
        used = FullChecks(this, findings, chosen, values, before).undefined_shuffles(outcome)
        found = [each for each in found if each.kind != SHUFFLE_UNDEFINED or each.line not in {it.line for it in used}]
        found += used
    if before and (full or wrong or unreturned):
        blocks = blocks_again(this, outcome, [*wrong, *errors], whole=settings.cooperative)
        if full or blocks:
            chosen = settings if full else replace(settings, chosen=blocks)
            found += FullChecks(this, findings, chosen, values, before).findings(errors, wrong=bool(wrong))
    differs = bool(before) and outcome.synchronizes and may_differ(kernel)
    if full and differs and not wrong and all(each.is_warning for each in found):
        found += Schedules(this, findings, settings, values, before, wanted, tolerance).found(outcome.steps)
    elif differs and outcome.steps <= MANY_STEPS and (misses or wrong) and errors == misses:
        found = Schedules(this, findings, settings, values, before, wanted, tolerance).races() + found
    found += wrong
    return Report.of(kernel, [outcome], found, grid=this.grid, block=this.block, sass=has_sass)
