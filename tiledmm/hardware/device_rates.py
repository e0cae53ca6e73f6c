"""Rates of a device that are the same for all kernels, and times computed from them for this device or another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Rates in TB/s and times in microseconds of a device that are the same for all kernels.

    Rates of preparing operands count the bytes that are read and those that are written, unless their description
    says otherwise. A rate by layout has an entry for K-major (N), MN-major (T) and, if measured, neither (G).

    Attributes:
        memory: Rate of the memory.
        l2, l2_tma: Rate of reading L2 if rows begin at cache lines, with ordinary loads and with TMA.
        l2_unaligned, l2_tma_unaligned: Rate of reading L2 if rows begin within cache lines, with ordinary loads and
            with TMA.
        launch: Time of a launch.
        reduction_launch: Time of a split-K reduction apart from its reads and writes.
        reduction: Rate of the reads and writes of a split-K reduction.
        reduction_partitions: Additional time of a split-K reduction per 32 partitions.
        cluster_sum: Additional time per tile if the blocks of a cluster sum parts of K, apart from ``cluster_adding``.
        cluster_adding: Rate at which all clusters together pass on and add up their sums; 0 in tables without
            measurements of it.
        clusters: Number of clusters that are resident at the same time, by the number of blocks per cluster; empty in
            tables without measurements of clusters.
        above_diagonal: Additional time of a block that also writes 1000 elements of its tile above the diagonal of a
            symmetric C; 0 in tables without measurements of it.
        packing: Rate of packing an operand.
        packing_launch: Time of packing an operand apart from its reads and writes.
        packing_second: The same time for the second of two operands, which are packed at the same time.
        single_elements: Rate of a CUDA-core kernel that loads B one element at a time, as a fraction of its rate with
            wide loads.
        packing_elements: Rate of packing 8-bit elements; only bytes that are read count.
        packing_bits: Rates of packing bool elements into bits, by the operand's layout; only bytes that are read
            count.
        packing_bits_least: Minimum times of packing bool elements into bits, by the operand's layout.
        decomposing_launches: Time of the launches of a product by limbs besides the multiplying one: two that
            decompose and one that returns at once.
        decomposing_call: Time that the host needs for all launches of such a product, which is the minimum per call
            in a loop.
        decomposing: Rates of decomposing into limbs, by the operand's layout. If it is MN-major, a block decomposes
            rows from end to end, so that a few blocks reach at most twice their SMs' share of the rate.
        decomposing_mn_major: Time of the prologue and epilogue of decomposing an MN-major operand into limbs.
        decomposing_bytes: Rates of decomposing integers into bytes, by the number of bytes per element.
        decomposing_residues: Rates of decomposing into residues, by the operand's layout. Empty in tables without
            measurements of residues: ``auto`` then chooses no kernel that multiplies residues.
        residue_launches: Time of the launches of a product by residues besides the multiplying one.
        reconstructing: Rate of writing C from residues; 0 in tables without measurements of residues.
    """

    memory: float
    l2: float
    l2_tma: float
    l2_unaligned: float
    l2_tma_unaligned: float
    launch: float
    reduction_launch: float
    reduction: float
    reduction_partitions: float
    packing: float
    packing_launch: float
    packing_second: float
    single_elements: float
    packing_elements: float
    packing_bits: Mapping[str, float]
    packing_bits_least: Mapping[str, float]
    decomposing_launches: float
    decomposing_call: float
    decomposing: Mapping[str, float]
    decomposing_mn_major: float
    decomposing_bytes: Mapping[str, float]
    decomposing_residues: Mapping[str, float] = field(default_factory=dict)
    residue_launches: float = 0.0
    cluster_sum: float = 0.0
    cluster_adding: float = 0.0
    clusters: Mapping[str, int] = field(default_factory=dict)
    reconstructing: float = 0.0
    above_diagonal: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Times of moving data on a GPU, computed from the rates of a GPU that was measured.

    Attributes:
        rates: The rates of the GPU that was measured.
        memory: Memory bandwidth of this GPU as a multiple of the measured GPU's.
        sms: Number of streaming multiprocessors (SMs) of this GPU.
    """

    rates: DeviceRates
    memory: float
    sms: int

    def resident_clusters(self, blocks: int) -> int:
        """Return how many clusters of a number of blocks this GPU runs at the same time, one block per SM."""
        measured = self.rates.clusters.get(str(blocks))
        return self.sms // blocks if measured is None else min(measured, self.sms // blocks)

    def moving(self, size: float, rate: float) -> float:
        """Return the time in microseconds that this GPU needs to move data.

        Args:
            size: Size of the data in bytes.
            rate: Rate of the measured GPU in TB/s, which is scaled by the bandwidth of both GPUs.
        """
        return size / rate / self.memory / 1e6
