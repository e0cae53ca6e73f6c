"""Program that checks one submission in its own process: it reads a ``Job`` from stdin, and prints an ``Outcome``."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tiledmm.course.attempt import Attempt
from tiledmm.course.exercise import Exercise
from tiledmm.course.figures import figure_of
from tiledmm.course.grading.confine import Limits, refuse_processes_and_sockets
from tiledmm.course.student_file import code_of, text_of
from tiledmm.course.verdict import check, share_of_right_answers, verdict_of
from tiledmm.errors import CompilationError, ConfigError, TiledmmError
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.simulator.build.built_libraries import cache_folder
from tiledmm.simulator.build.compiler_process import start_compiler_process
from tiledmm.simulator.build.cxx import compiler, version
from tiledmm.simulator.check.finding_kinds import WRONG_RESULT
from tiledmm.simulator.execute.workers import use_at_most


@dataclass(frozen=True, slots=True)
class Job:
    """A submission to check.

    Attributes:
        exercise: The exercise, without its solution.
        file: The file.
        seed: Seed of the hidden sizes.
        limits: Limits of the process; None for no limits.
        runtime: The simulator's compiled runtime, which is copied into the cache; None for the user's own cache.
    """

    exercise: Exercise
    file: Path
    seed: int
    limits: Limits | None
    runtime: Path | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check of a submission.

    Attributes:
        shares: Fraction of the points, from 0 to 1, for each item that a rubric may have.
        done: Whether the exercise is done.
        feedback: Text for the student.
    """

    shares: dict[str, float] = field(default_factory=dict)
    done: bool = False
    feedback: str = ""

    @classmethod
    def read(cls, answer: object) -> Outcome | None:
        """Return an outcome from JSON; None if it is not one, because a hostile kernel may print anything."""
        if not isinstance(answer, dict) or set(answer) != {"shares", "done", "feedback"}:
            return None
        shares, done, feedback = answer["shares"], answer["done"], answer["feedback"]
        if not (isinstance(shares, dict) and isinstance(done, bool) and isinstance(feedback, str)):
            return None
        if not all(isinstance(each, (int, float)) and 0 <= each <= 1 for each in shares.values()):
            return None
        return cls({name: float(each) for name, each in shares.items()}, done, feedback)


def examine(exercise: Exercise, file: Path, seed: int) -> Outcome:
    """Check a file at all sizes, even if the result at one of them is wrong.

    Args:
        exercise: The exercise.
        file: The file.
        seed: Seed of the hidden sizes.

    Raises:
        ConfigError: If the check needs something that is not installed.
    """
    text = text_of(file)
    if exercise.questions:
        verdict = check(exercise, file, seed)
        return Outcome({"answers": share_of_right_answers(exercise, text)}, verdict.done, str(verdict))
    if code_of(text) == code_of(exercise.start):
        return Outcome(feedback="Not yet. The code is unchanged, so it gets no points.")
    try:
        mine = Attempt.of(exercise, file)
        report = mine.report(seed, goes_on=True)
    except (CompilationError, ConfigError) as error:
        return Outcome(feedback=f"Not yet. The kernel cannot run.\n\n{error}")
    verdict = verdict_of(mine, report, seed)
    shares = _shares(exercise, report)
    if exercise.targets and shares["shown"]:
        shares["counts"] = _share_of_counts(exercise, report)
    return Outcome(shares, verdict.done, str(verdict))


def _share_of_counts(exercise: Exercise, report: KernelReport) -> float:
    """Return the fraction of the exercise's counts that a right kernel reaches.

    Counts that the handed-out code already reaches are left out, unless the kernel does not reach them any more.
    """
    reached = _reached(exercise, report)
    if all(reached) or not any(reached):
        return float(all(reached))
    start = Attempt.of(exercise, exercise.start).report(None)
    before = _reached(exercise, start) if all(each.ok for each in start.trials) else [False] * len(reached)
    counted = [now for now, had in zip(reached, before, strict=True) if not (now and had)]
    return sum(counted) / len(counted)


def _reached(exercise: Exercise, report: KernelReport) -> list[bool]:
    return [each.is_reached(figure_of(each.figure, report)) for each in exercise.targets]


def _shares(exercise: Exercise, report: KernelReport) -> dict[str, float]:
    """Return the fraction of the points for each item. A wrong kernel gets no points for counts and accesses."""
    trials, few = report.trials, len(exercise.shown)
    shown, hidden = trials[:few], trials[few:]
    right = len(shown) == few and all(each.right for each in shown)
    found = {each.kind for trial in trials for each in trial.report.findings} - {WRONG_RESULT}
    requests = sum(each.requests for each in report.accesses)
    ideal = sum(each.requests for each in report.accesses if each.units <= each.ideal)
    return {
        "runs": float(all(each.ends for each in trials)),
        "shown": float(right),
        "hidden": float(right and len(hidden) > 0 and all(each.right for each in hidden)),
        "findings": float(right and not found),
        "counts": 0.0,
        "access": ideal / requests if right and requests else 0.0,
    }


def main() -> None:
    """Check the submission of the job on stdin, and print the outcome as JSON."""
    job: Job = pickle.load(sys.stdin.buffer)
    answer = os.dup(1)
    os.dup2(2, 1)  # only the outcome goes to stdout
    use_at_most(1)  # other files are checked at the same time, and each worker's stacks need address space
    if job.runtime is not None:
        shutil.copy(job.runtime, cache_folder())
    if job.limits is not None:
        version(compiler())
        job.limits.apply()
        start_compiler_process()
        refuse_processes_and_sockets()
    try:
        outcome = asdict(examine(job.exercise, job.file, job.seed))
    except TiledmmError as error:
        outcome = {"problem": str(error)}
    os.write(answer, json.dumps(outcome).encode())


if __name__ == "__main__":
    main()
