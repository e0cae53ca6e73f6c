"""Texts in which variables that may not be set have a value."""

from __future__ import annotations

import pytest

from tiledmm.simulator.translation.unset import VALUES, filled


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("float sum;", "sum", "float sum@;"), ("float m = -INFINITY, sum;", "sum", "float m = -INFINITY, sum@;"),
        ("float a, sum, b;", "sum", "float a, sum@, b;"),
        ("for (int i = 0, sum; ;)", "sum", "for (int i = 0, sum@; ;)"),
        ("int *sum;", "sum", "int *sum@;"),
        ("float sum = 0;", "sum", None), ("float sum[4];", "sum", None), ("Moments mine;", "mine.m2", None),
        ("f(p.sum, 1); s->sum;", "sum", None), ("float sums, my_sum;", "sum", None), ("int i = sum, sum;", "sum", None),
        ("float sum;", "<unknown>", None),
    ],
)  # fmt: skip
def test_declarations(line, name, expected):
    text = f"void f() {{\n{line}\n}}\n"
    for value in VALUES:
        wanted = line if expected is None else expected.replace("@", f" = tiledmm_detail::{value}()")
        assert filled(text, [(name, 2), (name, 0), (name, 99), (name, 2)], value) == text.replace(line, wanted)
