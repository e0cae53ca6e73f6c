"""Table of GPUs by their data sheets, at least one per architecture: SMs, clock, bandwidth and peak rates."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import TARGETS, Architecture


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPU with the figures of its data sheet.

    Attributes:
        name: Product name.
        arch: Architecture, the compile target of its kernels.
        sms: Number of streaming multiprocessors (SMs).
        clock: Boost clock of the SMs, in Hz.
        bandwidth: Peak bandwidth of device memory, in bytes per second.
        source: Documents that these figures come from.
        halves_float32_sums: True if the tensor cores run at half the architecture's rate when they sum 16-bit floats or
            tf32 in float32, as on GeForce cards.
        nvlink: Peak bandwidth of all NVLinks in one direction, in bytes per second; 0 if there are none.
    """

    name: str
    arch: Architecture
    sms: int
    clock: float
    bandwidth: float
    source: str
    halves_float32_sums: bool = False
    nvlink: float = 0.0

    def peak_flops(self, dtype: str) -> float:
        """Return the peak rate of the CUDA cores for a type at the boost clock, in FLOP/s.

        One multiply-add counts as two operations, also for complex types, so that a product has ``2 * m * n * k``.
        """
        return 2 * self.arch.multiply_adds(dtype) * self.sms * self.clock

    def tensor_flops(self, itemsize: int, *, by_mma: bool = False) -> float:
        """Return the peak rate of the tensor cores at the boost clock without sparsity, in FLOP/s.

        Args:
            itemsize: Bytes per element, which stand for a type: 1 for 8-bit integers, 2 for 16-bit floats, 4 for
                tf32, 8 for float64, 16 for complex128. 16-bit floats and tf32 are summed in float32.
            by_mma: Whether to return the rate of ``mma.sync`` instead of the rate of the fastest instructions.
        """
        fraction = 0.5 if self.halves_float32_sums and itemsize in (2, 4) else 1.0
        if by_mma and itemsize < 8:
            fraction *= self.arch.mma_fraction
        return 2 * fraction * self.arch.tensor_lanes(itemsize) * self.sms * self.clock

    @property
    def load_bandwidth(self) -> float:
        """Peak bandwidth of the shared memory and L1 of all SMs together, in bytes per second."""
        return self.arch.load_bytes * self.sms * self.clock


#: GPUs by name.
DATA_SHEETS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("T4", TARGETS["sm_75"], 40, 1.59e9, 320e9, "NVIDIA T4 data sheet, Turing whitepaper"),
        Gpu("RTX 2080 Ti", TARGETS["sm_75"], 68, 1.545e9, 616e9, "NVIDIA Turing whitepaper", True, nvlink=50e9),
        Gpu(
            "A100 SXM4 80 GB",
            TARGETS["sm_80"],
            108,
            1.41e9,
            2.039e12,
            "NVIDIA A100 data sheet, whitepaper",
            nvlink=300e9,
        ),
        Gpu("A30", TARGETS["sm_80"], 56, 1.44e9, 933e9, "NVIDIA A30 data sheet", nvlink=100e9),
        Gpu("RTX 3090", TARGETS["sm_86"], 82, 1.695e9, 936e9, "NVIDIA Ampere GA102 whitepaper", True, nvlink=56.25e9),
        Gpu("A10", TARGETS["sm_86"], 72, 1.695e9, 600e9, "NVIDIA A10 data sheet"),
        Gpu("RTX A6000", TARGETS["sm_86"], 84, 1.8e9, 768e9, "NVIDIA Ampere GA102 whitepaper", nvlink=56.25e9),
        Gpu("RTX 4090", TARGETS["sm_89"], 128, 2.52e9, 1.008e12, "NVIDIA Ada whitepaper", True),
        Gpu("L4", TARGETS["sm_89"], 58, 2.04e9, 300e9, "NVIDIA L4 data sheet"),
        Gpu("L40S", TARGETS["sm_89"], 142, 2.52e9, 864e9, "NVIDIA L40S data sheet"),
        Gpu(
            "H100 SXM 80 GB", TARGETS["sm_90"], 132, 1.98e9, 3.35e12, "NVIDIA H100 data sheet, whitepaper", nvlink=450e9
        ),
        Gpu("H200 SXM", TARGETS["sm_90"], 132, 1.98e9, 4.8e12, "NVIDIA H200 data sheet", nvlink=450e9),
        Gpu("B200", TARGETS["sm_100"], 148, 1.965e9, 8e12, "DGX B200 data sheet; clock: TechPowerUp", nvlink=900e9),
        Gpu("RTX 5090", TARGETS["sm_120"], 170, 2.407e9, 1.792e12, "NVIDIA RTX Blackwell whitepaper", True),
        Gpu("RTX PRO 6000", TARGETS["sm_120"], 188, 2.617e9, 1.792e12, "NVIDIA RTX Blackwell PRO whitepaper"),
    )
}

#: Reference GPU of each target, by the target's name: the first GPU of that target in ``DATA_SHEETS``.
REFERENCE_GPUS: dict[str, Gpu] = {gpu.arch.name: gpu for gpu in reversed(DATA_SHEETS.values())}
REFERENCE_GPUS = {name: REFERENCE_GPUS[name] for name in TARGETS}


def find_gpu(name: str) -> Gpu:
    """Return the data sheet of a GPU, given its name, or of the reference GPU of a target such as ``"sm_90"``.

    Raises:
        ConfigError: If there is no data sheet of that name; the message lists all GPUs and targets.
    """
    if name in REFERENCE_GPUS:
        return REFERENCE_GPUS[name]
    if name in DATA_SHEETS:
        return DATA_SHEETS[name]
    known = ", ".join((*REFERENCE_GPUS, *DATA_SHEETS))
    raise ConfigError(f"unknown GPU or target {name!r}; those with a data sheet are {known}")
