"""Guesses about K: steps that are missing, alone, or counted twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiledmm.simulated.explanation.wrong_product import Array, Guess, WrongProduct

# All ranges of steps are tried up to this K, and beyond it those that begin or end with K.
_MOST_STEPS = 256

# Elements of C by which ranges are chosen, and ranges of each kind that are checked on all elements.
_ELEMENTS = 16
_RANGES = 3

# The longest period with which steps may be missing.
_MOST_PERIOD = 64


def step_guesses(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which the sums lack steps along K, or have some twice."""
    told = np.argwhere(wrong.compared & wrong.wrong)
    if wrong.k < 2 or not len(told):
        return
    chosen = told[np.linspace(0, len(told) - 1, _ELEMENTS).astype(np.int64)]
    rows, cols = chosen.T
    left, right = wrong.a[rows], wrong.b[:, cols].T
    wide = np.int64 if wrong.is_integer else wrong.sums.dtype
    terms = left.astype(wide) * right.astype(wide)
    yield from _ranges(wrong, rows, cols, terms)
    yield from _periods(wrong, rows, cols, terms)


def _ranges(wrong: WrongProduct, rows: Array, cols: Array, terms: Array) -> Iterator[Guess]:
    """Yield guesses in which a range of steps is alone, missing or counted twice."""
    prefix = np.concatenate([np.zeros_like(terms[:, :1]), terms.cumsum(axis=1)], axis=1)
    whole, steps = prefix[:, -1], wrong.k
    first, last = np.triu_indices(steps + 1, 1)
    if steps > _MOST_STEPS:
        edge = (first == 0) | (last == steps)
        first, last = first[edge], last[edge]
    proper = last - first < steps
    first, last = first[proper], last[proper]
    weights = {"kept": (0, 1), "missing": (1, -1), "doubled": (1, 1)}
    alive = {name: np.ones(len(first), np.bool_) for name in weights}
    for element, (row, col) in enumerate(zip(rows, cols, strict=True)):
        part = prefix[element, last] - prefix[element, first]
        for name, (of_all, of_part) in weights.items():
            values = wrong.finish(of_all * whole[element] + of_part * part, (row, col))
            alive[name] &= wrong.equal(values, (row, col))
    for name in weights:
        found = [(int(begin), int(end)) for begin, end in zip(first[alive[name]], last[alive[name]], strict=True)]
        if name == "missing":  # those at an end of K are the others, kept
            found = [each for each in found if each[0] > 0 and each[1] < steps]
        if len(found) <= _RANGES:  # more have the same sums, so that none is known
            yield from (_range_guess(wrong, name, *each) for each in found)


def _range_guess(wrong: WrongProduct, name: str, begin: int, end: int) -> Guess:
    mask = np.zeros(wrong.k)
    mask[begin:end] = 1
    weights = {"kept": mask, "missing": 1 - mask, "doubled": 1 + mask}[name]
    pattern, said = _kept(wrong, begin, end) if name == "kept" else _within(wrong, name, begin, end)
    return _weighted(wrong, pattern, said, weights)


def _kept(wrong: WrongProduct, begin: int, end: int) -> tuple[str, str]:
    """Return the pattern of sums of which only the steps from ``begin`` to before ``end`` are there, and a clause."""
    steps = wrong.k
    if begin == 0:
        missing = steps - end
        which = (
            f"the last {missing} steps along K ({_steps(end, steps)}"
            if missing > 1
            else f"the last step along K ({_steps(end, steps)}"
        )
        for tile in wrong.tiles:
            if end % tile == 0 and missing == steps % tile:
                said = f"{which}, the last partial tile of {tile}) {_are(missing)} missing"
                return "last step missing" if missing == 1 else "last partial tile missing", said
            if steps % tile == 0 and missing == tile:
                return "last tile missing", f"{which}, the last tile of {tile}) are missing"
        pattern = "last step missing" if missing == 1 else "last steps missing"
        if end == 1:
            return "only the first step", "only the first step along K (k = 0) is summed"
        other = wrong.names.get(end, "") if end in (wrong.m, wrong.n) else ""
        why = f": does the loop along K end at {other}, which is {end}?" if other else ""
        return pattern, f"{which}) {_are(missing)} missing{why}"
    if end == steps:
        if begin == steps - 1:
            said = f"only the last step along K ({_steps(begin, end)}) is kept: is = written where += is meant?"
            return "only the last step kept", said
        for tile in wrong.tiles:
            if begin == (steps - 1) // tile * tile:
                said = (
                    f"only the last tile along K ({_steps(begin, steps)}) is kept: each tile overwrites those before it"
                )
                return "only the last tile kept", said
        if begin == 1:
            return "first step missing", "the first step along K (k = 0) is missing"
        return "first steps missing", f"the first {begin} steps along K ({_steps(0, begin)}) are missing"
    return "only some steps", f"only the steps {_steps(begin, end)} along K are summed"


def _within(wrong: WrongProduct, name: str, begin: int, end: int) -> tuple[str, str]:
    """Return the pattern of sums in which a range of steps is missing or counted twice, and a clause."""
    if name == "missing":
        return "steps missing", f"{_the(begin, end)} along K {_are(end - begin)} missing"
    for tile in wrong.tiles:
        rest = wrong.k % tile
        full = wrong.k - rest
        if rest and (begin, end) == (full - tile + rest, full):
            said = (
                f"the last partial tile along K is not filled with zeros: elements of the previous tile of {tile} "
                f"({_steps(begin, end)}) are multiplied a second time"
            )
            return "stale elements of a tile", said
    return "steps counted twice", f"{_the(begin, end)} along K {_are(end - begin)} counted twice"


def _periods(wrong: WrongProduct, rows: Array, cols: Array, terms: Array) -> Iterator[Guess]:
    """Yield guesses in which the same steps of each tile are missing, alone, or counted twice."""
    whole, at = terms.sum(axis=1), (rows, cols)
    for period in range(2, min(_MOST_PERIOD, wrong.k - 1) + 1):
        padded = np.zeros((len(rows), -(-wrong.k // period) * period), terms.dtype)
        padded[:, : wrong.k] = terms
        parts = padded.reshape(len(rows), -1, period).sum(axis=1).T  # (period, elements)
        sums = np.stack([whole - parts, parts, whole + parts, parts.cumsum(axis=0)], axis=1)
        alive = wrong.equal(wrong.finish(sums, at), at).all(axis=-1)  # (period, names): all at once is much faster
        for step, number in np.argwhere(alive).tolist():
            name = ("without", "alone", "twice", "first")[number]
            is_known = (name == "first" and not 1 <= step < period - 2) or (name == "alone" and period == 2)
            if not is_known:  # as a step that is missing
                yield _period(wrong, name, step, period)


def _period(wrong: WrongProduct, name: str, step: int, period: int) -> Guess:
    place = np.arange(wrong.k) % period
    here = place == step
    which = f"k % {period} == {step}"
    if name == "without":
        ends = {0: ": a loop over a tile begins one step late", period - 1: ": a loop over a tile ends one step early"}
        said = f"one of {period} steps along K is missing ({which}{ends.get(step, '')})"
        return _weighted(wrong, "step of each tile missing", said, np.where(here, 0.0, 1.0))
    if name == "alone":
        said = f"only one of {period} steps along K is summed ({which})"
        return _weighted(wrong, "step of each tile alone", said, np.where(here, 1.0, 0.0))
    if name == "twice":
        said = f"one of {period} steps along K is counted twice ({which})"
        return _weighted(wrong, "steps counted twice", said, np.where(here, 2.0, 1.0))
    said = f"only the first {step + 1} of {period} steps of each tile along K are summed"
    return _weighted(wrong, "steps of each tile missing", said, np.where(place <= step, 1.0, 0.0))


def _weighted(wrong: WrongProduct, pattern: str, said: str, weights: Array) -> Guess:
    """Return a guess in which the step k is counted ``weights[k]`` times."""

    def values(rows: Array, cols: Array) -> tuple[Array, None]:
        kept = np.flatnonzero(weights)
        times = np.repeat(kept, weights[kept].astype(np.int64))
        return wrong.multiply(wrong.a[np.ix_(rows, times)], wrong.b[np.ix_(times, cols)]), None

    return Guess(pattern, said, values)


def _steps(begin: int, end: int) -> str:
    return f"k = {begin}" if end - begin == 1 else f"k = {begin} to {end - 1}"


def _the(begin: int, end: int) -> str:
    return f"the step {_steps(begin, end)}" if end - begin == 1 else f"the steps {_steps(begin, end)}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
