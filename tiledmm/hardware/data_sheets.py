"""Reference GPUs by their data sheets, one for each architecture: SMs, clock, bandwidth, and the peaks they give."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.hardware.architectures import TARGETS, Architecture


@dataclass(frozen=True, slots=True)
class Gpu:
    """A reference machine for rooflines, by its data sheet.

    Attributes:
        name: As NVIDIA sells it.
        arch: Its compile target.
        sms: Streaming multiprocessors.
        clock: Boost clock of the SMs in Hz.
        bandwidth: Peak bandwidth of its memory in bytes per second.
        source: The documents that these figures come from.
    """

    name: str
    arch: Architecture
    sms: int
    clock: float
    bandwidth: float
    source: str

    def peak_flops(self, dtype: str) -> float:
        """Peak of the CUDA cores at the boost clock in FLOP/s, for a type: two operations for each multiply-add.

        This is the unit of ``2 * m * n * k``, for complex types too: one complex multiply-add counts two.
        """
        return 2 * self.arch.multiply_adds(dtype) * self.sms * self.clock

    def tensor_flops(self, itemsize: int) -> float:
        """Peak of the tensor cores in FLOP/s, without sparsity, by bytes of an element.

        1 is 8-bit integers, 2 16-bit floats, 4 tf32, 8 float64 and 16 complex128. 16-bit floats and tf32 are summed in
        float32.
        """
        arch = self.arch
        lanes = {
            1: arch.byte_lanes, 2: arch.half_lanes, 4: arch.tf32_lanes, 8: arch.double_lanes, 16: arch.double_lanes / 4,
        }  # fmt: skip
        return 2 * lanes[itemsize] * self.sms * self.clock

    @property
    def load_bandwidth(self) -> float:
        """Peak bandwidth of shared memory and L1 of all SMs, in bytes per second."""
        return self.arch.load_bytes * self.sms * self.clock


#: One reference machine for each target, by the target's name.
REFERENCE_GPUS: dict[str, Gpu] = {
    gpu.arch.name: gpu
    for gpu in (
        Gpu("T4", TARGETS["sm_75"], 40, 1.59e9, 320e9, "NVIDIA T4 data sheet, Turing whitepaper"),
        Gpu("A100 SXM4 80 GB", TARGETS["sm_80"], 108, 1.41e9, 2.039e12, "NVIDIA A100 data sheet, whitepaper"),
        Gpu("RTX 3090", TARGETS["sm_86"], 82, 1.695e9, 936e9, "NVIDIA Ampere GA102 whitepaper"),
        Gpu("RTX 4090", TARGETS["sm_89"], 128, 2.52e9, 1.008e12, "NVIDIA Ada whitepaper"),
        Gpu("H100 SXM 80 GB", TARGETS["sm_90"], 132, 1.98e9, 3.35e12, "NVIDIA H100 data sheet, whitepaper"),
        Gpu("B200", TARGETS["sm_100"], 148, 1.965e9, 8e12, "DGX B200 data sheet; clock: TechPowerUp"),
        Gpu("RTX 5090", TARGETS["sm_120"], 170, 2.407e9, 1.792e12, "NVIDIA RTX Blackwell whitepaper"),
    )
}
