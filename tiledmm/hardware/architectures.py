"""The architectures that kernels are compiled for, with the limits and rates of their SMs. Data only: no GPU, no CuPy.

Sources:

- limits of an SM: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications;
- allocation granularities: ``cuda_occupancy.h`` of the CUDA toolkit;
- multiply-adds a cycle: CUDA C++ Best Practices Guide, "Throughput of Native Arithmetic Instructions" (up to
  CUDA 12 in the Programming Guide);
- bytes a cycle from shared memory and L1: NVIDIA Ampere GA102 whitepaper (128 for 8.6, 64 for 7.5).
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.errors import ConfigError, DeviceError, UnsupportedTypeError

WARP_SIZE = 32

# dtype -> (unit that multiplies and adds, instructions of it for one multiply-add). Narrow types are summed
# in 32 bits; a 64-bit integer product takes three 32-bit ones; bool's and-or is one logic instruction, at
# the rate of integer multiply-adds; a complex product takes four real ones.
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
    """A compile target and the limits of its SMs. Sizes in bytes; rates per cycle and SM.

    Attributes:
        name: The compiler's name for it: ``"sm_90"``.
        capability: Compute capability: ``(9, 0)``.
        max_warps, max_blocks: Resident on an SM at a time.
        shared_bytes: Shared memory of an SM at its largest carve-out (the rest of the on-chip memory is L1).
        reserved_shared_bytes: Shared memory that the driver takes from that for every resident block.
        shared_unit: A block's shared memory is allocated in multiples of this.
        float32_lanes, float64_lanes, int32_lanes: Multiply-adds on CUDA cores (no tensor cores).
        half_lanes, byte_lanes, double_lanes: On tensor cores, of 16-bit floats, of 8-bit integers and of float64, by
            the fastest instructions.
        mma_part: Part of the tensor cores' rate that ``mma.sync`` reaches. Where ``wgmma`` or ``tcgen05`` reach more,
            an SM's ``mma.sync`` counts as an A100's. It was never measured on 10.0. (float64 has ``mma.sync`` alone.)
        load_bytes: Most that shared memory and L1 together deliver.
        max_threads_per_block: Threads of a block.
        max_registers: 32-bit registers of a thread.
        registers: 32-bit registers of an SM, and the most that a block may have.
        register_unit: A warp's registers are allocated in multiples of this.
        partitions: Parts of an SM, each with its own scheduler and its share of the registers.
        static_shared_bytes: Shared memory of a block that needs no opt-in at launch.
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
    mma_part: float = 1.0
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

    @property
    def max_threads(self) -> int:
        """Threads resident on an SM at a time."""
        return self.max_warps * WARP_SIZE

    @property
    def tf32_lanes(self) -> int:
        """Multiply-adds of tf32 on tensor cores: half of what 16-bit floats have, on every one that has them."""
        return self.half_lanes // 2 if self.capability >= (8, 0) else 0

    def tensor_lanes(self, itemsize: int) -> float:
        """Multiply-adds on tensor cores, by bytes of an element: see ``Gpu.tensor_flops``."""
        lanes = {1: self.byte_lanes, 2: self.half_lanes, 4: self.tf32_lanes, 8: self.double_lanes}
        return lanes[itemsize] if itemsize in lanes else self.double_lanes / 4

    @property
    def max_shared_bytes(self) -> int:
        """Bytes of shared memory a block may ask for; above ``static_shared_bytes`` only by opt-in."""
        return self.shared_bytes - self.reserved_shared_bytes

    def multiply_adds(self, dtype: str) -> float:
        """Multiply-adds of a type (NumPy's name) that CUDA cores finish, per cycle and SM.

        Raises:
            UnsupportedTypeError: If the type is not one the package multiplies.
        """
        if dtype not in _INSTRUCTIONS:
            known = ", ".join(_INSTRUCTIONS)
            raise UnsupportedTypeError(f"no throughput is known for {dtype!r}; the types are {known}")
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
            mma_part=0.5,
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
            mma_part=0.25,
        ),
        Architecture(
            "sm_120", (12, 0), 48, 24, _kib(100), float32_lanes=128, float64_lanes=2, half_lanes=512, byte_lanes=1024
        ),
    )
}


def find_target(name: str) -> Architecture:
    """The row of a target such as ``"sm_90"``.

    Raises:
        ConfigError: If there is no such target; the message lists the targets.
    """
    if name not in TARGETS:
        raise ConfigError(f"there is no target {name!r}; the targets are {', '.join(TARGETS)}")
    return TARGETS[name]


def architecture_of(capability: tuple[int, int]) -> Architecture:
    """The newest architecture that is not newer than a device's compute capability: ``sm_90`` for 9.3.

    Raises:
        DeviceError: If the device is older than every architecture here.
    """
    oldest = next(iter(TARGETS.values()))
    if capability < oldest.capability:
        has, needed = (f"{major}.{minor}" for major, minor in (capability, oldest.capability))
        raise DeviceError(
            f"this GPU has compute capability {has}, and tiledmm's kernels need {needed} or newer; "
            "cupy.matmul and tiledmm.simulator work without them"
        )
    return [arch for arch in TARGETS.values() if arch.capability <= capability][-1]
