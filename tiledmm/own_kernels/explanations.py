"""Where explanations plug in: functions that say in sentences why a result looks wrong, or why a kernel is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from tiledmm.simulator.report.report import Report


@dataclass(frozen=True, slots=True)
class WrongResult:
    """A wrong product, with all that may explain it.

    Attributes:
        a, b: The factors, (M, K) and (K, N).
        before: C before the launch, (M, N).
        got: C after it.
        expected: C as it should be.
        alpha, beta: Scalars of ``alpha * (a @ b) + beta * before``; None if the kernel has no such parameter.
        sizes: M, N and K.
        report: Report of the simulated launch: grid, block, findings, and text of the kernel.
    """

    a: np.ndarray[Any, Any]
    b: np.ndarray[Any, Any]
    before: np.ndarray[Any, Any]
    got: np.ndarray[Any, Any]
    expected: np.ndarray[Any, Any]
    alpha: float | None
    beta: float | None
    sizes: Mapping[str, int]
    report: Report


Explainer: TypeAlias = Callable[[WrongResult], Sequence[str]]

#: Functions that explain wrong results. Each returns sentences ("looks as if ..."), or none; they are asked in order.
EXPLAINERS: list[Explainer] = []


def explain(wrong: WrongResult) -> tuple[str, ...]:
    """Return the sentences of all explainers on a wrong result, each once."""
    return tuple(dict.fromkeys(sentence for explainer in EXPLAINERS for sentence in explainer(wrong)))
