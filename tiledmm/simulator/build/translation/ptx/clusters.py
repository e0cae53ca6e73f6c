"""Clusters: shared memory of their other blocks, and their barrier."""

from __future__ import annotations

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.registers import CPP


@instruction("mapa")
def _mapa(it: Instruction) -> str:
    is_shared, kind = _shared_address(it)
    it.finish(3)
    to, address, rank = it.operands
    operands = f"{it.source(address, kind)}, {it.source(rank, 'u32')}"
    function = "map_shared" if is_shared else "map_generic"
    return it.put(to, kind, f"static_cast<{CPP[kind]}>(tiledmm_asynchronous::{function}({operands}))")


@instruction("getctarank")
def _getctarank(it: Instruction) -> str:
    is_shared, kind = _shared_address(it)
    it.finish(2)
    to, address = it.operands
    function = "rank_of_shared" if is_shared else "rank_of_generic"
    return it.put(to, "u32", f"tiledmm_asynchronous::{function}({it.source(address, kind)})", wider=True)


def _shared_address(it: Instruction) -> tuple[bool, str]:
    """Consume the state space and the type of an address, and return whether it is no generic address, and the type."""
    is_shared = bool(it.take(("shared::cluster",)))
    kind = it.take_type(("u32", "u64"))
    if not is_shared and kind == "u32":
        raise it.refuse("a generic address has 64 bits: use .u64, or .shared::cluster")
    return is_shared, kind


@instruction("barrier.cluster")
def _cluster_barrier(it: Instruction) -> str:
    way = it.take(("arrive", "wait"))
    if not way:
        raise it.refuse("its modes are .arrive and .wait")
    relaxed = int(it.take(("release", "relaxed") if way == "arrive" else ("acquire",)) == "relaxed")
    aligned = int(bool(it.take(("aligned",))))
    it.finish(0)
    function = "tiledmm_arrive_at_cluster" if way == "arrive" else "tiledmm_wait_at_cluster"
    return f"tiledmm_ptx::compiler_fence(); {function}({relaxed}, {aligned}); tiledmm_ptx::compiler_fence();"
