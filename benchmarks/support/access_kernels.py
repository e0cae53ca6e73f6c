"""Kernels that each perform one access of ``benchmarks/support/access_patterns.py``, and their launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.support.access_patterns import GLOBAL_BYTES, SHARED_BYTES, Access, accesses

REPEATS = 16  # of the access in a launch

# The access stands in a loop, so that it is one instruction of the kernel. The pattern comes as a parameter, from
# constant memory: nothing else is loaded. `step` is 0, which the compiler cannot know.
SOURCE = """
struct Pattern {
    unsigned addresses[32];
    unsigned to[32];
    unsigned active;    // lanes
    unsigned repeats;
    unsigned step;
};

extern "C" __global__ void __launch_bounds__(32) %(symbol)s(const __grid_constant__ Pattern pattern,
                                                            unsigned char* memory, unsigned* sink) {
    __shared__ alignas(1024) unsigned char tile[%(shared_bytes)d];
    const unsigned lane = threadIdx.x;
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    %(address)s
    unsigned to = shared + pattern.to[lane];
    const unsigned takes_part = pattern.active >> lane & 1;
    unsigned x = lane, y = lane, z = lane, w = lane, seen = 0;
    if (%(condition)s) {
#pragma unroll 1
        for (unsigned repeat = 0; repeat < pattern.repeats; ++repeat) {
            %(access)s
            seen |= x | y | z | w;
            address += pattern.step;
            to += pattern.step;
        }
    }
    %(end)s
    if (pattern.step) *sink = seen + to;   // never: keeps the loads
}
"""


def source(access: Access) -> str:
    """Return the CUDA source of the kernel for an access's kind, width and form."""
    kind, width = access.kind, access.width
    count = max(1, width // 4)
    type_ = f"{'' if count == 1 else f'.v{count}'}.u{8 * width // count}"
    registers = [f"%{i}" for i in range(count)]
    registers_text = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    predicate = "@taken " if access.form == "predicate" else ""
    if access.group == "async":
        size = ", %3" if access.form == "zfill" else ""
        instruction = f"{predicate}cp.async.{kind[-2:]}.shared.global [%0], [%1], {width}{size};"
        inputs = f'"r"(to), "l"(address), "r"(takes_part), "r"(takes_part * {width})'
        operands = f": : {inputs}"
        taken = "%2"
    elif kind.endswith("ld"):
        space = "volatile.shared" if access.group == "shared" else "global"
        instruction = f"{predicate}ld.{space}{type_} {registers_text}, [%{count}];"
        outputs = ", ".join(f'"+r"({name})' for name in "xyzw"[:count])
        operands = f': {outputs} : "{_address_class(access)}"(address), "r"(takes_part)'
        taken = f"%{count + 1}"
    else:
        space = "volatile.shared" if access.group == "shared" else "global"
        instruction = f"{predicate}st.{space}{type_} [%{count}], {registers_text};"
        inputs = ", ".join(f'"r"({name})' for name in "xyzw"[:count])
        operands = f': : {inputs}, "{_address_class(access)}"(address), "r"(takes_part)'
        taken = f"%{count + 1}"
    if predicate:
        instruction = f"{{ .reg .pred taken; setp.ne.u32 taken, {taken}, 0; {instruction} }}"
    from_global = access.group != "shared"
    return SOURCE % {
        "symbol": access.symbol,
        "shared_bytes": SHARED_BYTES,
        "address": "unsigned char* address = memory + pattern.addresses[lane];"
        if from_global
        else "unsigned address = shared + pattern.addresses[lane];",
        "condition": "takes_part" if access.form == "branch" else "true",
        "access": f'asm volatile("{instruction}" {operands} : "memory");',
        "end": 'asm volatile("cp.async.wait_all;" : : : "memory");' if access.group == "async" else "",
    }


def _address_class(access: Access) -> str:
    return "l" if access.group == "global" else "r"


def launch(cases: Sequence[tuple[str, int]]) -> None:
    """Perform accesses, given by group and number, for the profiler to watch."""
    import cupy
    import numpy as np

    memory = cupy.zeros(GLOBAL_BYTES + 1024, np.uint8)
    start = -memory.data.ptr % 1024
    memory, sink = memory[start : start + GLOBAL_BYTES], cupy.zeros(1, np.uint32)
    kernels: dict[str, Any] = {}
    every = accesses()
    for group, number in cases:
        access = every[group][number]
        if access.symbol not in kernels:
            kernels[access.symbol] = cupy.RawKernel(source(access), access.symbol, options=("-std=c++17",))
        pattern = np.array([*access.addresses, *(access.to or [0] * 32), access.active, REPEATS, 0], np.uint32)
        kernels[access.symbol]((1,), (32,), (pattern.view(f"V{pattern.nbytes}"), memory, sink))
    cupy.cuda.runtime.deviceSynchronize()
