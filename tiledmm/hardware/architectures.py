"""Table of the architectures that kernels are compiled for, with the limits and rates of their SMs.

It needs neither a GPU nor CuPy. Sources:

- limits of an SM: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications;
- allocation granularities: ``cuda_occupancy.h`` of the CUDA toolkit;
- multiply-adds per cycle: CUDA C++ Best Practices Guide, "Throughput of Native Arithmetic Instructions" (up to
  CUDA 12 in the Programming Guide);
- bytes per cycle from shared memory and L1: NVIDIA Ampere GA102 whitepaper (128 for 8.6, 64 for 7.5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiledmm.errors import ConfigError, DeviceError, UnsupportedTypeError

WARP_SIZE = 32

# dtype -> (unit that multiplies and adds, its instructions per multiply-add). Narrow types are summed in 32 bits. A
# 64-bit integer product needs three 32-bit products, a complex product four real ones. The AND and OR of bool are one
# logic instruction, at the rate of integer multiply-adds.
_INSTRUCTIONS: dict[str, tuple[str, int]] = {
    "float16": ("float32", 1),
    "bfloat16": ("float32", 1),
    "float32": ("float32", 1),
    "float64": ("float64", 1),
    "complex64": ("float32", 4),
    "complex128": ("float64", 4),
    "bool": ("int32", 1),
    **{f"{sign}int{bits}": ("int32", 1) for bits in (8, 16, 32) for sign in ("", "u")},
    "int64": ("int32", 3),
    "uint64": ("int32", 3),
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """Compile target, with the limits and rates of its SMs.

    Attributes:
        name: Compiler's name of the target: ``"sm_90"``.
        capability: Compute capability: ``(9, 0)``.
        max_warps, max_blocks: Maximum number of resident warps and blocks per SM.
        shared_bytes: Shared memory per SM at the largest carve-out, in bytes; the rest of the on-chip memory is L1.
        reserved_shared_bytes: Shared memory that the driver reserves per resident block, in bytes.
        shared_unit: Granularity of a block's shared-memory allocation, in bytes.
        float32_lanes, float64_lanes, int32_lanes: Multiply-adds per cycle per SM on CUDA cores.
        half_lanes, byte_lanes, double_lanes: Multiply-adds per cycle per SM on tensor cores with the fastest
            instructions, for 16-bit floats, 8-bit integers and float64.
        mma_fraction: Fraction of the tensor cores' rate that ``mma.sync`` reaches. Where ``wgmma`` or ``tcgen05`` are
            faster, ``mma.sync`` is assumed to have the rate per SM of an A100; this was never measured on 10.0. It does
            not apply to float64, which has no other instruction.
        load_bytes: Peak rate of shared memory and L1 together, in bytes per cycle per SM.
        max_threads_per_block: Maximum number of threads per block.
        max_registers: Maximum number of 32-bit registers per thread.
        registers: Number of 32-bit registers per SM, which is also the limit per block.
        register_unit: Granularity of a warp's register allocation, in 32-bit registers.
        partitions: Number of partitions per SM, each with its own warp scheduler and an equal share of the registers.
        static_shared_bytes: Shared memory that a block may use without opt-in, in bytes.
        features: ``"a"`` for a target with the architecture's own features (``sm_90a``), ``"f"`` for one with its
            family's (``sm_100f``); empty otherwise.
    """

    name: str
    capability: tuple[int, int]
    max_warps: int
    max_blocks: int
    shared_bytes: int
    float32_lanes: int
    float64_lanes: int
    half_lanes: int
    byte_lanes: int
    double_lanes: int = 2
    mma_fraction: float = 1.0
    int32_lanes: int = 64
    reserved_shared_bytes: int = 1024
    shared_unit: int = 128
    load_bytes: int = 128
    max_threads_per_block: int = 1024
    max_registers: int = 255
    registers: int = 65_536
    register_unit: int = 256
    partitions: int = 4
    static_shared_bytes: int = 48 * 1024
    features: str = ""

    @property
    def max_threads(self) -> int:
        """Maximum number of resident threads per SM."""
        return self.max_warps * WARP_SIZE

    @property
    def tf32_lanes(self) -> int:
        """Multiply-adds of tf32 per cycle per SM on tensor cores: half the rate of 16-bit floats.

        It is 0 before compute capability 8.0.
        """
        return self.half_lanes // 2 if self.capability >= (8, 0) else 0

    def tensor_lanes(self, itemsize: int) -> float:
        """Return the number of multiply-adds per cycle per SM on tensor cores, with the fastest instructions.

        Args:
            itemsize: Bytes per element, which stand for a type: 1 for 8-bit integers, 2 for 16-bit floats, 4 for
                tf32, 8 for float64, 16 for complex128.
        """
        lanes = {1: self.byte_lanes, 2: self.half_lanes, 4: self.tf32_lanes, 8: self.double_lanes}
        return lanes[itemsize] if itemsize in lanes else self.double_lanes / 4

    @property
    def max_shared_bytes(self) -> int:
        """Maximum shared memory per block, in bytes; more than ``static_shared_bytes`` needs opt-in."""
        return self.shared_bytes - self.reserved_shared_bytes

    def multiply_adds(self, dtype: str) -> float:
        """Return the number of multiply-adds per cycle per SM on CUDA cores for a type.

        Args:
            dtype: NumPy's name of the type.

        Raises:
            UnsupportedTypeError: If products of this type are not supported.
        """
        if dtype not in _INSTRUCTIONS:
            known = ", ".join(_INSTRUCTIONS)
            raise UnsupportedTypeError(f"the throughput of {dtype!r} is unknown; the types are {known}")
        unit, instructions = _INSTRUCTIONS[dtype]
        lanes = {"float32": self.float32_lanes, "float64": self.float64_lanes, "int32": self.int32_lanes}
        return lanes[unit] / instructions


def _kib(size: int) -> int:
    return size * 1024


#: Compile targets by name, oldest first.
TARGETS: dict[str, Architecture] = {
    row.name: row
    for row in (
        Architecture(
            "sm_75",
            (7, 5),
            max_warps=32,
            max_blocks=16,
            shared_bytes=_kib(64),
            float32_lanes=64,
            float64_lanes=2,
            half_lanes=512,
            byte_lanes=1024,
            double_lanes=0,
            reserved_shared_bytes=0,
            shared_unit=256,
            load_bytes=64,
        ),
        Architecture(
            "sm_80",
            (8, 0),
            64,
            32,
            _kib(164),
            float32_lanes=64,
            float64_lanes=32,
            half_lanes=1024,
            byte_lanes=2048,
            double_lanes=64,
        ),
        Architecture(
            "sm_86", (8, 6), 48, 16, _kib(100), float32_lanes=128, float64_lanes=2, half_lanes=512, byte_lanes=1024
        ),
        Architecture(
            "sm_89", (8, 9), 48, 24, _kib(100), float32_lanes=128, float64_lanes=2, half_lanes=512, byte_lanes=1024
        ),
        Architecture(
            "sm_90",
            (9, 0),
            64,
            32,
            _kib(228),
            float32_lanes=128,
            float64_lanes=64,
            half_lanes=2048,
            byte_lanes=4096,
            double_lanes=128,
            mma_fraction=0.5,
        ),
        Architecture(
            "sm_100",
            (10, 0),
            64,
            32,
            _kib(228),
            float32_lanes=128,
            float64_lanes=64,
            half_lanes=4096,
            byte_lanes=8192,
            double_lanes=64,
            mma_fraction=0.25,
        ),
        Architecture(
            "sm_120", (12, 0), 48, 24, _kib(100), float32_lanes=128, float64_lanes=2, half_lanes=512, byte_lanes=1024
        ),
    )
}


def find_target(name: str) -> Architecture:
    """Return the architecture of a target such as ``"sm_90"``.

    Raises:
        ConfigError: If the target does not exist; the message lists the targets.
    """
    if name not in TARGETS:
        raise ConfigError(f"unknown target {name!r}; the targets are {', '.join(TARGETS)}")
    return TARGETS[name]


def find_compile_target(name: str) -> Architecture:
    """Return the architecture of a target that may have features of its architecture or family: ``"sm_90a"``.

    For these, ptxas of CUDA 13 accepts as much static shared memory as the GPU has (measured with NVRTC 13.5; 12.9
    accepts 48 KiB for all targets).

    Raises:
        ConfigError: If the target does not exist.
    """
    features = name[-1:] if name[-1:] in ("a", "f") else ""
    row = find_target(name.removesuffix(features))
    if features and row.capability < ((9, 0) if features == "a" else (10, 0)):
        raise ConfigError(f"unknown target {name!r}: {row.name} has no features of its own; use {row.name!r}")
    most = row.max_shared_bytes if features == "a" else row.static_shared_bytes
    return replace(row, features=features, static_shared_bytes=most)


def architecture_of(capability: tuple[int, int]) -> Architecture:
    """Return the newest architecture whose code GPUs of a compute capability can run, such as ``sm_90`` for (9, 3).

    Raises:
        DeviceError: If the GPU is older than every architecture in ``TARGETS``.
    """
    oldest = next(iter(TARGETS.values()))
    if capability < oldest.capability:
        has, needed = (f"{major}.{minor}" for major, minor in (capability, oldest.capability))
        raise DeviceError(
            f"tiledmm's kernels need compute capability {needed} or newer, and this GPU has {has}; use cupy.matmul, or "
            "run the kernels on the CPU with tiledmm.simulator"
        )
    return [arch for arch in TARGETS.values() if arch.capability <= capability][-1]
