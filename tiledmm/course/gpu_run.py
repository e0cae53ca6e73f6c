"""Runs of a student's kernel on this machine's GPU: comparison of results, and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.bench.timing import DeviceClock, TimedCall, measure
from tiledmm.course.attempt import Attempt
from tiledmm.errors import CompilationError
from tiledmm.own_kernels.compiled import nvrtc_text
from tiledmm.own_kernels.expectation import number_type
from tiledmm.own_kernels.launch_rule import Geometry
from tiledmm.own_kernels.matrix_values import random_numbers
from tiledmm.simulator.check.expected import Tolerance

# Names of what is timed.
_MINE, _SOLUTION, _CUPYS = "your kernel", "the solution", "cupy.matmul"

# Approximate time to measure each of them, in seconds.
_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class GpuRun:
    """Results of a kernel on a GPU.

    Attributes:
        gpu: Name of the GPU.
        wrong: Sentence that says where the result is wrong; empty if it is right at all sizes.
        sizes: Sizes at which the kernel was timed; empty if it was not.
        times: Microseconds per launch of the kernel, of the solution, and of ``cupy.matmul`` for a product of matrices.
        refused: Message of NVRTC if it does not compile the kernel, for example because a header is not installed.
    """

    gpu: str
    wrong: str
    sizes: Mapping[str, int]
    times: Mapping[str, float]
    refused: str = ""

    @property
    def speed(self) -> float:
        """The kernel's speed, as a fraction of the solution's."""
        return self.times[_SOLUTION] / self.times[_MINE]


def run_on_gpu(mine: Attempt, sizes: Sequence[Mapping[str, int]]) -> GpuRun:
    """Run a kernel on the current device, compare its results, and time it beside the solution and cuBLAS.

    Args:
        mine: The kernel, which is right on the simulator.
        sizes: Sizes at which its results are compared.
    """
    import cupy

    gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    try:
        function = _function(mine)
    except CompilationError as error:
        return GpuRun(gpu, "", {}, {}, str(error))
    for each in sizes:
        if wrong := _what_is_wrong(mine, function, each):
            return GpuRun(gpu, wrong, {}, {})
    timed = mine.exercise.timed
    solution = Attempt.of(mine.exercise, mine.exercise.solution)
    rivals = {_MINE: _calls(mine, function, timed), _SOLUTION: _calls(solution, _function(solution), timed)}
    if mine.product:
        rivals[_CUPYS] = _calls_of_cupy(mine, timed)
    samples = measure(rivals, DeviceClock(), seconds=_SECONDS)
    return GpuRun(
        gpu,
        "",
        {name: timed[name] for name in mine.exercise.size_names},
        {name: each.seconds * 1e6 for name, each in samples.items()},
    )


def _function(attempt: Attempt) -> Any:
    from tiledmm.compile.compilation import load_plain

    subject = attempt.subject
    text, _, symbol = subject.program.kernel_text(subject.chosen.name)
    function = load_plain(nvrtc_text(text), symbol)
    if shared := attempt.rule.geometry(attempt.exercise.timed).shared_bytes:
        function.max_dynamic_shared_size_bytes = shared
    return function


def _what_is_wrong(attempt: Attempt, function: Any, sizes: Mapping[str, int]) -> str:
    """Launch a kernel, and return a sentence with the first wrong element; empty if there is none."""
    import cupy

    where = ", ".join(f"{name} = {sizes[name]}" for name in attempt.exercise.size_names)
    before = attempt.arguments(sizes)
    at, expected = attempt.expected(before, sizes)
    arguments = _on_device(attempt, before)
    try:
        _launch(function, attempt.rule.geometry(sizes), arguments)
        got = arguments[at].get()
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        return f"the launch at {where} fails: {error}"
    wrong = Tolerance().wrong(got, expected)
    if not len(wrong):
        return ""
    first = tuple(int(i) for i in wrong[0])
    name = attempt.subject.kernel.parameters[at].name
    return f"{name}[{', '.join(map(str, first))}] is {got[first]!s} at {where}, and should be {expected[first]!s}"


def _on_device(attempt: Attempt, arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with arrays on the device, and numbers of the kernel's parameter types."""
    import cupy

    return [
        cupy.asarray(value) if isinstance(value, np.ndarray) else number_type(parameter).type(value)
        for value, parameter in zip(arguments, attempt.subject.kernel.parameters, strict=True)
    ]


def _launch(function: Any, geometry: Geometry, arguments: Sequence[Any]) -> None:
    function(geometry.grid, geometry.block, tuple(arguments), shared_mem=geometry.shared_bytes)


def _calls(attempt: Attempt, function: Any, sizes: Mapping[str, int]) -> TimedCall:
    """Return a function that launches a kernel, each time on memory that is not in the L2 cache."""
    geometry, sets = attempt.rule.geometry(sizes), _argument_sets(attempt, sizes)
    return lambda i: _launch(function, geometry, sets[i % len(sets)])


def _calls_of_cupy(attempt: Attempt, sizes: Mapping[str, int]) -> TimedCall:
    """Return a function that computes the same product by ``cupy.matmul``."""
    import cupy

    product, layout, sets = attempt.product, attempt.layout, _argument_sets(attempt, sizes)
    assert product is not None
    a, b = product.roles.order[:2]

    def multiply(i: int) -> None:
        arguments = sets[i % len(sets)]
        cupy.matmul(arguments[a].T if layout.a else arguments[a], arguments[b].T if layout.b else arguments[b])

    return multiply


def _argument_sets(attempt: Attempt, sizes: Mapping[str, int]) -> list[list[Any]]:
    """Return sets of arguments that together fill the L2 cache twice, with random numbers."""
    from tiledmm.bench.operand_sets import sets_beyond_cache

    first = [
        random_numbers(each.shape, each.dtype, at) if isinstance(each, np.ndarray) and each.dtype.kind == "f" else each
        for at, each in enumerate(attempt.arguments(sizes))
    ]
    count = sets_beyond_cache(sum(each.nbytes for each in first if isinstance(each, np.ndarray)))
    return [_on_device(attempt, first) for _ in range(count)]
