"""The search for parameters that minimize a loss, by changes of one parameter at a time, and the loss of an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

# Factors by which a parameter is changed, the smallest last, and maximum number of rounds with each factor.
STEPS, _ROUNDS = (2.0, 1.4, 1.15, 1.05, 1.015), 12

# Error below which the loss is quadratic, as a fraction.
_SMALL_ERROR = 0.05


def least(
    loss: Callable[[np.ndarray], float],
    first: np.ndarray,
    limits: Sequence[tuple[float, float]],
    steps: Sequence[float] = STEPS,
    rounds: int = _ROUNDS,
) -> np.ndarray:
    """Minimize a loss by changes of one parameter at a time, and return the values of the parameters.

    Args:
        loss: Function to minimize. It gets the values of the parameters.
        first: Values from which the search begins.
        limits: Minimum and maximum of each parameter.
        steps: Factors by which a parameter is changed, the smallest last.
        rounds: Maximum number of rounds over all parameters with each factor.
    """
    values, lowest = np.array(first), loss(first)
    for step in steps:
        for _ in range(rounds):
            before = lowest
            for i, (low, high) in enumerate(limits):
                for factor in (step, 1 / step):
                    tried = values.copy()
                    tried[i] = min(max(values[i] * factor, low), high)
                    if (found := loss(tried)) < lowest:
                        values, lowest = tried, found
            if lowest > before * 0.999:
                break
    return values


def distances(logarithms: np.ndarray) -> np.ndarray:
    """Return the loss of each error. An error is the logarithm of the ratio of expected to measured time.

    The loss of a small error is quadratic. That of a large error is proportional to the error, so that a few bad
    timings do not dominate the fit.
    """
    return np.asarray(np.sqrt(logarithms**2 + _SMALL_ERROR**2) - _SMALL_ERROR)


def rounded(value: float) -> float:
    """Round a value to four significant digits, for a table of rates."""
    return float(f"{value:.4g}")
