"""Runs of a student's kernel at the sizes that are shown and at hidden ones, on the simulator."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.course.exercise import Exercise
from tiledmm.errors import ConfigError
from tiledmm.own_kernels.argument_text import Argument, Said
from tiledmm.own_kernels.arguments import given_arguments, roles_of_arguments
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.chosen_kernel import chosen_kernels, read_program
from tiledmm.own_kernels.expectation import Function, Layout, Product
from tiledmm.own_kernels.launch_rule import LaunchRule
from tiledmm.own_kernels.matrix_values import unset
from tiledmm.own_kernels.subject import Subject
from tiledmm.own_kernels.trial import Trial, try_launch, try_product
from tiledmm.simulator.execute.settings import Settings

#: Seconds after which a launch ends with a finding.
TIMEOUT = 8.0

#: The target whose counts and occupancy count.
TARGET = "sm_90"

# Number of hidden sizes per check.
_HIDDEN = 2


@dataclass(frozen=True, slots=True)
class Attempt:
    """A student's kernel at several sizes.

    Attributes:
        report: Report of the kernel.
        hidden: Whether the last launch was at sizes that the check drew.
    """

    report: KernelReport
    hidden: bool


def attempt(exercise: Exercise, path: Path, seed: int | None) -> Attempt:
    """Run the kernel of a file until a result is wrong or something is found.

    Args:
        exercise: The exercise.
        path: The file.
        seed: Seed of the hidden sizes; None to run the sizes that are shown only.

    Raises:
        ConfigError: If the file has no such kernel, or the kernel takes other parameters.
        CompilationError: If it does not compile.
    """
    subject, rule = _subject(exercise, path)
    hidden = [] if seed is None else hidden_sizes(exercise, seed)
    trials: list[Trial] = []
    for numbers in (*exercise.shown, *hidden):
        trials.append(_trial(exercise, subject, rule, exercise.sizes(numbers)))
        if not trials[-1].ok:
            break
    report = subject.report(rule, trials, (), None if exercise.expect else _itemsizes(subject))
    return Attempt(report, len(trials) > len(exercise.shown))


def hidden_sizes(exercise: Exercise, seed: int) -> list[tuple[int, int, int]]:
    """Draw sizes that a student does not see, ragged and rectangular; none if the exercise has only fixed sizes."""
    if not exercise.hidden:
        return []
    generator = random.Random(f"{exercise.name} {seed}")
    found: list[tuple[int, int, int]] = []
    while len(found) < _HIDDEN:
        m, n, k = (
            generator.randint(-(-least // step), most // step) * step
            for (least, most), step in zip(exercise.hidden, exercise.multiple_of, strict=True)
        )
        if (m, n, k) not in (*found, *exercise.shown):
            found.append((m, n, k))
    return found


def _subject(exercise: Exercise, path: Path) -> tuple[Subject, LaunchRule]:
    program = read_program(path, (), (), TARGET)
    names = [each.short_name for each in program.kernels]
    if exercise.name not in names:
        there = f"it has {', '.join(names)}" if names else "it has no kernel at all"
        raise ConfigError(f"{path.name} has no kernel {exercise.name}, which the exercise is about; {there}")
    (chosen,) = chosen_kernels(program, exercise.name)
    said = Said(args=exercise.args).with_comment(program.written, exercise.name)
    own = Said().with_comment(exercise.solution, exercise.name)
    said = replace(said, grid=said.grid or own.grid, block=said.block or own.block, shared=said.shared or own.shared)
    function = Function(_expected(exercise), exercise.name) if exercise.expect else None
    subject = Subject(program, chosen, said, function, Settings(checks="full", target=TARGET, timeout=TIMEOUT))
    wanted = parameter_types(exercise.solution, exercise.name)
    if (got := [each for each, _ in chosen.declaration.parameters]) != wanted:
        raise ConfigError(
            f"{chosen.declaration.location}: {exercise.name} takes ({', '.join(got)}), and the exercise's kernel "
            f"({', '.join(wanted)}): leave the parameters as they were"
        )
    subject.start()
    return subject, subject.rule(None)


def parameter_types(text: str, kernel: str) -> list[str]:
    """Return the types of a kernel's parameters."""
    program = read_program(text, (), (), TARGET)
    return [kind for kind, _ in chosen_kernels(program, kernel)[0].declaration.parameters]


def _trial(exercise: Exercise, subject: Subject, rule: LaunchRule, sizes: dict[str, int]) -> Trial:
    said, geometry, kernel = subject.said.arguments, rule.geometry(sizes), subject.kernel
    if not exercise.expect:
        roles = roles_of_arguments(said, kernel.parameters)
        if roles is None:
            raise ConfigError(f"the arguments of {exercise.name} are no product of matrices: {exercise.args}")
        extents = ["".join(said[at].value.split()) for at in roles.order]
        layout = Layout(*(got == columns for got, columns in zip(extents, ("K,M", "N,K", "N,M"), strict=True)))
        product = Product.of(roles, kernel.parameters)
        return try_product(kernel, product, sizes, geometry, subject.settings, divides=True, layout=layout)
    arguments, at = given_arguments(said, kernel.parameters, sizes), _written(said)
    if said[at].name not in compile(exercise.expect, exercise.name, "eval").co_names:
        arguments[at] = unset(arguments[at].shape, arguments[at].dtype)
    return replace(try_launch(kernel, arguments, geometry, subject.settings, subject.function, sizes), sizes=sizes)


def _expected(exercise: Exercise) -> Any:
    """Return the function that computes what the kernel should write, in float64, from the exercise's expression."""
    code = compile(exercise.expect, f"{exercise.name}.toml", "eval")
    said = Said(args=exercise.args).arguments
    names, at = [each.name or each.value for each in said], _written(said)

    def expected(*arguments: Any) -> Any:
        values = dict(zip(names, arguments, strict=True))
        wide = {
            name: each.astype(np.float64) if isinstance(each, np.ndarray) and each.dtype.kind == "f" else each
            for name, each in values.items()
        }
        return np.asarray(eval(code, {"np": np}, wide)).astype(arguments[at].dtype)

    return expected


def _written(arguments: Sequence[Argument]) -> int:
    """Return the number of the argument that the kernel writes: the last array."""
    return max(at for at, each in enumerate(arguments) if each.dtype is not None)


def _itemsizes(subject: Subject) -> tuple[int, int, int]:
    a, b, c = [each.dtype.itemsize for each in subject.said.arguments if each.dtype is not None]
    return a, b, c
