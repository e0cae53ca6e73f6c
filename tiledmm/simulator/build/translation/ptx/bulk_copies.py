"""Bulk copies and TMA, and stores that complete at a barrier in shared memory."""

from __future__ import annotations

import re

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction, split
from tiledmm.simulator.build.translation.ptx.registers import BITS, CPP, PREFIX

_HELPERS = "tiledmm_asynchronous::"
_TO_BARRIER = "mbarrier::complete_tx::bytes"
_INTEGERS = ("s32", "u32", "s64", "u64")
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")

#: Types of the reductions of bulk copies to global memory; those to shared memory have the integers among them.
_REDUCED = {
    "add": ("f16", "bf16", "u32", "s32", "u64", "f32", "f64"),
    "min": ("f16", "bf16", *_INTEGERS), "max": ("f16", "bf16", *_INTEGERS),
    "inc": ("u32",), "dec": ("u32",),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip


@instruction("cp.async.bulk")
def _bulk(it: Instruction) -> str:
    if it.take(("commit_group",)):
        it.finish(0)
        return "tiledmm_commit_bulk();"
    if it.take(("wait_group",)):
        reads_only = int(bool(it.take(("read",))))
        it.finish(1)
        return f"tiledmm_wait_for_bulk({it.constant(it.operands[0])}, {reads_only}); tiledmm_ptx::compiler_fence();"
    prefetches = it.take(("prefetch",))
    if it.take(("tensor",)):
        return _tensor(it, "prefetch" if prefetches else "copy")
    if prefetches:
        if not it.take(("L2",)) or not it.take(("global",)):
            raise it.refuse("it copies from .global to .L2")
        it.take_hint()
        it.finish(2)
        source, size = it.operands
        return _call("prefetch_bulk", it.address(source, "global"), it.source(size, "u32"))
    return _bulk_copy(it)


@instruction("cp.reduce.async.bulk")
def _bulk_reduction(it: Instruction) -> str:
    return _tensor(it, "reduce") if it.take(("tensor",)) else _bulk_copy(it, reduces=True)


def _bulk_copy(it: Instruction, *, reduces: bool = False) -> str:
    to_space, from_space = _spaces(it)
    if reduces and from_space == "global":
        raise it.refuse("it reduces from .shared::cta to .shared::cluster or .global")
    multicasts = it.take(("multicast::cluster",)) if from_space == "global" else ""
    it.take_hint()
    reduction, kind = _reduction(it, to_space) if reduces else ("no_reduction", "u8")
    how = f"{_HELPERS}{reduction}, {_HELPERS}type_{kind}"
    _completion(it, to_space)
    if to_space == "global":
        it.finish(3)
        to, source, size = it.operands
        return _call(
            "store_bulk", it.address(to, "global"), it.shared_number(source, "shared"), it.source(size, "u32"), how
        )
    it.finish(5 if multicasts else 4)
    to, source, size, barrier, *mask = it.operands
    shared, bytes_, counts = (
        it.shared_number(to, "cluster"),
        it.source(size, "u32"),
        it.shared_number(barrier, "cluster"),
    )
    if from_space == "global":
        memory = it.address(source, "global")
        return _call("load_bulk", _load_way(mask), shared, memory, bytes_, counts, _mask(it, mask))
    return _call("send_bulk", shared, it.shared_number(source, "shared"), bytes_, counts, how)


def _tensor(it: Instruction, way: str) -> str:
    """Return the C++ of a copy, prefetch or reduction of a box of a tensor map."""
    dimensions = int((it.take([f"{i}d" for i in range(1, 6)]) or "0")[0])
    if not dimensions:
        raise it.refuse("its dimensions are .1d to .5d")
    if mode := next((each for each in it.modifiers if re.match(r"im2col|tile::", each)), ""):
        raise it.refuse(f"the mode .{mode} is not supported, use .tile with a map of more dimensions")
    it.take(("tile",))
    if way == "prefetch":
        if not it.take(("L2",)) or not it.take(("global",)):
            raise it.refuse("it copies from .global to .L2")
        it.take_hint()
        it.finish(1)
        return _call("prefetch_tensor", _box(it, it.operands[0], dimensions))
    to_space, from_space = _spaces(it)
    if way == "reduce" and to_space != "global":
        raise it.refuse("it reduces from .shared::cta to .global")
    if to_space != "global" and from_space != "global":
        raise it.refuse("it copies between .global and shared memory")
    multicasts = it.take(("multicast::cluster",)) if from_space == "global" else ""
    it.take_hint()
    _completion(it, to_space)
    if to_space == "global":
        reduction = "no_reduction"
        if way == "reduce":
            operation = it.take(_REDUCTIONS)
            if not operation:
                raise it.refuse(f"its operations are {', '.join(_REDUCTIONS)}")
            reduction = f"reduce_{operation}"
        it.finish(2)
        box, source = it.operands
        return _call(
            "store_tensor", _box(it, box, dimensions), it.shared_number(source, "shared"), f"{_HELPERS}{reduction}"
        )
    it.finish(4 if multicasts else 3)
    to, box, barrier, *mask = it.operands
    shared, counts = it.shared_number(to, "cluster"), it.shared_number(barrier, "cluster")
    return _call("load_tensor", _load_way(mask), shared, _box(it, box, dimensions), counts, _mask(it, mask))


def _call(function: str, *arguments: str) -> str:
    return f"{_HELPERS}{function}({', '.join(arguments)});"


def _spaces(it: Instruction) -> tuple[str, str]:
    """Consume the state spaces of a copy, and return that of its destination and that of its source."""
    spaces = ("shared::cluster", "shared::cta", "global")
    to_space, from_space = it.take(spaces), it.take(spaces)
    known = (
        ("shared::cluster", "global"), ("shared::cta", "global"), ("shared::cluster", "shared::cta"),
        ("global", "shared::cta"),
    )  # fmt: skip
    if (to_space, from_space) not in known:
        raise it.refuse("its spaces are " + ", ".join(f".{to}.{source}" for to, source in known))
    return to_space, from_space


def _completion(it: Instruction, to_space: str) -> None:
    """Consume the way in which a copy completes: a group for those to global memory, else a barrier.

    Raises:
        RefusedError: If there is none, or if it is the other one.
    """
    needed = "bulk_group" if to_space == "global" else _TO_BARRIER
    if not it.take((needed,)):
        raise it.refuse(f"to .{to_space} it completes by .{needed}")


def _load_way(mask: list[str]) -> str:
    return f"tiledmm_detail::{'TO_CLUSTER' if mask else 'TO_SHARED'}"


def _mask(it: Instruction, mask: list[str]) -> str:
    return it.source(mask[0], "b16") if mask else "0"


def _reduction(it: Instruction, to_space: str) -> tuple[str, str]:
    """Consume the operation and the type of a bulk reduction, and return them as names of the helpers' constants."""
    operation = it.take(_REDUCTIONS)
    if not operation:
        raise it.refuse(f"its operations are {', '.join(_REDUCTIONS)}")
    if operation == "add":
        it.take(("noftz",))
    kinds = _REDUCED[operation]
    if to_space != "global":
        kinds = tuple(kind for kind in kinds if kind in (*_INTEGERS, "b32"))
    return f"reduce_{operation}", it.take_type(kinds)


def _box(it: Instruction, text: str, dimensions: int) -> str:
    """Return the C++ of the map and the coordinates in an operand ``[map, {c0, c1}]``."""
    parts = split(text[1:-1]) if text.startswith("[") and text.endswith("]") else []
    if len(parts) != 2:
        raise it.refuse(f"operand {text} is not a tensor map and coordinates: [map, {{c0, c1}}]")
    coordinates = it.elements(parts[1])
    if len(coordinates) != dimensions:
        raise it.refuse(f"a box of {dimensions} dimensions has {len(coordinates)} coordinates here")
    values = ", ".join(it.source(each, "s32") for each in coordinates)
    return f"{it.address(f'[{parts[0]}]', '')}, {{{values}}}"


@instruction("prefetch.tensormap", "prefetch.const", "prefetch.param")
def _prefetch_map(it: Instruction) -> str:
    it.take(("const", "param"))
    it.take(("tensormap",))
    it.finish(1)
    return f"static_cast<void>({it.address(it.operands[0], '')});"


# ---- stores and reductions that complete at a barrier ----


@instruction("st.async")
def _st_async(it: Instruction) -> str:
    it.take(("weak",))
    count = int((it.take(("v2", "v4")) or "v1")[1:])
    kind = it.take_type(("b32", "b64", *_INTEGERS, "f32", "f64"))
    return _store(it, kind, count, "no_reduction")


@instruction("red.async")
def _red_async(it: Instruction) -> str:
    it.take(("relaxed",))
    it.take(("cluster",))
    operation = it.take(_REDUCTIONS)
    if not operation:
        raise it.refuse(f"its operations are {', '.join(_REDUCTIONS)}")
    kinds = {
        "add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",), "dec": ("u32",),
    }.get(operation, ("b32",))  # fmt: skip
    return _store(it, it.take_type(kinds), 1, f"reduce_{operation}")


def _store(it: Instruction, kind: str, count: int, reduction: str) -> str:
    space = "cluster" if it.take(("shared::cluster",)) else ""
    if not it.take((_TO_BARRIER,)):
        raise it.refuse(f"it completes by .{_TO_BARRIER}")
    it.finish(3)
    to, value, barrier = it.operands
    parts = ", ".join(it.source(part, kind) for part in it.vector(value, count, kind))
    values = f"{PREFIX}values"
    operands = (
        it.shared_number(to, space), it.shared_number(barrier, space), values, str(BITS[kind] // 8 * count),
        f"{_HELPERS}{reduction}", f"{_HELPERS}type_{kind}",
    )  # fmt: skip
    return f"{{ const {CPP[kind]} {values}[{count}] = {{{parts}}}; tiledmm_store_async({', '.join(operands)}); }}"
