"""Checks of matmul-like kernels, at sizes that the tile divides and at others."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from tiledmm.errors import CompilationError, ConfigError
from tiledmm.kernels.plain import SIZES
from tiledmm.own_kernels.check_report import ONLY_MULTIPLES, ONLY_VECTORS, KernelReport
from tiledmm.own_kernels.expectation import Product
from tiledmm.own_kernels.guessed_launch import GuessedLaunch, guesses, planes
from tiledmm.own_kernels.host_launch import HostLaunch
from tiledmm.own_kernels.launch_rule import GivenLaunch, LaunchRule, rounds_up, tile_of
from tiledmm.own_kernels.roles import BATCH, Roles
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
from tiledmm.own_kernels.trial import Trial, find_layout, try_product, try_row_strides, try_wide_numbers
from tiledmm.simulator.execute.settings import Settings

#: The check of a kernel, whatever it computes: ``kernel_check.check_kernel``.
Check: TypeAlias = Callable[[Subject], KernelReport]

# Explanation of a wrong kernel that adds to memory from cudaMalloc.
_ACCUMULATED = (
    "the kernel adds to what C held before the launch, and nothing in the file sets C to zero: cudaMalloc does not, "
    "and a second launch adds to the result of the first (result accumulated)"
)

# Maximum number of launches that are tried before a result counts as wrong, and maximum CPU time for them in seconds,
# so that the verdict does not depend on what else runs on the machine.
_MOST_LAUNCHES = 40
_CPU_SECONDS = 2.0


def check_product(subject: Subject, possible: Sequence[Roles], check: Check) -> KernelReport:
    """Check a matmul-like kernel.

    Args:
        subject: The kernel.
        possible: Roles that its parameters may have, likeliest first.
        check: Function that checks the kernel again, with other constants.

    Raises:
        SizesError: If its sizes are unknown constants, or if only its names suggest that it is a product.
        ConfigError: If its launch is unknown.
    """
    roles, rule = _likeliest(subject, _launches(subject, possible))
    product = _product(subject, roles, rule)
    given, step = subject.said.sizes, math.lcm(granularity(subject.text), *subject.said.steps)
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
        trials.append(_trial(subject, product, rule, sizes, trials, settings, divides=divides))
        if not trials[-1].ok:
            break
    notes = _notes(subject, rule, roles, trials)
    wrong = any(not each.ok and (each.divides or ONLY_MULTIPLES not in notes) for each in trials)
    if isinstance(rule, GuessedLaunch) and not rule.evident and wrong:
        raise subject.error(
            "is wrong with all launches that its text suggests, and the file has no launch: pass --grid and --block, "
            "such as --grid '(N+15)/16,(M+15)/16' --block 16,16"
        )
    if right := next((each for each in reversed(trials) if each.ok), None):
        wide = try_wide_numbers(subject.kernel, product, right, subject.settings)
        trials += [wide] if wide else []
        apart = try_row_strides(subject.kernel, product, right, subject.settings)
        trials += [apart] if apart else []
        if right.adds and isinstance(rule, HostLaunch) and rule.leaves_unset(roles.c) and "atomic" not in subject.text:
            trials.append(replace(right, right=False, numbers="C as the file leaves it", explanations=(_ACCUMULATED,)))
    if any(possible[0].sizes[at][0] not in names for at, names in roles.sizes.items()):
        named = {subject.parameters[at].name: names[0] for at, names in sorted(roles.sizes.items())}
        notes.append(
            f"Parameters {', '.join(named)} are {', '.join(named.values())}, where A is (M, K) and B is (K, N)."
        )
    if step == 4 and len(trials) > 1 and ONLY_MULTIPLES not in notes and _has_scalars(subject, product):
        sizes = complete(sizes_to_try(rule, roles)[1][0], rule, product)
        other = _trial(subject, product, rule, sizes, trials)
        trials.append(other)
        notes += [] if other.ok else [ONLY_VECTORS]
    elif step > 1 and len(trials) > 1:
        what = "fragments of tensor cores" if granularity(subject.text) == 16 else "vectors"
        why = "As the file requires" if max(subject.said.steps) > 1 else f"Because the kernel accesses {what}"
        notes.append(f"{why}, all sizes in this check are multiples of {step}.")
    a, b, c = (each.itemsize for each in product.types)
    is_plain = product.types[2].kind != "c" and roles.batch is None
    report = subject.report(rule, trials, notes, (a, b, c) if is_plain else None)
    return with_times(report, subject, roles, rule, trials[0].layout)


def _trial(
    subject: Subject,
    product: Product,
    rule: LaunchRule,
    sizes: dict[str, int],
    before: Sequence[Trial],
    settings: Settings | None = None,
    *,
    divides: bool = False,
) -> Trial:
    """Return a launch at given sizes, in the layout in which earlier launches are right."""
    layout = next((each.layout for each in before if each.right), None)
    return try_product(
        subject.kernel, product, sizes, rule.geometry(sizes), settings or subject.quick, divides=divides, layout=layout
    )


def _has_scalars(subject: Subject, product: Product) -> bool:
    """Return whether the matrices are arrays of single elements, and not of vectors or packed bytes."""
    sizes = [subject.parameters[at].element_bytes for at in product.roles.order]
    return sizes == [each.itemsize for each in product.types] and "__dp4a" not in subject.text


def _launches(subject: Subject, possible: Sequence[Roles]) -> Iterator[tuple[Roles, LaunchRule]]:
    """Yield the roles and the launches that a product may have, likeliest first.

    Raises:
        ConfigError: If neither the user nor the file states the launch, and the kernel's text suggests none.
    """
    missing: ConfigError | None = None
    is_known = False
    for roles in possible:
        try:
            rule = subject.rule(roles)
            if isinstance(rule, HostLaunch):
                roles = roles.united(rule.same_sizes())
                rule = replace(rule, roles=roles)
                rule.geometry(dict(zip(SIZES, (256,) * 3 if roles.square else (256, 512, 128), strict=True)))
        except ConfigError as error:
            missing = missing or (error if roles.certain else SizesError(str(error)))
            if subject.said.grid or subject.said.block:
                raise missing from None
            # The text of a kernel of structures names the members that it accesses, not the parameters.
            says_it = subject.kernel is subject.written_kernel
            found = guesses(subject.indices, roles, subject.parameters) if says_it else planes(subject.text)
            for each in found:
                is_known = True
                yield roles, each if roles.batch is None else replace(each, depth=BATCH)
        else:
            is_known = True
            yield roles, rule
    if missing and not is_known:
        raise missing


def _likeliest(subject: Subject, launches: Iterator[tuple[Roles, LaunchRule]]) -> tuple[Roles, LaunchRule]:
    """Return the roles and the launch with which the kernel is right; the first ones if it is wrong with all."""
    first, second = next(launches), next(launches, None)
    certain, end = first[0].certain, time.process_time() + _CPU_SECONDS
    if second is None and certain:
        return first
    with_findings = []
    every = itertools.chain([first, *([second] if second else [])], launches)
    for roles, rule in itertools.islice(every, _MOST_LAUNCHES):
        product = _product(subject, roles, rule)
        with contextlib.suppress(ConfigError):
            sizes = complete(subject.said.sizes or sizes_to_try(rule, roles)[0][0], rule, product)
            found = _right_trial(subject, product, sizes, rule) if work_of(sizes) <= MOST_WORK else None
            if found is not None and found.report.ok:
                return roles, rule
            with_findings += [(roles, rule)] * (found is not None)
        if time.process_time() > end:
            break
    if not with_findings and not certain:
        raise SizesError("the kernel is not a product of matrices")
    return [*with_findings, first][0]


def _product(subject: Subject, roles: Roles, rule: LaunchRule) -> Product:
    number_of = rule.number if isinstance(rule, HostLaunch) else None
    return Product.of(roles, subject.parameters, subject.structures or (), number_of)


def _right_trial(subject: Subject, product: Product, sizes: dict[str, int], rule: LaunchRule) -> Trial | None:
    """Return a launch whose result is right in some layout; None if there is none."""
    settings = replace(subject.quick, counts=False)
    return find_layout(subject.kernel, product, sizes, rule.geometry(sizes), settings)


def _notes(subject: Subject, rule: LaunchRule, roles: Roles, trials: Sequence[Trial]) -> list[str]:
    """Return notes on what the check assumed and found."""
    notes = []
    told = roles.named == set(SIZES) and not roles.square and len(set(trials[0].sizes.values())) > 1
    if not trials[0].right and told and not isinstance(rule, GuessedLaunch):
        square = dict.fromkeys(SIZES, math.lcm(*tile_of(rule, roles), 32))
        if _right_trial(subject, _product(subject, roles, rule), square, rule):
            notes.append(
                "The result is right if M = N = K: the kernel or its grid confuses two sizes, for example because x "
                "and y of the grid are exchanged."
            )
    if not trials[0].ok and isinstance(rule, GuessedLaunch):
        notes.append("The launch is a guess: if it is not the intended one, pass --grid and --block.")
    if not trials[-1].ok and not trials[-1].divides:
        of_c = [at for at, names in roles.sizes.items() if names != ("K",)]
        guarded = subject.indices.compares({subject.parameters[at].name for at in of_c})
        # One thread per element without a guard, on a grid that rounds up, is a mistake; whole tiles are a choice.
        meant = "__shared__" in subject.text or not isinstance(rule, (HostLaunch, GivenLaunch))
        if left_out := _left_out(rule, roles):
            notes.append(left_out)
        elif (not guarded and meant and not _has_partial_tiles(rule, roles)) or not rounds_up(
            rule, roles, tile_of(rule, roles)
        ):
            notes.append(ONLY_MULTIPLES)
    if any(each.adds for each in trials):
        notes.append("The kernel adds to C, which must be zero before the launch.")
    return notes


def _has_partial_tiles(rule: LaunchRule, roles: Roles) -> bool:
    """Return whether the file itself launches the kernel at sizes that its tile does not divide."""
    if not isinstance(rule, HostLaunch):
        return False
    own = rule.own_sizes()
    return any(own.get(size, 0) % of_block for size, of_block in zip("MN", tile_of(rule, roles), strict=True))


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
        f"At the file's own M = {own['M']:,} and N = {own['N']:,}, the grid has {blocks:,} blocks of {tile[0]} x "
        f"{tile[1]} elements, which do not cover C (grid too small): round the division up, as in (N + 15) / 16."
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
        f"{name} is {whole[name]} instead of {constants[name]:,}" for name in names if whole[name] < constants[name]
    ]
    if changed:
        report = replace(report, notes=(f"To keep the check short, {', '.join(changed)}.", *report.notes))
    if not report.ok or not names:
        return report
    odd = {name: (size - 27 if size > 64 else size - 5) + at for at, (name, size) in enumerate(whole.items())}
    try:
        other = check(subject.with_constants(odd, divides=False))
    except (ConfigError, CompilationError):
        return report  # the file itself refuses sizes that are not multiples of the tile
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
