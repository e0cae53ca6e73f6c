"""Tests of every exercise: its solution passes, and what is no solution fails with the words that its author wanted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import missing_simulator, slow_unless
from tiledmm.course import verdict
from tiledmm.course.attempt import hidden_sizes
from tiledmm.course.exercise import KINDS, Exercise, WrongAnswer, exercises
from tiledmm.course.figures import FIGURES
from tiledmm.course.gpu_run import GpuRun
from tiledmm.course.student_file import answered, solution_text, start_text
from tiledmm.course.verdict import Verdict, check, keys_of

EXERCISES = exercises()
KERNELS = [each for each in EXERCISES.values() if not each.questions]
PREDICTIONS = [each for each in EXERCISES.values() if each.questions]
SEED = 20261128

pytestmark = pytest.mark.skipif(missing_simulator() is not None, reason=str(missing_simulator()))


def checked(exercise: Exercise, text: str, folder: Path) -> Verdict:
    path = folder / f"{exercise.name}.cu"
    path.write_text(text)
    return check(exercise, path, SEED)


def everyday(exercise: Exercise) -> list[pytest.MarkDecorator]:
    """Return the marks of an exercise of which one per lesson is tested every day."""
    return slow_unless(exercise.place == 1)


def runs_a_hole(exercise: Exercise) -> list[pytest.MarkDecorator]:
    """Return the marks of an exercise whose hole is checked: it runs if it is a kernel with a bug, or a slow one."""
    return slow_unless(exercise.kind in ("fill", "predict") or exercise.place == 1)


def by_name(exercise: Exercise) -> str:
    return exercise.name


def test_places_in_a_lesson_are_numbered() -> None:
    for lesson in {each.lesson for each in EXERCISES.values()}:
        places = [each.place for each in EXERCISES.values() if each.lesson == lesson]
        assert places == list(range(1, len(places) + 1))


@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_hidden_sizes_go_beyond_the_shown_ones(exercise: Exercise) -> None:
    for seed in range(20):
        drawn = hidden_sizes(exercise, seed)
        for size, (least, most), step, shown, first in zip(
            zip(*drawn, strict=True), exercise.hidden, exercise.multiple_of, zip(*exercise.shown, strict=True),
            drawn[0], strict=True,
        ):  # fmt: skip
            assert all(least <= each <= most and each % step == 0 for each in size)
            assert first > max(shown) or max(shown) >= most // step * step


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=by_name)
def test_files_are_complete(exercise: Exercise) -> None:
    assert exercise.kind in KINDS and len(exercise.hints) >= 3
    assert len(exercise.wrong) >= 3, "three wrong answers with what a check says of them"
    assert (exercise.kind == "predict") == bool(exercise.questions)
    assert exercise.expect or not exercise.mistakes, "wrong products are explained by variants of the product"
    named = [each.figure for each in (*exercise.targets, *exercise.questions)]
    assert {each.name for each in named} <= set(FIGURES)
    for page in exercise.look:
        assert (Path(__file__).parents[2] / page.partition("#")[0]).is_file(), page
    if not exercise.questions:
        assert exercise.start != exercise.solution and exercise.hidden, "hidden sizes keep answers honest"
        assert all(exercise.solution.count(each.old) == 1 for each in exercise.wrong)


@pytest.mark.parametrize("exercise", [pytest.param(each, marks=everyday(each), id=each.name) for each in KERNELS])
def test_the_solution_passes(exercise: Exercise, tmp_path: Path) -> None:
    found = checked(exercise, solution_text(exercise), tmp_path)
    assert found.done, str(found)


@pytest.mark.parametrize(
    "exercise", [pytest.param(each, marks=runs_a_hole(each), id=each.name) for each in EXERCISES.values()]
)
def test_the_hole_fails(exercise: Exercise, tmp_path: Path) -> None:
    found = checked(exercise, start_text(exercise), tmp_path)
    asks = {"fill": "is unchanged", "predict": "Write a number"}.get(exercise.kind, " result ")
    assert not found.done and asks in found.sentence


@pytest.mark.slow
@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_what_looks_changed_and_is_not_fails(exercise: Exercise, tmp_path: Path) -> None:
    found = checked(exercise, f"{start_text(exercise)}\n__device__ int mine = 1;\n", tmp_path)
    assert not found.done, "the hole runs as it is, beside a variable"


@pytest.mark.slow
@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_answers_for_the_sizes_that_are_shown_fail(exercise: Exercise, tmp_path: Path) -> None:
    names = [each for each in ("M", "N", "K") if re.search(rf"\bint {each}\b", exercise.solution)]
    sizes = [dict(zip("MNK", numbers, strict=True)) for numbers in exercise.shown]
    known = " || ".join("(" + " && ".join(f"{name} == {each[name]}" for name in names) + ")" for each in sizes)
    body = re.search(rf"\b{exercise.name}\s*\([^)]*\)\s*\{{", exercise.solution)
    assert body and names, "a kernel takes its sizes as int M, N or K"
    text = solution_text(exercise).replace(body[0], f"{body[0]} if (!({known})) return;")
    assert not checked(exercise, text, tmp_path).done


@pytest.mark.slow
@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_a_kernel_that_ignores_its_inputs_fails(exercise: Exercise, tmp_path: Path) -> None:
    head = re.search(
        rf"(// tiledmm:[^\n]*\n)?(?:.*\n)*?.*__global__[^{{]*\b{exercise.name}\s*\([^)]*\)", exercise.solution
    )
    assert head
    assert not checked(exercise, f"{head[0]} {{}}\n", tmp_path).done


@pytest.mark.slow
@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_another_solution_fails(exercise: Exercise, tmp_path: Path) -> None:
    """Check that the solution of another exercise with the same parameters, renamed, does not do."""
    for other in KERNELS:
        if other is not exercise and other.args == exercise.args and other.lesson < exercise.lesson:
            text = re.sub(rf"\b{other.name}\b", exercise.name, solution_text(other))
            assert not checked(exercise, text, tmp_path).done, other.name


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [
        # Everyday tests have those of every other lesson, and a right and an unchanged answer of each.
        pytest.param(
            each, wrong, id=f"{each.name}-{at}", marks=slow_unless(each.place == 1 and at == 0 and each.lesson % 2)
        )
        for each in KERNELS
        for at, wrong in enumerate(each.wrong)
    ],
)
def test_wrong_answers_are_told(exercise: Exercise, wrong: WrongAnswer, tmp_path: Path) -> None:
    found = checked(exercise, solution_text(exercise).replace(wrong.old, wrong.new), tmp_path)
    assert not found.done and re.search(wrong.says, " ".join(str(found).split())), str(found)


@pytest.mark.parametrize("exercise", [pytest.param(each, marks=everyday(each), id=each.name) for each in PREDICTIONS])
def test_predictions(exercise: Exercise, tmp_path: Path) -> None:
    keys = keys_of(exercise)
    right = answered(solution_text(exercise), {name: f"{value:g}" for name, value in keys.items()})
    assert checked(exercise, right, tmp_path).done
    for wrong in exercise.wrong:
        found = checked(exercise, answered(right, {wrong.old: wrong.new}), tmp_path)
        assert not found.done and re.search(wrong.says, " ".join(str(found).split())), str(found)


def test_another_launch_is_another_kernel(tmp_path: Path) -> None:
    text = start_text(EXERCISES["coalesced"])
    assert "block=32,8" in text
    found = checked(EXERCISES["coalesced"], text.replace("block=32,8", "block=32,4"), tmp_path)
    assert not found.done and found.right is False, str(found)


@pytest.mark.parametrize(("ratio", "is_right"), [("1/8", True), ("0.125", True), ("2 / 16", True), ("1/0", False)])
def test_an_answer_may_be_a_fraction(ratio: str, is_right: bool, tmp_path: Path) -> None:
    exercise = EXERCISES["tiled_loads"]
    text = answered(solution_text(exercise), {"global_loads": ratio, "shared_loads": "2", "barriers": "10"})
    assert checked(exercise, text, tmp_path).done == is_right


def test_an_access_counts_however_it_is_written(tmp_path: Path) -> None:
    """Check that a load whose array the report does not name, in a declaration, is no way around a target."""
    exercise, product = EXERCISES["coalesced"], "sum += A[row * K + k] * B[k * N + col];"
    assert product in exercise.start
    hidden = "{ float a = A[row * K + k]; float b = B[k * N + col]; sum += a * b; }"
    found = checked(exercise, start_text(exercise).replace(product, hidden), tmp_path)
    assert not found.done and "sectors" in str(found), str(found)


def test_a_gpu_has_the_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Check what a verdict says of a kernel that is right on the simulator, with made-up runs on a GPU."""
    exercise = next(each for each in KERNELS if each.kind == "fast")
    path = tmp_path / f"{exercise.name}.cu"
    path.write_text(solution_text(exercise))
    times = {"your kernel": 20.0, "the solution": 10.0, "cupy.matmul": 5.0}
    for run, done, said in (
        (GpuRun("H100", "C[0, 1] is nan at M = 3, and should be 1", {}, {}), False, "wrong on the H100: C"),
        (GpuRun("H100", "", {}, {}, "it does not compile:\nno mma.h"), True, "did not run on the H100, .* no mma.h"),
        (GpuRun("H100", "", {"M": 2048}, times), False, "at 50% of the solution's speed"),
        (GpuRun("H100", "", {"M": 2048}, times | {"your kernel": 10.0}), True, r"(?s)M = 2,048 .*cupy.matmul +5.0"),
    ):
        monkeypatch.setattr(verdict, "_on_gpu", lambda mine, report, run=run: run)
        found = check(exercise, path, SEED, has_gpu=True)
        assert found.done == done and re.search(said, " ".join(str(found).split())), str(found)
