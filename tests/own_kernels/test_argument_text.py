"""Tests of what users write about a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.argument_text import Said, arguments_of, comment_of, number, three

SIZES = {"M": 64, "N": 48, "K": 37}


def test_arguments():
    found = arguments_of("A:f32[M,K], B : half[K, 2*N], C:float64[(M+1)/2], M, 3, alpha=1.5")
    assert [(each.name, each.dtype, each.value) for each in found] == [
        ("A", np.float32, "M,K"), ("B", np.float16, "K, 2*N"), ("C", np.float64, "(M+1)/2"), ("", None, "M"),
        ("", None, "3"), ("alpha", None, "1.5"),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="unknown element type 'f33'"):
        arguments_of("A:f33[M]")
    with pytest.raises(ConfigError, match=r"an argument must be an array A:f32\[M,K\]"):
        arguments_of("A:f32")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("M", 64),
        ("(N + 15) / 16", 3),
        ("N * K % 10", 6),
        ("-7 / 2", -3),
        ("1 << 4", 16),
        ("M > N ? 1 : 2", 1),
        ("2.5", 2.5),
    ],
)
def test_numbers(text, value):
    assert number(text, SIZES) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", (4, 1, 1)), ("16,16", (16, 16, 1)), ("(N+15)/16,(M+15)/16", (3, 4, 1)), ("dim3(2, 3, 4)", (2, 3, 4)),
        ("(2, 3)", (2, 3, 1)), ("(N+15)/16", (3, 1, 1)), ("(M)*(N)", (3072, 1, 1)),
    ],
)  # fmt: skip
def test_grids_are_expressions(text, value):
    assert three(text, SIZES) == value


def test_what_is_no_number_is_named():
    with pytest.raises(ConfigError, match=r"cannot evaluate 'P / 2': an expression may contain M, N, K"):
        number("P / 2", SIZES)
    with pytest.raises(ConfigError, match="one to three numbers"):
        three("1,2,3,4", SIZES)


def test_comments():
    text = """
    // tiledmm: grid=(N + 15) / 16, (M+15)/16  block=16,16 args="A:f32[M,K], alpha=1.5, M" size=64,48,37
    /* tiledmm: kernel=other block=8 */
    """
    assert comment_of(text, "mm") == {
        "grid": "(N + 15) / 16, (M+15)/16", "block": "16,16", "args": "A:f32[M,K], alpha=1.5, M", "size": "64,48,37",
    }  # fmt: skip
    assert comment_of(text, "other")["block"] == "8"
    with pytest.raises(ConfigError, match=r"unknown key sizes= .*; the keys are kernel=, grid="):
        comment_of("// tiledmm: sizes=3")


def test_sizes():
    assert Said(size="64,48,37").sizes == SIZES
    assert Said(size="64x48x37").sizes == SIZES
    assert Said(size="5").sizes == dict.fromkeys("MNK", 5)
    for text in ("0", "1,2", "a,b,c"):
        with pytest.raises(ConfigError, match="--size must be M,N,K"):
            Said(size=text).sizes  # noqa: B018
