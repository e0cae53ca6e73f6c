"""Verdicts of checks: a sentence that says whether an exercise is done, then findings, and counts with their limits."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from tiledmm.course.attempt import Attempt
from tiledmm.course.exercise import Exercise, Question, Target
from tiledmm.course.figures import figure_of
from tiledmm.course.student_file import answers_of, code_of, text_of
from tiledmm.errors import CompilationError
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.trial import Trial
from tiledmm.simulator.check.expected import ENDED_EARLY
from tiledmm.simulator.check.finding_kinds import BARRIER
from tiledmm.simulator.check.findings import Finding

if TYPE_CHECKING:
    from tiledmm.course.gpu_run import GpuRun

#: Fraction of the solution's speed that an exercise of the kind ``fast`` asks for on a GPU.
FAST = 0.9

_WIDTH = 90


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check of an exercise.

    Attributes:
        exercise: Name of the exercise.
        done: Whether the exercise is done.
        sentence: Sentence that says what is wrong, where, and why it matters, or that the result is right.
        details: Lines with findings and times.
        right: Whether the result is right at all sizes that ran; None if the kernel did not run.
        findings: Kinds of the findings.
        counts: Counts of the exercise's targets.
        seed: Seed of the hidden sizes; None if none were drawn.
    """

    exercise: str
    done: bool
    sentence: str
    details: tuple[str, ...] = ()
    right: bool | None = None
    findings: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    seed: int | None = None

    def __str__(self) -> str:
        lines = textwrap.wrap(f"{'Done' if self.done else 'Not yet'}. {self.sentence}", _WIDTH)
        if self.counts:
            lines += ["", *_table(self.counts)]
        if self.details:
            lines += ["", *self.details]
        if self.seed is not None and not self.done:
            lines += ["", f"To check the same hidden sizes again, add --seed {self.seed}."]
        return "\n".join(lines)

    def json(self) -> str:
        """Return the verdict as a JSON object."""
        return json.dumps(asdict(self), indent=1)


@dataclass(frozen=True, slots=True)
class Count:
    """A count of a student's kernel, with its limit.

    Attributes:
        name: Name of the figure that is counted.
        value: The count.
        limit: The limit, in words.
        reached: Whether the count is within the limit.
    """

    name: str
    value: float
    limit: str
    reached: bool


def check(exercise: Exercise, path: Path, seed: int, *, has_gpu: bool = False) -> Verdict:
    """Check a student's file.

    Args:
        exercise: The exercise.
        path: The file.
        seed: Seed of the hidden sizes.
        has_gpu: Whether a kernel that is right on the simulator also runs on this machine's GPU.

    Raises:
        ConfigError: If the file has no kernel of the exercise's name and parameters.
    """
    text = text_of(path)
    if exercise.questions:
        return _predicted(exercise, text)
    if is_untouched(exercise, text):
        return Verdict(exercise.name, False, "The code is unchanged. Its comments say where to begin.")
    try:
        mine = Attempt.of(exercise, path)
        report = mine.report(seed)
    except CompilationError as error:
        return Verdict(exercise.name, False, "The kernel does not compile.", tuple(str(error).splitlines()))
    return verdict_of(mine, report, seed, has_gpu=has_gpu)


def is_untouched(exercise: Exercise, text: str) -> bool:
    """Return whether the hole of an exercise is still unfilled. Kernels of exercises of other kinds run as given."""
    return exercise.kind == "fill" and code_of(text) == code_of(exercise.start)


def verdict_of(mine: Attempt, report: KernelReport, seed: int, *, has_gpu: bool = False) -> Verdict:
    """Return the verdict on a kernel that ran.

    Args:
        mine: The kernel.
        report: Its report.
        seed: Seed of the hidden sizes.
        has_gpu: Whether a kernel that is right on the simulator also runs on this machine's GPU.
    """
    exercise, hidden = mine.exercise, len(report.trials) - len(mine.exercise.shown)
    at = next((at for at, each in enumerate(report.trials) if not each.ok), None)
    if at is not None:
        failed, is_hidden = report.trials[at], at >= len(exercise.shown)
        sentence = _what_is_wrong(exercise, failed, is_hidden=is_hidden)
        return Verdict(
            exercise.name, False, sentence, tuple(_findings(failed, sentence)), failed.right,
            tuple(dict.fromkeys(each.kind for each in failed.report.findings)), seed=seed if is_hidden else None,
        )  # fmt: skip
    counts = tuple(_count(each, figure_of(each.figure, report)) for each in exercise.targets)
    missed = next((target for target, count in zip(exercise.targets, counts, strict=True) if not count.reached), None)
    run = _on_gpu(mine, report) if has_gpu else None
    sentence, done = _praise(exercise, hidden), False
    if run and run.wrong:
        sentence = f"The result is right on the simulator, but wrong on the {run.gpu}: {run.wrong}."
    elif missed:
        sentence = f"The result is right, but {missed.says}"
    elif run and run.times and exercise.kind == "fast" and run.speed < FAST:
        sentence = (
            f"The result is right, and every count is reached, but on the {run.gpu} the kernel runs at {run.speed:.0%} "
            f"of the solution's speed. The exercise asks for {FAST:.0%}."
        )
    else:
        done = True
    right = not (run and run.wrong)
    times = tuple(_times(run)) if run and right else ()
    return Verdict(exercise.name, done, sentence, times, right, (), counts, seed)


def _on_gpu(mine: Attempt, report: KernelReport) -> GpuRun:
    from tiledmm.course.gpu_run import run_on_gpu  # imports CuPy

    return run_on_gpu(mine, [each.sizes for each in report.trials])


def _times(run: GpuRun) -> Iterator[str]:
    if run.refused:
        yield f"It did not run on the {run.gpu}, because NVRTC does not compile it:"
        yield from run.refused.splitlines()[1:4]
        return
    sizes = ", ".join(f"{name} = {size:,}" for name, size in run.sizes.items())
    yield f"Time per launch at {sizes} on the {run.gpu}, in microseconds:"
    for name, microseconds in run.times.items():
        yield f"   {name:12}  {microseconds:12,.1f}"


def _praise(exercise: Exercise, hidden: int) -> str:
    where = (
        f"at the {len(exercise.shown)} sizes of the exercise" if len(exercise.shown) > 1 else "at the exercise's sizes"
    )
    drawn = f" and at {hidden} hidden ones" if hidden else ""
    reached = ", and every count is reached" if exercise.targets else ""
    return f"The result is right {where}{drawn}{reached}."


def _what_is_wrong(exercise: Exercise, trial: Trial, *, is_hidden: bool) -> str:
    sizes = ", ".join(f"{name} = {trial.sizes[name]}" for name in exercise.size_names)
    where = f"at {sizes}{' (hidden sizes, which the check drew)' if is_hidden else ''}"
    findings = _causes(trial)
    said = trial.explanations[:1] if not findings or findings[0].kind != BARRIER else ()
    first = next(iter((*said, *(each.message for each in findings), "the first wrong element is below")))
    if not trial.ends:
        return f"The kernel does not end {where}: {first}"
    if any(ENDED_EARLY in each.message for each in findings):
        return f"The kernel stops {where}, and its result is not complete: {first}"
    wrong = "is right at the sizes of the exercise, but wrong" if is_hidden else "is wrong"
    return f"The result {wrong if trial.right is False else 'may be right by luck'} {where}: {first}"


def _causes(trial: Trial) -> list[Finding]:
    """Return a trial's findings, the likeliest cause first: threads that wait at different barriers race as well."""
    return sorted(trial.report.findings, key=lambda each: each.kind != BARRIER)


def _findings(trial: Trial, said: str) -> Iterator[str]:
    """Yield lines with the first findings and explanations, without messages that are in ``said``."""
    for each in _causes(trial)[:3]:
        if each.message not in said:
            yield from textwrap.wrap(each.message, _WIDTH)
        for location, text in {each.location: each.text, each.other_location: each.other_text}.items():
            if location and text:
                yield f"    {location} | {text.strip()}"
    for sentence in trial.explanations[1:]:
        yield from textwrap.wrap(sentence, _WIDTH)


def _count(target: Target, value: float) -> Count:
    limits = {"at most": target.most, "at least": target.least}
    limit = ", ".join(f"{word} {number:g}" for word, number in limits.items() if number is not None)
    return Count(str(target.figure), value, limit, target.is_reached(value))


def _table(counts: tuple[Count, ...]) -> Iterator[str]:
    width = max(len(each.name) for each in counts)
    for each in counts:
        yield f"{'ok ' if each.reached else '-> '} {each.name:{width}}  {each.value:10,.6g}  {each.limit}"


def _predicted(exercise: Exercise, text: str) -> Verdict:
    """Compare a student's predictions with the counts of the exercise's own kernel."""
    answers = answers_of(text)
    missing = [each.name for each in exercise.questions if not answers.get(each.name, "?").strip("?")]
    if missing:
        return Verdict(exercise.name, False, f"Write a number instead of ? for {', '.join(missing)}.")
    keys = keys_of(exercise)
    for each in exercise.questions:
        answer = _number(answers[each.name])
        if answer is None:
            return Verdict(exercise.name, False, f"The answer to {each.name} is not a number: {answers[each.name]}")
        if not _is_about(answer, keys[each.name]):
            return Verdict(exercise.name, False, f"{each.name} is not {answer:g}. {_hint(each, answer)}")
    counted = ", ".join(f"{name} {value:g}" for name, value in keys.items())
    return Verdict(exercise.name, True, f"Your predictions are right. The simulator counts {counted}.", right=True)


def share_of_right_answers(exercise: Exercise, text: str) -> float:
    """Return the fraction of an exercise's questions that a student's file answers correctly."""
    keys = keys_of(exercise)
    numbers = {name: _number(answer) for name, answer in answers_of(text).items()}
    right = [_is_about(numbers.get(name), key) for name, key in keys.items()]
    return sum(right) / len(right)


def keys_of(exercise: Exercise) -> dict[str, float]:
    """Return the right answers to an exercise's questions: counts and occupancy of its kernel."""
    report = Attempt.of(exercise, exercise.solution).report(None)
    return {each.name: figure_of(each.figure, report) for each in exercise.questions}


def _hint(question: Question, answer: float) -> str:
    for wrong, sentence in question.mistakes.items():
        if _is_about(answer, wrong):
            return sentence
    return f"The question is about {question.figure.name}: count again."


def _number(answer: str) -> float | None:
    try:
        return float(Fraction(re.sub(r"[,%\s]", "", answer)))
    except (ValueError, ZeroDivisionError):
        return None


def _is_about(answer: float | None, key: float) -> bool:
    """Return whether an answer is right up to rounding."""
    return answer is not None and abs(answer - key) <= 0.005 * abs(key)
