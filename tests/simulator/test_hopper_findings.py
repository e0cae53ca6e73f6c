"""Tests of what findings about Hopper's asynchronous instructions say: each kind, and each fault of a kind, once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiledmm import simulator
from tiledmm.simulator.build import native_library
from tiledmm.simulator.check.asynchronous_kinds import ASYNCHRONOUS, CONTINUING_FAULTS, EXCHANGES, FAULTS

FOLDER = Path(__file__).parent
KERNELS = FOLDER / "hopper" / "hopper_findings.cu"
HEADERS = FOLDER / "hopper" / "kernels"
LINES = KERNELS.read_text(encoding="utf-8").splitlines()

#: Launches of each kernel that have other threads than the first number, or another order of threads: by the case.
THREADS = {"bulk": 64, "blocks": 32, "warpgroups": 128}
OTHER_THREADS = {("warpgroups", 3): 100, ("warpgroups", 9): 256, ("warpgroups", 12): 384, ("warpgroups", 13): 640}
OTHER_ORDERS = {("bulk", 7): "reverse"}


def wanted() -> dict[tuple[str, int], list[str]]:
    """Return the messages that each case must have: lines of a file, under lines such as ``"== bulk 3"``."""
    cases: dict[tuple[str, int], list[str]] = {}
    for line in KERNELS.with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            _, kernel, number = line.split()
            said = cases.setdefault((kernel, int(number)), [])
        else:
            said.append(line)
    return cases


WANTED = wanted()


def shown(message: str) -> str:
    """Return a message with the words of its lines' comments for their numbers, and without addresses."""

    def word(match: re.Match[str]) -> str:
        comment = re.search(r"// (\w+)$", LINES[int(match[1]) - 1])
        return f"<{comment[1]}>" if comment else "<line>"

    message = re.sub(rf"{KERNELS.name}:(\d+)", word, message)
    return re.sub(r"hopper\.cuh:\d+", "<hopper.cuh>", re.sub(r"0x[0-9a-f]{5,}", "<address>", message))


def simulate(kernel: str, number: int, *, blocks: int = 1, **settings: Any) -> simulator.Report:
    """Run one case of a kernel."""
    numbers, out = np.zeros(64, np.int32), np.zeros(64, np.int32)
    arguments: dict[str, tuple[Any, ...]] = {
        "bulk": (
            number, numbers, out, simulator.tensor_map(numbers, 16),
            simulator.tensor_map(np.zeros(64, np.uint8), 16),
        ),
        "blocks": (number, out, numbers),
        "warpgroups": (
            number, np.arange(1, 1025, dtype=np.float32),
            simulator.tensor_map(np.zeros((64, 64), np.float16), (64, 64), swizzle=128),
        ),
    }  # fmt: skip
    case = kernel, number
    return simulator.launch(
        KERNELS, 2 if kernel == "blocks" else blocks, OTHER_THREADS.get(case, THREADS[kernel]), arguments[kernel],
        name=kernel, options=(f"-I{HEADERS}",), counts=False, threads=OTHER_ORDERS.get(case, "forward"),
        cluster=2 if kernel == "blocks" else None, **settings,
    )  # fmt: skip


@pytest.mark.parametrize(("kernel", "number"), WANTED, ids=[f"{kernel}-{number}" for kernel, number in WANTED])
def test_what_a_finding_says(kernel: str, number: int) -> None:
    report = simulate(kernel, number)
    found = (*report.findings, *report.warnings)
    assert [shown(each.message) for each in found] == WANTED[kernel, number]
    for each in found:
        assert (each.other_location is None) == (each.other_line is None)
        assert each.other_thread is None or f"thread ({each.other_thread[0]}, 0)" in each.message


def test_each_kind_and_each_fault_is_provoked() -> None:
    said = [each for every in WANTED.values() for each in every]
    for kind in ASYNCHRONOUS:
        of_kind = [each for each in said if f": {kind}: " in each]
        for text in FAULTS.get(kind, {0: ""}).values():
            words = ".*".join(map(re.escape, re.split(r"\{.*?\}", text)))
            assert any(re.search(words, each) for each in of_kind), (kind, text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTINUING_FAULTS)
def test_faults_after_which_a_launch_goes_on(kind: str) -> None:
    """Check that a second block runs after a fault that does not end the launch, and only then."""
    cases = [case for case, said in WANTED.items() if said and f": {kind}: " in said[0] and case[0] != "blocks"]
    for case in cases:
        found = simulate(*case, blocks=2, workers=1).findings[0]
        assert found.ends_launch == (found.count == 1), found.message


def test_exchanges_of_a_warp_have_names() -> None:
    text = (Path(native_library.__file__).parent / "native" / "asynchronous_memory.h").read_text(encoding="utf-8")
    names = ("WGMMA", "WGMMA_FENCE", "WGMMA_COMMIT", "WGMMA_WAIT", "SET_REGISTERS", "CLUSTER_ARRIVE", "CLUSTER_WAIT")
    numbers = [int(re.search(rf"\b{name} = WHOLE_WARP \+ (\d+)", text)[1]) for name in names]  # type: ignore[index]
    assert [101 + number for number in numbers] == [number for number in EXCHANGES if number > 103]
