"""Where explanations plug in: functions that say in sentences why a result looks wrong, or why a kernel is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from tiledmm.own_kernels.accesses import Access
    from tiledmm.own_kernels.bounds import Bound
    from tiledmm.own_kernels.compiled import Compiled
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


@dataclass(frozen=True, slots=True)
class Cost:
    """What a right kernel costs, with all that may explain it.

    Attributes:
        sizes: M, N and K of the simulated launch; empty for a kernel that is no product.
        report: Report of the launch.
        accesses: Its accesses to memory, by source line.
        compiled: Registers, spills and occupancy; None if they are not known.
        bound: A bound on its speed; None if it is no product.
    """

    sizes: Mapping[str, int]
    report: Report
    accesses: Sequence[Access]
    compiled: Compiled | None
    bound: Bound | None


Explainer: TypeAlias = Callable[[WrongResult], Sequence[str]]
Advisor: TypeAlias = Callable[[Cost], Sequence[str]]

#: Functions that explain wrong results. Each returns sentences ("looks as if ..."), or none; they are asked in order.
EXPLAINERS: list[Explainer] = []

#: Functions that say what makes a right kernel slow, and what mends it, in sentences; they are asked in order.
ADVISORS: list[Advisor] = []


def explain(wrong: WrongResult) -> tuple[str, ...]:
    """Return the sentences of all explainers on a wrong result, each once."""
    return tuple(dict.fromkeys(sentence for explainer in EXPLAINERS for sentence in explainer(wrong)))


def advise(cost: Cost) -> tuple[str, ...]:
    """Return the sentences of all advisors on what a kernel costs, each once."""
    return tuple(dict.fromkeys(sentence for advisor in ADVISORS for sentence in advisor(cost)))
