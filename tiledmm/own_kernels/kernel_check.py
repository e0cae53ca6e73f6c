"""The check of one kernel: a product in all its layouts, or one launch of any other kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.arguments import (
    check_structures,
    given_arguments,
    host_arguments,
    roles_of_arguments,
)
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.guessed_arguments import guessed, may_be_at_fault
from tiledmm.own_kernels.host_launch import HostLaunch
from tiledmm.own_kernels.launch_rule import LaunchRule
from tiledmm.own_kernels.meanings import meaning_of
from tiledmm.own_kernels.product_check import check_product
from tiledmm.own_kernels.roles import Roles, roles_of
from tiledmm.own_kernels.sizes import SizesError
from tiledmm.own_kernels.subject import Subject
from tiledmm.own_kernels.trial import try_launch
from tiledmm.simulator.build.parameters import Parameter

#: Elements and threads that a check of a kernel that is no product has at most, and that it has otherwise.
MOST_ELEMENTS = 1 << 18
FEW_ELEMENTS = 4096

# Seconds after which a guessed launch ends.
_SECONDS = 2.0

_NO_RESULT = "Nothing says what the kernel should compute: --expect matmul or FILE.py:function does."
_LARGER = (
    "Its arrays are larger than it may need, so that accesses beyond their ends are not seen: --args says their sizes."
)

# Value of variables of the host code that the file does not say, such as sizes on its command line.
_OTHERWISE = 64

# M, N and K of arguments that are given without a size.
_SIZES = {"M": 48, "N": 80, "K": 64}


def check_kernel(subject: Subject) -> KernelReport:
    """Check a kernel.

    Raises:
        ConfigError: If launch or arguments are not known; the message says what to add.
        CompilationError: If it does not compile.
    """
    subject.start()
    possible = _possible_roles(subject)
    if subject.said.expect == "matmul" and not possible:
        raise subject.error(
            "has no parameters A, B, C and sizes: say --args 'A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K' in its order"
        )
    if possible and subject.function is None:
        try:
            return check_product(subject, possible, check_kernel)
        except SizesError:  # it is none: its arrays are no matrices
            pass
    if not subject.said.args:
        check_structures(subject.written_kernel.parameters)
    try:
        rule = _rule(subject)
    except ConfigError as error:
        if subject.said.args or subject.said.grid or subject.said.block:
            raise
        return _check_guesses(subject, error)
    return _check_launch(subject, rule, [])


def _possible_roles(subject: Subject) -> Sequence[Roles]:
    """Return the roles that the parameters may have, likeliest first; none if the kernel looks like no product."""
    parameters = subject.kernel.parameters
    if said := subject.said.arguments:
        roles = roles_of_arguments(said, parameters)
        return [] if roles is None else [roles]
    has_loop = re.search(r"\b(?:for|while)\b|mma_sync|\bmma\b", subject.text) is not None
    structures = subject.structures
    if structures is None or (structures and subject.chosen.site is not None):
        return []  # the members that host code sets are not known
    places = [at for at in range(len(subject.parameters)) if at not in {each.at for each in structures}]
    plain = [subject.parameters[at] for at in places]
    found = [each.numbered(places) for each in roles_of(subject.chosen.name, plain, has_loop=has_loop)]
    # Four bytes of A and B may be one int.
    return [replace(each, certain=False) for each in found] if "__dp4a" in subject.text else found


def _rule(subject: Subject) -> LaunchRule:
    """Return the launch of a kernel that is no product.

    Raises:
        ConfigError: If nobody says it.
    """
    rule = subject.rule(None)
    if isinstance(rule, HostLaunch) and not subject.said.args and not _says_all(rule, subject.kernel.parameters):
        rule = replace(rule, otherwise=_OTHERWISE)
    rule.geometry(subject.said.sizes or _SIZES if subject.said.args else {})
    return rule


def _check_guesses(subject: Subject, missing: ConfigError) -> KernelReport:
    """Check a kernel by launches and arguments that its text suggests.

    Args:
        subject: The kernel.
        missing: The error that asks for a launch.

    Raises:
        ConfigError: If the text suggests none, or if what is found may be the fault of the launch or the arguments.
    """
    settings = replace(subject.settings, timeout=_SECONDS)
    finding = ""
    for guess in guessed(subject.indices, subject.kernel.parameters):
        geometry = guess.rule.geometry({})
        before = [each.copy() if isinstance(each, np.ndarray) else each for each in guess.arguments]
        trial = try_launch(subject.kernel, guess.arguments, geometry, settings, subject.function, {})
        if trial.ok or not may_be_at_fault(guess, subject.indices, trial.report.findings):
            meaning = meaning_of(subject.chosen.declaration.short_name, before, guess.arguments) if trial.ok else ""
            if meaning and subject.function is None:
                trial = replace(trial, right=True)
            notes = [f"The result is {meaning}, as its name says." if meaning else _NO_RESULT]
            notes = notes * (subject.function is None) + [_LARGER] * (not guess.evident)
            return subject.report(guess.rule, [trial], notes)
        finding = finding or next((each.message for each in trial.report.findings), "")
    if not finding:
        raise missing
    raise subject.error(
        "has no launch in the file, and what a guess finds may be the fault of the guess: say --grid, --block and "
        f"--args. It finds: {finding}"
    )


def _says_all(rule: HostLaunch, parameters: Sequence[Parameter]) -> bool:
    """Return whether the host code says the values of everything that it launches a kernel with."""
    try:
        rule.geometry({})
        if rule.work() <= MOST_ELEMENTS:
            host_arguments(rule, parameters)
    except ConfigError:
        return False
    return True


def _check_launch(subject: Subject, rule: LaunchRule, notes: list[str]) -> KernelReport:
    """Check a kernel that is no product by one launch, with arguments that are given, the host code's, or guessed."""
    parameters = subject.kernel.parameters
    sizes = subject.said.sizes or _SIZES
    if subject.said.args:
        arguments = given_arguments(subject.said.arguments, parameters, sizes)
    elif isinstance(rule, HostLaunch):
        if rule.work() > MOST_ELEMENTS:
            return _check_fewer(subject, rule)
        arguments = host_arguments(rule, parameters)
    else:
        wanted = ", ".join(f"{each.type} {each.name}" for each in parameters)
        raise subject.error(f"takes {wanted}: say what, as in --args 'x:f32[1000], 1000'")
    geometry = rule.geometry(sizes if subject.said.args else {})
    trial = try_launch(subject.kernel, arguments, geometry, subject.settings, subject.function, {})
    if subject.function is None:
        notes.append(_NO_RESULT)
    if isinstance(rule, HostLaunch) and rule.otherwise:
        notes.append(f"Variables of the host code whose values the file does not say are {rule.otherwise} here.")
    if not trial.report.ok and not subject.said.args:
        notes.append("Its arrays hold random integers from -3 to 3: what takes them for indices may miss.")
    return subject.report(rule, [trial], notes)


def _check_fewer(subject: Subject, rule: HostLaunch) -> KernelReport:
    """Check a kernel with fewer elements than its host code has: smaller variables, or smaller constants."""
    for number in (FEW_ELEMENTS, FEW_ELEMENTS >> 4, FEW_ELEMENTS >> 6, FEW_ELEMENTS >> 7):
        fewer = rule.with_numbers(number)
        if fewer.work() <= MOST_ELEMENTS:
            note = f"So that the check takes seconds, large numbers of the host code are {number:,} here."
            return _check_launch(subject, fewer, [note])
    constants = {} if subject.program.is_changed else subject.program.constants
    names = [name for name, value in constants.items() if value > FEW_ELEMENTS]
    if not names:
        raise subject.too_large
    report = check_kernel(subject.with_constants(dict.fromkeys(names, FEW_ELEMENTS), divides=True))
    changed = f"So that the check takes seconds, {' and '.join(names)} is {FEW_ELEMENTS:,} here."
    return replace(report, notes=(changed, *report.notes))
