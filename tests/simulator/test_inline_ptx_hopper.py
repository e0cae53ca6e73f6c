"""Tests of inline PTX for Hopper: the calls of ``native/asynchronous.h`` that asm statements become."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import slow_unless
from tests.simulator.hopper.cases import CASES
from tiledmm.codegen.rendering import render
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.compiler_process import run_compiler
from tiledmm.simulator.build.cxx import compiler
from tiledmm.simulator.build.kernel_flags import build_flags
from tiledmm.simulator.build.translation import inline_ptx, unit

HAS_NVRTC = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.core")
INCLUDE = ("-iquote", str(toolchain.NATIVE), f"-I{toolchain.NATIVE / 'include'}")
if "__cluster_dims__" not in (toolchain.NATIVE / "cuda.h").read_text(encoding="utf-8"):
    INCLUDE += ("-D__cluster_dims__(...)=",)

# Flags of barriers: parity 1, try_wait 2, relaxed 4, cluster 8, drop 16, expect_tx 32, noComplete 64, noinc 128.
TEST = "{ .reg .pred p; mbarrier.%s p, %s; selp.u32 %%0, 1, 0, p; }"
#: Statements, and what they call: see ``OPERANDS`` and ``hopper/recorder.cpp``. A result is shown after "=".
STATEMENTS = {
    # ---- mbarriers ----
    "mbarrier.init.shared::cta.b64 [%2], %5;": "init 400 3",
    "mbarrier.init.shared.b64 [%2 + 8], 128;": "init 408 128",
    "mbarrier.init.b64 [%9], %11;": "init 900 2",
    "mbarrier.inval.shared::cta.b64 [%2];": "inval 400",
    "mbarrier.arrive.shared::cta.b64 %1, [%2];": "arrive 400 1 0 0; = 7",
    "mbarrier.arrive.shared::cta.b64 _, [%2], %5;": "arrive 400 3 0 0",
    "mbarrier.arrive.b64 %1, [%9];": "arrive 900 1 0 0; = 7",
    "mbarrier.arrive.release.cta.shared::cta.b64 %1, [%2 + 16], 32;": "arrive 410 32 0 0; = 7",
    "mbarrier.arrive.relaxed.cluster.shared::cta.b64 %1, [%2];": "arrive 400 1 0 12; = 7",
    "mbarrier.arrive.shared::cluster.b64 _, [%3];": "arrive 3000800 1 0 0",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%3], %5;": "arrive 3000800 3 0 8",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%2], %4;": "arrive 400 1 48 32",
    "mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %1, [%2], 64;": "arrive 400 1 64 36; = 7",
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%3], %4;": "arrive 3000800 1 48 40",
    "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %1, [%2], 2;": "arrive 400 2 0 64; = 7",
    "mbarrier.arrive_drop.shared::cta.b64 _, [%2];": "arrive 400 1 0 16",
    "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%3], 2;": "arrive 3000800 2 0 24",
    "mbarrier.arrive_drop.expect_tx.shared::cta.b64 %1, [%2], %4;": "arrive 400 1 48 48; = 7",
    "mbarrier.arrive_drop.noComplete.shared::cta.b64 %1, [%2], %5;": "arrive 400 3 0 80; = 7",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%2], %4;": "expect 400 48 4",
    "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%3], 16;": "expect 3000800 16 12",
    "mbarrier.expect_tx.shared::cta.b64 [%2], %4;": "expect 400 48 4",
    "mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%3], %4;": "complete 3000800 48 12",
    "mbarrier.complete_tx.b64 [%9], %4;": "complete 900 48 4",
    TEST % ("test_wait.shared::cta.b64", "[%2], %8"): "wait 400 5000 0; = 1",
    TEST % ("test_wait.parity.shared::cta.b64", "[%2], %5"): "wait 400 3 1; = 1",
    TEST % ("test_wait.parity.acquire.cluster.shared::cta.b64", "[%2], 1"): "wait 400 1 9; = 1",
    TEST % ("try_wait.shared::cta.b64", "[%2], %8"): "wait 400 5000 2; = 1",
    TEST % ("try_wait.parity.shared::cta.b64", "[%2], %5, %4"): "wait 400 3 3; = 1",
    TEST % ("try_wait.parity.relaxed.cta.b64", "[%9], 0, 0x989680"): "wait 900 0 7; = 1",
    "mbarrier.pending_count.b64 %0, %8;": "pending 5000; = 5",
    "cp.async.mbarrier.arrive.shared::cta.b64 [%2];": "after_copies 400 0",
    "cp.async.mbarrier.arrive.noinc.b64 [%9];": "after_copies 900 128",
    "fence.mbarrier_init.release.cluster;": "init_fence",
    "fence.proxy.async;": "proxy_fence 3",
    "fence.proxy.async.global;": "proxy_fence 2",
    "fence.proxy.async.shared::cta;": "proxy_fence 1",
    "fence.proxy.async.shared::cluster;": "proxy_fence 1",
    "{ .reg .pred p; setp.eq.u32 p, %5, 3; @!p mbarrier.inval.b64 [%9]; @p fence.proxy.async; }": "proxy_fence 3",
    # ---- bulk copies: way, reduction, type, shared, source, global, bytes, barrier, blocks, 1 for a barrier ----
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%9], %4, [%2 + 64];":
        "bulk to_shared   400 0 70000900 48 440 0 1",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%2], [%9 + 16], 32, [%2];":
        "bulk to_shared   400 0 70000910 32 400 0 1",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%3], [%9], %4, [%3], %1;":
        "bulk to_shared   3000800 0 70000900 48 3000800 0 1",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%2], [%9], %4, [%2], %10;":
        "bulk to_cluster   400 0 70000900 48 400 3 1",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
    " [%2], [%9], %4, [%2], %10, %1;": "bulk to_cluster   400 0 70000900 48 400 3 1",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%3], [%2], %4, [%3 + 8];":
        "bulk between_shared   3000800 400 0 48 3000808 0 1",
    "cp.async.bulk.global.shared::cta.bulk_group [%9], [%2], %4;": "bulk to_global   400 0 70000900 48 0 0 0",
    "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%9], [%2], 16, %1;":
        "bulk to_global   400 0 70000900 16 0 0 0",
    "cp.async.bulk.prefetch.L2.global [%9], %4;": "bulk to_l2   0 0 70000900 48 0 0 0",
    "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%9], %4, %1;": "bulk to_l2   0 0 70000900 48 0 0 0",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [%3], [%2], %4, [%3];":
        "bulk between_shared add s32 3000800 400 0 48 3000800 0 1",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.xor.b32 [%3], [%2], %4, [%3];":
        "bulk between_shared xor b32 3000800 400 0 48 3000800 0 1",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%9], [%2], %4;":
        "bulk to_global add f32 400 0 70000900 48 0 0 0",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.noftz.bf16 [%9], [%2], %4, %1;":
        "bulk to_global add bf16 400 0 70000900 48 0 0 0",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s64 [%9], [%2], %4;":
        "bulk to_global min s64 400 0 70000900 48 0 0 0",
    "cp.async.bulk.commit_group;": "commit_bulk",
    "cp.async.bulk.wait_group 0;": "wait_for_bulk 0 0",
    "cp.async.bulk.wait_group.read %11;": "wait_for_bulk 2 1",
    # ---- tensor copies: way, reduction, map, coordinates | shared, barrier, blocks ----
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%2], [%8, {%5}], [%2 + 64];":
        "tensor to_shared  5000 3 | 400 440 0",
    "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%2], [%8, {%5, -8}], [%2];":
        "tensor to_shared  5000 3 -8 | 400 400 0",
    "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
    " [%2], [%8, { %5, %6, %7 }], [%2], %1;": "tensor to_shared  5000 3 4 5 | 400 400 0",
    "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%2], [%8, {%5, %6, %7, 0}], [%2], %10;": "tensor to_cluster  5000 3 4 5 0 | 400 400 3",
    "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
    " [%2], [%8, {%5, %6, %7, 1, 2}], [%2], %10, %1;": "tensor to_cluster  5000 3 4 5 1 2 | 400 400 3",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%8, {%5, %6}], [%2];":
        "tensor to_global  5000 3 4 | 400 0 0",
    "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group.L2::cache_hint [%8, {%5}], [%2 + 128], %1;":
        "tensor to_global  5000 3 | 480 0 0",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%8, {%5, %6}], [%2];":
        "tensor to_global add 5000 3 4 | 400 0 0",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.max.bulk_group.L2::cache_hint [%8, {%5}], [%2], %1;":
        "tensor to_global max 5000 3 | 400 0 0",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%8, {%5, %6}];": "tensor to_l2  5000 3 4 | 0 0 0",
    "cp.async.bulk.prefetch.tensor.1d.L2.global.L2::cache_hint [%8, {%5}], %1;": "tensor to_l2  5000 3 | 0 0 0",
    "prefetch.tensormap [%8];": "",
    # ---- stores that complete at a barrier ----
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%3], %5, [%3 + 8];":
        "store_async 3000800 3000808  u32 3",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%3], {%5, %6}, [%3];":
        "store_async 3000800 3000800  b32 3 4",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%3], {%5, %6, %7, 9}, [%3];":
        "store_async 3000800 3000800  s32 3 4 5 9",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%3], {%8, %9}, [%3];":
        "store_async 3000800 3000800  b64 5000 0 70000900 0",
    "st.async.mbarrier::complete_tx::bytes.u64 [%9], %8, [%9 + 8];": "store_async 900 908  u64 5000 0",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%3], %5, [%3];":
        "store_async 3000800 3000800 add s32 3",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%3], %5, [%3];":
        "store_async 3000800 3000800 inc u32 3",
    "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u64 [%9], %8, [%9];":
        "store_async 900 900 add u64 5000 0",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.and.b32 [%3], %5, [%3];":
        "store_async 3000800 3000800 and b32 3",
    # ---- clusters ----
    "mapa.shared::cluster.u32 %0, %2, %5;": "= 4000400",
    "mapa.shared::cluster.u32 %0, %2, 1;": "= 2000400",
    "mapa.u64 %1, %9, %5;": "= 73000900",
    "getctarank.shared::cluster.u32 %0, %3;": "= 2",
    "getctarank.u64 %0, %9;": "= 70",
    "barrier.cluster.arrive;": "cluster_arrive 0 0",
    "barrier.cluster.arrive.release.aligned;": "cluster_arrive 0 1",
    "barrier.cluster.arrive.relaxed.aligned;": "cluster_arrive 1 1",
    "barrier.cluster.wait.acquire.aligned;": "cluster_wait 0 1",
    "barrier.cluster.arrive.relaxed;\\nbarrier.cluster.wait;": "cluster_arrive 1 0; cluster_wait 0 0",
    "st.shared::cluster.u32 [%3 + 4], %5;": "cluster_address 3000804",
    "ld.shared::cluster.u32 %0, [%3 + 4];": "cluster_address 3000804; = 3",
    "{ .reg .b32 x, y; st.shared::cluster.v2.b32 [%3], {%6, %7}; ld.shared::cluster.v2.b32 {x, y}, [%3];"
    " add.u32 %0, x, y; }": "cluster_address 3000800; cluster_address 3000800; = 9",
    "ld.acquire.cluster.shared::cluster.u32 %0, [%3];": "cluster_address 3000800; fence 1; = 4",
    "cvta.to.shared::cluster.u64 %1, %9;": "= 900",
    "{ .reg .b64 x; cvta.shared::cluster.u64 x, %8; sub.u64 %1, x, x; }": "cluster_address 5000",
    "mov.u32 %0, %%cluster_ctarank;": "= 9",
    "mov.u32 %0, %%cluster_nctarank;": "= 18",
    "mov.u32 %0, %%cluster_ctaid.z;": "= 3",
    "mov.u32 %0, %%cluster_nctaid.x;": "= 2",
    "mov.u32 %0, %%clusterid.y;": "= 6",
    "{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }": "= 1",
    # ---- warps and warpgroups ----
    "{ .reg .pred p; elect.sync %0|p, 0x7; @p add.u32 %0, %0, 16; }": "exchange 7 1 4",
    "{ .reg .pred p; elect.sync _|p, %4; selp.u32 %0, 1, 2, p; }": "exchange 30 1 4; = 2",
    "wgmma.fence.sync.aligned;": "wgmma_fence",
    "wgmma.commit_group.sync.aligned;": "wgmma_commit",
    "wgmma.wait_group.sync.aligned %11;": "wgmma_wait 2",
    "setmaxnreg.inc.sync.aligned.u32 232;": "set_registers 232 1",
    "setmaxnreg.dec.sync.aligned.u32 40;": "set_registers 40 0",
    "": "",
}  # fmt: skip
OPERANDS = (
    '"+r"(out), "+l"(token) : "r"(numbers[0]), "r"(numbers[1]), "r"(numbers[2]), "r"(numbers[3]), "r"(numbers[4]),'
    ' "r"(numbers[5]), "l"(map), "l"(global), "h"((short)numbers[3]), "n"(2) : "memory"'
)


def record(body: str, folder: Path) -> list[str]:
    """Compile statements together with ``recorder.cpp``, run them, and return what each has printed."""
    text = inline_ptx.translate(
        'extern "C" void tiledmm_shown(unsigned long long);\n'
        'extern "C" void tiledmm_cases(const unsigned* numbers, unsigned long long map, unsigned long long global,'
        f" void (*next)()) {{\n{body}\n}}\n"
    )
    headers = ["cuda.h", *unit.needed(text), "inline_ptx.h"]
    included = "".join(f'#include "{each}"\n' for each in headers)
    (folder / "cases.cpp").write_text(included + text, encoding="utf-8")
    recorder = Path(__file__).parent / "hopper" / "recorder.cpp"
    flags = [
        "-std=c++17",
        "-O1",
        "-w",
        "-DTILEDMM_UNSET=0",
        "-iquote",
        str(toolchain.NATIVE),
        "-o",
        "cases",
        "cases.cpp",
        str(recorder),
    ]
    done = run_compiler([*compiler(), *flags], folder)
    assert done.returncode == 0, done.stderr[:4000]
    done = subprocess.run([folder / "cases"], capture_output=True, text=True, check=True)
    return done.stdout.split("--\n")


def test_statements_call_the_runtime(tmp_path: Path) -> None:
    body = "\n".join(
        f'{{ unsigned out = 0; unsigned long long token = 0; asm volatile("{ptx}" : {OPERANDS});'
        " if (out || token) tiledmm_shown(out + token); next(); }"
        for ptx in STATEMENTS
    )
    printed = record(body, tmp_path)
    for (ptx, expected), found in zip(STATEMENTS.items(), printed, strict=False):
        assert found.splitlines() == [line for line in expected.split("; ") if line], ptx


def on_a_gpu(body: str) -> str:
    return (
        'extern "C" __global__ void kernel(const unsigned* numbers, unsigned long long map, unsigned long long global,'
        f" unsigned long long* results) {{\n{body}\n}}\n"
    )


@pytest.mark.skipif(not HAS_NVRTC, reason="without NVRTC")
def test_ptxas_accepts_the_statements() -> None:
    from tiledmm.compile.inspection import compile_for

    body = "\n".join(
        f'{{ unsigned out = 0; unsigned long long token = 0; asm volatile("{ptx}" : {OPERANDS});'
        " *results = out + token; }"
        for ptx in STATEMENTS
    )
    compile_for(on_a_gpu(body), "kernel", "sm_90a")


# ---- wgmma ----


def wgmma(name: str, registers: int, tail: str, letter: str, fragment: str = "") -> str:
    """Return an asm statement of a wgmma whose sums are ``d`` or ``u``, in "+f" or "+r"."""
    sums = ", ".join(f"%{i}" for i in range(registers))
    at = registers
    if fragment:
        a, at = "{" + ", ".join(f"%{registers + i}" for i in range(4)) + "}", registers + 4
        given = f'"r"(x), "r"({fragment}), "r"(v[2]), "r"(v[3])'
    else:
        a, at = f"%{registers}", registers + 1
        given = '"l"(map)'
    text = tail.replace("B", f"%{at}").replace("S", f"%{at + 1}").replace("N", f"%{at + 2}")
    variable = "d" if letter == "f" else "u"
    outputs = ", ".join(f'"+{letter}"({variable}[{i}])' for i in range(registers))
    ptx = (
        f"{{ .reg .pred p; setp.ne.b32 p, %{at + 1}, 0; wgmma.mma_async.sync.aligned.{name} {{{sums}}}, {a}, {text}; }}"
    )
    return f'asm volatile("{ptx}" : {outputs} : {given}, "l"(global), "r"(x), "n"(-1) : "memory");'


B = "70000900"
#: Shape and types, registers of sums, operands after A, A in registers; the call that these become.
WGMMA = {
    ("m64n8k16.f32.f16.f16", 4, "B, p, 1, 1, 0, 0", "f", ""): f"f16 f16 f32 n8 k16 4 | 4 | 5000 | {B} | 1 1 1 0 0 0",
    ("m64n256k16.f32.bf16.bf16", 128, "B, 0, N, 1, 1, 0", "f", ""):
        f"bf16 bf16 f32 n256 k16 128 | 4 | 5000 | {B} | 0 -1 1 1 0 0",
    ("m64n24k16.f32.f16.f16", 12, "B, !p, 1, -1, 1", "f", "v[1]"):
        f"f16 f16 f32 n24 k16 12 | 4 | 3@ 4@ 5@ 6@ | {B} | 0 1 -1 0 1 0",
    ("m64n16k16.f16.f16.f16", 4, "B, 1, 1, 1, 0, 1", "r", ""): f"f16 f16 f16 n16 k16 4 | 4 | 5000 | {B} | 1 1 1 0 1 0",
    ("m64n8k8.f32.tf32.tf32", 4, "B, p, 1, N", "f", "v[1] + 1"):
        f"tf32 tf32 f32 n8 k8 4 | 4 | 3@ 5 5@ 6@ | {B} | 1 1 -1 0 0 0",
    ("m64n104k32.f32.e4m3.e5m2", 52, "B, p, 1, 1", "f", ""):
        f"e4m3 e5m2 f32 n104 k32 52 | 4 | 5000 | {B} | 1 1 1 0 0 0",
    ("m64n16k32.f16.e5m2.e5m2", 4, "B, p, -1, 1", "r", ""): f"e5m2 e5m2 f16 n16 k32 4 | 4 | 5000 | {B} | 1 -1 1 0 0 0",
    ("m64n48k32.s32.s8.u8", 24, "B, p", "r", ""): f"s8 u8 s32 n48 k32 24 | 4 | 5000 | {B} | 1 1 1 0 0 0",
    ("m64n8k32.s32.u8.s8.satfinite", 4, "B, 1", "r", "7u"): f"u8 s8 s32 n8 k32 4 | 4 | 3@ 7 5@ 6@ | {B} | 1 1 1 0 0 1",
    ("m64n8k32.satfinite.s32.s8.s8", 4, "B, 1", "r", ""): f"s8 s8 s32 n8 k32 4 | 4 | 5000 | {B} | 1 1 1 0 0 1",
}  # fmt: skip
VARIABLES = "unsigned x = numbers[3], v[4] = {3, numbers[4], numbers[5], numbers[6]}, u[128] = {}; float d[128] = {};"


def test_wgmma_writes_the_variables_themselves(tmp_path: Path) -> None:
    body = "\n".join(
        f"{{ {VARIABLES} {wgmma(*case)}\n"
        "unsigned written = 0; for (unsigned i = 0; i < 128; ++i) written += u[i] + __float_as_uint(d[i]) == i + 1;\n"
        "tiledmm_shown(written); next(); }"
        for case in WGMMA
    )
    printed = record(body, tmp_path)
    for (case, expected), found in zip(WGMMA.items(), printed, strict=False):
        assert found.splitlines() == [f"wgmma {expected}", f"= {case[1]:x}"], case


@pytest.mark.slow
@pytest.mark.skipif(not HAS_NVRTC, reason="without NVRTC")
def test_ptxas_accepts_wgmma() -> None:
    from tiledmm.compile.inspection import compile_for

    body = "\n".join(
        f"{{ {VARIABLES} {wgmma(*case)} for (int i = 0; i < 128; ++i) results[i] += u[i] + d[i]; }}"
        for case in WGMMA
        if "satfinite.s32" not in case[0]
    )
    compile_for(on_a_gpu(body), "kernel", "sm_90a")


def test_operands_that_no_instruction_names_are_left_alone(tmp_path: Path) -> None:
    lines = (
        'asm volatile("" : "+f"(d[0]), "+r"(u[0])::"memory");',
        'asm volatile("// nothing\\n" : "=r"(u[1]) : "r"(*missing));',
        'asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[1])::"memory");',
        'asm volatile("" :: "r"(++i));',
    )
    for line in lines:
        assert not re.search("input|output|in_place", inline_ptx.translate(line))
    body = f"{VARIABLES} const unsigned* missing = nullptr; int i = 0; " + " ".join(lines)
    assert record(f"{body} tiledmm_shown(i);", tmp_path) == ["wgmma_wait 0\n= 1\n"]


def test_an_operand_may_be_a_place_and_a_value(tmp_path: Path) -> None:
    body = VARIABLES + (
        'asm volatile("mov.b32 %0, 0x3f800000; wgmma.fence.sync.aligned;'
        " wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, %4, %4, 1, 1, 1;"
        ' wgmma.wait_group.sync.aligned 0;"'
        ' : "+f"(d[0]), "=f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(map));'
        " tiledmm_shown(__float_as_uint(d[0])); tiledmm_shown(__float_as_uint(d[3]));"
    )
    assert record(body, tmp_path)[0].splitlines()[-2:] == ["= 3f800001", "= 4"]


# ---- what is refused ----

SUMS = "{%0, %0, %0, %0}"


@pytest.mark.parametrize(
    ("ptx", "says"),
    [
        ("mbarrier.frob.b64 [%1];", "init, inval"),
        ("mbarrier.init.shared::cta.b32 [%1], 1;", "b64"),
        ("mbarrier.arrive.shared::cluster.b64 %2, [%1];", "no token.* _ "),
        ("mbarrier.init.shared::cluster.b64 [%1], 1;", "shared::cta"),
        ("mbarrier.init.b64 [%1], 1;", r"\[%1\] has 32 bits"),
        ("mbarrier.arrive.shared::cta.b64 [%1];", "1 operands.*2 or 3"),
        ("fence.proxy.tensormap::generic.release.gpu;", "before the launch"),
        ("tensormap.replace.tile.rank.global.b1024.b32 [%2], 3;", "before the launch"),
        ("multimem.red.add.f32 [%2], 1.0;", "one GPU"),
        ("clusterlaunchcontrol.try_cancel.async.b128 [%1], [%1];", "atomic counter"),
        ("st.bulk [%2], 16, 0;", "loop"),
        ("tcgen05.wait::ld.sync.aligned;", "wgmma or mma.sync"),
        ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
         " [%1], [%2, {%1, %1, %1}], [%1], {%3};", "im2col.*tile"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2, {%1}], [%1];",
         "2 dimensions has 1 coordinates"),
        ("cp.async.bulk.tensor.2d.global.shared::cta [%2, {%1, %1}], [%1];", "bulk_group"),
        ("cp.async.bulk.shared::cta.shared::cta.bulk_group [%1], [%1], 16;", "spaces"),
        ("cp.async.bulk.shared::cluster.global.bulk_group [%1], [%2], 16;", "complete_tx"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.and.f32 [%2], [%1], 16;", "b32, b64"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%1], {%2, %2, %2, %2}, [%1];", "16 bytes"),
        ("mapa.u32 %1, %1, 0;", "64 bits"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared::cluster.b16 {%1}, [%1];", "own shared memory"),
        ("elect.sync %1, 0xffffffff;", r"_\|p"),
        ("setmaxnreg.inc.sync.aligned.u32 20;", "24 to 256.*20"),
        ("setmaxnreg.inc.u32 24;", r"'\.sync'"),
        ("wgmma.fence;", r"'\.sync'"),
        (f"wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {SUMS}, %2, %2, 1, 1, 1, 0, 0;", "m64nNk16"),
        (f"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {SUMS}, %2, %2, 1, 1, 1, 0, 0;", "multiple of 8"),
        (f"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {SUMS}, %2, %2, 1;", "multiple of 16"),
        (f"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {SUMS}, %2, %2, 1, 1, 1, 0, 0;", "D has 4.*needs 8"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {SUMS}, %2, %2, 1, 1, 1, 0, 0;", "sums of bf16 are f32"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {SUMS}, %2, %2, 1, 1, 1, 0, 0;", "same type"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {SUMS}, %2, %2, 1, 2, 1, 0, 0;", "2 must be 1 or -1"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {SUMS}, %2, %2, 1, 1, 1;", "6 operands.* 8"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {SUMS}, {{%1, %1}}, %2, 1, 1, 1, 0;", "A has 2"),
        (f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {SUMS}, %2, %2, %1, 1, 1, 0, 0;", "%1 has 32 bits"),
        (f"wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {SUMS}, %2, %2, 1;", "shape"),
        (f"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32.satfinite {SUMS}, %2, %2, 1, 1, 1;", "saturated"),
        (f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {SUMS}, %2, %2, %1, 0, 1, 1, 1, 0, 0;", "sparse"),
        ("{ .reg .f32 s<4>; wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {s0, s1, s2, s3}, %2, %2, 1, 1, 1; }",
         "s0 of D must be an output operand"),
        ("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%1, %1, %1, %1}, %2, %2, 1, 1, 1;", "not an output"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(ptx: str, says: str) -> None:
    text = inline_ptx.translate(f'asm volatile("{ptx}" : "+f"(d) : "r"(a), "l"(b), "h"(c));')
    found = re.search(r'tiledmm_refused: kernel\.cu:1: (.*?)"', text)
    assert found and re.search(says, found[1]), text


# ---- kernels ----


def check_syntax(text: str, symbol: str, folder: Path) -> None:
    """Translate a kernel's text, and check that the compiler accepts its unit."""
    unit.write_unit(text, symbol, folder)
    command = compiler()
    flags = build_flags(command, symbol, TARGETS["sm_90"], "checked")
    done = run_compiler([*command, *flags, *INCLUDE, "-fsyntax-only", "unit.cpp"], folder)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize("case", {case.file: case for case in CASES}.values(), ids=lambda case: case.file)
def test_kernels_are_translated(case) -> None:
    translated = inline_ptx.translate(case.source)
    without_macros = re.sub(r"^#define (?:\\\n|[^\n])*", "", translated, flags=re.MULTILINE)  # their uses are expanded
    assert "tiledmm_refused" not in without_macros


CHOSEN = ("gemm_multicast", "st_async", "tma_5d", "wgmma_half_sums")


@pytest.mark.parametrize(
    ("case", "symbol"),
    [
        pytest.param(case, symbol, marks=slow_unless(case.file in CHOSEN), id=symbol)
        for case in {case.kernels: case for case in CASES}.values()
        for symbol in case.kernels
    ],
)
def test_kernels_compile(case, symbol: str, tmp_path: Path) -> None:
    check_syntax(case.source, symbol, tmp_path)


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        pytest.param(variant, options, marks=slow_unless(chosen), id=f"{variant}-{i}")
        for i, (variant, options, chosen) in enumerate(
            (
                ("wgmma", {"dtype": "float16", "config": {"cluster": 2}}, True),
                ("wgmma", {"dtype": "float16", "layout": "NT"}, False),
                ("wgmma", {"dtype": "bfloat16", "tile": 64, "layout": "TT"}, False),
                ("wgmma", {"dtype": "tf32", "layout": "TN"}, False),
                ("wgmma", {"dtype": "int8_int32", "tile": 144, "layout": "NT"}, False),
                ("split_float32", {}, False),
                ("split_integer", {}, False),
                ("split_float64", {}, False),
            )
        )
    ],
)
def test_kernels_of_the_package_compile(variant: str, options: dict, tmp_path: Path) -> None:
    spec = kernel_spec(variant, **options).kernel
    check_syntax(render(spec), spec.symbol, tmp_path)


def test_macros_whose_parameters_are_in_the_text_are_expanded(tmp_path: Path) -> None:
    text = """#define READ(name, to) asm volatile("mov.u32 %0, %%" name ";" /* one */ \\
                     : "=r"(to))
#define BOTH(name, to) do { READ(name ".x", to[0]); \\
    READ(name ".y", to[1]); } while (0)
#define QUOTED(operation) asm(#operation ".u32 %0, %0, 1;" : "+r"(x))
const char* same = "READ(1)";   // READ(2)
BOTH("clusterid",
     v); READ("cluster_ctarank", x);"""
    translated = inline_ptx.translate(text)
    assert translated.count("\n") == text.count("\n")
    last = translated.rpartition("READ(2)\n")[2]
    assert last.count("tiledmm_cluster_index()") == 2 and last.endswith("while (0);") and "asm" not in last
    assert '"READ(1)";   // READ(2)' in translated
    twice = text.replace("const char", "#define BOTH(name, to) asm(name)\nconst char")
    assert "READ" in inline_ptx.translate(twice) and "BOTH(" in inline_ptx.translate(twice).splitlines()[-2]
