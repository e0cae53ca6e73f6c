"""Guesses about sums: their start, their type, their factors, and operations that are not those of a product."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiledmm.simulated.explanation.wrong_product import Array, Guess, WrongProduct


def value_guesses(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which places are right and values are not."""
    yield from _scaled(wrong)
    yield from _carried(wrong)
    yield from _other_operations(wrong)


def _scaled(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield the guess that C is ``x * (A @ B) + y * before`` with other factors than alpha and beta."""
    before = None if wrong.before is None else wrong.before.astype(wrong.sums.dtype)
    told = np.argwhere(wrong.compared)
    if wrong.sums.dtype.kind == "c" or not len(told):
        return
    rows, cols = told[np.linspace(0, len(told) - 1, min(len(told), 64)).astype(np.int64)].T
    columns = [wrong.sums[rows, cols].astype(np.float64)]
    has_before = before is not None and bool(np.isfinite(before.astype(np.float64)).all() and before.any())
    if before is not None and has_before:
        columns.append(before[rows, cols].astype(np.float64))
    columns.append(np.ones(len(rows)))
    got = wrong.c[rows, cols].astype(np.float64)
    if not np.isfinite(got).all():
        return
    found, _, rank, _ = np.linalg.lstsq(np.stack(columns, axis=1), got, rcond=None)
    if rank < len(columns):
        return
    x = _rounded(float(found[0]), wrong)
    y = _rounded(float(found[1]), wrong) if has_before else 0.0
    more = float(f"{found[-1]:.5g}") if abs(found[-1]) > 10 * wrong.rtol * np.abs(got).mean() else 0.0
    if x is None or y is None or (x, y) == (0, 0):
        return

    def values(rows: Array, cols: Array) -> tuple[Array, None]:
        at = np.ix_(rows, cols)
        sums = x * wrong.sums[at] + more
        return sums if not y or before is None else sums + y * before[at].astype(np.float64), None

    yield Guess(*_factors(wrong, x, y, more), values, is_finished=True)


def _rounded(factor: float, wrong: WrongProduct) -> float | None:
    """Return the number of the problem that a factor is close to, or a small fraction; None if there is none."""
    alpha, beta = wrong.alpha.real, wrong.beta.real
    known = (alpha, beta, 0.0, 1.0, alpha * beta, alpha + beta, alpha * alpha, alpha * wrong.k, 1 / wrong.k)
    for each in (
        *known,
        *(-one for one in known),
        *(float(n) * alpha for n in range(2, 33)),
        *(alpha / n for n in range(2, 33)),
    ):
        if abs(factor - each) <= 20 * wrong.rtol * max(abs(each), 0.01):
            return float(each)
    return None


def _factors(wrong: WrongProduct, x: float, y: float, more: float) -> tuple[str, str]:
    """Return the pattern of wrong factors of the product and of what C held before, or of a summand, and a clause."""
    alpha, beta = wrong.alpha.real, wrong.beta.real
    if more and (x, y) == (alpha, beta):
        return "constant added", f"{more:g} is added to each element: does the sum begin there?"
    got = f"{x:.6g} * A @ B" + (f" + {y:.6g} * C" if y else "")
    right = f"{alpha:.6g} * A @ B" + (f" + {beta:.6g} * C" if beta else "")
    index = f" (the result is {got}, and {right} is right)"
    if (x, y) == (0, 1):
        return "result not stored", "C still holds what was there before the launch"
    if y == alpha * beta and x == alpha and beta:
        return "alpha scales both", f"alpha also scales what C held before{index}"
    if x == alpha and y != beta:
        if beta == 0 and y == 1:
            return "result accumulated", f"C is added to what it held before the launch, not overwritten{index}"
        if y == 0:
            return "beta ignored", f"beta is ignored: the previous contents of C are not added{index}"
        return "beta wrong", f"beta is applied wrongly{index}"
    if y == beta and x != alpha:
        if x == 1:
            return "alpha ignored", f"alpha is ignored{index}"
        if x == -alpha:
            return "sign", f"products are subtracted instead of added{index}"
        if x == alpha * alpha:
            return "alpha twice", f"alpha is applied twice{index}"
        if x == 0:
            return "product missing", f"the product is not added at all{index}"
        if x == 2 * alpha:
            return "product twice", f"the whole product is counted twice{index}"
        return "product scaled", f"the whole product is scaled{index}"
    if (x, y) == (beta, alpha):
        return "alpha and beta exchanged", f"alpha and beta are exchanged{index}"
    return "alpha and beta wrong", f"alpha and beta are applied wrongly{index}"


def _carried(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which a thread does not reset its sum between the elements that it computes."""
    if wrong.beta != 0:
        return
    for axis, name in ((1, "columns"), (0, "rows"), (None, "elements")):
        bad = wrong.wrong if axis is None else wrong.wrong.any(axis=1 - axis)
        first = int(np.flatnonzero(bad)[0])
        if first == 0:
            continue
        size = bad.size
        right = np.flatnonzero(~bad.reshape(-1)[first:])
        # All, or as many as come before the next one that is right.
        for period in dict.fromkeys((size, *((first + int(right[0])) for _ in right[:1]))):
            if period % first and period != size:
                continue
            sums = _running(wrong.sums, axis, first, period)

            def values(rows: Array, cols: Array, sums: Array = sums) -> tuple[Array, None]:
                return sums[np.ix_(rows, cols)], None

            far = f"{first} {name} apart" if first > 1 else f"side by side along the {name}"
            said = f"a thread does not reset its sum between its elements ({far}): each contains those before it"
            yield Guess("sum not reset", said, values)


def _running(sums: Array, axis: int | None, step: int, period: int) -> Array:
    """Return sums to which those before them, ``step`` apart, are added, anew in each period."""
    moved = sums.reshape(-1, 1) if axis is None else np.moveaxis(sums, axis, 0)
    running = moved.copy()
    for at in range(step, len(running)):
        if at % period >= step:
            running[at] += running[at - step]
    return running.reshape(sums.shape) if axis is None else np.moveaxis(running, 0, axis)


def _other_operations(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which something else than a product is computed."""
    wide_a, wide_b = (each.astype(wrong.sums.dtype) for each in (wrong.a, wrong.b))

    def of(said: str, sums: Array) -> Guess:
        def values(rows: Array, cols: Array) -> tuple[Array, None]:
            return sums[np.ix_(rows, cols)], None

        return Guess("other operation", said, values)

    yield of("A and B are added instead of multiplied", np.add.outer(wide_a.sum(axis=1), wide_b.sum(axis=0)))
    if wrong.a.shape == wrong.b.shape:
        yield of("A and B are multiplied element by element", wide_a * wide_b)
    if wrong.sums.dtype.kind == "c":
        yield of("A is conjugated", wide_a.conj() @ wide_b)
        yield of("B is conjugated", wide_a @ wide_b.conj())
        yield of("the result is conjugated", wrong.sums.conj())
        yield of(
            "the products of the imaginary parts are added to the real part instead of subtracted",
            _without_minus(wide_a, wide_b),
        )
    else:
        yield of("negative elements are set to zero", np.maximum(wrong.sums, 0))
        yield of("elements lose their signs", np.abs(wrong.sums))


def _without_minus(a: Array, b: Array) -> Array:
    product: Array = a @ b + 2 * (a.imag @ b.imag)
    return product
