"""Tests of the corpus of ``.cu`` files: right ones are right, and wrong ones are found and told why."""

from __future__ import annotations

import pytest

from tests.conftest import slow_unless
from tests.simulator.corpus import CORPUS, FOLDER
from tiledmm.simulated.explanation.slow import explain_slow_kernel

EVERY_DAY = {
    "school_naive.cu", "namespaces.cu", "modern.cu", "grid_rounded_down.cu", "stored_transposed.cu", "rest_of_k.cu",
    "batch_offset.cu", "columns_mixed_up.cu", "tree_without_barrier.cu",
}  # fmt: skip


def test_every_file_has_one_entry():
    names = [each.name for each in CORPUS]
    assert sorted(names) == sorted(path.name for path in FOLDER.glob("*.cu"))
    assert len(names) >= 60
    assert len([each for each in CORPUS if each.error]) >= 30


@pytest.mark.parametrize(
    "file", [pytest.param(each, marks=slow_unless(each.name in EVERY_DAY), id=each.name) for each in CORPUS]
)
def test_right_files_are_right_and_wrong_ones_are_told_why(file):
    told: list[str] = []
    for sizes in file.sizes:
        report, found = file.launch(sizes)
        told += [each.kind for each in report.findings] + [each.pattern for each in found]
        if not file.error:
            assert told == [], [each.message for each in report.findings]
    if file.error:
        assert file.error in told, told


@pytest.mark.parametrize("file", [each for each in CORPUS if each.slow], ids=lambda file: file.name)
def test_slow_files_are_told_what_slows_them_down(file):
    report, _ = file.launch(file.sizes[0], counts=True)
    causes = {each.cause: each for each in explain_slow_kernel(report)}
    assert set(file.slow) <= set(causes)
    assert all(causes[cause].variant for cause in file.slow)
