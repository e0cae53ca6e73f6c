"""Host time of calls on small operands: ``tiledmm.matmul``, ``cupy.matmul`` and a bare launch of the same kernel."""

from __future__ import annotations

import cupy

from tiledmm.api import matmul
from tiledmm.bench import timing
from tiledmm.bench.comparison import choice_of
from tiledmm.bench.operand_sets import operand_sets
from tiledmm.bench.results import BASELINE, CallCost
from tiledmm.bench.sizes import Size
from tiledmm.compile.compilation import raw_kernel
from tiledmm.elements import compute_element
from tiledmm.launch.plan import Plan
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import AUTO

_BARE = "cupy.empty + RawKernel"


def compare_calls(n: int = 32, *, dtype: str = "float32", seconds: float = 0.6) -> tuple[CallCost, ...]:
    """Measure the host time of ``tiledmm.matmul``, of ``cupy.matmul`` and of a bare launch on n x n operands.

    The bare launch calls ``cupy.empty``, then the ``RawKernel`` that ``tiledmm.matmul`` launches, with prepared
    arguments. All calls are timed alternately.

    Args:
        n: Size of the square operands; small, so that host time dominates.
        dtype: Element type of the operands.
        seconds: Approximate time to measure each call, in seconds.

    Returns:
        The host time of each call.
    """
    a, b, out = operand_sets(Size(n, n, n), dtype, "NN")[0]
    compute = compute_element(dtype)
    choice = choice_of(AUTO, None, (a, b), precision_of(compute), dtype_of(compute))
    raw, shape, kind = raw_kernel(choice.spec.kernel), (n, n), a.dtype
    (prepared,) = Plan(choice).launches

    def launch(i: int) -> None:
        raw(prepared.grid, prepared.block, (a, b, cupy.empty(shape, kind), prepared.problem))

    rivals: dict[str, timing.TimedCall] = {
        "tiledmm.matmul": lambda i: matmul(a, b),
        "tiledmm.matmul, out=": lambda i: matmul(a, b, out=out),
        BASELINE: lambda i: cupy.matmul(a, b),
        f"{BASELINE}, out=": lambda i: cupy.matmul(a, b, out=out),
        _BARE: launch,
    }
    samples = timing.measure(rivals, timing.HostClock(), seconds=seconds)
    return tuple(
        CallCost(
            name,
            sample.seconds * 1e6,
            time_to_cupy=samples[BASELINE].speed_over(sample),
            time_to_launch=samples[_BARE].speed_over(sample),
        )
        for name, sample in samples.items()
    )
