"""Results beside what they must be: tolerances, and a finding for the first element that is wrong."""

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

#: Relative tolerances of ``expected=`` by the bytes of a floating-point number, unless the caller names one.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-10}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The distance of a result from what is expected that is no error; None for what follows from its type."""

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not (isinstance(value, Real) and value >= 0):
                raise ConfigError(f"{name} is a number from 0, or None; got {value!r}")

    def first_wrong(
        self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]
    ) -> tuple[tuple[int, ...], int] | None:
        """Return the index of the first wrong element, and how many there are; None if all are right."""
        wrong = np.argwhere(self._wrong(got, expected))
        return (tuple(int(i) for i in wrong[0]), len(wrong)) if len(wrong) else None

    def _wrong(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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
    """Return what is expected of each array, by the number of its parameter.

    Raises:
        OperandTypeError: If ``expected`` is no mapping.
        ConfigError: If it names no array of the launch.
        ShapeError: If what is expected has another shape.
    """
    names = [each.name for each in launch.parameters]
    if not isinstance(expected, Mapping):
        raise OperandTypeError(f"expected= is a dict of arrays by number or name ({', '.join(names)})")
    wanted = {}
    for key, value in expected.items():
        at = names.index(key) if key in names else key
        if not isinstance(at, int) or at not in launch.arrays:
            raise ConfigError(f"expected= names arrays by number or name ({', '.join(names)}); got {key!r}")
        right = np.asarray(value)
        if right.shape != launch.arrays[at].shape:
            raise ShapeError(f"expected[{key!r}] has shape {right.shape}, and the array has {launch.arrays[at].shape}")
        wanted[at] = right
    return wanted


def wrong_results(
    launch: Launch,
    findings: KernelFindings,
    outcome: Outcome,
    wanted: Mapping[int, np.ndarray[Any, Any]],
    tolerance: Tolerance,
) -> Iterator[Finding]:
    """Yield a finding for each array that is not as expected.

    Args:
        launch: The launch, whose arrays hold its results.
        findings: Those of its kernel.
        outcome: What its run returned.
        wanted: What ``expected_arrays`` returned.
        tolerance: How far results may be from that.
    """
    for (at, array), (region, distance) in zip(launch.arrays.items(), launch.owner, strict=True):
        differs = tolerance.first_wrong(array, wanted[at]) if at in wanted else None
        if differs:
            first, count = differs
            name = launch.parameters[at].name
            said = (
                f"{count:,} of {array.size:,} elements of {name}; {name}[{', '.join(map(str, first))}] is "
                f"{array[first]}, expected {wanted[at][first]}"
            )
            placed = launch.placed[region]
            offset = distance + sum(i * stride for i, stride in zip(first, array.strides, strict=True))
            writer = outcome.writer(placed.writes, (offset - placed.start) // placed.granule)
            yield findings.wrong_result(WRONG_RESULT, said, writer, Geometry(launch.grid, launch.block))
