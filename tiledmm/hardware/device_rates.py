"""What a device reaches whatever the kernel, and the times that follow from it on this device or on another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Rates in TB/s, and times in microseconds, that a device reaches whatever the kernel.

    Attributes:
        memory: Rate of the memory.
        l2, l2_tma: Rates at which L2 is read, and by TMA, where rows begin at a cache line.
        l2_unaligned, l2_tma_unaligned: The same where they begin within one.
        launch, reduction_launch: Times of a launch, and of a split-K reduction besides its reads and writes.
        reduction, reduction_partitions: Rate of its reads and writes; time for 32 partial sums of an element.
        packing, packing_launch: Rate, read and written, of packing an operand, and time besides.
        packing_second: This time for the second of two operands, which are packed at the same time.
        single_elements: Fraction of its rate of a kernel of CUDA cores that loads B one element at a time.
        packing_elements, packing_bits: Rates, read, of packing narrow elements; and of packing elements into bits, by
            the operand's layout: K-major (N), MN-major (T), neither (G).
        packing_bits_least: Least time of the latter, likewise.
        decomposing_launches, decomposing_call: Time of a decomposed product's other launches, two that decompose and
            one that returns at once; and the host time of all, the least that a loop of such calls takes.
        decomposing, decomposing_mn_major: Rate, read and written, of decomposing, by the operand's layout. MN-major, a
            block decomposes rows from end to end: few blocks reach at most twice their SMs' share of the rate, and
            there is a time for prologue and epilogue.
        decomposing_bytes: Rate, read and written, of decomposing into bytes, by an element's bytes.
        decomposing_residues, residue_launches: Rate, read and written, of decomposing into residues, by the operand's
            layout; and time of the other launches of such a product, all but the one that multiplies. Empty or 0 in
            tables that know nothing of residues: ``auto`` then takes no kernel of these.
        reconstructing: Rate, read and written, of writing C from residues; 0 likewise.
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
    reconstructing: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Times of moving data on a GPU, by the rates of a GPU that was measured.

    Attributes:
        rates: The rates of the GPU that was measured.
        memory: Memory bandwidth of this GPU as a multiple of that GPU's.
        sms: Streaming multiprocessors of this GPU.
    """

    rates: DeviceRates
    memory: float
    sms: int

    def moving(self, size: float, rate: float) -> float:
        """Return the microseconds that this GPU needs to move ``size`` bytes, from the measured GPU's rate in TB/s."""
        return size / rate / self.memory / 1e6
