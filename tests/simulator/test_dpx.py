"""Tests of the DPX functions: maxima and minima of sums and of three numbers, compared with Python's integers."""

from __future__ import annotations

import itertools
import re

import numpy as np

from tiledmm import simulator

VALUES = {
    "s32": [0, 1, -1, 5, 2**31 - 1, -(2**31), -70000],
    "u32": [0, 1, 5, 2**32 - 1, 2**31, 70000],
    "s16x2": [0, 1, -1, 7, 2**15 - 1, -(2**15)],
    "u16x2": [0, 1, 7, 2**16 - 1, 2**15],
}
WAYS = {"max": max, "min": min}


def wrapped(value: int, kind: str) -> int:
    bits = int(kind[1:3])
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits) if kind[0] == "s" else value


def expected(name: str, kind: str, x: int, y: int, z: int) -> int:
    """Return what CUDA's documentation says that a function of one element returns."""
    way = WAYS[re.search("max|min", name)[0]]
    if name.startswith("__viadd"):
        found = way(wrapped(x + y, kind), z)
    else:
        found = way(x, y, z) if "3" in name.split("_")[2] else way(x, y)
    return max(found, 0) if name.endswith("_relu") else found


def packed(value: int, other: int) -> int:
    return (value & 0xFFFF) << 16 | (other & 0xFFFF)


def functions() -> list[tuple[str, str]]:
    """Return the name and the type of each function that returns one number, as CUDA lists them."""
    names = [f"__vi{form}_" for way in WAYS for form in (f"add{way}", f"{way}3")]
    plain = [(f"{name}{kind}", kind) for name in names for kind in VALUES]
    signed = [*names, "__vimax_", "__vimin_"]
    return plain + [(f"{name}{kind}_relu", kind) for name in signed for kind in ("s32", "s16x2")]


def test_all_functions_of_elements():
    chosen = {kind: list(itertools.product(VALUES[kind], repeat=3)) for kind in VALUES}
    most = max(map(len, chosen.values()))
    inputs = {}
    for kind, triples in chosen.items():
        table = [triples[i % len(triples)] for i in range(most)]
        if kind.endswith("x2"):  # the other half is another triple
            table = [[packed(x, y) for x, y in zip(each, table[i - 1], strict=True)] for i, each in enumerate(table)]
        inputs[kind] = np.array([[value & 0xFFFFFFFF for value in each] for each in table], np.uint32)
    calls = []
    for number, (name, kind) in enumerate(functions()):
        operands = 2 if re.match(r"__vi(max|min)_", name) else 3
        arguments = ", ".join(f"{kind}[3 * i + {at}]" for at in range(operands))
        calls.append(f"out[{number} * n + i] = {name}({arguments});")
    text = f"""
    __global__ void kernel({", ".join(f"const unsigned* {kind}" for kind in VALUES)}, unsigned* out, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) {{ {" ".join(calls)} }}
    }}"""
    out = np.zeros((len(calls), most), np.uint32)
    simulator.launch(text, (most + 63) // 64, 64, (*inputs.values(), out, most)).check()
    for (name, kind), found in zip(functions(), out, strict=True):
        triples = [chosen[kind][i % len(chosen[kind])] for i in range(most)]
        values = [expected(name, kind, *each) for each in triples]
        if kind.endswith("x2"):
            values = [packed(each, values[i - 1]) for i, each in enumerate(values)]
        assert found.tolist() == [value & 0xFFFFFFFF for value in values], name


def test_functions_that_say_which_operand_was_chosen():
    text = """
    __global__ void kernel(int* out) {
        bool first = false, high = false, low = false;
        out[0] = __vibmax_s32(3, -4, &first), out[1] = first;
        out[2] = __vibmin_u32(3, 0xffffffffu, &first), out[3] = first;
        out[4] = __vibmax_u32(3, 0xffffffffu, &first), out[5] = first;
        out[6] = __vibmin_s32(5, 5, &first), out[7] = first;
        out[8] = __vibmax_s16x2(0x0001ffffu, 0x00020001u, &high, &low), out[9] = high, out[10] = low;
        out[11] = __vibmin_u16x2(0x0001ffffu, 0x00020001u, &high, &low), out[12] = high, out[13] = low;
    }"""
    out = np.zeros(14, np.int32)
    simulator.launch(text, 1, 1, (out,)).check()
    assert out.tolist() == [3, 1, 3, 1, -1, 0, 5, 1, 0x00020001, 0, 0, 0x00010001, 1, 0]


def test_a_limit_of_registers_is_no_part_of_the_name():
    out = np.zeros(32, np.int32)
    text = "__global__ void __maxnreg__(64) kernel(int* out) { out[threadIdx.x] = threadIdx.x; }"
    simulator.launch(text, 1, 32, (out,)).check()
    assert out.tolist() == list(range(32))
