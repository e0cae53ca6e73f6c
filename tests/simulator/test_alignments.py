"""Tests that shared arrays are aligned only as declared, as on a GPU, where wider accesses are right only by luck."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.simulator.build.translation.syntax import declared_alignments

KIND = "alignment not declared"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ __shared__ float s[64], t[4]; }", {"s": 4, "t": 4}), ("__shared__ unsigned long long s;", {"s": 8}),
        ("; __shared__ __align__(16) float s[2][T][T];", {"s": 16}),
        ("__shared__ alignas(8) char s[N * (2 + 1)];", {"s": 8}),
        ("static __shared__ volatile unsigned char s[4];", {"s": 1}), ("__shared__ float4 s[2]; int x;", {"s": 16}),
        ("__align__(16) __shared__ short s[8];", {"s": 16}), ("__shared__ float3 s[8]; // float", {"s": 4}),
        ("__shared__ float s[2] __attribute__((aligned(16)));", {"s": 16}), ("__shared__ half2 s[8];", {"s": 4}),
        ("f(x); if (y) { __shared__ double2 s[8]; }", {"s": 16}),
        ("__shared__ uint8_t a[4]; __shared__ int a;", {"a": 4}),
        ("extern __shared__ float s[];", {}), ("__shared__ T s[4]; __shared__ Tile tile;", {}),
        ("__shared__ alignas(N) char s[4];", {}), ("__shared__ Pair<int, 4> s;", {}),
    ],
)  # fmt: skip
def test_declared_alignments(text, expected):
    assert declared_alignments(text) == expected


def launch(declaration: str, access: str, shared_bytes: int = 0) -> list[tuple[str, int]]:
    text = f"""__global__ void k(float* x) {{
        {declaration}
        for (int i = 0; i < 16; ++i) s[i] = x[i];
        {access}
    }}"""
    report = simulator.launch(text, 1, 1, (np.ones(16, np.float32),), shared_bytes=shared_bytes, counts=False)
    report.check()
    return [(each.kind, each.line) for each in report.warnings]


READ = "float4 v = reinterpret_cast<float4*>(s)[1]; x[0] = v.x + v.w;"


@pytest.mark.parametrize(
    ("declaration", "access", "found"),
    [
        ("__shared__ float s[16];", READ, [(KIND, 4)]), ("__shared__ __align__(16) float s[16];", READ, []),
        ("__shared__ __align__(8) float s[16];", READ, [(KIND, 4)]), ("__shared__ float s[16];", "x[0] = s[4];", []),
        ("__shared__ char s[16];", "x[0] = *(short*)&s[2];", [(KIND, 4)]),
        ("__shared__ float s[16];", "for (int i = 0; i < 9; ++i) *(double2*)&s[4] = {};", [(KIND, 4)]),
        ("struct Four { float v[16]; }; __shared__ float s[16];", "*(Four*)x = *(Four*)s;", []),
        ("float s[16];", READ, []),
    ],
)  # fmt: skip
def test_accesses_that_are_wider_than_what_is_declared(declaration, access, found):
    assert launch(declaration, access) == found


def test_dynamic_shared_memory_is_aligned():
    assert launch("extern __shared__ float s[];", READ, shared_bytes=64) == []


def test_the_finding_names_the_alignment_to_declare():
    text = "__global__ void k(float2* x) { __shared__ float s[4]; *(float2*)(s + 2) = x[0]; }"
    (found,) = simulator.launch(text, 1, 1, (np.ones(2, np.float32),)).warnings
    assert "writes 8 bytes at s[2], byte 8 of shared array s (16 bytes)" in found.message
    assert "__align__(8)" in found.message


def test_a_misaligned_access_is_one_finding():
    """Check it with full checks, too, one build of which leaves such accesses to the CPU."""
    text = """__global__ void k(const float* x, float* y) {
        reinterpret_cast<float4*>(y)[threadIdx.x] = reinterpret_cast<const float4*>(x + 1)[threadIdx.x];
    }"""
    arrays = np.ones(64, np.float32), np.ones(64, np.float32)
    for checks in (True, "full"):
        (found,) = simulator.launch(text, 1, 8, arrays, checks=checks).findings
        assert (found.kind, found.line) == ("misaligned access", 2)
