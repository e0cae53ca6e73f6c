"""Grading: a separate process checks each submission, in parallel with others, and the rubric gives points."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import strsignal
from threading import Lock

from tiledmm.course.exercise import FOLDER as EXERCISES
from tiledmm.course.exercise import Exercise
from tiledmm.course.grading import sandbox
from tiledmm.course.grading.confine import Limits
from tiledmm.course.grading.rubric import Rubric, Task
from tiledmm.course.grading.submissions import Submission, printable, submissions_in
from tiledmm.course.grading.worker import Job, Outcome
from tiledmm.course.student_file import solution_text, text_of
from tiledmm.errors import ConfigError
from tiledmm.simulator.build.built_libraries import cache_path
from tiledmm.simulator.build.toolchain import runtime_library

_WORKER = (sys.executable, "-m", "tiledmm.course.grading.worker")

# Exit status of a shell or sandbox if a signal ended its program: this number plus the signal's.
_SIGNALS = 128

# Maximum number of characters of feedback: a kernel may print without end.
_MAX_FEEDBACK = 20_000


@dataclass(frozen=True, slots=True)
class Graded:
    """Result of one exercise of one student.

    Attributes:
        student: The student.
        task: The exercise, and what it is worth.
        points: Points by item.
        done: Whether the exercise is done.
        feedback: Text for the student.
        problem: What a teacher should look at: no file, several files, or a check that did not end normally.
        file: Name of the file that was checked; empty if none was.
        others: Names of the student's files that belong to no exercise of the lab.
    """

    student: str
    task: Task
    points: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    feedback: str = ""
    problem: str = ""
    file: str = ""
    others: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """Sum of the exercise's points."""
        return total_of(self.points.values())


def total_of(points: Iterable[float]) -> float:
    """Return a sum of points, rounded to hundredths."""
    return round(sum(points), 2)


def grade(
    folder: Path, rubric: Rubric, *, unsafe: bool = False, jobs: int = 0, progress: Callable[[int, int], None]
) -> list[Graded]:
    """Grade a class's submissions.

    First, the package's own solutions are checked in the same way. If one of them does not pass, no student's file
    could pass either, and the limits or the machine are at fault.

    Args:
        folder: The submissions, as ``submissions_in`` finds them.
        rubric: The rubric.
        unsafe: Whether to run kernels with this user's rights, without a sandbox.
        jobs: Number of files that are checked at a time; 0 for one per core.
        progress: Function ``(checked, total)``, called after each file, from any thread.

    Returns:
        One entry per student and exercise, in this order.

    Raises:
        ConfigError: If there are no submissions, if this machine cannot run a sandbox, or if a solution of the
            package does not pass here.
    """
    if not unsafe and (why := sandbox.missing()):
        raise ConfigError(f"{why}. With --unsafe, students' files run with your rights, without a sandbox")
    handed_in = submissions_in(folder, [each.exercise for each in rubric.tasks])
    tasks = {each.exercise.name: each for each in rubric.tasks}
    checks = len(tasks) + sum(each.file is not None for each in handed_in)
    lock, done = Lock(), 0
    full: dict[str, Mapping[str, float]] = {}  # the shares of the solutions, which have all points

    def checked(text: str, task: Task) -> tuple[Outcome | None, str]:
        nonlocal done
        ended = _checked(text, task.exercise, rubric, None if unsafe else runtime, folder)
        with lock:
            done += 1
            progress(done, checks)
        return outcome_of(ended, rubric)

    def graded(each: Submission) -> Graded:
        task = tasks[each.exercise]
        if each.file is None:
            return Graded(each.student, task, problem=each.problem, others=each.others)
        outcome, problem = checked(text_of(each.file), task)
        both = "; ".join(filter(None, (each.problem, problem)))
        name = printable(each.file.name)
        if outcome is None:
            return Graded(each.student, task, {}, False, f"Not yet. {_ended(problem)}", both, name, each.others)
        points = {
            item: round(worth * min(1.0, outcome.shares.get(item, 0.0) / full[task.exercise.name].get(item, 1.0)), 2)
            for item, worth in task.points.items()
        }
        return Graded(each.student, task, points, outcome.done, outcome.feedback, both, name, each.others)

    with _runtime() as runtime, ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        try:
            solutions = [solution_text(each.exercise) for each in rubric.tasks]
            for task, (outcome, problem) in zip(rubric.tasks, pool.map(checked, solutions, rubric.tasks), strict=True):
                full[task.exercise.name] = _shares_of_solution(task, outcome, problem)
            return list(pool.map(graded, handed_in))
        except BaseException:  # also Ctrl-C, which need not wait for a kernel without end
            pool.shutdown(wait=False, cancel_futures=True)
            sandbox.stop_all()
            raise


def _shares_of_solution(task: Task, outcome: Outcome | None, problem: str) -> Mapping[str, float]:
    """Return the shares that the package's own solution gets for each item, which are the maximum for students.

    Raises:
        ConfigError: If the solution does not pass, or gets nothing for an item.
    """
    if task.exercise.questions and outcome is not None:  # the kernel ran; the solution has no answers
        return {}
    shares = outcome.shares if outcome else {}
    if outcome is None or not shares.get("shown"):
        why = problem or (outcome.feedback if outcome else "")
        raise ConfigError(
            f"the package's own solution of {task.exercise.name} does not pass here, so no student's could: {why}. "
            "Raise memory_gb or seconds in the rubric's limits, lower --jobs, or see what 'tiledmm doctor' says"
        )
    if without := [item for item in task.points if not shares.get(item)]:
        raise ConfigError(
            f"no student could get points for {', '.join(without)} in {task.exercise.name}: the solution gets none"
        )
    return shares


def _checked(text: str, exercise: Exercise, rubric: Rubric, runtime: Path | None, folder: Path) -> sandbox.Ended:
    """Check a file's text. ``runtime`` is the simulator's compiled runtime, or None to check without a sandbox."""
    with tempfile.TemporaryDirectory(prefix="tiledmm-") as own:
        copy = Path(own) / f"{exercise.name}.cu"
        copy.write_text(text, encoding="utf-8", newline="")
        copy.chmod(0o644)  # the sandbox's user may read it, and other users cannot enter its folder
        if runtime is None:
            job = Job(exercise.without_solution(), copy, rubric.seed, None, None)
            return sandbox.run_unconfined(_WORKER, seconds=rubric.seconds, input_bytes=pickle.dumps(job))
        there, runtime_there = sandbox.FOLDER / copy.name, sandbox.FOLDER / runtime.name
        # Libraries of kernels name the runtime by the path at which it was compiled, so the cache is at the same path.
        cache = cache_path().parent
        limits = Limits(rubric.seconds, rubric.memory)
        job = Job(exercise.without_solution(), there, rubric.seed, limits, runtime_there)
        return sandbox.run_confined(
            _WORKER,
            seconds=rubric.seconds,
            input_bytes=pickle.dumps(job),
            shown={there: copy, runtime_there: runtime},
            empty=[EXERCISES, cache],
            hidden=[folder.resolve()],
            variables={"TILEDMM_CACHE_DIR": str(cache)},
        )


def outcome_of(ended: sandbox.Ended, rubric: Rubric) -> tuple[Outcome | None, str]:
    """Return the outcome of a check, or None and the reason. A hostile kernel may have printed anything."""
    if ended.status is None:
        return None, f"the check was stopped after {rubric.seconds:g} s"
    last = printable(next(reversed(ended.errors.strip().splitlines()), "nothing was printed"))[:200]
    try:
        answer = json.loads(ended.output)
    except (ValueError, RecursionError):
        if "MemoryError" in last:
            return None, f"the check needs more than {rubric.memory / 2**30:g} GB of memory"
        number = -ended.status if ended.status < 0 else ended.status - _SIGNALS
        if number > 0:
            return None, f"a signal ended the check: {strsignal(number) or number}"
        return None, f"the check ended with status {ended.status}: {last}"
    if isinstance(answer, dict) and isinstance(problem := answer.get("problem"), str):
        return None, printable(problem)[:500]
    outcome = Outcome.read(answer)
    if outcome is None:
        return None, "the check printed something other than an outcome: read the file"
    feedback = printable(outcome.feedback).replace(str(cache_path().parent), "(cache)")
    return replace(outcome, feedback=feedback[:_MAX_FEEDBACK]), ""


def _ended(problem: str) -> str:
    return f"{problem[:1].upper()}{problem[1:]}."


@contextmanager
def _runtime() -> Iterator[Path]:
    """Yield a copy of the simulator's compiled runtime that every user may read."""
    with tempfile.TemporaryDirectory(prefix="tiledmm-") as folder, runtime_library() as runtime:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copy(runtime, folder))
        copy.chmod(0o644)
        yield copy


def by_student(graded: Sequence[Graded]) -> dict[str, list[Graded]]:
    """Return the graded exercises, grouped by student."""
    found: dict[str, list[Graded]] = {}
    for each in graded:
        found.setdefault(each.student, []).append(each)
    return found
