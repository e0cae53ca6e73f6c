"""Tests of what is said about the elements that are read for an element of a product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.test_wrong_products import NAIVE, TILED
from tiledmm import simulator
from tiledmm.simulated.explanation.reads import explain_reads

M, N, K = 40, 52, 37


def _reads(text: str, old: str = "", new: str = "", element: tuple[int, int] = (20, 30)) -> list[str]:
    assert old in text
    a, b, c = (np.ones(shape, np.float32) for shape in ((M, K), (K, N), (M, N)))
    block = (element[1] // 16, element[0] // 16, 0)
    arguments = (a, b, c, M, N, K)
    events = simulator.trace_block(
        f"typedef float T;{text.replace(old, new) if old else text}", (4, 3), (16, 16), arguments, block
    )
    assert (c == 1).all()
    return explain_reads(events, element, K)


@pytest.mark.parametrize("text", [NAIVE, TILED])
def test_right_kernels_read_all_that_is_needed(text):
    assert _reads(text) == []


def test_steps_that_a_thread_does_not_read_are_named():
    (said,) = _reads(NAIVE, "k < K;", "k < K - 3;")
    assert said == "thread (14, 4) stores C[20, 30] and never reads A[20, 34] to A[20, 36] or B[34, 30] to B[36, 30]"


def test_steps_that_a_block_does_not_read_are_named():
    (said,) = _reads(TILED, "(K + TILE - 1) / TILE", "K / TILE")
    assert said.startswith("the block of thread (14, 4), which stores C[20, 30], never reads A[20, 32] to A[20, 36]")


def test_elements_that_a_thread_does_not_need_are_named():
    never, more = _reads(NAIVE, "B[k * N + col]", "B[k * N + row]")
    assert "never reads B[0, 30] to B[36, 30]" in never
    assert "reads B[0, 20] to B[36, 20], which it does not need" in more


def test_a_launch_that_ends_early_has_the_accesses_before():
    assert _reads(NAIVE, "A[row * K + k]", "A[row * N + k]", element=(1, 0)) == [
        "thread (0, 1) stores C[1, 0] and never reads A[1, 0] to A[1, 14]",
        "thread (0, 1) stores C[1, 0] and reads A[2, 0] to A[2, 14], which it does not need",
    ]


def test_vectors_are_several_elements():
    text = """
    __global__ void dot(const float4* A, const float4* B, float* C) {
        float4 a = A[0], b = B[0];
        C[0] = a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    """
    arrays: list[Any] = [np.ones(shape, np.float32) for shape in ((1, 4), (1, 4), (1, 1))]
    events = simulator.trace_block(text, 1, 1, arrays)
    assert explain_reads(events, (0, 0), 4, b_transposed=True) == []
    assert explain_reads(events, (0, 0), 5, b_transposed=True) != []
    assert explain_reads(events, (3, 3), 4) == []
