"""Runs of a student's kernel on the simulator, at the shown sizes and at hidden ones."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.course.exercise import Exercise
from tiledmm.errors import ConfigError
from tiledmm.kernels.plain import SIZES
from tiledmm.own_kernels.api import TIMEOUT
from tiledmm.own_kernels.argument_text import Argument, Said, arguments_of
from tiledmm.own_kernels.arguments import given_arguments, roles_of_arguments
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.chosen_kernel import chosen_kernels, read_program
from tiledmm.own_kernels.expectation import Function, Layout, Product
from tiledmm.own_kernels.launch_rule import LaunchRule
from tiledmm.own_kernels.matrix_values import unset
from tiledmm.own_kernels.subject import Subject
from tiledmm.own_kernels.trial import Trial, try_launch, try_product
from tiledmm.simulator.execute.settings import Settings

# The target architecture for counts and occupancy.
_TARGET = "sm_90"

# Number of hidden sizes per check.
_HIDDEN = 2


@dataclass(frozen=True, slots=True)
class Attempt:
    """A kernel that is meant to solve an exercise, and how the exercise launches it.

    Attributes:
        exercise: The exercise.
        subject: The kernel.
        rule: How it is launched.
    """

    exercise: Exercise
    subject: Subject
    rule: LaunchRule

    @classmethod
    def of(cls, exercise: Exercise, source: str | Path) -> Attempt:
        """Read a kernel from a file, or from CUDA C text.

        Raises:
            ConfigError: If the file has no such kernel, or the kernel takes other parameters.
            CompilationError: If it does not compile.
        """
        program = read_program(source, (), (), _TARGET)
        names = [each.short_name for each in program.kernels]
        if exercise.name not in names:
            there = f"its kernels are {', '.join(names)}" if names else "it has no kernel at all"
            raise ConfigError(f"{program.file} has no kernel {exercise.name}, which the exercise needs; {there}")
        (chosen,) = chosen_kernels(program, exercise.name)
        said = Said(args=exercise.args).with_comment(program.written, exercise.name)
        own = Said().with_comment(exercise.solution, exercise.name)
        said = replace(
            said, grid=said.grid or own.grid, block=said.block or own.block, shared=said.shared or own.shared
        )
        function = Function(_expected(exercise), exercise.name) if exercise.expect else None
        subject = Subject(program, chosen, said, function, Settings(checks="full", target=_TARGET, timeout=TIMEOUT))
        (right,) = chosen_kernels(read_program(exercise.solution, (), (), _TARGET), exercise.name)
        got, wanted = ([kind for kind, _ in each.declaration.parameters] for each in (chosen, right))
        if got != wanted:
            raise ConfigError(
                f"{chosen.declaration.location}: {exercise.name} has parameters ({', '.join(got)}), but the exercise "
                f"launches it with ({', '.join(wanted)}): do not change the parameters"
            )
        subject.start()
        return cls(exercise, subject, subject.rule(None))

    def report(self, seed: int | None, *, goes_on: bool = False) -> KernelReport:
        """Run the kernel at the shown sizes, then at hidden ones, until something is wrong.

        Args:
            seed: Seed of the hidden sizes; None to run only the shown sizes.
            goes_on: Whether to continue after something is wrong, unless a launch does not end.

        Returns:
            The report, with one trial per size.
        """
        exercise = self.exercise
        hidden = [] if seed is None else hidden_sizes(exercise, seed)
        trials: list[Trial] = []
        for numbers in (*exercise.shown, *hidden):
            trials.append(self._trial(dict(zip(SIZES, numbers, strict=True))))
            if not trials[-1].ok and not (goes_on and trials[-1].ends):
                break
        itemsizes = None
        if not exercise.expect:
            a, b, c = [each.dtype.itemsize for each in self.subject.said.arguments if each.dtype is not None]
            itemsizes = a, b, c
        return self.subject.report(self.rule, trials, (), itemsizes)

    def _trial(self, sizes: dict[str, int]) -> Trial:
        subject, geometry, kernel = self.subject, self.rule.geometry(sizes), self.subject.kernel
        if product := self.product:
            return try_product(kernel, product, sizes, geometry, subject.settings, divides=True, layout=self.layout)
        arguments = self.arguments(sizes)
        before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        trial = try_launch(kernel, arguments, geometry, subject.settings, subject.function, sizes)
        got = arguments[_written(subject.said.arguments)]
        explanations = () if trial.ok else _mistakes(self.exercise, before, got, trial)
        return replace(trial, sizes=sizes, explanations=explanations)

    @property
    def product(self) -> Product | None:
        """The product of matrices that the kernel computes; None if it computes something else.

        Raises:
            ConfigError: If the exercise's arguments are no product of matrices.
        """
        if self.exercise.expect:
            return None
        roles = roles_of_arguments(self.subject.said.arguments, self.subject.kernel.parameters)
        if roles is None:
            raise ConfigError(f"the arguments of {self.exercise.name} are no product: {self.exercise.args}")
        return Product.of(roles, self.subject.kernel.parameters)

    @property
    def layout(self) -> Layout:
        """Layout of the product's matrices."""
        values = ["".join(each.value.split()) for each in self.subject.said.arguments if each.dtype is not None]
        return Layout(*(got == columns for got, columns in zip(values, ("K,M", "N,K", "N,M"), strict=True)))

    def arguments(self, sizes: Mapping[str, int]) -> list[Any]:
        """Return new arguments for a launch, in which the elements that the kernel writes are unset."""
        if product := self.product:
            return product.arguments(sizes, self.layout)
        said = self.subject.said.arguments
        arguments, at = given_arguments(said, self.subject.kernel.parameters, sizes), _written(said)
        if not re.search(rf"(?<!\.)\b{said[at].name}\b", self.exercise.expect):  # A.T is not the argument T
            arguments[at] = unset(arguments[at].shape, arguments[at].dtype)
        return arguments

    def expected(self, before: Sequence[Any], sizes: Mapping[str, int]) -> tuple[int, Any]:
        """Return the index of the argument that the kernel writes, and the right result.

        Args:
            before: Arguments before the launch.
            sizes: M, N and K.
        """
        if product := self.product:
            return product.roles.c, product.result(before, sizes, self.layout)
        assert self.subject.function is not None
        ((at, array),) = self.subject.function.expected(before, self.subject.kernel.parameters).items()
        return int(at), array


def hidden_sizes(exercise: Exercise, seed: int) -> list[tuple[int, int, int]]:
    """Draw sizes that a student does not see; none if the exercise has only fixed sizes.

    The first sizes are larger than the shown ones, as far as the exercise's limits allow, so that every seed finds a
    kernel that is right only up to the shown sizes.
    """
    if not exercise.hidden:
        return []
    generator = random.Random(f"{exercise.name} {seed}")
    found: list[tuple[int, int, int]] = []
    largest = [max(each) for each in zip(*exercise.shown, strict=True)]
    while len(found) < _HIDDEN:
        m, n, k = (
            _drawn(generator, least, most, step, above=0 if found else shown)
            for (least, most), step, shown in zip(exercise.hidden, exercise.multiple_of, largest, strict=True)
        )
        if (m, n, k) not in (*found, *exercise.shown):
            found.append((m, n, k))
    return found


def _drawn(generator: random.Random, least: int, most: int, step: int, *, above: int) -> int:
    """Draw a multiple of ``step`` from ``least`` to ``most``, larger than ``above`` if there is such a multiple."""
    first, last = -(-least // step), most // step
    if above < last * step:
        first = max(first, above // step + 1)
    return generator.randint(first, last) * step


def _mistakes(exercise: Exercise, before: Sequence[Any], got: np.ndarray[Any, Any], trial: Trial) -> tuple[str, ...]:
    """Return the sentence of the first mistake that explains what a kernel computed; empty if none does.

    Args:
        exercise: The exercise.
        before: The arguments before the launch.
        got: The array that the kernel wrote.
        trial: The launch.
    """
    names = {
        "np": np,
        **dict(zip(_names(exercise), before, strict=True)),
        "got": got,
        "want": _expected(exercise)(*before),
        "found": {each.kind: each for each in reversed(trial.report.findings)},
    }
    made = (each.says for each in exercise.mistakes if eval(each.when, names))
    return tuple(itertools.islice(made, 1))


def _expected(exercise: Exercise) -> Any:
    """Return the function that computes what the kernel should write, in float64, from the exercise's expression."""
    code = compile(exercise.expect, f"{exercise.name}.toml", "eval")
    names, at = _names(exercise), _written(arguments_of(exercise.args))

    def expected(*arguments: Any) -> Any:
        values = dict(zip(names, arguments, strict=True))
        wide = {
            name: each.astype(np.float64) if isinstance(each, np.ndarray) and each.dtype.kind == "f" else each
            for name, each in values.items()
        }
        return np.asarray(eval(code, {"np": np}, wide)).astype(arguments[at].dtype)

    return expected


def _names(exercise: Exercise) -> list[str]:
    """Return the names of an exercise's arguments in its expressions."""
    return [each.name or each.value for each in arguments_of(exercise.args)]


def _written(arguments: Sequence[Argument]) -> int:
    """Return the index of the argument that the kernel writes: the last array."""
    return max(at for at, each in enumerate(arguments) if each.dtype is not None)
