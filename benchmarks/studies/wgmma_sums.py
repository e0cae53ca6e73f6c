"""Record what one wgmma computes, bit by bit: ``python -m benchmarks.studies.wgmma_sums``. Needs a GPU of 9.0.

Each case is one ``wgmma.mma_async`` of shape m64n8 on random operands; ``mma.sync`` has to give the same bits, but for
8-bit floats, which it does not multiply by itself. Operands and results are recorded in
``tests/simulator/hopper/wgmma_sums.npz``; a test compares them with ``sum_of_products``, a model of the arithmetic in
NumPy. ``--check`` records nothing: it runs new cases of a fresh seed and compares those.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import ROOT
from tiledmm.report.tables import Table

RECORDED = ROOT / "tests" / "simulator" / "hopper" / "wgmma_sums.npz"

ROWS, COLUMNS = 64, 8

#: Bytes of a row of A, and of a column of B: what one instruction multiplies along K.
ROW_BYTES = 32

#: Fractional bits below the largest exponent that a sum keeps, by the operands' bits.
FRACTION = {32: 25, 16: 25, 8: 13}

#: The least exponent to which sums are aligned.
LEAST = -133


@dataclass(frozen=True)
class Float:
    """A floating-point format: its bits, and those of its fraction; ``bias`` of its exponent."""

    bits: int
    fraction: int
    bias: int
    has_infinity: bool = True


FORMATS = {
    "f16": Float(16, 10, 15),
    "bf16": Float(16, 7, 127),
    "tf32": Float(32, 23, 127),  # the instruction ignores the lowest 13 bits
    "e4m3": Float(8, 3, 7, has_infinity=False),
    "e5m2": Float(8, 2, 15),
}

#: Instructions: types of D, A and B.
KINDS = (
    *((d, a, a) for a in ("f16", "bf16", "tf32") for d in ("f32", "f16") if d == "f32" or a == "f16"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    ("s32.satfinite", "s8", "s8"),
)

#: Data of cases: exponents that are near, or far from each other; C that cancels the sum; the ends of the exponents'
#: range; subnormals of A with large numbers of B; infinities and NaN; products and C near D's least number, and zeros.
DATA = ("near", "wide", "far", "cancel", "large", "small", "subnormal", "special", "tiny")

SOURCE = r"""
typedef unsigned int u32;
extern "C" __global__ void __launch_bounds__(128, 1) multiply(const u32* A, const u32* B, const u32* C, u32* D) {
    // A: 64 rows of 8 words. B: 8 columns of 8 words. C and D: 64 rows of WORDS words.
    __shared__ __align__(128) u32 Bs[64];
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, quad = lane % 4;
    const int column = threadIdx.x / 8, word = threadIdx.x % 8, lanes_words = WORDS / 4;   // of a row of C
    // Two blocks of 8 columns, 16 bytes each.
    if (threadIdx.x < 64) Bs[word / 4 * 32 + column * 4 + word % 4] = B[threadIdx.x];
    u32 a[4], d[4];
    for (int i = 0; i < 4; ++i) a[i] = A[(row + i % 2 * 8) * 8 + quad + i / 2 * 4];
    u32 at[4];
    for (int i = 0; i < WORDS / 2; ++i) {
        at[i] = (row + i / lanes_words * 8) * WORDS + quad * lanes_words + i % lanes_words;
        d[i] = C[at[i]];
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const u32 address = static_cast<u32>(__cvta_generic_to_shared(Bs));
    const unsigned long long b = address >> 4 | 128ull >> 4 << 16 | 256ull >> 4 << 32;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned." INSTRUCTION
                 : "+r"(d[0]), "+r"(d[1]) MORE : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < WORDS / 2; ++i) D[at[i]] = d[i];
}
"""

#: The same by mma.sync: the registers of A and D are those of a wgmma's warps.
MMA_SOURCE = r"""
typedef unsigned int u32;
extern "C" __global__ void multiply(const u32* A, const u32* B, const u32* C, u32* D) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, quad = lane % 4, lanes_words = WORDS / 4;
    u32 a[4], b[2], d[4], at[4];
    for (int i = 0; i < 4; ++i) a[i] = A[(row + i % 2 * 8) * 8 + quad + i / 2 * 4];
    for (int i = 0; i < 2; ++i) b[i] = B[lane / 4 * 8 + quad + i * 4];
    for (int i = 0; i < WORDS / 2; ++i) {
        at[i] = (row + i / lanes_words * 8) * WORDS + quad * lanes_words + i % lanes_words;
        d[i] = C[at[i]];
    }
    asm volatile("mma.sync.aligned." INSTRUCTION
                 : "+r"(d[0]), "+r"(d[1]) MORE : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < WORDS / 2; ++i) D[at[i]] = d[i];
}
"""


def depth(element: str) -> int:
    """Return the number of elements along K of one instruction."""
    return ROW_BYTES * 8 // (FORMATS[element].bits if element in FORMATS else 8)


def options(d: str, a: str, b: str, source: str = SOURCE) -> tuple[str, ...]:
    """Return the options that compile ``SOURCE`` or ``MMA_SOURCE`` for an instruction."""
    wide = d != "f16"
    result, _, saturates = d.partition(".")
    if source is MMA_SOURCE:
        name = f"m16n8k{depth(a)}.row.col{'.' * bool(saturates)}{saturates}.{result}.{a}.{b}.{result}"
        sums = "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}" if wide else "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}"
        rest = ", {%0, %1, %2, %3}" if wide else ", {%0, %1}"
    else:
        name = f"m64n{COLUMNS}k{depth(a)}.{result}.{a}.{b}{'.' * bool(saturates)}{saturates}"
        sums = "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8" if wide else "{%0, %1}, {%2, %3, %4, %5}, %6"
        scales = {32: ", 1, 1", 16: ", 1, 1, 0", 8: ", 1, 1"}[FORMATS[a].bits] if a in FORMATS else ""
        rest = f", 1{scales}"
    more = ', "+r"(d[2]), "+r"(d[3])' if wide else ""
    return (
        "--gpu-architecture=sm_90a", f"-DWORDS={8 if wide else 4}", f"-DMORE={more}",
        f'-DINSTRUCTION="{name} {sums}{rest};"',
    )  # fmt: skip


# ---- values ----


def values(element: str, packed: Any) -> Any:
    """Return packed elements as float64, or as int64."""
    if element in ("s8", "u8"):
        return packed.view(np.int8 if element == "s8" else np.uint8).astype(np.int64)
    form = FORMATS[element]
    bits = packed.view({8: np.uint8, 16: np.uint16, 32: np.uint32}[form.bits]).astype(np.int64)
    if element == "tf32":
        bits &= ~0x1FFF
    fraction, rest = bits & ((1 << form.fraction) - 1), bits >> form.fraction
    exponents = form.bits - 1 - form.fraction
    exponent, sign = rest & ((1 << exponents) - 1), np.where(bits >> (form.bits - 1), -1.0, 1.0)
    size = np.where(exponent > 0, fraction + (1 << form.fraction), fraction).astype(np.float64)
    found = np.ldexp(size, np.maximum(exponent, 1) - form.bias - form.fraction)
    highest = exponent == (1 << exponents) - 1
    if form.has_infinity:
        found = np.where(highest, np.where(fraction > 0, np.nan, np.inf), found)
    else:
        found = np.where(highest & (fraction == (1 << form.fraction) - 1), np.nan, found)
    return sign * found


def results(d: str, packed: Any) -> Any:
    """Return results, or C, as float64 or int64."""
    kind = {"f32": np.float32, "f16": np.float16}.get(d, np.int32)
    return packed.view(kind).astype(np.int64 if kind is np.int32 else np.float64)


# ---- the model ----


def sum_of_products(d: str, a_type: str, b_type: str, a: Any, b: Any, c: Any) -> Any:
    """Return C + A @ B as one wgmma computes it, packed.

    All products and C are aligned to the largest exponent, but at least ``LEAST``, and truncated ``FRACTION`` bits
    below it. A product's exponent is the sum of its factors'; subnormal numbers are not normalized first. The sum of
    what is left is exact. Then a float32 result is rounded toward zero (of 8-bit factors, to 13 bits of fraction), and
    a float16 result to nearest. A result of zero is positive.

    Args:
        d, a_type, b_type: Types, as in the instruction's name.
        a, b, c: Packed operands of shapes (64, 8), (8, 8) and (64, 8), or (64, 4) for float16: 32-bit words.
    """
    left, right, plus = values(a_type, a)[:, None, :], values(b_type, b)[None, :, :], results(d, c)
    if a_type in ("s8", "u8"):
        total = (left * right).sum(-1) + plus
        if d.endswith("satfinite"):
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return (total & 0xFFFFFFFF).astype(np.uint32)
    bits = FORMATS[a_type].bits
    with np.errstate(all="ignore"):
        product = left * right
        plain = product.sum(-1) + plus
        exponents = np.where(product == 0, -10_000, _aligned(a_type, left) + _aligned(b_type, right))
        least = -14 if d == "f16" else -126
        largest = np.maximum(exponents.max(-1), np.where(plus == 0, -10_000, np.maximum(_exponent(plus), least)))
        unit = np.maximum(largest, LEAST) - FRACTION[bits]
        aligned = np.trunc(np.ldexp(plus, -unit)) + np.trunc(np.ldexp(product, -unit[..., None])).sum(-1)
        total = np.where(np.isfinite(plain), np.ldexp(aligned, unit), plain)
        if d == "f16":
            packed = total.astype(np.float16)
            packed = np.where(np.isnan(packed), np.uint16(0x7FFF), packed.view(np.uint16))
            return np.where(packed == 0x8000, np.uint16(0), packed).view(np.uint32)
        fraction = 13 if bits == 8 else 23
        last = np.maximum(_exponent(total) - fraction, -149)
        rounded = np.where(np.isfinite(total), np.ldexp(np.trunc(np.ldexp(total, -last)), last), total)
        result = rounded.astype(np.float32) + np.float32(0)
    return np.where(np.isnan(result), np.uint32(0x7FFFFFFF), result.view(np.uint32))


def _exponent(x: Any) -> Any:
    return np.frexp(x)[1] - 1


def _aligned(element: str, x: Any) -> Any:
    """Return the exponents by which products are aligned: those of subnormals are the format's least."""
    return np.maximum(_exponent(x), 1 - FORMATS[element].bias)


# ---- cases ----


def operands(d: str, a: str, b: str, data: str, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return random packed operands of one case."""
    k = depth(a)
    of_b = "large" if data == "subnormal" else data
    packed = [_elements(a, (ROWS, k), data, rng), _elements(b, (COLUMNS, k), of_b, rng)]
    words = COLUMNS if d != "f16" else COLUMNS // 2
    if d.startswith("s32"):
        return *packed, rng.integers(0, 1 << 32, (ROWS, words), dtype=np.uint32) >> (data == "near") * 16
    spread = {"near": 1, "wide": 8, "far": 20}.get(data, 4)
    c = rng.standard_normal((ROWS, COLUMNS)) * 2.0 ** rng.integers(-spread, spread + 1, (ROWS, COLUMNS))
    c[rng.random(c.shape) < 0.3] = 0
    if data == "tiny":
        c = rng.integers(0, 20, (ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.4)
        c |= rng.integers(0, 2, c.shape) << (15 if d == "f16" else 31)
        return *packed, c.astype(np.uint16 if d == "f16" else np.uint32).view(np.uint32)
    with np.errstate(all="ignore"):
        plain = np.nan_to_num(values(a, packed[0]) @ values(b, packed[1]).T)
        if data == "cancel":
            c = -plain * (1 + 2.0**-18 * rng.standard_normal(c.shape))
        if data in ("large", "small", "subnormal"):
            c = c * np.abs(plain)
        return *packed, np.ascontiguousarray(c.astype(np.float32 if d == "f32" else np.float16)).view(np.uint32)


def _elements(element: str, shape: tuple[int, int], data: str, rng: np.random.Generator) -> Any:
    """Return random packed elements: signs and fractions of all kinds, and exponents as the case has them."""
    if element in ("s8", "u8"):
        return rng.integers(0, 256, shape, dtype=np.uint8).view(np.uint32)
    form = FORMATS[element]
    exponents = form.bits - 1 - form.fraction
    most = (1 << exponents) - 1 - form.has_infinity
    spread = {"near": 1, "wide": 4, "far": 10}.get(data, 3)
    tiny = max(1, form.bias - (70 if exponents == 8 else 11))
    middle = {"large": most // 2 + most // 4, "small": max(1, most // 4), "subnormal": 1, "tiny": tiny}.get(
        data, form.bias
    )
    exponent = np.clip(rng.integers(middle - spread, middle + spread + 1, shape), 0, most)
    fraction = rng.integers(0, 1 << form.fraction, shape)
    if not form.has_infinity:
        fraction = np.where(exponent == most, np.minimum(fraction, (1 << form.fraction) - 2), fraction)
    bits = rng.integers(0, 2, shape) << (form.bits - 1) | exponent << form.fraction | fraction
    if data == "tiny":
        bits = np.where(rng.random(shape) < 0.5, bits & 1 << (form.bits - 1), bits)  # zeros of both signs
    if data == "special":
        highest = (1 << exponents) - 1
        rare = rng.random(shape)
        top = 0 if form.has_infinity else (1 << form.fraction) - 1
        bits = np.where(rare < 0.01, highest << form.fraction | top, bits)  # infinity, or NaN where there is none
        bits = np.where((rare > 0.01) & (rare < 0.2), bits & 1 << (form.bits - 1), bits)  # zeros of both signs
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[form.bits]
    return np.ascontiguousarray(bits.astype(kind)).view(np.uint32)


def has_mma(a: str) -> bool:
    """Return whether mma.sync multiplies a type as wgmma does; it converts 8-bit floats first."""
    return a not in FORMATS or FORMATS[a].bits > 8


def run(seed: int) -> dict[str, Any]:
    """Run all cases on the GPU, and return operands and results by names such as ``"f32/f16/f16/near"``.

    Raises:
        ValueError: If mma.sync gives other bits than wgmma.
    """
    import cupy

    rng, found = np.random.default_rng(seed), {}
    for kind in KINDS:
        sources = (SOURCE, MMA_SOURCE) if has_mma(kind[1]) else (SOURCE,)
        kernels = [cupy.RawModule(code=each, options=options(*kind, each)).get_function("multiply") for each in sources]
        for data in DATA:
            a, b, c = operands(*kind, data, rng)
            results = [cupy.zeros(c.shape, cupy.uint32) for _ in kernels]
            for kernel, result in zip(kernels, results, strict=True):
                kernel((1,), (128,), (*map(cupy.asarray, (a, b, c)), result))
            if len(results) > 1 and (results[0] != results[1]).any():
                raise ValueError(f"mma.sync gives other bits than wgmma: {kind}, {data}")
            found["/".join((*kind, data))] = (a, b, c, cupy.asnumpy(results[0]))
    return found


def agreement(found: dict[str, Any]) -> Table:
    """Return a table: for each instruction and kind of data, how many results the model has bit by bit."""
    cells = []
    for kind in KINDS:
        row = []
        for data in DATA:
            a, b, c, result = found["/".join((*kind, data))]
            part = {"f16": np.uint16}.get(kind[0], np.uint32)
            row.append(f"{(sum_of_products(*kind, a, b, c).view(part) == result.view(part)).mean():.3%}")
        cells.append((" ".join(kind), *row))
    return Table("Results of wgmma that the model has bit by bit", ("<D, A, B", *DATA), tuple(cells))


def main() -> int:
    """Record or check the cases, print the agreement, and return 1 if a result differs from the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="record nothing; compare cases of a fresh seed")
    parser.add_argument("--out", type=Path, default=RECORDED, help="where the cases go")
    arguments = options_on_gpu(parser)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if arguments.check else 0
    found = run(seed)
    table = agreement(found)
    show(table)
    print(f"seed {seed}")
    if not arguments.check:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"{case}/{name}": x for case, all_ in found.items() for name, x in zip("ABCD", all_, strict=True)}
        np.savez_compressed(arguments.out, **arrays)
    return int(any(cell != "100.000%" for row in table.rows for cell in row[1:]))


if __name__ == "__main__":
    sys.exit(main())
