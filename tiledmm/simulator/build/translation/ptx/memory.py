"""Instructions that access memory: loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiledmm.simulator.build.translation.ptx.instruction import Instruction, instruction
from tiledmm.simulator.build.translation.ptx.registers import CPP, PREFIX

_CACHING = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")
_HINT = re.compile(r"L[12]::\w+")


def fence(scope: str) -> str:
    """Return the C++ of a fence between a thread's accesses before it and those after it.

    Args:
        scope: Scope of the fence in PTX: ``"cta"`` for the threads of the block, ``"sys"`` for the whole system, any
            other for the GPU.
    """
    suffix = {"cta": "_block", "sys": "_system"}.get(scope, "")
    return f"tiledmm_ptx::compiler_fence(); ::__threadfence{suffix}();"


@dataclass(frozen=True, slots=True)
class _Qualifiers:
    """Qualifiers of a load or store.

    Attributes:
        space: State space: ``"shared"``, ``"cluster"``, ``"global"``, or ``""`` for generic addresses.
        has_policy: Whether the last operand is a cache policy.
        is_volatile: Whether other threads may access the same memory meanwhile, as C++: ``"true"`` or ``"false"``.
        before, after: C++ of the fences before and after the access; empty for none.
    """

    space: str
    has_policy: bool
    is_volatile: str
    before: str
    after: str


def _qualifiers(it: Instruction) -> _Qualifiers:
    order = it.take(("weak", "volatile", "relaxed", "acquire", "release", "mmio"))
    scope = it.take(("cta", "cluster", "gpu", "sys"))
    it.take(_CACHING)
    it.take(("nc",))
    hints = [modifier for modifier in it.modifiers if _HINT.fullmatch(modifier)]
    it.modifiers = [modifier for modifier in it.modifiers if modifier not in hints]
    return _Qualifiers(
        space=it.take_space(),
        has_policy="L2::cache_hint" in hints,
        is_volatile="false" if order in ("", "weak") else "true",
        before=fence(scope) if order == "release" else "",
        after=fence(scope) if order == "acquire" else "",
    )


_MEMORY_TYPES = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "b128", "f32", "f64")


@instruction("ld", "ldu")
def _ld(it: Instruction) -> str:
    how = _qualifiers(it)
    count = int((it.take(("v2", "v4")) or "v1")[1:])
    kind = it.take_type(_MEMORY_TYPES)
    it.finish(3 if how.has_policy else 2)
    to, address = it.operands[:2]
    parts = it.vector(to, count, kind)
    values = f"{PREFIX}values"
    puts = [it.put(part, kind, f"{values}[{i}]", wider=True) for i, part in enumerate(parts)]
    load = f"tiledmm_ptx::load<{how.is_volatile}>({values}, {it.address(address, how.space)});"
    return f"{{ {CPP[kind]} {values}[{count}]; {load} {how.after} {' '.join(puts)} }}"


@instruction("st")
def _st(it: Instruction) -> str:
    how = _qualifiers(it)
    count = int((it.take(("v2", "v4")) or "v1")[1:])
    kind = it.take_type(_MEMORY_TYPES)
    it.finish(3 if how.has_policy else 2)
    address, value = it.operands[:2]
    parts = ", ".join(it.source(part, kind, wider=True) for part in it.vector(value, count, kind))
    values = f"{PREFIX}values"
    store = f"tiledmm_ptx::store<{how.is_volatile}>({it.address(address, how.space)}, {values});"
    return f"{{ const {CPP[kind]} {values}[{count}] = {{{parts}}}; {how.before} {store} }}"


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def _prefetch(it: Instruction) -> str:
    if not it.operands or it.name.startswith("discard"):
        raise it.refuse("it would discard data")
    return ";"


@instruction("createpolicy")
def _createpolicy(it: Instruction) -> str:
    return it.put(it.operands[0], "b64", "0ull") if it.operands else ";"


_ATOMICS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "exch": "atomicExch", "cas": "atomicCAS",
    "and": "atomicAnd", "or": "atomicOr", "xor": "atomicXor", "inc": "atomicInc", "dec": "atomicDec",
}  # fmt: skip
_ATOMIC_TYPES = {
    "add": {"u32": "unsigned", "s32": "int", "u64": "unsigned long long", "s64": "unsigned long long", "f32": "float"}
    | {"f64": "double"},
    "min": {"u32": "unsigned", "s32": "int", "u64": "unsigned long long", "s64": "long long"},
    "exch": {"b32": "unsigned", "b64": "unsigned long long"},
    "cas": {"b16": "unsigned short", "b32": "unsigned", "b64": "unsigned long long"},
    "inc": {"u32": "unsigned"},
}
for _same, _as in (("max", "min"), ("and", "exch"), ("or", "exch"), ("xor", "exch"), ("dec", "inc")):
    _ATOMIC_TYPES[_same] = _ATOMIC_TYPES[_as]


@instruction("atom", "red")
def _atomic(it: Instruction) -> str:
    order = it.take(("relaxed", "acquire", "release", "acq_rel"))
    scope = it.take(("cta", "cluster", "gpu", "sys"))
    space = it.take_space()
    operation = it.take(_ATOMICS)
    if not operation:
        raise it.refuse("it names no operation")
    types = _ATOMIC_TYPES[operation]
    kind = it.take_type(types)
    returns = it.name.startswith("atom")
    it.finish(1 + returns + (2 if operation == "cas" else 1))
    address, *values = it.operands[returns:]
    sources = [f"tiledmm_ptx::as<{types[kind]}>({it.source(each, kind)})" for each in values]
    pointer = f"static_cast<{types[kind]}*>({it.address(address, space)})"
    call = f"::{_ATOMICS[operation]}({', '.join([pointer, *sources])})"
    before = fence(scope) if order in ("release", "acq_rel") else ""
    after = fence(scope) if order in ("acquire", "acq_rel") else ""
    return f"{{ {before} {it.put(it.operands[0], kind, call) if returns else f'{call};'} {after} }}"


# ---- asynchronous copies ----


@instruction("cp")
def _cp(it: Instruction) -> str:
    if not it.take(("async",)):
        raise it.refuse("only cp.async is supported")
    if it.take(("commit_group",)):
        it.finish(0)
        return "tiledmm_commit_copies();"
    if it.take(("wait_all",)):
        it.finish(0)
        return "tiledmm_ptx::wait_all();"
    if it.take(("wait_group",)):
        it.finish(1)
        return f"tiledmm_ptx::wait_group({it.constant(it.operands[0])});"
    caching = it.take(("ca", "cg"))
    hints = [modifier for modifier in it.modifiers if _HINT.fullmatch(modifier)]
    it.modifiers = [modifier for modifier in it.modifiers if modifier not in hints]
    if not caching or not it.take(("shared", "shared::cta")) or not it.take(("global",)):
        raise it.refuse("it copies by .ca or .cg from .global to .shared")
    it.finish(*((4, 5) if "L2::cache_hint" in hints else (3, 4)))
    to, source, size, *rest = it.operands
    if "L2::cache_hint" in hints:
        rest.pop()
    bytes_ = it.constant(size)
    sizes = ("16",) if caching == "cg" else ("4", "8", "16")
    if size.isdigit() and size not in sizes:
        raise it.refuse(f"cp.async.{caching} copies {' or '.join(sizes)} bytes")
    present = bytes_
    if rest:  # how many bytes are read, or whether none is
        ignores = it.register(rest[0].removeprefix("!")).bits == 1
        present = f"{it.source(rest[0], 'pred')} ? 0 : {bytes_}" if ignores else it.source(rest[0], "u32")
    return f"tiledmm_ptx::copy_async({it.address(to, 'shared')}, {it.address(source, 'global')}, {bytes_}, {present});"
