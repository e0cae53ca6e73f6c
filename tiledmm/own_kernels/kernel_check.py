"""Check of one kernel: of a product in all its layouts, or of one launch of any other kernel."""

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

#: Maximum number of elements and threads in a check of a kernel that is not a product, and the number that replaces
#: larger ones.
MOST_ELEMENTS = 1 << 18
FEW_ELEMENTS = 4096

# Seconds after which a guessed launch is ended.
_SECONDS = 2.0

_NO_RESULT = "The result was not compared: pass --expect matmul or --expect FILE.py:function."
_LARGER = (
    "The arrays may be larger than the kernel needs, which hides accesses out of bounds: pass their sizes with --args."
)

# Value of variables of the host code whose values are not in the file, such as sizes on its command line.
_OTHERWISE = 64

# M, N and K of arguments that are given without a size.
_SIZES = {"M": 48, "N": 80, "K": 64}


def check_kernel(subject: Subject) -> KernelReport:
    """Check a kernel.

    Raises:
        ConfigError: If launch or arguments are unknown; the message says what to add.
        CompilationError: If it does not compile.
    """
    subject.start()
    possible = _possible_roles(subject)
    if subject.said.expect == "matmul" and not possible:
        raise subject.error(
            "has no parameters that look like A, B, C and their sizes: describe all parameters in order, as in --args "
            "'A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K'"
        )
    if possible and subject.function is None:
        try:
            return check_product(subject, possible, check_kernel)
        except SizesError:  # it is not a product: its arrays are not matrices
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
    """Return the roles that the parameters may have, likeliest first; none if it does not look like a product."""
    parameters = subject.kernel.parameters
    if said := subject.said.arguments:
        roles = roles_of_arguments(said, parameters)
        return [] if roles is None else [roles]
    has_loop = re.search(r"\b(?:for|while)\b|mma_sync|\bmma\b", subject.text) is not None
    structures = subject.structures
    if structures is None or (structures and subject.chosen.site is not None):
        return []  # the values that host code gives to members are unknown
    places = [at for at in range(len(subject.parameters)) if at not in {each.at for each in structures}]
    plain = [subject.parameters[at] for at in places]
    found = [each.numbered(places) for each in roles_of(subject.chosen.name, plain, has_loop=has_loop)]
    # Four bytes of A and B may be one int.
    return [replace(each, certain=False) for each in found] if "__dp4a" in subject.text else found


def _rule(subject: Subject) -> LaunchRule:
    """Return the launch of a kernel that is not a product.

    Raises:
        ConfigError: If neither the user nor the file states it.
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
        ConfigError: If the text suggests none, or if findings may be the fault of the launch or the arguments.
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
            notes = [f"The result is {meaning}, as the kernel's name suggests." if meaning else _NO_RESULT]
            notes = notes * (subject.function is None) + [_LARGER] * (not guess.evident)
            return subject.report(guess.rule, [trial], notes)
        finding = finding or next((each.message for each in trial.report.findings), "")
    if not finding:
        raise missing
    raise subject.error(
        "has no launch in the file, and findings of a guessed launch may be the fault of the guess: pass --grid, "
        f"--block and --args. Finding: {finding}"
    )


def _says_all(rule: HostLaunch, parameters: Sequence[Parameter]) -> bool:
    """Return whether the host code determines the whole launch of a kernel and all its arguments."""
    try:
        rule.geometry({})
        if rule.work() <= MOST_ELEMENTS:
            host_arguments(rule, parameters)
    except ConfigError:
        return False
    return True


def _check_launch(subject: Subject, rule: LaunchRule, notes: list[str]) -> KernelReport:
    """Check a kernel that is not a product by one launch, with the user's arguments or those of the host code."""
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
        raise subject.error(f"has the parameters {wanted}: pass their values, as in --args 'x:f32[1000], 1000'")
    geometry = rule.geometry(sizes if subject.said.args else {})
    trial = try_launch(subject.kernel, arguments, geometry, subject.settings, subject.function, {})
    if subject.function is None:
        notes.append(_NO_RESULT)
    if isinstance(rule, HostLaunch) and rule.otherwise:
        notes.append(f"Variables of the host code whose values are not in the file are set to {rule.otherwise}.")
    if not trial.report.ok and not subject.said.args:
        notes.append("The arrays hold random integers from -3 to 3, which may be out of bounds as indices.")
    return subject.report(rule, [trial], notes)


def _check_fewer(subject: Subject, rule: HostLaunch) -> KernelReport:
    """Check a kernel with fewer elements than its host code has: smaller variables, or smaller constants."""
    for number in (FEW_ELEMENTS, FEW_ELEMENTS >> 4, FEW_ELEMENTS >> 6, FEW_ELEMENTS >> 7):
        fewer = rule.with_numbers(number)
        if fewer.work() <= MOST_ELEMENTS:
            note = f"To keep the check short, large numbers of the host code are replaced by {number:,}."
            return _check_launch(subject, fewer, [note])
    constants = {} if subject.program.is_changed else subject.program.constants
    names = [name for name, value in constants.items() if value > FEW_ELEMENTS]
    if not names:
        raise subject.too_large
    report = check_kernel(subject.with_constants(dict.fromkeys(names, FEW_ELEMENTS), divides=True))
    is_now = "is" if len(names) == 1 else "are"
    changed = f"To keep the check short, {' and '.join(names)} {is_now} {FEW_ELEMENTS:,}."
    return replace(report, notes=(changed, *report.notes))
