"""Barriers, fences, exchanges between the lanes of a warp, and the rest."""

from __future__ import annotations

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.memory import fence
from tiledmm.simulator.build.translation.ptx.registers import CPP, PREFIX


@instruction("bar", "barrier")
def _bar(it: Instruction) -> str:
    if it.take(("warp",)):
        if not it.take(("sync",)):
            raise it.refuse("the barrier of a warp is bar.warp.sync")
        it.finish(1)
        return f"::__syncwarp({it.source(it.operands[0], 'b32')});"
    it.take(("cta",))
    if it.take(("red",)):
        return _reducing_barrier(it)
    way = it.take(("sync", "arrive"))
    if not way:
        raise it.refuse("its modes are .sync, .arrive and .red")
    it.take(("aligned",))
    it.finish(*((2,) if way == "arrive" else (1, 2)))
    if it.operands == ["0"]:
        return "__syncthreads();"
    number, threads = [int(each) if each.isdecimal() else 0 for each in (*it.operands, "0")][:2]
    if number > 15:
        raise it.refuse(f"the barriers of a block are 0 to 15; got {number}")
    if threads % 32:
        raise it.refuse(f"the number of threads must be a multiple of 32; got {threads}")
    sources = [it.source(each, "u32") for each in it.operands]
    function = "sync_named" if way == "sync" else "arrive_at_named"
    return f"tiledmm_ptx::{function}({', '.join([*sources, '0'][:2])});"


def _reducing_barrier(it: Instruction) -> str:
    """Return the C++ of ``bar.red``, which combines a predicate of all threads of the block."""
    operation = it.take(("popc", "and", "or"))
    kind = it.take_type(("u32",) if operation == "popc" else ("pred",))
    it.take(("aligned",))
    it.finish(3, 4)
    if not operation:
        raise it.refuse("it names no operation: .popc, .and or .or")
    to, barrier, *_, predicate = it.operands
    if barrier != "0" or len(it.operands) == 4:
        raise it.refuse("it is supported only for barrier 0 and all threads of the block")
    function = {"popc": "count"}.get(operation, operation)
    return it.put(to, kind, f"__syncthreads_{function}({it.source(predicate, 'pred')})")


@instruction("membar", "fence")
def _fence(it: Instruction) -> str:
    it.take(("sc", "acq_rel"))
    scope = it.take(("cta", "cluster", "gpu", "sys", "gl"))
    it.finish(0)
    return fence(scope)


@instruction("shfl")
def _shfl(it: Instruction) -> str:
    if not it.take(("sync",)):
        raise it.refuse("use shfl.sync")
    mode = it.take(("up", "down", "bfly", "idx"))
    it.take_type(("b32",))
    it.finish(5)
    if not mode:
        raise it.refuse("it names no mode: .up, .down, .bfly or .idx")
    to, value, lane, bounds, mask = it.operands
    to, _, predicate = (part.strip() for part in to.partition("|"))
    inside, source, lanes = f"{PREFIX}inside", f"{PREFIX}source", f"{PREFIX}lanes"
    operands = f"{inside}, {it.source(lane, 'b32')}, {it.source(bounds, 'b32')}"
    code = [
        f"bool {inside}; const unsigned {lanes} = {it.source(mask, 'b32')};",
        f"const int {source} = tiledmm_ptx::shuffle_source<tiledmm_ptx::SHFL_{mode.upper()}>({operands});",
        it.put(to, "b32", f"::__shfl_sync({lanes}, {it.source(value, 'b32')}, {source})"),
    ]
    if predicate:
        code.append(it.put(predicate, "pred", inside))
    return f"{{ {' '.join(code)} }}"


@instruction("vote")
def _vote(it: Instruction) -> str:
    if not it.take(("sync",)):
        raise it.refuse("use vote.sync")
    mode = it.take(("all", "any", "uni", "ballot"))
    kind = it.take_type(("b32",) if mode == "ballot" else ("pred",))
    it.finish(3)
    if not mode:
        raise it.refuse("it names no mode: .all, .any, .uni or .ballot")
    to, predicate, mask = it.operands
    lanes, holds = it.source(mask, "b32"), it.source(predicate, "pred")
    if mode == "uni":
        return it.put(to, kind, f"::__all_sync({lanes}, {holds}) || ::__all_sync({lanes}, !{holds})")
    return it.put(to, kind, f"::__{mode}_sync({lanes}, {holds})" + " != 0" * (mode != "ballot"))


@instruction("redux")
def _redux(it: Instruction) -> str:
    if not it.take(("sync",)):
        raise it.refuse("it has no '.sync'")
    operation = it.take(("add", "min", "max", "and", "or", "xor"))
    kind = it.take_type(("b32",) if operation in ("and", "or", "xor") else ("u32", "s32"))
    it.finish(3)
    to, value, mask = it.operands
    own, lanes = f"{PREFIX}own", f"{PREFIX}lanes"
    value_of = f"[&](int lane) {{ return ::__shfl_sync({lanes}, {own}, lane); }}"
    code = [
        f"const auto {own} = {it.source(value, kind)};",
        f"const unsigned {lanes} = ::__ballot_sync({it.source(mask, 'b32')}, 1);",
        it.put(to, kind, f"tiledmm_ptx::redux_{operation}<{CPP[kind]}>({lanes}, {value_of})"),
    ]
    return f"{{ {' '.join(code)} }}"


@instruction("elect")
def _elect(it: Instruction) -> str:
    if not it.take(("sync",)):
        raise it.refuse("use elect.sync")
    it.finish(2)
    to, _, predicate = (part.strip() for part in it.operands[0].partition("|"))
    if not predicate:
        raise it.refuse("its destination is a lane and a predicate, such as _|p")
    leader = f"{PREFIX}leader"
    code = [
        f"const unsigned {leader} = tiledmm_asynchronous::elect({it.source(it.operands[1], 'b32')});",
        it.put(to, "b32", leader),
        it.put(predicate, "pred", f"{leader} == tiledmm_lane()"),
    ]
    return f"{{ {' '.join(code)} }}"


@instruction("nanosleep", "pmevent")
def _nothing(it: Instruction) -> str:
    return ";"


@instruction("griddepcontrol")
def _griddepcontrol(it: Instruction) -> str:
    action = it.take(("wait", "launch_dependents"))
    if not action:
        raise it.refuse("use griddepcontrol.wait or griddepcontrol.launch_dependents")
    it.finish(0)
    return "::tiledmm_wait_for_launch();" if action == "wait" else ";"


@instruction("trap")
def _trap(it: Instruction) -> str:
    it.finish(0)
    return "::__trap();"
