"""The course's solutions on a GPU: right there, too, and timed beside cuBLAS."""

from __future__ import annotations

import pytest

from tests.course.test_exercises import KERNELS, SEED, by_name
from tiledmm.course.attempt import Attempt
from tiledmm.course.exercise import Exercise
from tiledmm.course.gpu_run import run_on_gpu
from tiledmm.course.student_file import solution_text
from tiledmm.course.verdict import check

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_the_solution_passes(exercise: Exercise, tmp_path):
    path = tmp_path / f"{exercise.name}.cu"
    path.write_text(solution_text(exercise))
    found = check(exercise, path, SEED, has_gpu=True)
    assert found.done and "your kernel" in str(found), str(found)
    assert ("cupy.matmul" in str(found)) == (not exercise.expect)


def test_a_wrong_result_is_told(tmp_path):
    exercise = next(each for each in KERNELS if each.name == "tiled")
    text = exercise.solution.replace("sum +=", "sum += (blockIdx.x == 1) +")
    run = run_on_gpu(Attempt.of(exercise, text), [dict(zip("MNK", exercise.shown[0], strict=True))])
    assert run.wrong.startswith("C[0, 16] is") and not run.times
