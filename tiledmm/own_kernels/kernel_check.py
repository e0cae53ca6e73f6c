"""The check of one kernel: a product in all its layouts, or one launch of any other kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tiledmm.errors import ConfigError
from tiledmm.own_kernels.arguments import (
    check_structures,
    element_arguments,
    given_arguments,
    host_arguments,
    roles_of_arguments,
)
from tiledmm.own_kernels.check_report import KernelReport
from tiledmm.own_kernels.guessed_launch import counts_elements
from tiledmm.own_kernels.host_launch import HostLaunch
from tiledmm.own_kernels.launch_rule import ElementLaunch, LaunchRule
from tiledmm.own_kernels.product_check import check_product
from tiledmm.own_kernels.roles import Roles, roles_of
from tiledmm.own_kernels.sizes import SizesError
from tiledmm.own_kernels.subject import Subject
from tiledmm.own_kernels.trial import try_launch
from tiledmm.simulator.build.parameters import Parameter

#: Elements and threads that a check of a kernel that is no product has at most, and that it has otherwise.
MOST_ELEMENTS = 1 << 18
FEW_ELEMENTS = 4096

# Elements where the launch is a guess: no multiple of a block.
_ELEMENTS = 1000

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
    return _check_launch(subject, _rule(subject), [])


def _possible_roles(subject: Subject) -> Sequence[Roles]:
    """Return the roles that the parameters may have, likeliest first; none if the kernel looks like no product."""
    parameters = subject.kernel.parameters
    if said := subject.said.arguments:
        roles = roles_of_arguments(said, parameters)
        return [] if roles is None else [roles]
    has_loop = re.search(r"\b(?:for|while)\b|mma_sync|\bmma\b", subject.text) is not None
    found = roles_of(subject.chosen.name, parameters, has_loop=has_loop)
    # Four bytes of A and B may be one int.
    return [replace(each, certain=False) for each in found] if "__dp4a" in subject.text else found


def _rule(subject: Subject) -> LaunchRule:
    """Return the launch of a kernel that is no product; a guess where nobody says it."""
    if not subject.said.args:
        check_structures(subject.written_kernel.parameters)
    try:
        rule = subject.rule(None)
        if isinstance(rule, HostLaunch) and not subject.said.args and not _says_all(rule, subject.kernel.parameters):
            rule = replace(rule, otherwise=_OTHERWISE)
        rule.geometry(subject.said.sizes or _SIZES if subject.said.args else {})
    except ConfigError:
        threads = _threads(subject.text_with_numbers)
        guessed = ElementLaunch(_ELEMENTS, threads)
        alone = threads and "blockDim" in subject.text and not re.search(r"Idx\s*\.\s*[yz]", subject.text)
        if subject.said.args or not alone or element_arguments(guessed, subject.kernel.parameters) is None:
            raise
        return guessed
    return rule


def _threads(text: str) -> int:
    """Return the usual number of threads per block: as many as its arrays in shared memory have elements; 0 if unknown.

    Args:
        text: The kernel's text, with numbers in place of constants.
    """
    if "__shared__" not in text:
        return 256
    if not counts_elements(text):
        return 0
    extents = set(re.findall(r"__shared__[^;\[]*\[\s*(\d+)\s*\]\s*;", text))
    threads = int(extents.pop()) if len(extents) == text.count("__shared__") == 1 else 0
    return threads if threads % 32 == 0 and threads <= 1024 else 0


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
    elif isinstance(rule, ElementLaunch):
        arguments = element_arguments(rule, parameters) or []
    else:
        wanted = ", ".join(f"{each.type} {each.name}" for each in parameters)
        raise subject.error(f"takes {wanted}: say what, as in --args 'x:f32[1000], 1000'")
    geometry = rule.geometry(sizes if subject.said.args else {})
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    trial = try_launch(subject.kernel, arguments, geometry, subject.settings, subject.function, {})
    if subject.function is None:
        notes.append("Nothing says what the kernel should compute: --expect matmul or FILE.py:function does.")
    if isinstance(rule, HostLaunch) and rule.otherwise:
        notes.append(f"Variables of the host code whose values the file does not say are {rule.otherwise} here.")
    if not trial.report.ok and not subject.said.args:
        notes.append("Its arrays hold random integers from -3 to 3: what takes them for indices may miss.")
    return subject.report(rule, [trial], before, notes)


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
