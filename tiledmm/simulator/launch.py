"""Any kernel on the CPU: a ``__global__`` function of a CUDA C text, on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.codegen.source_map import file_map
from tiledmm.errors import ConfigError, OperandTypeError, ShapeError
from tiledmm.hardware.architectures import Architecture, find_target
from tiledmm.problem.strides import Span
from tiledmm.simulator import execution
from tiledmm.simulator.compiled_kernel import CompiledKernel, Geometry, ModuleState
from tiledmm.simulator.declarations import kernels_in, short_name
from tiledmm.simulator.findings import UNSET, UNSET_ELEMENT, WRONG_RESULT, Finding
from tiledmm.simulator.parameters import POINTER, Parameter
from tiledmm.simulator.placed import Placed
from tiledmm.simulator.report import Report
from tiledmm.simulator.settings import Settings
from tiledmm.simulator.traffic import Traffic, total

#: Relative tolerances of ``expected=`` by the bytes of a floating-point number, unless the caller names one.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-10}

_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)


def launch(
    source: str | Path,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence[Any],
    *,
    name: str | None = None,
    shared_bytes: int = 0,
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
) -> Report:
    """Runs a kernel of the user's on the CPU.

    Args:
        source: CUDA C, or the path of a file with it.
        grid: Blocks along x, y and z; fewer numbers, or one, for fewer dimensions.
        block: Threads of a block along x, y and z.
        arguments: One for each parameter: NumPy arrays for pointers, which the kernel reads and writes in place;
            numbers; structures as NumPy scalars, bytes or ctypes structures. Arrays that share memory do so for the
            kernel, too.
        name: The kernel's name, with its template arguments (``"scale<float, 16>"``); None where the text has only one.
        shared_bytes: Size of dynamic shared memory.
        target: The target architecture, such as ``"sm_75"``, which has no cp.async.
        expected: What arrays must hold afterwards, by the number or the name of their parameter. The first element that
            differs is a finding that names the thread and the line that wrote it.
        rtol, atol: Tolerances for ``expected`` as in ``numpy.isclose``. By default integers are equal, and
            floating-point numbers within 1e-10 (8 bytes), 1e-4 (4 bytes) or 1e-2 (2 bytes), relative to themselves and
            to the mean absolute value of what is expected.
        checks: Whether every access is checked. ``"full"`` runs the kernel four times, to find variables that are read
            before they are set, and accesses beside a thread's own arrays. Without checks a kernel runs several times
            as fast, and a wrong one can end the process.
        counts: Whether traffic is counted.
        sass: Whether traffic is also counted as in the machine code of ``target``. Needs the extra ``inspect``.
        threads: The order in which threads run between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``.
        seed: Seed of the order ``"random"``.
        max_steps: Accesses after which a thread counts as running away; 0 for no limit.
        timeout: Seconds after which the launch ends with a finding; None for no limit.
        workers: Cores to use; None for all.
        progress: Called from time to time with the number of finished blocks and the number of all blocks.

    Returns:
        Counts and findings. A wrong kernel raises nothing: see ``report.ok`` and ``report.check()``.

    Raises:
        ConfigError: If there is no such kernel, or if grid, block or shared memory are beyond what the target has.
        OperandTypeError: If an argument is not what the parameter takes.
        CompilationError: If the text does not compile.
        MissingDependencyError: If there is no C++ compiler.

    Example:
        >>> text = "__global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }"
        >>> report = launch(text, 1, 32, (np.ones(20, np.float32), 20))
        >>> report.ok
        True
    """
    settings = Settings(
        checks=checks, counts=counts, sass=sass, order=threads, seed=seed, target=target.removesuffix("a"),
        workers=workers, progress=progress, max_steps=max_steps, timeout=timeout,
    )  # fmt: skip
    kernel = compile_kernel(source, name, settings)
    tolerance = Tolerance(rtol, atol)
    return run(kernel, grid, block, arguments, shared_bytes, settings, expected=expected, tolerance=tolerance)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from what is expected; None for what follows from its type."""

    rtol: float | None = None
    atol: float | None = None

    def first_wrong(
        self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]
    ) -> tuple[tuple[int, ...], int] | None:
        """The index of the first wrong element, and how many there are; None if all are right."""
        wrong = np.argwhere(self._wrong(got, expected))
        return (tuple(int(i) for i in wrong[0]), len(wrong)) if len(wrong) else None

    def _wrong(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if got.dtype.kind not in "fc":
            different: np.ndarray[Any, Any] = got != expected
            return different
        bytes_of_real = got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1)
        rtol = TOLERANCES.get(bytes_of_real, 1e-10) if self.rtol is None else self.rtol
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64 if got.dtype.kind == "f" else np.complex128))
        atol = (rtol * float(finite.mean()) if finite.size else 0.0) if self.atol is None else self.atol
        wrong: np.ndarray[Any, Any] = ~np.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
        return wrong


def compile_kernel(source: str | Path, name: str | None, settings: Settings) -> CompiledKernel:
    """Compiles a kernel of the user's; ``name`` may be None where the text has one kernel.

    Raises:
        ConfigError: If the file cannot be read, or if the text has no such kernel.
        CompilationError: If it does not compile.
    """
    file = "kernel.cu"
    if isinstance(source, Path):
        file = source.name
        try:
            source = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{str(source)!r} cannot be read: {error}") from None
    known = kernels_in(source)
    if name is None:
        if len(known) != 1:
            what = f"has {len(known)} kernels ({', '.join(known)})" if known else "has no __global__ function"
            raise ConfigError(f"{file} {what}; name= says which one to run")
        name = known[0]
    elif known and short_name(name) not in known:
        raise ConfigError(f"{file} has no kernel {name!r}; its kernels are {', '.join(known)}")
    target = find_target(settings.target)
    return CompiledKernel(source, file_map(file, source), name, target, build=settings.built)


def run(
    kernel: CompiledKernel,
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
) -> Report:
    """Runs a compiled kernel: see ``launch``.

    Args:
        exact: Whether numbers must have the sizes that CuPy would pass.
        state: What the variables outside of functions hold; None for what the text says.
    """
    call = _Call(kernel, grid, block, arguments, shared_bytes, exact)
    wanted = call.expected(expected or {})
    full = settings.checks == "full"
    before = call.contents() if full or (settings.checks and wanted) else []
    values = {name: raw.copy() for name, raw in state.items()} if state is not None else None
    outcome = call.run(kernel, settings, state, writers=bool(wanted))
    found = kernel.refusals(call.block) + call.findings(outcome)
    for placed in call.placed:
        if placed.writable:
            placed.array[...] = placed.result
    wrong = list(call.wrong(outcome, wanted, tolerance or Tolerance()))
    if before and (wrong or (full and not found)):
        found += call.closer(settings, values, before, bool(wrong))
    found += wrong
    counts = kernel.line_counts([outcome], sass=settings.sass)
    return Report(
        symbol=kernel.name,
        target=kernel.target.name,
        grid=call.grid,
        block=call.block,
        findings=tuple(each for each in found if not each.is_warning),
        warnings=tuple(each for each in found if each.is_warning),
        barriers=outcome.barriers,
        flops=sum(each.flops for each in counts),
        source=total(each.source for each in counts),
        sass=total(each.sass or Traffic() for each in counts) if settings.sass else None,
        lines=counts,
        text=kernel.text,
        locations=kernel.places.locations,
        seconds=outcome.seconds,
        output=outcome.output,
    )


class _Call:
    """A kernel with its arguments, which fit its parameters, and with the memory regions of its arrays."""

    def __init__(
        self,
        kernel: CompiledKernel,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any],
        shared_bytes: int,
        exact: bool,
    ) -> None:
        self.kernel, self.parameters, self.shared_bytes = kernel, kernel.parameters, shared_bytes
        self.grid, self.block = _three("grid", grid), _three("block", block)
        _check_geometry(self.grid, self.block, shared_bytes, kernel.target)
        if len(arguments) != len(self.parameters):
            raise OperandTypeError(
                f"{kernel.name} takes {len(self.parameters)} arguments "
                f"({', '.join(each.type for each in self.parameters)}); got {len(arguments)}"
            )
        # An array of no dimensions passes for a number.
        self.arrays: dict[int, np.ndarray[Any, Any]] = {}
        self.numbers: dict[int, Any] = {}
        for at, (parameter, value) in enumerate(zip(self.parameters, arguments, strict=True)):
            if isinstance(value, np.ndarray) and (parameter.kind == POINTER or value.ndim):
                parameter.check_array(value)
                self.arrays[at] = value
            else:
                self.numbers[at] = parameter.scalar(value, exact=exact)
        self.placed, self.owner = _place([(self.parameters[at], array) for at, array in self.arrays.items()])

    def expected(self, expected: Mapping[int | str, Any]) -> dict[int, np.ndarray[Any, Any]]:
        """What is expected of each array, by the number of its parameter."""
        names = [each.name for each in self.parameters]
        wanted = {}
        for key, value in expected.items():
            at = names.index(key) if key in names else key
            if not isinstance(at, int) or at not in self.arrays:
                raise ConfigError(f"expected= names arrays by number or name ({', '.join(names)}); got {key!r}")
            right = np.asarray(value)
            if right.shape != self.arrays[at].shape:
                raise ShapeError(
                    f"expected[{key!r}] has shape {right.shape}, and the array has {self.arrays[at].shape}"
                )
            wanted[at] = right
        return wanted

    def contents(self) -> list[np.ndarray[Any, Any]]:
        """What the memory regions hold before the launch."""
        return [each.array.copy() for each in self.placed]

    def run(
        self,
        kernel: CompiledKernel,
        settings: Settings,
        state: ModuleState | None,
        contents: Sequence[np.ndarray[Any, Any]] | None = None,
        *,
        writers: bool = False,
    ) -> execution.Outcome:
        """Runs the kernel; the regions then have its results.

        Args:
            kernel: The kernel, compiled in this way or in another.
            settings: How to run it.
            state: What the variables outside of functions hold.
            contents: What the regions hold before, unless what the arrays do.
            writers: Whether it is asked afterwards who wrote an element.
        """
        memory = execution.Memory([each.reserved_bytes for each in self.placed])
        try:
            for region, each in enumerate(self.placed):
                each.place(memory, region, filled=True, written=each.writable)
                if contents is not None:
                    each.view()[...] = contents[region]
            arguments = dict(self.numbers)
            for at, (region, distance) in zip(self.arrays, self.owner, strict=True):
                arguments[at] = ctypes.c_void_p(self.placed[region].origin + distance)
            outcome = kernel.run(
                [arguments[at] for at in range(len(self.parameters))],
                [each.operand(writable=each.writable) for each in self.placed],
                grid=self.grid,
                block=self.block,
                shared_bytes=self.shared_bytes,
                settings=settings,
                writers=writers,
                state=state,
            )
            for each in self.placed:
                each.result = each.view().copy()
        finally:
            memory.release()
        return outcome

    def findings(self, outcome: execution.Outcome) -> list[Finding]:
        """What the runtime found."""
        return self.kernel.findings([outcome], self.placed, self.shared_bytes)

    def wrong(
        self, outcome: execution.Outcome, wanted: dict[int, np.ndarray[Any, Any]], tolerance: Tolerance
    ) -> Iterator[Finding]:
        """A finding for each array that is not as expected."""
        for (at, array), (region, distance) in zip(self.arrays.items(), self.owner, strict=True):
            differs = tolerance.first_wrong(array, wanted[at]) if at in wanted else None
            if differs:
                first, count = differs
                name = self.parameters[at].name
                said = (
                    f"{count:,} of {array.size:,} elements of {name}; {name}[{', '.join(map(str, first))}] is "
                    f"{array[first]}, expected {wanted[at][first]}"
                )
                placed = self.placed[region]
                offset = distance + sum(i * stride for i, stride in zip(first, array.strides, strict=True))
                writer = outcome.writer(placed.writes, (offset - placed.span.start) // placed.granule)
                yield self.kernel.wrong_result(WRONG_RESULT, said, writer, Geometry(self.grid, self.block))

    def closer(
        self,
        settings: Settings,
        state: ModuleState | None,
        before: Sequence[np.ndarray[Any, Any]],
        is_wrong: bool,
    ) -> list[Finding]:
        """What other builds of the kernel find: accesses beside a thread's variables, and variables that are not set.

        Args:
            settings, state, before: Of the launch.
            is_wrong: Whether another finding says already which element is wrong.
        """
        guarded, _ = self._again("guarded", settings, state, before)
        unset = [each for each in guarded if each.kind == UNSET_ELEMENT]
        outside = [each for each in guarded if each.kind != UNSET_ELEMENT]
        if outside:
            return outside
        results = []
        for build in ("checked", "zeroed"):
            _, outcome = self._again(build, settings, state, before)
            results.append([np.ascontiguousarray(each.result).view(np.uint8) for each in self.placed])
        different = [np.flatnonzero(one.reshape(-1) != other.reshape(-1)) for one, other in zip(*results, strict=True)]
        if not any(len(each) for each in different):
            return []
        found = self.kernel.unset_variables() + unset
        if found or is_wrong:
            return found
        region = next(i for i, each in enumerate(different) if len(each))
        placed = self.placed[region]
        first = np.unravel_index(int(different[region][0]) // placed.itemsize, placed.array.shape)
        offset = sum(int(i) * stride for i, stride in zip(first, placed.array.strides, strict=True)) - placed.span.start
        said = f"{placed.name}[{', '.join(map(str, map(int, first)))}] depends on a variable that was not set"
        writer = outcome.writer(placed.writes, offset // placed.granule)
        return [self.kernel.rebuilt("zeroed").wrong_result(UNSET, said, writer, Geometry(self.grid, self.block))]

    def _again(
        self, build: str, settings: Settings, state: ModuleState | None, before: Sequence[np.ndarray[Any, Any]]
    ) -> tuple[list[Finding], execution.Outcome]:
        """Runs the kernel once more, compiled in some way."""
        kernel = self.kernel.rebuilt(build)
        own = {name: raw.copy() for name, raw in state.items()} if state is not None else None
        outcome = self.run(kernel, settings.alone(build), own, before, writers=True)
        return kernel.findings([outcome], self.placed, self.shared_bytes), outcome


def _three(what: str, size: int | Sequence[int]) -> tuple[int, int, int]:
    """Sizes along x, y and z."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(each, (int, np.integer)) for each in sizes):
        raise ConfigError(f"{what} is one to three whole numbers; got {size!r}")
    return tuple(map(int, (*sizes, 1, 1)[:3]))  # type: ignore[return-value]


def _check_geometry(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, target: Architecture
) -> None:
    for what, sizes, limits in (("grid", grid, _MAX_GRID), ("block", block, _MAX_BLOCK)):
        if not all(1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
            raise ConfigError(
                f"{what} is from 1 to {limits[0]} x {limits[1]} x {limits[2]}; got {' x '.join(map(str, sizes))}"
            )
    threads = block[0] * block[1] * block[2]
    if threads > target.max_threads_per_block:
        raise ConfigError(f"a block has at most {target.max_threads_per_block} threads; got {threads}")
    if not 0 <= shared_bytes <= target.max_shared_bytes:
        raise ConfigError(f"shared_bytes is from 0 to {target.max_shared_bytes} on {target.name}; got {shared_bytes}")


def _place(
    arrays: Sequence[tuple[Parameter, np.ndarray[Any, Any]]],
) -> tuple[list[Placed], list[tuple[int, int]]]:
    """The regions of memory for arrays: views of one array that overlap are in one.

    Returns:
        The regions, and for each array its region and the distance of its first element from the region's.
    """
    placed: list[Placed] = []
    owner: list[tuple[int, int]] = []
    bounds = [_bounds(array) for _, array in arrays]
    known: dict[tuple[int, int], int] = {}
    for (parameter, array), mine in zip(arrays, bounds, strict=True):
        shared = any(mine[0] < other[1] and other[0] < mine[1] and mine != other for other in bounds)
        whole = _root(array) if shared else array
        at = known.setdefault(_bounds(whole), len(placed))
        if at == len(placed):
            placed.append(Placed(parameter.name, whole, Span.of(whole.shape, whole.strides, whole.dtype.itemsize)))
            placed[at].writable = False
            placed[at].pointee = parameter.element_bytes or array.dtype.itemsize
        placed[at].writable |= not parameter.read_only and array.flags.writeable
        owner.append((at, array.ctypes.data - placed[at].array.ctypes.data))
    return placed, owner


def _bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The first address of an array's elements, and the one behind the last."""
    span = Span.of(array.shape, array.strides, array.dtype.itemsize)
    return array.ctypes.data + span.start, array.ctypes.data + span.stop


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that a view is of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
