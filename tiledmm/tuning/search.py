"""The search of the fits, which changes one parameter at a time, and the loss of an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

# Factors by which a parameter is changed, the smallest last, and most rounds with each factor.
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
    """Minimize a loss by changes of one parameter at a time, and return the parameters.

    Args:
        loss: Function to minimize.
        first: First values of the parameters.
        limits: Least and greatest value of each parameter.
        steps: Factors by which a parameter is changed, the smallest last.
        rounds: Most rounds over all parameters with each factor.
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
    """Return the losses of errors, given as logarithms of ratios.

    The loss of a large error is proportional to it, so that single timings do not decide; that of a small one is
    quadratic.
    """
    return np.asarray(np.sqrt(logarithms**2 + _SMALL_ERROR**2) - _SMALL_ERROR)


def rounded(value: float) -> float:
    """Round a value to four digits, as tables of rates have them."""
    return float(f"{value:.4g}")
