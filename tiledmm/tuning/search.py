"""The search of the fits: parameters one at a time, and how errors count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

# The search: factors by which a parameter is changed, the smallest last, and most rounds with each.
STEPS, _ROUNDS = (2.0, 1.4, 1.15, 1.05, 1.015), 12

# An error that is small.
_SMALL_ERROR = 0.05


def least(
    loss: Callable[[np.ndarray], float],
    first: np.ndarray,
    limits: Sequence[tuple[float, float]],
    steps: Sequence[float] = STEPS,
    rounds: int = _ROUNDS,
) -> np.ndarray:
    """The parameters of the least loss that changing one at a time finds."""
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
    """Errors as they count: a large one in proportion, so that no odd timing decides; a small one by its square."""
    return np.asarray(np.sqrt(logarithms**2 + _SMALL_ERROR**2) - _SMALL_ERROR)


def rounded(value: float) -> float:
    """To four digits, as tables of rates have them."""
    return float(f"{value:.4g}")
