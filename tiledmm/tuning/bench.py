"""Timing of kernels on the current device, for calibration."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledmm.elements import compute_element
from tiledmm.errors import TiledmmError
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.variants import find_variant
from tiledmm.selection.choice import Choice, kernel_spec_of
from tiledmm.selection.rates import KernelRates
from tiledmm.tuning.cases import Case, cases_of, choice_of, product_of, type_of

if TYPE_CHECKING:
    from tiledmm.bench.timing import TimedCall

#: Function that reports progress. It is called with the name of a step and the number of its parts, whenever a part is
#: done.
ProgressCallback = Callable[[str, int], None]

#: Number of readings per timing.
READINGS = 5

# Seconds per reading, and maximum number of calls per reading.
_SECONDS, _MOST_CALLS = 4e-4, 40

# Products that take more seconds are not timed.
_LONGEST = 0.02

# Bytes of random numbers from which operands are taken, and their seed.
_POOL, _SEED = 1 << 28, 31


@dataclass(frozen=True, slots=True)
class Jobs:
    """The products with which to time one kernel.

    Attributes:
        residents: Maximum number of blocks of the kernel that are resident on an SM at the same time.
        cases: Products, each with the choice whose launches are timed.
    """

    residents: int
    cases: tuple[tuple[Case, Choice], ...]


class Bench:
    """Timer of kernels on the current device, whose data sheet is ``gpu``."""

    def __init__(self, gpu: Gpu) -> None:
        import cupy

        from tiledmm.bench.timing import DeviceClock

        self.gpu, self._cupy, self._clock = gpu, cupy, DeviceClock()
        self._pools: dict[str, Any] = {}
        self._cache = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["l2CacheSize"]

    def compiled(
        self, rows: Mapping[KernelRates, Collection[Case] | None], tell: ProgressCallback
    ) -> Iterator[tuple[KernelRates, Jobs]]:
        """Compile all kernels in parallel, then yield each kernel with the products with which to time it.

        Products that would take too long, or that the kernel does not support, are left out.

        Args:
            rows: Kernels, each with the products to time; None for all of ``cases_of``.
            tell: Function that is called with the name of a step and the number of its parts, whenever a part is done.
        """
        from tiledmm.compile.compilation import compiled, raw_kernels

        plain = {}
        for row in rows:
            variant, compute = find_variant(row.variant), compute_element(type_of(row))
            product = product_of(Case(1, 64, 64, 512), type_of(row))
            plain[row] = kernel_spec_of(row.variant, variant.config(row.tile, compute), product).kernel
        wanted = list(dict.fromkeys(plain.values()))
        raw_kernels(wanted, lambda ready: tell("compiling kernels", len(wanted)))
        jobs = []
        for row, kernel in plain.items():
            residents = 1 if kernel.variant.hopper.persistent else max(compiled(kernel).blocks_per_sm, 1)
            choices = []
            cases = rows[row]
            for case in cases_of(row, self.gpu, residents) if cases is None else cases:
                if 2e-12 * case.batch * case.m * case.n * case.k / row.tflops > _LONGEST:
                    continue
                with contextlib.suppress(TiledmmError):  # the kernel does not support such products
                    choices.append((case, choice_of(row, case)[0]))
            jobs.append((row, Jobs(residents, tuple(choices))))
        launched = dict.fromkeys(kernel for _, each in jobs for _, choice in each.cases for kernel in choice.kernels)
        raw_kernels(list(launched), lambda ready: tell("compiling for layouts", len(launched)))
        for row, each in jobs:
            yield row, each
            tell("timing kernels", len(jobs))

    def timings(self, row: KernelRates, jobs: Jobs) -> dict[str, Any]:
        """Time a kernel's cases, and return its maximum number of resident blocks per SM and the time of each case.

        Args:
            row: Kernel to time.
            jobs: Its cases.

        Returns:
            A dict with the number under ``"residents"``, and under ``"cases"`` a list of pairs of a case, as a tuple of
            its fields, and its time in microseconds. Cases that take too long or need too much memory are left out.
        """
        from tiledmm.bench.timing import one_after_the_other
        from tiledmm.launch.plan import Plan

        found = []
        for case, choice in jobs.cases:
            with contextlib.suppress(TiledmmError, self._cupy.cuda.memory.OutOfMemoryError):
                operands = self.operands(case, type_of(row))
                plan = Plan(choice)
                seconds = self.seconds(one_after_the_other(plan, operands))
                if seconds < _LONGEST:
                    found.append(((case.batch, case.m, case.n, case.k, case.layout, case.split), seconds * 1e6))
        return {"residents": jobs.residents, "cases": found}

    def operands(self, case: Case, dtype: str) -> list[tuple[Any, Any, Any]]:
        """Return sets of operands (a, b, c) for a case, at different addresses: enough to fill L2 twice, at most 16.

        Args:
            case: Product, with the layout of A and B.
            dtype: Computation type.
        """
        cupy, kind = self._cupy, compute_element(dtype).dtype
        size = case.batch * (case.m * case.k + case.k * case.n + case.m * case.n)
        count = max(1, min(16, -(-2 * self._cache // (size * kind.itemsize))))
        largest = case.batch * max(case.m * case.k, case.k * case.n)
        pool, begin, sets = self._pool(kind, 2 * largest), 0, []

        def matrices(rows: int, cols: int, letter: str) -> Any:
            nonlocal begin
            elements = case.batch * rows * cols
            if begin + elements > pool.size:
                begin = 0
            flat = pool[begin : begin + elements]
            begin += elements + -elements % 128
            if letter == "T":
                stack = flat.reshape(case.batch, cols, rows).swapaxes(1, 2)
            else:
                stack = flat.reshape(case.batch, rows, cols)
            return stack if case.batch > 1 else stack[0]

        shape = (case.batch, case.m, case.n) if case.batch > 1 else (case.m, case.n)
        for _ in range(count):
            a, b = matrices(case.m, case.k, case.layout[0]), matrices(case.k, case.n, case.layout[1])
            sets.append((a, b, cupy.empty(shape, kind)))
        return sets

    def _pool(self, kind: Any, least: int) -> Any:
        """Return an array on the device with at least ``least`` random elements of the type ``kind``.

        Later calls for the type return the same array, if it is large enough.
        """
        pool = self._pools.get(kind.str)
        if pool is None or pool.dtype != kind or pool.size < least:
            cupy = self._cupy
            self._pools.clear()
            rng, count = cupy.random.RandomState(_SEED), max(_POOL // kind.itemsize, least)
            if kind.kind in "biu":
                values = rng.randint(0, 2 if kind.kind == "b" else 100, count)
            elif kind.kind == "c":
                values = rng.standard_normal(count, "f4") + 1j * rng.standard_normal(count, "f4")
            else:
                values = rng.standard_normal(count, "f4")
            self._pools[kind.str] = values.astype(kind)
        return self._pools[kind.str]

    def seconds(self, call: TimedCall) -> float:
        """Return the device time of a call in seconds: the median of several readings."""
        self._clock.time(call, 1)
        first = self._clock.time(call, 2).seconds
        if first > _LONGEST:
            return first
        calls = max(2, min(_MOST_CALLS, int(_SECONDS / first)))
        return statistics.median(self._clock.time(call, calls).seconds for _ in range(READINGS))
