"""Comparison of results with expected arrays: tolerances, and a finding for the first wrong element of each array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError, ShapeError
from tiledmm.simulator.check.finding_kinds import WRONG_RESULT
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.execute.grid import Geometry, Outcome
from tiledmm.simulator.execute.launch import Launch

#: What the message says about an element that is wrong because the launch ended early.
ENDED_EARLY = "no thread had written it when the finding above ended the launch"

#: Default relative tolerance of ``expected=``, by the size of a floating-point number in bytes.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-10}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances within which a floating-point result is right. Other results must be equal.

    Attributes:
        rtol: Relative tolerance; None for that of the result's type in ``TOLERANCES``.
        atol: Absolute tolerance; None for ``rtol`` times the mean absolute value of what is expected.
    """

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not (isinstance(value, Real) and value >= 0):
                raise ConfigError(f"{name} must be a number of at least 0, or None; got {value!r}")

    def wrong(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the indices of the wrong elements, one in each row, in order."""
        return np.argwhere(self._differs(got, expected))

    def _differs(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if got.dtype.kind not in "fc":
            different: np.ndarray[Any, Any] = got != expected
            return different
        bytes_of_real = got.dtype.itemsize // (2 if got.dtype.kind == "c" else 1)
        rtol = TOLERANCES.get(bytes_of_real, 1e-10) if self.rtol is None else self.rtol
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64 if got.dtype.kind == "f" else np.complex128))
        atol = (rtol * float(finite.mean()) if finite.size else 0.0) if self.atol is None else self.atol
        wrong: np.ndarray[Any, Any] = ~np.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
        return wrong


def expected_arrays(launch: Launch, expected: Mapping[int | str, Any]) -> dict[int, np.ndarray[Any, Any]]:
    """Return the expected arrays of a launch, by the number of the array in ``launch.passed``.

    Args:
        launch: The launch.
        expected: Expected arrays as the user passed them, by the number or the name of a parameter, or by the name of a
            pointer in a structure.

    Raises:
        OperandTypeError: If ``expected`` is not a mapping.
        ConfigError: If a key is not the number or the name of what got an array.
        ShapeError: If an expected array has another shape than the array of the launch.
    """
    parameters = ", ".join(each.name for each in launch.parameters)
    if not isinstance(expected, Mapping):
        raise OperandTypeError(
            f"expected must be a dict of arrays by number or name of their parameters ({parameters}); got "
            f"{type(expected).__name__}"
        )
    if not expected:
        return {}
    numbers: dict[int | str, int] = {each.name(): at for at, each in enumerate(launch.passed)}
    known = ", ".join(dict.fromkeys([each.name for each in launch.parameters] + list(map(str, numbers))))
    numbers |= {parameter: at for at, parameter in enumerate(launch.arrays)}
    wanted = {}
    for key, value in expected.items():
        if key not in numbers:
            raise ConfigError(f"expected has the unknown key {key!r}; keys are names or numbers of {known}")
        at, right = numbers[key], np.asarray(value)
        if right.shape != launch.passed[at].array.shape:
            raise ShapeError(
                f"expected[{key!r}] has shape {right.shape}, but the array has shape {launch.passed[at].array.shape}"
            )
        wanted[at] = right
    return wanted


def wrong_results(
    launch: Launch,
    findings: KernelFindings,
    outcome: Outcome,
    wanted: Mapping[int, np.ndarray[Any, Any]],
    tolerance: Tolerance,
) -> Iterator[Finding]:
    """Yield a finding for each array that differs from what is expected.

    It names the first wrong element; in a launch that ended early, the first that a thread had written by then.

    Args:
        launch: The launch, whose arrays hold its results.
        findings: Factory of findings about the launch's kernel.
        outcome: Outcome of the launch, with recorded writers.
        wanted: The expected arrays, as ``expected_arrays`` returns them.
        tolerance: Tolerances of the comparison.
    """
    is_complete = outcome.finished == outcome.blocks
    for at, (passed, (region, distance)) in enumerate(zip(launch.passed, launch.owner, strict=True)):
        array = passed.array
        wrong = tolerance.wrong(array, wanted[at]) if at in wanted else ()
        if not len(wrong):
            continue
        placed = launch.placed[region]
        offsets = (distance + wrong @ np.array(array.strides, np.int64) - placed.start) // placed.granule
        writers = (outcome.writer(placed.writes, int(offset)) for offset in offsets)
        number, writer = 0, outcome.writer(placed.writes, int(offsets[0]))
        if writer is None and not is_complete:
            number, writer = next(((i, each) for i, each in enumerate(writers) if each), (0, None))
        first = tuple(int(i) for i in wrong[number])
        name = passed.name()
        said = (
            f"{len(wrong):,} of {array.size:,} elements of {name}; {name}[{', '.join(map(str, first))}] is "
            f"{array[first]}, expected {wanted[at][first]}"
        )
        if writer is None and not is_complete:
            yield findings.ended_early(WRONG_RESULT, f"{said}; {ENDED_EARLY}")
        else:
            yield findings.wrong_result(WRONG_RESULT, said, writer, Geometry(launch.grid, launch.block))
