"""Grading: every submission is checked by a process of its own, side by side, and gets points by the rubric."""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tiledmm.course.exercise import FOLDER as EXERCISES
from tiledmm.course.exercise import exercises
from tiledmm.course.grading import sandbox
from tiledmm.course.grading.confine import Limits
from tiledmm.course.grading.rubric import Rubric, Task
from tiledmm.course.grading.submissions import Submission, submissions_in
from tiledmm.course.grading.worker import Job, Outcome
from tiledmm.course.student_file import start_text
from tiledmm.errors import ConfigError

_WORKER = (sys.executable, "-m", "tiledmm.course.grading.worker")

# Where a confined worker finds the runtime that was compiled before. It copies that to where it was compiled: libraries
# of kernels name it by its path.
_WARM = sandbox.FOLDER / "cache"


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
        found = _graded(submission, tasks[submission.exercise], rubric, None if unsafe else warm)
        done += 1
        progress(done, len(handed_in))
        return found

    with _warm_cache(rubric) as warm, ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(graded, handed_in))


def _graded(submission: Submission, task: Task, rubric: Rubric, warm: Path | None) -> Graded:
    """Check one file; ``warm`` is the folder of the compiled runtime, or None to run it without a sandbox."""
    if submission.file is None:
        return Graded(submission.student, task, problem=submission.problem)
    name = f"{task.exercise.name}.cu"
    exercise = task.exercise.without_solution()
    if warm is None:
        job = Job(exercise, submission.file.resolve(), rubric.seed, None, None)
        ended = sandbox.run_unconfined(_WORKER, seconds=rubric.seconds, input_bytes=pickle.dumps(job))
    else:
        limits = Limits(rubric.seconds, rubric.memory)
        with tempfile.TemporaryDirectory(prefix="tiledmm-") as copies:
            Path(copies).chmod(0o755)  # an unprivileged user reads it
            copy = Path(copies) / name
            copy.write_bytes(submission.file.read_bytes())
            copy.chmod(0o644)
            job = Job(exercise, sandbox.FOLDER / name, rubric.seed, limits, _WARM)
            ended = sandbox.run_confined(
                _WORKER,
                seconds=rubric.seconds,
                input_bytes=pickle.dumps(job),
                shown={_WARM: warm, sandbox.FOLDER / name: copy},
                empty=[EXERCISES, warm.parent],
                variables={"TILEDMM_CACHE_DIR": str(warm)},
            )
    return _with_points(submission, task, ended, rubric.seconds)


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
def _warm_cache(rubric: Rubric) -> Iterator[Path]:
    """Return a context manager that yields a folder with the simulator's compiled runtime, which each check needs."""
    with tempfile.TemporaryDirectory(prefix="tiledmm-") as folder:
        Path(folder).chmod(0o755)
        exercise = next(each for each in exercises().values() if not each.questions).without_solution()
        start, cache = Path(folder) / f"{exercise.name}.cu", Path(folder) / "cache"
        start.write_text(f"{start_text(exercise)}\n__device__ int any;\n", encoding="utf-8")
        cache.mkdir(0o755)
        job = Job(exercise, start, rubric.seed, None, None)
        ended = sandbox.run_unconfined(
            _WORKER, seconds=600, input_bytes=pickle.dumps(job), variables={"TILEDMM_CACHE_DIR": str(cache)}
        )
        if ended.status:
            raise ConfigError(f"the simulator does not run here: {ended.errors.strip()[-500:]}")
        for each in cache.rglob("*"):
            each.chmod(0o755 if each.is_dir() else 0o644)
        yield cache


def by_student(graded: Sequence[Graded]) -> dict[str, list[Graded]]:
    """Return the exercises of each student, by student."""
    found: dict[str, list[Graded]] = {}
    for each in graded:
        found.setdefault(each.student, []).append(each)
    return found
