"""Occupancy of a kernel and the resource that limits it, by the rules of ``cuda_occupancy.h``."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import WARP_SIZE, Architecture


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Occupancy of an SM by the resident blocks of a kernel.

    Attributes:
        blocks: Number of resident blocks per SM; 0 if not even one fits.
        warps: Number of resident warps per SM.
        fraction: Resident warps as a fraction of the maximum per SM.
        limited_by: Resource that runs out first: ``"warps"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``.
            Several that run out together are joined by ``" and "``.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def occupancy(arch: Architecture, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return the occupancy of a kernel on an SM of an architecture, and the resource that limits it.

    The number of blocks is that of ``cuOccupancyMaxActiveBlocksPerMultiprocessor``. A block's threads are rounded up
    to whole warps, because registers are allocated per warp. The SM is assumed to have its largest shared-memory
    carve-out, which the driver chooses unless a kernel asks for another one.

    Args:
        arch: The target.
        threads: Threads per block.
        registers: 32-bit registers per thread, as the compiler reports them.
        shared_bytes: Shared memory per block in bytes, static and dynamic together.

    Raises:
        ConfigError: If ``threads`` is less than 1, or another number is negative.

    Example:
        >>> from tiledmm.hardware.architectures import TARGETS
        >>> occupancy(TARGETS["sm_90"], threads=1024, registers=40, shared_bytes=8192)
        Occupancy(blocks=1, warps=32, fraction=0.5, limited_by='registers')
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ConfigError(
            "threads must be at least 1, and registers and shared_bytes at least 0; "
            f"got threads={threads}, registers={registers}, shared_bytes={shared_bytes}"
        )
    warps = -(-threads // WARP_SIZE)
    limits = {
        "warps": arch.max_warps // warps if threads <= arch.max_threads_per_block else 0,
        "blocks": arch.max_blocks,
        "registers": _blocks_by_registers(arch, warps, registers),
        "shared memory": _blocks_by_shared_memory(arch, shared_bytes),
    }
    blocks = min(limits.values())
    *others, last = (name for name, limit in limits.items() if limit == blocks)
    binding = f"{', '.join(others)} and {last}" if others else last
    return Occupancy(blocks, blocks * warps, blocks * warps / arch.max_warps, binding)


def _blocks_by_registers(arch: Architecture, warps: int, registers: int) -> int:
    if registers == 0:
        return arch.max_blocks
    if registers > arch.max_registers:
        return 0
    # A warp's registers are all in one partition of the SM.
    per_warp = _round_up(registers * WARP_SIZE, arch.register_unit)
    return arch.registers // arch.partitions // per_warp * arch.partitions // warps


def _blocks_by_shared_memory(arch: Architecture, shared_bytes: int) -> int:
    allocated = _round_up(shared_bytes + arch.reserved_shared_bytes, arch.shared_unit)
    return arch.shared_bytes // allocated if allocated else arch.max_blocks


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
