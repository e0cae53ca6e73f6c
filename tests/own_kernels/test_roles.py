"""Tests of what the parameters of a matmul-like kernel are, by their names and types."""

from __future__ import annotations

import pytest

from tiledmm.own_kernels.roles import roles_of
from tiledmm.simulator.build.parameters import FLOAT, POINTER, SIGNED, Parameter


def parameters(text: str) -> list[Parameter]:
    found = []
    for part in text.split(","):
        kind, name = part.strip().rsplit(" ", 1)
        pointer = "*" in kind
        code = POINTER if pointer else FLOAT if kind in ("float", "double") else SIGNED
        found.append(Parameter(name, kind, code, 8 if pointer else 4, "const" in kind, FLOAT, 4 * pointer, 4))
    return found


@pytest.mark.parametrize(
    ("text", "order", "sizes"),
    [
        ("const float* A, const float* B, float* C, int M, int N, int K", "ABC", "MNK"),
        ("float* d_C, float* d_A, float* d_B, int wA, int wB", "CAB", "KN"),
        ("int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C", "ABC", "MNK"),
        ("float* M_d, float* N_d, float* P_d, int Width", "ABC", ["MNK"]),
        ("float* dev_a, float* dev_b, float* dev_out, int n", "ABC", ["MNK"]),
        ("float* out, const float* input, const float* weight, int batch_size, int in_features, int out_features",
         "CAB", "MKN"),
        ("const float* A, const float* B, float* C, int m, int n, int p", "ABC", "MKN"),
        ("float* A, float* B, float* C, int numARows, int numAColumns, int numBRows, int numBColumns, int numCRows, "
         "int numCColumns", "ABC", "MKKNMN"),
        ("int m, int n, int k, double alpha, const float* a, int lda, const float* b, int ldb, double beta, float* c, "
         "int ldc", "ABC", "MNK"),
        ("float* B, float* A, float* C, int N", "BAC", ["MNK"]),
    ],
)  # fmt: skip
def test_roles(text, order, sizes):
    found = roles_of("matmul", parameters(text), has_loop=True)[0]
    pointers = [at for at, each in enumerate(parameters(text)) if each.kind == POINTER]
    assert [("ABC"[found.order.index(at)]) for at in pointers] == list(order)
    assert ["".join(names) for _, names in sorted(found.sizes.items())] == list(sizes)


def test_sizes_whose_names_say_nothing_are_all_tried():
    found = roles_of("gemm", parameters("const float* A, const float* B, float* C, int x, int y, int z"), has_loop=True)
    assert len({tuple(each.sizes.values()) for each in found}) == 6


@pytest.mark.parametrize(
    ("kernel", "text", "has_loop"),
    [
        ("vectorAdd", "const float* A, const float* B, float* C, int n", False),
        ("add", "const float* A, const float* B, float* C, int n", True),
        ("axpy", "int n, float a, float* x, float* y", False),
        ("k", "const float* A, const float* B, float* C, int M, int N, int K, float gamma", True),
        ("k", "const float* A, const float* B, float* C, float* D, int M, int N, int K", True),
    ],
)
def test_kernels_that_are_no_products(kernel, text, has_loop):
    assert roles_of(kernel, parameters(text), has_loop=has_loop) == []
