"""Timing of kernels, and of each launch of a product by itself, on the current device, for calibration."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledmm.elements import compute_element
from tiledmm.errors import TiledmmError
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.operands.moduli import DEFAULT_MODULI
from tiledmm.kernels.variants import find_variant
from tiledmm.selection.choice import Choice, kernel_spec_of
from tiledmm.selection.rates import KernelRates
from tiledmm.tuning.cases import Case, cases_of, choice_of, named, product_of, type_of

if TYPE_CHECKING:
    from tiledmm.bench.timing import TimedCall

#: Function that reports progress. It is called with the name of a step and the number of its parts, whenever a part is
#: done.
ProgressCallback = Callable[[str, int], None]

# Readings per timing, seconds per reading, and maximum number of calls per reading.
_READINGS, _SECONDS, _MOST_CALLS = 5, 4e-4, 40

# Products that take more seconds are not timed.
_LONGEST = 0.02

# Bytes of random numbers from which operands are taken, and their seed.
_POOL, _SEED = 1 << 28, 31

# Index of the kernel that multiplies among the launches of a decomposed product: it follows both decompositions.
_MULTIPLYING = 2


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
        return statistics.median(self._clock.time(call, calls).seconds for _ in range(_READINGS))

    def device_rates(self) -> dict[str, Any]:
        """Measure the rates of the device on which the times of all kernels depend, such as that of its memory.

        Returns:
            Rates by the names of fields of ``DeviceRates``. Rates that no kernel uses on this device, and rates that
            ``fit`` finds, are left out.
        """
        cupy = self._cupy
        size = 1 << 28
        pair = cupy.ones((2, size), "i1")
        memory = 2 * size / self.seconds(lambda i: cupy.copyto(pair[0], pair[1])) / 1e12
        launch = 1e6 * self.seconds(self._launches("double_buffered", 16, "float32", Case(1, 16, 16, 1))[0])
        found = {
            "memory": memory, "launch": launch,
            **self._reduction(), **self._packing(launch), **self._decomposing(), **self._bytes(launch),
            **self._residues(), **self._clusters(),
        }  # fmt: skip
        return {name: _rounded(value) for name, value in found.items()}

    def _clusters(self) -> dict[str, Any]:
        """Measure clusters whose blocks share K, and return their rates by the names of fields of ``DeviceRates``.

        The dict is empty if this device has no clusters.
        """
        from tiledmm.launch.plan import Plan

        if not find_variant("wgmma").runs_on(self.gpu.arch.capability, compute_element("float16")):
            return {}
        found = {}
        for blocks in (2, 4, 8):
            plan = Plan(named("wgmma", 64, "float16", Case(1, 4096, 4096, 4096, "NT", blocks)))
            found[str(blocks)] = plan.launches[0].grid[0] // blocks
        whole = self._first("wgmma", 64, "float16", Case(1, 64, 64, 1024, "NT"))
        halves = self._first("wgmma", 64, "float16", Case(1, 64, 64, 2048, "NT", 2))
        return {"cluster_sum": max(halves - whole, 0.0), "clusters": found}

    def _launches(self, variant: str, tile: int, dtype: str, case: Case, **launch: int) -> list[TimedCall]:
        """Return functions to time, one per launch of a product, in order. Each function makes only its launch.

        Args:
            variant, tile: Kernel that multiplies.
            dtype: Computation type.
            case: Product.
            **launch: Fields of ``LaunchConfig``, such as ``pack_b=1``.
        """
        from tiledmm.launch.plan import Plan

        plan, sets = Plan(named(variant, tile, dtype, case, **launch)), self.operands(case, dtype)
        every = [plan.launch_functions(*operands) for operands in sets]

        def nth(n: int) -> TimedCall:
            return lambda i: every[i % len(every)][n]()

        return [nth(n) for n in range(len(every[0]))]

    def _reduction(self) -> dict[str, float]:
        """Measure the split-K reduction, and return its rates by the names of fields of ``DeviceRates``.

        It is timed for few elements, for many partitions of few elements, and for many elements.
        """
        times = {
            (m, split): 1e6
            * self.seconds(self._launches("warp_tiled", 64, "float32", Case(1, m, m, 8192, "NN", split))[-1])
            for m, split in ((64, 4), (64, 96), (2048, 2), (2048, 8))
        }
        partitions = max((times[64, 96] - times[64, 4]) / (96 - 4) * 32, 0.0)
        moved = 4 * 2048**2 * (8 - 2) / (times[2048, 8] - times[2048, 2]) / 1e6
        return {"reduction_launch": times[64, 4], "reduction": moved, "reduction_partitions": partitions}

    def _first(self, variant: str, tile: int, dtype: str, case: Case, **launch: int) -> float:
        """Return the time of the first launch of a product in microseconds. For the arguments see ``_launches``."""
        return 1e6 * self.seconds(self._launches(variant, tile, dtype, case, **launch)[0])

    def _packing(self, launch: float) -> dict[str, Any]:
        """Measure the packing of operands, and return its rates by the names of fields of ``DeviceRates``.

        One kernel copies an operand to aligned rows; others pack narrow elements, and are timed for few and for many.

        Args:
            launch: Time of a launch without work, in microseconds.
        """
        whole = self._first("warp_tiled", 64, "float32", Case(1, 64, 8192, 4096, "NT"), pack_b=1) - launch

        def of_elements(dtype: str, rows: int, k: int, layout: str) -> float:
            """Return the time in microseconds of the launch that packs the elements of A, beyond an empty launch."""
            return self._first("warp_tiled", 64, dtype, Case(1, rows, 64, k, layout), pack_elements=1) - launch

        least = {letter: of_elements("bool", 512, 512, f"{letter}N") for letter in "NT"}
        bits = {letter: 8192 * 8192 / of_elements("bool", 8192, 8192, f"{letter}N") / 1e6 for letter in "NT"}
        return {
            "packing": 2 * 4 * 8192 * 4096 / whole / 1e6, "packing_launch": launch, "packing_second": launch,
            "packing_elements": 8192 * 8192 / of_elements("int8", 8192, 8192, "TN") / 1e6,
            "packing_bits": {**bits, "G": min(bits.values())},
            "packing_bits_least": {**least, "G": max(least.values())},
        }  # fmt: skip

    def _decomposing(self) -> dict[str, Any]:
        """Measure the decomposition of operands into 16-bit limbs.

        Returns:
            Rates by the names of fields of ``DeviceRates``; empty if no kernel on this device uses such limbs.
        """
        capability, limb = self.gpu.arch.capability, compute_element("float16")
        runs = [name for name in ("split_float32", "split_tensor_core") if find_variant(name).runs_on(capability, limb)]
        if not runs:
            return {}

        def of_a(m: int, layout: str) -> float:
            """Return the time in microseconds of the launch that decomposes A of shape (m, 4096)."""
            return self._first(runs[0], 128, "float32", Case(1, m, 128, 4096, layout))

        small = self._launches(runs[0], 128, "float32", Case(1, 128, 128, 256))
        others = sum(1e6 * self.seconds(each) for i, each in enumerate(small) if i != _MULTIPLYING)
        moved = 2 * 4 * (8192 - 2048) * 4096 / 1e6
        rates = {letter: moved / (of_a(8192, f"{letter}N") - of_a(2048, f"{letter}N")) for letter in "NT"}
        return {
            "decomposing_launches": others, "decomposing_call": self._host(runs[0]),
            "decomposing": {**rates, "G": min(rates.values())},
            "decomposing_mn_major": max(of_a(128, "TN") - of_a(128, "NN"), 0.0),
        }  # fmt: skip

    def _host(self, variant: str) -> float:
        """Return the host time in microseconds of running a plan whose operands are decomposed.

        It is the minimum of several timings, because other programs use the host, too.

        Args:
            variant: Variant that decomposes its operands.
        """
        from tiledmm.bench.timing import HostClock
        from tiledmm.launch.plan import Plan

        case = Case(1, 128, 128, 256)
        plan = Plan(named(variant, 128, "float32", case))
        (a, b, c), *_ = self.operands(case, "float32")
        clock = HostClock()
        clock.time(lambda i: plan.run(a, b, c), 20)
        return 1e6 * min(clock.time(lambda i: plan.run(a, b, c), 200).seconds for _ in range(_READINGS))

    def _bytes(self, launch: float) -> dict[str, Any]:
        """Measure the decomposition of integers into bytes.

        Args:
            launch: Time of a launch without work, in microseconds.

        Returns:
            Rates by the names of fields of ``DeviceRates``; empty if no kernel on this device uses such bytes.
        """
        if not find_variant("split_integer").runs_on(self.gpu.arch.capability, compute_element("int32")):
            return {}
        rates = {}
        for dtype, size in (("int16", 2), ("int32", 4), ("int64", 8)):
            time = self._first("split_integer", 128, dtype, Case(1, 8192, 128, 4096)) - launch
            rates[str(size)] = 2 * size * 8192 * 4096 / time / 1e6
        return {"decomposing_bytes": rates}

    def _residues(self) -> dict[str, Any]:
        """Measure the decomposition of operands into residues, and the reconstruction of C from its residues.

        Returns:
            Rates by the names of fields of ``DeviceRates``; empty if no kernel on this device uses residues.
        """
        variant = "split_float64"
        if not find_variant(variant).runs_on(self.gpu.arch.capability, compute_element("float64")):
            return {}

        def times(m: int, n: int, k: int, layout: str = "NN") -> list[float]:
            """Return the time in microseconds of each launch of a product."""
            return [
                1e6 * self.seconds(each) for each in self._launches(variant, 128, "float64", Case(1, m, n, k, layout))
            ]

        small, width = times(128, 128, 64), DEFAULT_MODULI + 8
        moved = width * (8192 - 2048) * 4096 / 1e6
        rates = {
            letter: moved / (times(8192, 128, 4096, f"{letter}N")[0] - times(2048, 128, 4096, f"{letter}N")[0])
            for letter in "NT"
        }
        written = times(4096, 4096, 64)[_MULTIPLYING + 1] - small[_MULTIPLYING + 1]
        return {
            "decomposing_residues": {**rates, "G": min(rates.values())},
            "residue_launches": sum(time for i, time in enumerate(small) if i != _MULTIPLYING),
            "reconstructing": width * 4096**2 / written / 1e6,
        }


def _rounded(value: Any) -> Any:
    """Round a number to four significant digits. If ``value`` is a dict, return it with all its numbers rounded."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return value if isinstance(value, int) else float(f"{value:.4g}")
