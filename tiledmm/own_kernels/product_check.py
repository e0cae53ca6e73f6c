"""Checks of matmul-like kernels, at sizes that the tile divides and at others."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tiledmm.errors import CompilationError, ConfigError
from tiledmm.own_kernels.check_report import ONLY_MULTIPLES, KernelReport
from tiledmm.own_kernels.expectation import Layout, Product
from tiledmm.own_kernels.guessed_launch import GuessedLaunch, guesses
from tiledmm.own_kernels.host_launch import HostLaunch
from tiledmm.own_kernels.launch_rule import GivenLaunch, LaunchRule, rounds_up, tile_of
from tiledmm.own_kernels.roles import BATCH, SIZES, Roles
from tiledmm.own_kernels.sizes import (
    MOST_WORK,
    SizesError,
    complete,
    constants_of,
    granularity,
    sizes_to_try,
    smaller,
    work_of,
)
from tiledmm.own_kernels.subject import Subject
from tiledmm.own_kernels.times import with_times
from tiledmm.own_kernels.trial import Trial, find_layout, try_product, try_wide_numbers

#: The check of a kernel, whatever it computes: ``kernel_check.check_kernel``.
Check: TypeAlias = Callable[[Subject], KernelReport]

# Why a kernel is wrong that adds to memory as cudaMalloc leaves it.
_ACCUMULATED = (
    "the kernel adds to what C held before the launch, and the file sets C to zero nowhere: cudaMalloc does not, and a "
    "second launch adds to the result of the first (result accumulated)"
)

# Launches that are tried before a result counts as wrong, and the time for them.
_MOST_LAUNCHES = 40
_SECONDS = 1.0


def check_product(subject: Subject, possible: Sequence[Roles], check: Check) -> KernelReport:
    """Check a matmul-like kernel.

    Args:
        subject: The kernel.
        possible: Roles that its parameters may have, likeliest first.
        check: Function that checks the kernel again, with other constants.

    Raises:
        SizesError: If its sizes are constants that nobody says, or if it may be a product by its names, and is none.
        ConfigError: If its launch is not known.
    """
    launches = _launches(subject, possible)
    roles, rule = _likeliest(subject, launches)
    product = _product(subject, roles, rule)
    given, step = subject.said.sizes, granularity(subject.text)
    tries = [(given, True)] if given else sizes_to_try(rule, roles, step)
    completed = [(complete(sizes, rule, product), divides) for sizes, divides in tries]
    if len(completed) > 1 and completed[0][0] == completed[1][0]:  # constants of the file
        completed = [(completed[0][0], subject.divides)]
        if subject.divides and not subject.program.is_changed:
            return _at_other_constants(subject, list(completed[0][0].values()), check)
    if not given and work_of(completed[0][0]) > MOST_WORK:
        raise subject.too_large
    trials: list[Trial] = []
    for at, (sizes, divides) in enumerate(completed):
        settings = subject.settings if at == len(completed) - 1 else subject.quick
        layout = next((each.layout for each in trials if each.right), None)
        geometry = rule.geometry(sizes)
        trials.append(try_product(subject.kernel, product, sizes, geometry, settings, divides=divides, layout=layout))
        if not trials[-1].ok:
            break
    if isinstance(rule, GuessedLaunch) and not rule.evident and not trials[0].ok:
        raise subject.error(
            "is right with none of the usual launches, and the file has no launch of it: say --grid and --block, such "
            "as --grid '(N+15)/16,(M+15)/16' --block 16,16"
        )
    notes = _notes(subject, rule, roles, trials)
    if right := next((each for each in reversed(trials) if each.ok), None):
        wide = try_wide_numbers(subject.kernel, product, right, subject.settings)
        trials += [wide] if wide else []
        if right.adds and isinstance(rule, HostLaunch) and rule.leaves_unset(roles.c) and "atomic" not in subject.text:
            trials.append(replace(right, right=False, numbers="C as the file leaves it", explanations=(_ACCUMULATED,)))
    if roles != launches[0][0]:
        named = {subject.kernel.parameters[at].name: names[0] for at, names in sorted(roles.sizes.items())}
        notes.append(f"A is (M, K) and B is (K, N): {', '.join(named)} are {', '.join(named.values())}.")
    if step > 1 and len(trials) > 1:
        what = "fragments of tensor cores" if step == 16 else "vectors"
        notes.append(f"The kernel accesses {what}, so all sizes are multiples of {step} here.")
    operands = product.arguments(trials[0].sizes, trials[0].layout or Layout(), zero=trials[0].adds)
    a, b, c = (each.itemsize for each in product.types)
    is_plain = product.types[2].kind != "c" and roles.batch is None
    report = subject.report(rule, trials, operands, notes, (a, b, c) if is_plain else None)
    return with_times(report, subject, roles, rule, trials[0].layout)


def _launches(subject: Subject, possible: Sequence[Roles]) -> list[tuple[Roles, LaunchRule]]:
    """Return the roles and the launches that a product may have, likeliest first.

    Raises:
        ConfigError: If nobody says its launch, and its text suggests none.
    """
    guessed = guesses(subject.text_with_numbers)
    found: list[tuple[Roles, LaunchRule]] = []
    for roles in possible:
        try:
            rule = subject.rule(roles)
            if isinstance(rule, HostLaunch):
                roles = roles.united(rule.same_sizes())
                rule = replace(rule, roles=roles)
                rule.geometry(dict(zip(SIZES, (256,) * 3 if roles.square else (256, 512, 128), strict=True)))
        except ConfigError as error:
            if not guessed or subject.said.grid or subject.said.block:
                raise error if roles.certain else SizesError(str(error)) from None
            for each in guessed:
                found.append((roles, each if roles.batch is None else replace(each, depth=BATCH)))
        else:
            found.append((roles, rule))
    found.sort(key=lambda each: isinstance(each[1], GuessedLaunch) and each[1].rows_along_x)
    return found[:_MOST_LAUNCHES]


def _likeliest(subject: Subject, launches: Sequence[tuple[Roles, LaunchRule]]) -> tuple[Roles, LaunchRule]:
    """Return the roles and the launch with which the kernel is right; the first ones if it is right with none."""
    with_findings, certain, end = [], launches[0][0].certain, time.monotonic() + _SECONDS
    for roles, rule in launches if len(launches) > 1 or not certain else ():
        if time.monotonic() > end:
            break
        product = _product(subject, roles, rule)
        with contextlib.suppress(ConfigError):
            sizes = complete(subject.said.sizes or sizes_to_try(rule, roles)[0][0], rule, product)
            found = _right_trial(subject, product, sizes, rule) if work_of(sizes) <= MOST_WORK else None
            if found is not None and found.report.ok:
                return roles, rule
            with_findings += [(roles, rule)] * (found is not None)
    if not with_findings and not certain:
        raise SizesError("the kernel is no product of matrices")
    return [*with_findings, launches[0]][0]


def _product(subject: Subject, roles: Roles, rule: LaunchRule) -> Product:
    return Product.of(roles, subject.kernel.parameters, rule.number if isinstance(rule, HostLaunch) else None)


def _right_trial(subject: Subject, product: Product, sizes: dict[str, int], rule: LaunchRule) -> Trial | None:
    """Return a launch whose result is right in some layout; None if there is none."""
    settings = replace(subject.quick, counts=False)
    return find_layout(subject.kernel, product, sizes, rule.geometry(sizes), settings)


def _notes(subject: Subject, rule: LaunchRule, roles: Roles, trials: Sequence[Trial]) -> list[str]:
    """Return notes on what the check assumed and saw."""
    notes = []
    if not trials[0].right and roles.named == set(SIZES) and not isinstance(rule, GuessedLaunch) and not roles.square:
        square = dict.fromkeys(SIZES, math.lcm(*tile_of(rule, roles), 32))
        if _right_trial(subject, _product(subject, roles, rule), square, rule):
            notes.append(
                "The result is right where M = N = K: the kernel or its grid takes one size for another, as a grid "
                "whose x and y are exchanged does."
            )
    if not trials[0].ok and isinstance(rule, GuessedLaunch):
        notes.append("The launch is a guess: if it is another, say it by --grid and --block.")
    if not trials[-1].ok and not trials[-1].divides:
        of_c = [at for at, names in roles.sizes.items() if names != ("K",)]
        guarded = _has_guards(subject.text, [subject.kernel.parameters[at].name for at in of_c])
        # One thread per element without a guard, on a grid that rounds up, is a mistake; whole tiles are a choice.
        meant = "__shared__" in subject.text or not isinstance(rule, (HostLaunch, GivenLaunch))
        if left_out := _left_out(rule, roles):
            notes.append(left_out)
        elif (not guarded and meant) or not rounds_up(rule, roles, tile_of(rule, roles)):
            notes.append(ONLY_MULTIPLES)
    if any(each.adds for each in trials):
        notes.append("The kernel adds to C, which must be zero before the launch.")
    return notes


def _left_out(rule: LaunchRule, roles: Roles) -> str:
    """Return a note if the file's grid leaves out elements of C at the file's own sizes; an empty string if not."""
    if not isinstance(rule, HostLaunch) or min(tile := tile_of(rule, roles)) == 1:
        return ""
    own = rule.own_sizes()
    try:
        blocks = math.prod(rule.geometry({}).grid)
    except ConfigError:
        return ""
    if blocks * math.prod(tile) >= own.get("M", 0) * own.get("N", 0):
        return ""
    return (
        f"At the file's own M = {own['M']:,} and N = {own['N']:,} the grid has {blocks:,} blocks of {tile[0]} x "
        f"{tile[1]} elements, fewer than C has (grid too small): round the division up, as in (N + 15) / 16."
    )


def _at_other_constants(subject: Subject, used: Sequence[int], check: Check) -> KernelReport:
    """Check a kernel with other values of the constants that are its sizes: multiples of the tile, then others.

    Args:
        subject: The kernel.
        used: The sizes that follow from the constants.
        check: Function that checks the kernel again.
    """
    constants = subject.program.constants
    names = constants_of(subject.program, used)
    if not names and max(used) > 512:
        raise subject.too_large
    whole = {name: smaller(constants[name]) for name in names}
    report = check(subject.with_constants(whole, divides=True))
    changed = [
        f"{name} is {whole[name]} here, not {constants[name]:,}" for name in names if whole[name] < constants[name]
    ]
    if changed:
        report = replace(report, notes=(f"So that the check takes seconds, {', '.join(changed)}.", *report.notes))
    if not report.ok or not names:
        return report
    odd = {name: (size - 27 if size > 64 else size - 5) + at for at, (name, size) in enumerate(whole.items())}
    try:
        other = check(subject.with_constants(odd, divides=False))
    except (ConfigError, CompilationError):
        return report  # other sizes do not fit the tile, by the file's own words
    notes = dict.fromkeys([*report.notes, *other.notes])
    if not other.trials[0].ok and not _covers(report.trials[0], other.trials[0]):
        notes[ONLY_MULTIPLES] = None
    return replace(report, trials=(*report.trials, *other.trials), notes=tuple(notes))


def _covers(whole: Trial, other: Trial) -> bool:
    """Return whether the grid of a launch covers sizes that the tile does not divide.

    Args:
        whole: A launch at sizes that the tile divides.
        other: The launch at other sizes.
    """
    for axis, size in enumerate(("N", "M")):
        blocks = whole.geometry.grid[axis]
        if blocks > 1 and other.geometry.grid[axis] * whole.sizes[size] // blocks < other.sizes[size]:
            return False
    return True


def _has_guards(text: str, sizes: Sequence[str]) -> bool:
    """Return whether a kernel compares anything with the sizes of C outside of the heads of loops.

    Args:
        text: The kernel's text.
        sizes: Names of the parameters that are rows or columns of C; empty if the sizes are constants.
    """
    names = "|".join(map(re.escape, sizes)) or r"\d+"
    plain = re.sub(r"\b(?:for|while)\s*\((?:[^()]|\([^()]*\))*\)", " ", text)
    compared = rf"(?:<=?|>=)\s*\(?\s*(?:{names})\b|>\s*(?:{names})\b|\b(?:{names})\b\s*\)?\s*[<>]"
    return re.search(compared, plain) is not None
