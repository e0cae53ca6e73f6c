"""Barriers in shared memory (mbarrier), and fences for the async proxy."""

from __future__ import annotations

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.memory import fence

_HELPERS = "tiledmm_asynchronous::"


@instruction("mbarrier")
def _mbarrier(it: Instruction) -> str:
    way = it.take(_WAYS)
    if not way:
        raise it.refuse(f"its operations are {', '.join(_WAYS)}")
    if not it.take(("b64",)):
        raise it.refuse("its type must be b64")
    return _WAYS[way](it)


def _init(it: Instruction) -> str:
    space = _space(it, "shared")
    it.finish(2)
    address, count = it.operands
    return f"tiledmm_barrier_init({it.shared_number(address, space)}, {it.source(count, 'u32')});"


def _inval(it: Instruction) -> str:
    space = _space(it, "shared")
    it.finish(1)
    return f"tiledmm_barrier_invalidate({it.shared_number(it.operands[0], space)});"


def _expect_tx(it: Instruction) -> str:
    return _count_bytes(it, "tiledmm_barrier_expect")


def _complete_tx(it: Instruction) -> str:
    return _count_bytes(it, "tiledmm_barrier_complete")


def _count_bytes(it: Instruction, function: str) -> str:
    """Return the C++ of an instruction that changes how many bytes a phase still waits for; it orders no memory."""
    it.take(("relaxed",))
    flags = ["relaxed", *_scope(it)]
    space = _space(it, "shared", "cluster")
    it.finish(2)
    address, count = it.operands
    return f"{function}({it.shared_number(address, space)}, {it.source(count, 'u32')}, {_flags(flags)});"


def _arrive(it: Instruction) -> str:
    return _arrival(it, [])


def _arrive_drop(it: Instruction) -> str:
    return _arrival(it, ["drops"])


def _arrival(it: Instruction, flags: list[str]) -> str:
    expects, incomplete = it.take(("expect_tx",)), it.take(("noComplete",))
    flags = [*flags, *["expects"] * bool(expects), *["no_complete"] * bool(incomplete), *_order(it, "release")]
    space = _space(it, "shared", "cluster")
    it.finish(*((3,) if expects or incomplete else (2, 3)))
    token, address, *rest = it.operands
    if space == "cluster" and token != "_":
        raise it.refuse("an arrival in .shared::cluster returns no token: write _ as its destination")
    count = it.source(rest[0], "u32") if rest else "1"
    arrivals, bytes_ = ("1", count) if expects else (count, "0")
    call = f"tiledmm_barrier_arrive({it.shared_number(address, space)}, {arrivals}, {bytes_}, {_flags(flags)})"
    return it.put(token, "b64", call)


def _test_wait(it: Instruction) -> str:
    return _wait(it, [])


def _try_wait(it: Instruction) -> str:
    return _wait(it, ["may_wait"])


def _wait(it: Instruction, flags: list[str]) -> str:
    parity = it.take(("parity",))
    flags = [*flags, *["parity"] * bool(parity), *_order(it, "acquire")]
    space = _space(it, "shared")
    it.finish(*((3, 4) if "may_wait" in flags else (3,)))
    to, address, phase, *hint = it.operands
    for text in hint:  # nanoseconds that it may wait
        it.source(text, "u32")
    which = it.source(phase, "u32" if parity else "b64")
    call = f"tiledmm_barrier_wait({it.shared_number(address, space)}, {which}, {_flags(flags)})"
    return it.put(to, "pred", call)


def _pending_count(it: Instruction) -> str:
    it.finish(2)
    return it.put(it.operands[0], "u32", f"tiledmm_barrier_pending({it.source(it.operands[1], 'b64')})")


_WAYS = {
    "init": _init, "inval": _inval, "arrive": _arrive, "arrive_drop": _arrive_drop, "test_wait": _test_wait,
    "try_wait": _try_wait, "pending_count": _pending_count, "expect_tx": _expect_tx, "complete_tx": _complete_tx,
}  # fmt: skip


@instruction("cp.async.mbarrier")
def _arrive_after_copies(it: Instruction) -> str:
    if not it.take(("arrive",)) or not it.take(("b64",)):
        raise it.refuse("it is cp.async.mbarrier.arrive of type b64")
    flags = ["no_increment"] if it.take(("noinc",)) else []
    space = _space(it, "shared")
    it.finish(1)
    return f"tiledmm_barrier_arrive_after_copies({it.shared_number(it.operands[0], space)}, {_flags(flags)});"


@instruction("fence.mbarrier_init")
def _init_fence(it: Instruction) -> str:
    if not it.take(("release",)) or not it.take(("cluster",)):
        raise it.refuse("it is fence.mbarrier_init.release.cluster")
    it.finish(0)
    return "tiledmm_ptx::compiler_fence(); tiledmm_barrier_init_fence();"


@instruction("fence.proxy")
def _proxy_fence(it: Instruction) -> str:
    proxy = it.take(("async", "alias"))
    space = it.take_space() if proxy == "async" else ""
    it.finish(0)
    if not proxy:
        raise it.refuse("its proxies are .async and .alias")
    if proxy == "alias":  # all addresses of a thread are one proxy here
        return fence("gpu")
    spaces = {"": "3", "global": "2"}.get(space, "1")
    return f"tiledmm_ptx::compiler_fence(); tiledmm_proxy_fence({spaces});"


def _space(it: Instruction, *spaces: str) -> str:
    """Consume the state space of a barrier, which may be generic, and return it."""
    space = it.take_space()
    if space not in (*spaces, ""):
        names = {"shared": ".shared::cta", "cluster": ".shared::cluster"}
        raise it.refuse(f"its barrier is in {' or '.join(names[each] for each in spaces)}")
    return space


def _order(it: Instruction, usual: str) -> list[str]:
    """Consume the order and the scope of an instruction, and return the names of their flags."""
    relaxed = it.take((usual, "relaxed")) == "relaxed"
    return [*["relaxed"] * relaxed, *_scope(it)]


def _scope(it: Instruction) -> list[str]:
    return ["of_cluster"] if it.take(("cta", "cluster")) == "cluster" else []


def _flags(names: list[str]) -> str:
    return " | ".join(f"{_HELPERS}{name}" for name in names) or "0"
