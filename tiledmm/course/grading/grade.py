"""Grading: every submission is checked by a process of its own, side by side, and gets points by the rubric."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tiledmm.course.exercise import FOLDER as EXERCISES
from tiledmm.course.exercise import Exercise
from tiledmm.course.grading import sandbox
from tiledmm.course.grading.confine import Limits
from tiledmm.course.grading.rubric import Rubric, Task
from tiledmm.course.grading.submissions import Submission, submissions_in
from tiledmm.course.grading.worker import Job, Outcome
from tiledmm.errors import ConfigError
from tiledmm.simulator.build.built_libraries import cache_path
from tiledmm.simulator.build.toolchain import runtime_library

_WORKER = (sys.executable, "-m", "tiledmm.course.grading.worker")


@dataclass(frozen=True, slots=True)
class Graded:
    """One exercise of one student.

    Attributes:
        student: The student.
        task: The exercise, and what it is worth.
        points: Points by item.
        done: Whether the exercise is done.
        feedback: What the student reads.
        problem: What a teacher should look at: no file, or a check that did not end as it should.
    """

    student: str
    task: Task
    points: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    feedback: str = ""
    problem: str = ""

    @property
    def total(self) -> float:
        """The points of all items."""
        return sum(self.points.values())


def grade(
    folder: Path, rubric: Rubric, *, unsafe: bool = False, jobs: int = 0, progress: Callable[[int, int], None]
) -> list[Graded]:
    """Grade a class's submissions.

    Args:
        folder: The submissions, as ``submissions_in`` finds them.
        rubric: The rubric.
        unsafe: Whether kernels run with this user's rights, without a sandbox.
        jobs: Number of files that are checked at a time; 0 for one per core.
        progress: Function ``(checked, of)`` that is called after each file, by any thread.

    Returns:
        One entry per student and exercise, in this order.

    Raises:
        ConfigError: If there are no submissions, or if this machine cannot confine a process.
    """
    if not unsafe and (why := sandbox.missing()):
        raise ConfigError(f"{why}. --unsafe runs what students wrote with your rights")
    handed_in = submissions_in(folder, [each.exercise for each in rubric.tasks])
    tasks = {each.exercise.name: each for each in rubric.tasks}
    done = 0

    def graded(submission: Submission) -> Graded:
        nonlocal done
        found = _graded(submission, tasks[submission.exercise], rubric, None if unsafe else runtime)
        done += 1
        progress(done, len(handed_in))
        return found

    with _runtime() as runtime, ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(graded, handed_in))


def _graded(submission: Submission, task: Task, rubric: Rubric, runtime: Path | None) -> Graded:
    """Check one file; ``runtime`` is the simulator's compiled runtime, or None to check it without a sandbox."""
    if submission.file is None:
        return Graded(submission.student, task, problem=submission.problem)
    exercise = task.exercise.without_solution()
    if runtime is None:
        job = Job(exercise, submission.file.resolve(), rubric.seed, None, None)
        ended = sandbox.run_unconfined(_WORKER, seconds=rubric.seconds, input_bytes=pickle.dumps(job))
    else:
        ended = _confined(submission.file, exercise, rubric, runtime)
    return _with_points(submission, task, ended, rubric.seconds)


def _confined(file: Path, exercise: Exercise, rubric: Rubric, runtime: Path) -> sandbox.Ended:
    """Check one file in a sandbox, which sees a copy of it that its user may read."""
    there, runtime_there = sandbox.FOLDER / f"{exercise.name}.cu", sandbox.FOLDER / runtime.name
    # Libraries of kernels name the runtime by the path at which it was compiled, so the cache is at the same path.
    cache = cache_path().parent
    job = Job(exercise, there, rubric.seed, Limits(rubric.seconds, rubric.memory), runtime_there)
    with tempfile.NamedTemporaryFile(prefix="tiledmm-") as copy:
        copy.write(file.read_bytes())
        copy.flush()
        os.fchmod(copy.fileno(), 0o644)
        return sandbox.run_confined(
            _WORKER,
            seconds=rubric.seconds,
            input_bytes=pickle.dumps(job),
            shown={there: Path(copy.name), runtime_there: runtime},
            empty=[EXERCISES, cache],
            variables={"TILEDMM_CACHE_DIR": str(cache)},
        )


def _with_points(submission: Submission, task: Task, ended: sandbox.Ended, seconds: float) -> Graded:
    student = submission.student
    if ended.status is None:
        problem = f"the check was stopped after {seconds:g} s"
        return Graded(student, task, feedback=f"Not yet. {problem.capitalize()}.", problem=problem)
    try:
        answer = json.loads(ended.output)
        problem = answer.get("problem", "") if isinstance(answer, dict) else "the check printed something else"
        outcome = None if problem else Outcome(**answer)
    except (ValueError, TypeError):
        last = next(reversed(ended.errors.strip().splitlines()), "nothing was printed")
        outcome, problem = None, f"the check ended with status {ended.status}: {last[:300]}"
    if outcome is None:
        return Graded(student, task, feedback="The check did not end. Ask your teacher.", problem=problem)
    points = {item: worth * outcome.shares.get(item, 0.0) for item, worth in task.points.items()}
    return Graded(student, task, points, outcome.done, outcome.feedback)


@contextmanager
def _runtime() -> Iterator[Path]:
    """Return a context manager that yields a copy of the simulator's compiled runtime, which every user may read."""
    with tempfile.TemporaryDirectory(prefix="tiledmm-") as folder, runtime_library() as runtime:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copy(runtime, folder))
        copy.chmod(0o644)
        yield copy


def by_student(graded: Sequence[Graded]) -> dict[str, list[Graded]]:
    """Return the exercises of each student, by student."""
    found: dict[str, list[Graded]] = {}
    for each in graded:
        found.setdefault(each.student, []).append(each)
    return found
