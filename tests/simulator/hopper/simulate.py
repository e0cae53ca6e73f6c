"""Cases of the corpus on the simulator: launches of their kernels in order, on the same arrays."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator.hopper.case import FOLDER, Arrays, Case
from tiledmm import simulator
from tiledmm.simulator.build.translation.syntax import without_comments
from tiledmm.simulator.check.finding_kinds import WRONG_RESULT
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.report.report import Report

# What the kernels' pointers point to. An array of another type is passed as these elements.
_ELEMENTS: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "int": "int32", "int4": "int32", "float": "float32", "float4": "float32", "short": "int16", "u32": "uint32",
    }.items()
}  # fmt: skip

# TMA copies 8-bit floats as bytes.
_MAP_TYPES = {"e4m3": "uint8", "e5m2": "uint8"}


def simulate(
    case: Case, source: str | None = None, *, offsets: Mapping[str, int] | None = None, **settings: Any
) -> Report:
    """Run a case on the simulator, and compare what it leaves in the arrays.

    Args:
        case: The case.
        source: Text of the case's file, edited; None for the file's own.
        offsets: Bytes from an array to the address in its tensor map, by the name of the map.
        **settings: Keywords of ``simulator.launch``.

    Returns:
        The report of the last launch, with the findings and warnings of all. A finding of the kind ``WRONG_RESULT``
        says which element differs from what the case expects, or that the kernel wrote to an input.

    Raises:
        TiledmmError: If a tensor map, the text or a launch is refused.
    """
    reports = list(simulated_launches(case, source, offsets=offsets, **settings))
    return replace(
        reports[-1],
        findings=tuple(each for report in reports for each in report.findings),
        warnings=tuple(each for report in reports for each in report.warnings),
    )


def simulated_launches(
    case: Case, source: str | None = None, *, offsets: Mapping[str, int] | None = None, **settings: Any
) -> Iterator[Report]:
    """Yield the report of each launch of a case, as ``simulate`` makes them; launches after a finding are left out."""
    arrays, expected = case.make()
    before = {name: array.copy() for name, array in arrays.items()}
    changed: list[np.ndarray[Any, Any]] = []  # by the launches so far
    maps = {
        name: simulator.tensor_map(
            arrays[each.array], each.box, sizes=each.sizes, strides=each.strides,
            dtype=_MAP_TYPES.get(each.dtype, each.dtype), element_strides=each.steps, swizzle=each.swizzle,
            interleave=each.interleave, fill=each.fill, offset=(offsets or {}).get(name, 0),
        )
        for name, each in case.maps.items()
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = case.path
        if source is not None:
            path = Path(folder, path.name)
            path.write_text(source, "utf-8")
        for kernel in case.kernels:
            is_last = kernel == case.kernels[-1]
            arguments = list(_arguments(case, kernel, arrays, maps))
            wanted: dict[int | str, Any] = {
                at: expected[name]
                for at, name in enumerate(case.arguments)
                if is_last and name in expected and arguments[at] is arrays[name]
            }
            report = simulator.launch(
                path, case.grid, case.block, arguments, name=kernel, options=(f"-I{FOLDER}",), shared_bytes=case.shared,
                expected=wanted, rtol=case.tolerance, atol=0.0,
                cluster=None if case.cluster == (1, 1, 1) else case.cluster,
                dependent_on=changed if case.dependent else (), **settings,
            )  # fmt: skip
            changed = [array for name, array in arrays.items() if array.tobytes() != before[name].tobytes()]
            if (is_last or not report.ok) and all(each.kind != WRONG_RESULT for each in report.findings):
                wrong = (_wrong(case, kernel, said) for said in _differences(case, before, arrays, expected))
                report = replace(report, findings=(*report.findings, *wrong))
            yield report
            if not report.ok:
                return


def _arguments(case: Case, kernel: str, arrays: Arrays, maps: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the arguments of a kernel: numbers, tensor maps, and arrays of the elements that its parameters name."""
    plain = without_comments(case.path.read_text("utf-8"))
    head = re.search(rf"\b{kernel}\s*\(([^{{;]*)\)\s*\{{", plain)
    types = [each.replace("const", " ").split("*")[0].strip() for each in head[1].split(",")] if head else []
    for at, argument in enumerate(case.arguments):
        if isinstance(argument, int):
            yield argument
        elif argument in maps:
            yield maps[argument]
        else:
            array = arrays[argument]
            elements = _ELEMENTS.get(types[at] if at < len(types) else "", array.dtype)
            yield array if array.dtype == elements else array.view(elements)


def _differences(case: Case, before: Arrays, after: Arrays, expected: Arrays) -> Iterator[str]:
    """Yield a sentence about each array that is not what it should be after the launches."""
    for name, array in after.items():
        if name in expected:
            if said := case.difference(name, array, expected[name]):
                yield said
        elif array.tobytes() != before[name].tobytes():
            yield f"the kernel wrote to its input {name}"


def _wrong(case: Case, kernel: str, said: str) -> Finding:
    """Return a finding that a result is wrong, at no line."""
    return Finding(
        WRONG_RESULT, f"{kernel}: {WRONG_RESULT} of {case.name}: {said}", 0, "an unknown line", "", (0, 0, 0),
        (0, 0, 0), None, None, None, None, None, 1,
    )  # fmt: skip


def named_places(report: Report, finding: Finding) -> frozenset[str]:
    """Return the places that a finding names, as file and line: ``"gemm_ring.cu:31"``.

    They are those in its message, such as its line, the calls around it and the line of a second thread, and others
    with the same cause.
    """
    numbers = (finding.line, finding.other_line or 0, *finding.calls, *finding.also)
    return frozenset(
        (
            *(report.locations[each - 1] for each in numbers if 0 < each <= len(report.locations)),
            *re.findall(r"\w+\.cuh?:\d+", finding.message),
        )
    )
