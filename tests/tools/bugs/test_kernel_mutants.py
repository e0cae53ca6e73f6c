"""Tests of the edits of kernels' text, and that the simulator notices a sample, or all with ``--full``."""

from __future__ import annotations

import pytest

from tests.conftest import missing_simulator, slow_unless
from tools.bugs.__main__ import main
from tools.bugs.fates import Fate, Options
from tools.bugs.kernel_mutants import (
    EQUIVALENT,
    KERNELS,
    OPERATORS,
    Kernel,
    Known,
    Mutant,
    code_of,
    editable_lines,
    every_bug,
    judge,
    judge_here,
    mutants,
    why,
)

pytestmark = pytest.mark.skipif(missing_simulator() is not None, reason=str(missing_simulator()))


def results(operator: str, code: str) -> list[str]:
    """Return the line after each edit."""
    return [code[:start] + new + code[end:] for start, end, new in OPERATORS[operator](code)]


@pytest.mark.parametrize(
    ("operator", "code", "expected"),
    [
        ("barrier removed", "__syncthreads();", [";"]),
        ("wait removed", "wait_for_copies();", [";"]),
        ("wait removed", "void wait_for_copies() {", []),
        ("comparison", "if (left < size)", ["if (left <= size)", "if (left > size)"]),
        ("comparison", "matrix<T, ORDER_A>(a)", []),
        ("and, or", "a < b && c < d", ["a < b || c < d"]),
        ("part of a guard dropped", "(row < rows && col < p.n)", ["(row < rows)", "(col < p.n)"]),
        ("part of a guard dropped", "(row >= t.rows || col >= t.cols)", ["(row >= t.rows)", "(col >= t.cols)"]),
        ("guard dropped", "if (row < rows && col < cols)", ["if (true)"]),
        ("condition", "if (more) fetch(0);", ["if (true) fetch(0);", "if (false) fetch(0);"]),
        ("plus, minus", "data + row - 1", ["data - row - 1", "data + row + 1"]),
        ("plus, minus", "left -= BK; ++k", []),
        ("times, plus", "row * stride", ["row + stride"]),
        ("times, plus", "const T* shared", []),
        ("division", "thread / BK + thread % BK", ["thread % BK + thread % BK", "thread / BK + thread / BK"]),
        ("names swapped", "const int row = threadIdx.x;", []),
        ("names swapped", "write(row, tx)", ["write(col, tx)", "write(row, ty)"]),
        ("names swapped", "arrow + rows_of", []),
        ("subscripts swapped", "x = As[stage][ty + i][k];", ["x = As[stage][k][ty + i];"]),
        ("subscripts swapped", "As[2][BM][BK];", ["As[2][BK][BM];"]),
        ("subscript off by one", "x = acc[i];", ["x = acc[i + 1];", "x = acc[i - 1];"]),
        ("subscript off by one", "    Sum acc[TM] = {};", ["    Sum acc[TM - 1] = {};"]),
        ("subscript off by one", "[&](int stage)", []),
        ("padding", "[BK + PAD]", ["[BK + 0]", "[BK + PAD - 1]"]),
        ("step along K", "move(0, BK)", ["move(0, (BK - 1))", "move(0, (BK + 1))"]),
        ("loop along K", "left -= BK)", ["left -= 2 * BK)", "left += BK)", "left -= 1)"]),
        ("loop's end", "k < BK;", ["k < BK - 1;", "k < BK / 2;", "k < 1;"]),
        ("stage", "fetch(stage ^ 1, 0)", ["fetch(stage, 0)"]),
        ("stage", "stage ^= 1;", []),
        ("stage fixed", "As[stage][k]", ["As[0][k]", "As[stage ^ 1][k]"]),
        ("statement dropped", "    stage ^= 1;", ["    ;"]),
        ("statement dropped", "    a_view.move(0, BK);   ", ["    ;   "]),
        ("statement dropped", "    if (!block.exists) return;", ["    ;"]),
        ("statement dropped", "    const int tx = threadIdx.x;", []),
        ("not initialised", "Sum sum = {};", ["Sum sum;"]),
        ("extent", "{inside(p.m, f(row), 2), 3}",
            ["{inside(p.m, f(row), 2) + 1, 3}", "{inside(p.m, f(row), 2) - 1, 3}"]),
        ("extent", "int inside(long long extent)", []),
        ("choice", "x = ok ? read(a) : 0;", ["x = ok ? read(a) : read(a);", "x = ok ? 0 : read(a);"]),
        ("constant", "f(0, x1, p.a0, 10, 1)", ["f(1, x1, p.a0, 10, 1)", "f(0, x1, p.a0, 10, 0)"]),
    ],
)  # fmt: skip
def test_an_operator(operator: str, code: str, expected: list[str]):
    assert results(operator, code) == expected


def test_every_operator_edits_something():
    used = {mutant.operator for kernel in KERNELS for mutant in mutants(kernel)}
    assert used == set(OPERATORS)


def test_comments_and_lines_that_compute_nothing_stay():
    assert code_of("x = y;  // < BK") == "x = y;         "
    for kernel in KERNELS:
        for _, code in editable_lines(kernel.text):
            assert "//" not in code and "static_assert" not in code and not code.lstrip().startswith("#")


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name.replace(" ", "-"))
def test_a_mutant_is_one_edit_of_one_line(kernel: Kernel):
    found = list(mutants(kernel))
    assert len({mutant.text for mutant in found}) == len(found)
    lines = kernel.text.split("\n")
    for mutant in found:
        edited = mutant.text.split("\n")
        assert [i for i, pair in enumerate(zip(lines, edited, strict=True)) if len(set(pair)) == 2] == [mutant.line]
        assert mutant.before in lines[mutant.line] and mutant.before != mutant.after


def test_what_is_declared_to_survive_occurs_and_has_a_reason():
    every = [mutant for kernel in KERNELS for mutant in mutants(kernel)]
    for each in EQUIVALENT:
        assert each.reason and any(each.covers(mutant) for mutant in every), each


def test_what_a_declaration_covers():
    kernel = Kernel("tiled", 8, "NT")
    mutant = Mutant(kernel, "constant", 1, "f(0);", "f(1);", "")
    assert why(mutant, [Known("tiled.*", r"f\(0\);", r"f\(1\);", "so")]) == "so"
    for pattern in (("naive.*", ".*", ".*"), (".*", "f", ".*"), (".*", ".*", "f")):
        assert why(mutant, [Known(*pattern, "so")]) is None


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(each, id=each.name.replace(" ", "-"), marks=slow_unless(i % 3 == 0))
        for i, each in enumerate(KERNELS)
    ],
)
def test_a_kernel_as_it_is_survives(kernel: Kernel):
    assert judge_here(kernel, kernel.text) == Fate("same code", None)
    assert judge_here(kernel, kernel.text, same_code=False) == Fate("survived", False)


def edited(kernel: Kernel, old: str, new: str) -> Mutant:
    assert old in kernel.text
    return Mutant(kernel, "by hand", 0, old, new, kernel.text.replace(old, new, 1))


def test_fates():
    tiled = Kernel("tiled", 8, "NT")
    chosen = [
        edited(tiled, "__syncthreads();   // both", "// both"),
        edited(tiled, "a_view.move(0, BK);", ";"),
        edited(tiled, "a_view.move(0, BK);", "a_view.move(0, BK)"),
        edited(tiled, "a_view.move(0, BK);", "a_view.move(0, 1 * BK);"),
        edited(tiled, "const int tx = threadIdx.x;", "while (*(const volatile float*)a < 1e9f) {} const int tx = 0;"),
        edited(tiled, "const int tx = threadIdx.x;", "__builtin_trap(); const int tx = 0;"),
        edited(tiled, "left > 0; left -=", "left >= 0; left -="),
    ]
    fates = judge(chosen, 2)
    assert [fate.outcome for fate in fates] == [
        "found", "wrong result", "does not compile", "same code", "hangs", "found", "survived",
    ]  # fmt: skip
    assert "race" in fates[0].detail


@pytest.mark.slow
def test_samples_are_caught() -> None:
    """Check that the simulator notices random mutants; runs are sequential because each removes its libraries."""
    chosen = Options(limit=66, seed=3).chosen(every_bug())
    for mutant, fate in zip(chosen, judge(chosen, 2), strict=True):
        assert fate.caught is not False, mutant.id


@pytest.mark.full
def test_all_are_caught() -> None:
    assert main(["kernel-mutants"]) == 0
