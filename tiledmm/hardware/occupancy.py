"""Occupancy: the resident blocks of a kernel on an SM, and what limits them, by the rules of ``cuda_occupancy.h``."""

from __future__ import annotations

from dataclasses import dataclass

from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import WARP_SIZE, Architecture


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The occupancy of an SM by a kernel.

    Attributes:
        blocks: Blocks resident at a time; 0 if not even one fits.
        warps: Warps resident at a time.
        fraction: Resident warps as a fraction of the most that an SM holds.
        limited_by: The resource that runs out first: ``"warps"``, ``"blocks"``, ``"registers"``, ``"shared memory"``;
            where several run out together, joined by ``" and "``.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def occupancy(arch: Architecture, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Resident blocks of a kernel on one SM, as ``cuOccupancyMaxActiveBlocksPerMultiprocessor`` counts them.

    Registers are given to whole warps, so a block's threads are rounded up to warps first. Shared memory is
    that of the largest carve-out, which the driver assumes too unless a kernel asks for another one.

    Args:
        arch: The target.
        threads: Threads of a block.
        registers: 32-bit registers of a thread, as the compiler reports them.
        shared_bytes: Shared memory of a block, static and dynamic together.

    Example:
        >>> from tiledmm.hardware.architectures import TARGETS
        >>> occupancy(TARGETS["sm_90"], threads=1024, registers=40, shared_bytes=8192)
        Occupancy(blocks=1, warps=32, fraction=0.5, limited_by='registers')

    Raises:
        ConfigError: If a block has no threads, or a resource is negative.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ConfigError(
            f"a block has at least one thread and no resource is negative; "
            f"got {threads} threads, {registers} registers, {shared_bytes} bytes"
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
    # A warp's registers all come from the partition it lives in.
    per_warp = _round_up(registers * WARP_SIZE, arch.register_unit)
    return arch.registers // arch.partitions // per_warp * arch.partitions // warps


def _blocks_by_shared_memory(arch: Architecture, shared_bytes: int) -> int:
    allocated = _round_up(shared_bytes + arch.reserved_shared_bytes, arch.shared_unit)
    return arch.shared_bytes // allocated if allocated else arch.max_blocks


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
