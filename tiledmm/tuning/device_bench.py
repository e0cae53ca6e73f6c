"""Measurement of the rates of the current device, and of each launch of a product by itself, for calibration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tiledmm.elements import compute_element
from tiledmm.kernels.launches import tiles
from tiledmm.kernels.operands.moduli import DEFAULT_MODULI
from tiledmm.kernels.variants import find_variant
from tiledmm.tuning.bench import READINGS, Bench
from tiledmm.tuning.cases import Case, named

if TYPE_CHECKING:
    from tiledmm.bench.timing import TimedCall

# Index of the kernel that multiplies among the launches of a decomposed product: it follows both decompositions.
_MULTIPLYING = 2


class DeviceBench(Bench):
    """Timer of kernels that also measures the rates of the device on which the times of all kernels depend."""

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
            **self._residues(), **self._clusters(), **self._above_diagonal(),
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
        small, large = (self._cluster_sum(tile) for tile in (64, 128))
        moved = (128**2 - 64**2) * 4 * self.gpu.sms
        rate = moved / (large - small) / 1e6 if large > small else 0.0
        return {"cluster_sum": max(small - (large - small) / 3, 0.0), "cluster_adding": rate, "clusters": found}

    def _cluster_sum(self, tile: int) -> float:
        """Return how much longer blocks compute a tile in pairs than a tile of half the K each, in microseconds.

        Args:
            tile: Rows and columns of the tiles.
        """
        rows = tile * self.gpu.sms
        alone = self._first("wgmma", tile, "float16", Case(1, rows, tile, 1024, "NT"))
        return self._first("wgmma", tile, "float16", Case(1, rows // 2, tile, 2048, "NT", 2)) - alone

    def _above_diagonal(self) -> dict[str, float]:
        """Measure how long blocks take to write their tiles above the diagonal of a symmetric C, too.

        The product has as many tiles as another one without symmetry: about four per SM, of which few cross the
        diagonal.

        Returns:
            The time by the name of its field of ``DeviceRates``; empty if no persistent kernel runs on this device.
        """
        if not find_variant("wgmma").runs_on(self.gpu.arch.capability, compute_element("float16")):
            return {}
        tile, down = 128, math.isqrt(2 * 4 * self.gpu.sms) // 2 * 2
        half = Case(1, down * tile, down * tile, 512, "NT")
        other = Case(1, (down + 1) * tile, down // 2 * tile, 512, "NT")
        more = self._first("wgmma", tile, "float16", half, triangle=1) - self._first("wgmma", tile, "float16", other)
        in_block = tiles((down + 1) * down // 2, self.gpu.sms) * tile * tile
        return {"above_diagonal": max(more, 0.0) / (in_block / 1000)}

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
        return 1e6 * min(clock.time(lambda i: plan.run(a, b, c), 200).seconds for _ in range(READINGS))

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
