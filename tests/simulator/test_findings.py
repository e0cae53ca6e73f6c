"""Tests of what findings say, and that unedited kernels have none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tiledmm
from tiledmm import simulator
from tiledmm.codegen.template_files import template_folder
from tiledmm.errors import SimulationError
from tiledmm.simulator.build import native_library
from tiledmm.simulator.check import finding_kinds, findings
from tiledmm.simulator.check.asynchronous_kinds import ASYNCHRONOUS
from tiledmm.simulator.check.findings import Region, nearest
from tiledmm.simulator.execute.interface import RawFinding
from tools.bugs.kernels import every_bug

BUGS = {bug.id: bug for bug in every_bug() if bug.own}


def simulate(name: str, folder: Path, threads: str = "forward") -> simulator.Report:
    """Simulate one of this package's kernels with a planted bug."""
    bug = BUGS[name]
    path = folder / "broken.cu"
    path.write_text(bug.planted(bug.own.text())[0], encoding="utf-8")
    a, b = bug.own.operands()
    return simulator.run(a, b, variant=bug.own.variant, tile=bug.own.tile, source=path, counts=False, threads=threads)[
        1
    ]


def test_the_message_names_lines_block_and_threads(tmp_path):
    report = simulate("tiled_16: no barrier after the reads", tmp_path)
    finding = next(each for each in report.findings if each.kind == "race on shared memory" and "As" in each.message)
    lines = report.text.splitlines()
    assert lines[finding.line - 1] == finding.text and "As[" in finding.text
    (path,) = tmp_path.iterdir()
    assert finding.location == f"{path.name}:{finding.line}" and f", {finding.location}: race" in finding.message
    assert finding.other_location == f"{path.name}:{finding.other_line}" and finding.other_location in finding.message
    assert lines == path.read_text().splitlines()
    assert f"  {finding.location} | {finding.text.strip()}" in str(finding).splitlines()
    assert f"block {finding.block[:2]}" in finding.message and f"thread {finding.thread[:2]}" in finding.message
    assert finding.other_thread != finding.thread
    assert f"thread {finding.other_thread[:2]}" in finding.message
    with pytest.raises(SimulationError, match="race on shared memory"):
        report.check()
    assert simulator.Report.ok.fget(report) is False


def test_a_finding_names_the_template_and_the_line(tmp_path: Path) -> None:
    """Check that a finding names the template's line, not that of the rendered text, which users do not see."""
    template = (template_folder() / "naive.cu.j2").read_text(encoding="utf-8")
    write = "    c_tile.write(row, col, sum);\n"
    assert template.count(write) == 1
    path = tmp_path / "mine.cu.j2"
    path.write_text(template.replace(write, "    c_tile.write(row, 0, sum);   // every column\n"), encoding="utf-8")
    tiledmm.register(path, like="naive")
    try:
        _, report = simulator.run(*SIZES, variant="mine", counts=False)
    finally:
        tiledmm.unregister("mine")
    (finding,) = (each for each in report.findings if each.kind == "race on global memory")
    number = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if "every column" in line)
    assert finding.location == finding.other_location == f"mine.cu.j2:{number}" and finding.line != number
    assert str(finding).splitlines()[1:] == [f"  mine.cu.j2:{number} | c_tile.write(row, 0, sum);   // every column"]


@pytest.mark.parametrize(
    "name", ["no barrier after the stores", pytest.param("no barrier after the reads", marks=pytest.mark.slow)]
)
def test_races_do_not_hide_behind_the_order_of_threads(tmp_path, name):
    """Check that a missing barrier gives the same pairs of racing lines in each order of threads."""
    found = []
    for threads in ("forward", "reverse", "random"):
        report = simulate(f"tiled_16: {name}", tmp_path, threads)
        races = [each for each in report.findings if each.kind == "race on shared memory"]
        found.append({frozenset((each.line, each.other_line)) for each in races})
    assert found[0] == found[1] == found[2] != set()


# A kernel whose first thread makes one access besides: B's first element says which, and its second where.
ACCESSES = {
    "A": "value = a[at];",
    "A, 8 bytes": "value = *(const volatile double*)(a + at);",
    "B": "value = b[at];",
    "C": "c[at] = 0;",
    "shared": "value = (&few[0])[at];",
    "shared, 16 bytes": "cp_async<16>(&few[at], b, 16); wait_for_copies();",
}
MAKES_ONE = """\
    __shared__ alignas(16) float few[18];
    if (row == 0 && col == 0) {
        const int at = static_cast<int>(b[1]);
        volatile float value;
        switch (static_cast<int>(b[0])) {
"""


def edited(folder: Path, *edits: tuple[str, str], variant: str = "naive", layout: str = "NN") -> Path:
    """Write an edited kernel to a file."""
    text = tiledmm.source(variant, layout=layout, **({} if variant == "naive" else {"tile": 16}))
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "edited.cu"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def makes_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cases = "".join(f"            case {i}: {text} break;\n" for i, text in enumerate(ACCESSES.values()))
    made = f"{MAKES_ONE}{cases}        }}\n    }}\n    Sum sum = {{}};"
    return edited(tmp_path_factory.mktemp("accesses"), ("    Sum sum = {};", made), layout="GN")


GAP = ", which is not one of its elements"


@pytest.mark.parametrize(
    ("access", "at", "said"),
    [
        ("A", 0, None),
        ("A", 2, None),
        ("A", -1, "reads 4 bytes, 4 bytes before global array A (956 bytes)"),
        ("A", -300, "reads 4 bytes, 1,200 bytes before global array A (956 bytes)"),
        ("A", 1, "reads 4 bytes at byte 4 of global array A (956 bytes)" + GAP),
        ("A", 117, "reads 4 bytes at byte 468 of global array A (956 bytes)" + GAP),
        ("A", 239, "reads 4 bytes just past the end of global array A (956 bytes)"),
        ("A, 8 bytes", 0, "reads 8 bytes at A[0, 0], byte 0 of global array A (956 bytes)" + GAP),
        ("B", 31, None),
        ("B", 32, "reads 4 bytes just past the end of global array B (128 bytes)"),
        ("B", 33, "reads 4 bytes, 4 bytes past the end of global array B (128 bytes)"),
        ("C", 32, "writes 4 bytes just past the end of global array C (128 bytes)"),
        ("shared, 16 bytes", 12, None),
        ("shared", 18, "reads 4 bytes just past the end of shared array few (72 bytes)"),
        ("shared", 20, "reads 4 bytes, 8 bytes past the end of shared array few (72 bytes)"),
        ("shared, 16 bytes", 16, "writes 16 bytes at few[16], byte 64 of shared array few (72 bytes)"),
    ],
)
def test_the_message_says_where_an_access_out_of_bounds_is(
    makes_one: Path, access: str, at: int, said: str | None
) -> None:
    a = np.ones((16, 16), np.float32)[::2, ::2]
    b = np.ones((8, 4), np.float32)
    b[0, :2] = list(ACCESSES).index(access), at
    _, report = simulator.run(a, b, variant="naive", source=makes_one, counts=False)
    messages = [finding.message.partition(" thread (0, 0) ")[2] for finding in report.findings]
    assert messages == ([said] if said else [])


def test_accesses_are_beside_an_array_for_both_parts_of_the_simulator_alike() -> None:
    header = (Path(native_library.__file__).parent / "native" / "state.h").read_text(encoding="utf-8")
    assert f"REACH = {findings.REACH >> 20} << 20;" in header and findings.REACH % (1 << 20) == 0


def test_the_nearest_array_is_named() -> None:
    first, second, last = Region("first", 0, 16), Region("second", 16, 16), Region("last", 100, 8)
    near = {
        -5: first, 0: first, 15: first, 16: second, 31: second, 32: second, 65: second, 66: last, 107: last, 999: last,
    }  # fmt: skip
    assert {address: nearest((first, second, last), address) for address in near} == near
    assert {address: nearest((last, second, first), address) for address in near} == near
    assert nearest((), 5) is None


SIZES = np.arange(800, dtype=np.float32).reshape(40, 20), np.arange(800, dtype=np.float32).reshape(20, 40)


def messages(path: Path, variant: str = "naive", **keywords: int) -> list[str]:
    _, report = simulator.run(*SIZES, variant=variant, source=path, counts=False, workers=1, **keywords)
    return [finding.message for finding in report.findings]


def test_the_message_says_who_else_wrote_an_element_of_c(tmp_path: Path) -> None:
    write = "    c_tile.write(row, col, sum);\n"
    another = "    if (blockIdx.x == 0 && row == 1 && col == 0) c[0] = sum;\n"
    (within,) = messages(edited(tmp_path, (write, write + another)))
    assert re.search(
        r"race on global memory: block \(0, 0\), thread \(1, 0\) writes 4 bytes at C\[0, 0\], byte 0 of global array C "
        r"\(6,400 bytes\), .*thread \(0, 0\) wrote at edited\.cu:\d+", within
    ), within  # fmt: skip
    across, *_ = messages(edited(tmp_path, (write, f"    if (row + col == 0) c[0] = sum;\n    else {write}")))
    found = re.search(
        r"block \((\d), 0\), thread \(0, 0\) writes 4 bytes at C\[0, 0\], byte 0 of global array C \(6,400 bytes\), "
        r".*thread \(0, 0\) of block \((\d), 0\) wrote at the same line", across
    )  # fmt: skip
    assert found and found[1] != found[2], across


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ("    if (tx < 8)\n        __syncthreads();\n    else\n        __syncthreads();",
         r"thread \(\d+, \d+\) .*at edited\.cu:\d+ "),
        ("    if (tx < 8) __syncthreads(); else __syncthreads();",
         r"thread \(\d+, \d+\) .*the same line "),
    ],
)  # fmt: skip
def test_the_message_says_where_others_are_than_at_a_barrier(tmp_path: Path, instead: str, said: str) -> None:
    begins = "    const int ty = threadIdx.y;\n"
    path = edited(tmp_path, (begins, f"{begins}{instead}\n"), variant="tiled")
    found = messages(path, "tiled", tile=16)
    assert re.search("barrier not reached by all: block .*, " + said, found[0])


def test_threads_that_have_ended_count_as_arrived_at_a_barrier(tmp_path: Path) -> None:
    begins = "    const int ty = threadIdx.y;\n"
    leaves = (begins, f"{begins}    if (threadIdx.y == 99) return;\n    __syncthreads();\n")
    path = edited(tmp_path, leaves, variant="tiled")
    _, report = simulator.run(*SIZES, variant="tiled", tile=16, source=path, counts=False)
    assert report.ok and not report.warnings
    text = "__global__ void k(int* x, int n) { if (threadIdx.x >= n) return; __syncthreads(); x[threadIdx.x] = 1; }"
    report = simulator.launch(text, 1, 64, (np.zeros(8, np.int32), 8))
    assert report.ok and [each.kind for each in report.warnings] == ["barrier not reached by threads that have ended"]
    assert "thread (63, 0)" in report.warnings[0].message


@pytest.mark.parametrize("subscript", [-1, -2, 16, 17])
def test_the_message_says_which_subscript(tmp_path: Path, subscript: int) -> None:
    old = "As[a_m][a_k] ="
    path = edited(tmp_path, (old, f"As[a_m][a_k + (thread == 0 ? {subscript} : 0)] ="), variant="tiled")
    (found,) = messages(path, "tiled", tile=16)
    assert re.search(rf"subscript {subscript} .*16 elements", found)


class Lines:
    """A stand-in for source lines: the line number of each place, which is also its text."""

    def __init__(
        self, lines: dict[int, int], text: Callable[[int], str] = str, calls: tuple[int, ...] = (), loop: int = 0
    ) -> None:
        self._lines, self.text, self._calls, self._loop = lines, text, calls, loop

    def line(self, place: int) -> int:
        return self._lines.get(place, 0)

    def calls(self, place: int) -> tuple[int, ...]:
        return self._calls

    def location(self, line: int) -> str:
        return f"k.cu:{line}"

    def loop(self, line: int) -> int:
        return self._loop

    def same_text(self, place: int, other: int) -> bool:
        return self.line(place) == self.line(other)


def made_up(kind: str, **changes: object) -> RawFinding:
    """Return the runtime's record of a global access to address 104 of A, which spans 100 to 108."""
    raw = RawFinding(kind=finding_kinds.KINDS.index(kind), space=1, bytes=1, address=104, count=1)
    raw.block, raw.thread = (1, 2, 3), (4, 5, 6)
    raw.other_block, raw.other_thread = (1, 2, 3), (7, 8, 9)
    for name, value in changes.items():
        setattr(raw, name, value)
    return raw


@pytest.mark.parametrize(("size", "words"), [(1, "1 byte at"), (2, "2 bytes at"), (4, "4 bytes at")])
def test_a_finding_says_who_and_how_much_where_its_line_is_not_known(size, words):
    region = Region("A", 100, 8)
    found = findings.finding(
        made_up("uninitialised result", bytes=size), "k", Lines({}, lambda line: f"<{line}>"), (), (region,)
    )
    assert words in found.message and "block (1, 2, 3), thread (4, 5, 6)" in found.message
    assert (found.line, found.location, found.text) == (0, "k.cu:0", "<0>")
    assert (found.block, found.thread) == ((1, 2, 3), (4, 5, 6))
    assert (found.other_line, found.other_text, found.other_block, found.other_thread) == (None, None, None, None)
    race = findings.finding(made_up("race on global memory", pc=5), "k", Lines({5: 9}), (), (region,))
    assert (race.line, race.other_line, race.other_thread) == (9, None, (7, 8, 9))
    assert race.message.startswith("k, k.cu:9: race") and "read at k.cu:0" in race.message
    assert str(race) == f"{race.message}\n  k.cu:9 | 9"


@pytest.mark.parametrize(
    ("other", "instance", "is_one"),
    [(5, 0, True), (6, 0, True), (7, 0, False), (6, 1, False), (0, 0, False)],
)
def test_a_barrier_that_the_compiler_duplicated_is_one(other, instance, is_one):
    """Check that places on one source line count as one barrier, unless they are of another inlined instance."""
    lines = Lines({0: 9, 5: 9, 6: 9, 7: 10})
    raw = made_up("barrier not reached by all", pc=5, other_pc=other, bytes=instance)
    assert (findings.finding(raw, "k", lines, (), ()) is None) == is_one


def test_where_an_address_lies_to_the_byte():
    region = Region("A", 100, 8)
    said = [region.describe(address, "global").split(" global")[0] for address in (99, 100, 107, 108, 109)]
    assert said == ["1 byte before", "at byte 0 of", "at byte 7 of", "just past the end of", "1 byte past the end of"]


OF_A, OF_AS = "3 bytes at byte 4 of global array A (8 bytes)", "3 bytes at byte 4 of shared array As (8 bytes)"
WITH = "thread (7, 8, 9) ", "k.cu:22"
#: What the message of each kind names besides block, thread and line.
NAMED = {
    "global access out of bounds": (f"writes {OF_A}", GAP),
    "write to an operand": (f"writes {OF_A}", "read-only"),
    "shared access out of bounds": (f"writes {OF_AS}",),
    "misaligned access": (f"writes {OF_A}", "multiple of 3"),
    "uninitialised shared memory": (f"reads {OF_AS}",),
    "uninitialised result": (f"reads {OF_A}",),
    "race on shared memory": (f"writes {OF_AS}", "read at k.cu:22", *WITH),
    "race on global memory": (f"writes {OF_A}", "read at k.cu:22", *WITH),
    "barrier not reached by all": WITH,
    "warp not converged": WITH,
    "copy not waited for": (f"writes {OF_AS}", "cp.async", *WITH),
    "runaway thread": ("max_steps",),
    "trap": ("trap",),
    "subscript out of bounds": ("subscript 104", "3 elements"),
    "barrier not reached by threads that have ended": ("thread (7, 8, 9)",),
    "volatile read that nothing orders": (f"writes {OF_A}", "read at k.cu:22", *WITH),
    "lanes of a warp differ": ("thread (7, 8, 9)", "k.cu:22"),
    "shuffle from a lane outside the mask": ("lane 3", "mask"),
    "shuffle of an undefined value": ("lane 3", "mask"),
    "shuffle of a wrong width": ("width of 3", "32"),
    "access to another thread's local memory": (f"writes {OF_A}",),
    "division by zero": ("by zero", "by -1"),
    "stack overflow": ("512 KiB",),
    "call of a null pointer": ("null",),
    "memory fault": ("0x68",),
    "no end": ("loop",),
    "timeout": ("time",),
    "call of exit or abort": ("exit()", "abort()"),
    "assertion failed": ("assertion",),
    "copy that the instruction cannot make": ("3 bytes", "cp.async", "4, 8 or 16", "8.0"),
    "thread that waits forever": ("blocks",),
    "local access out of bounds": ("writes 3 bytes", "variable"),
    "element read before it is set": ("reads 3 bytes", "local array"),
    "shuffle from a lane that has ended": ("lane 3", "ended"),
    "conversion out of range": ("5.13828272e-322", "signed integer of 2 bits"),
    "shift out of range": ("signed integer of 2 bits", "104"),
    "call that cannot be made": ("fragment", "leading dimension", "16 bytes"),
    "printf of another type": ("argument 3",),
    "function that does not return a value": (),
    "alignment not declared": (f"writes {OF_A}", "__align__(3)"),
    "barriers without end": ("loop",),
    "argument beyond a fast function's range": ("__tanf(5.13828272e-322)", "-pi to pi"),
    "equal writes that nothing orders": (f"writes {OF_A}", "k.cu:22"),
    "access to freed memory": (f"writes {OF_A}", "thread (7, 8, 9) freed at k.cu:22"),
    "free that cannot be made": (),
    "uninitialised allocated memory": (f"reads {OF_A}",),
    "carry between asm statements that are not volatile": ("asm volatile",),
    "memory that is not freed": ("allocates 3 bytes",),
    "access before griddepcontrol.wait": (f"writes {OF_A}", "griddepcontrol.wait must"),
}

#: Findings that two threads take part in.
OF_TWO = (
    "race on shared memory", "race on global memory", "barrier not reached by all", "warp not converged",
    "copy not waited for", "barrier not reached by threads that have ended", "lanes of a warp differ",
    "volatile read that nothing orders", "equal writes that nothing orders", "access to freed memory",
    "free that cannot be made",
)  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in finding_kinds.KINDS if kind not in ASYNCHRONOUS])
def test_the_message_of_each_kind_names_its_values(kind: str) -> None:
    space = 0 if "shared" in kind or kind == "copy not waited for" else 1
    raw = made_up(kind, space=space, bytes=3, writes=1, pc=10, other_pc=20, count=1234)
    shared, operands = (Region("As", 100, 8),), (Region("A", 100, 8),)
    found = findings.finding(raw, "kernel", Lines({10: 11, 20: 22}, lambda line: f"<{line}>"), shared, operands)
    who = "block (1, 2, 3), thread (4, 5, 6)"
    assert found.message.startswith(f"kernel, k.cu:11: {kind}: {who} ") and found.message.endswith(" (1,234 times)")
    for name in NAMED[kind]:
        assert name in found.message.partition(who)[2]
    assert (found.kind, found.line, found.text, found.count) == (kind, 11, "<11>", 1234)
    other = (found.other_line, found.other_text, found.other_block, found.other_thread)
    assert other == ((22, "<22>", (1, 2, 3), (7, 8, 9)) if kind in OF_TWO else (None,) * 4)


@pytest.mark.parametrize("loop", [0, 7, 9, 11])
def test_a_thread_that_does_not_end_is_in_a_loop(loop: int) -> None:
    for kind in finding_kinds.ENDLESS:
        found = findings.finding(made_up(kind, pc=10), "kernel", Lines({10: 11}, loop=loop), (), ())
        assert found.message.endswith(f"loop at k.cu:{loop}") == (loop not in (0, 11))
        assert (found.other_line, found.other_thread) == (loop or None, None)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("race on shared memory", {"space": 0, "other_writes": 1}, r"thread \(7, 8\) wrote at k\.cu:22 .*barrier"),
        (
            "race on global memory",
            {"other_block": (3, 2, 0), "other_writes": 1},
            r"thread \(7, 8\) of block \(3, 2\) wrote at k\.cu:22 (?!.*barrier)",
        ),
        ("barrier not reached by all", {"other_pc": 0}, r"thread \(7, 8\) has ended"),
        ("barrier not reached by all", {"other_pc": 10, "bytes": 0}, None),
        ("barrier not reached by all", {"other_pc": 10}, r"thread \(7, 8\) .*the same line$"),
        ("warp not converged", {"other_pc": 0, "mask": 5}, r"thread \(7, 8\) has ended; .*lanes 0 and 2 of warp 0$"),
        ("copy not waited for", {"other_pc": 10}, r"thread \(7, 8\) at the same line"),
        ("subscript out of bounds", {"address": 2**64 - 5}, "subscript -5 .* 1 elements$"),
        (
            "global access out of bounds",
            {"address": 108},
            r"reads 1 byte just past the end of global array A \(8 bytes\)$",
        ),
        ("uninitialised result", {"count": 2}, r"\(2 times\)$"),
        ("race on global memory", {"unfenced": 1}, r"k\.cu:22 .*fence"),
        (
            "lanes of a warp differ",
            {"bytes": 2, "mask": 1},
            r"thread \(7, 8\) is at another place, at k\.cu:22; .*lane 0 of",
        ),
        ("lanes of a warp differ", {"other_pc": 10, "bytes": 2}, None),
        (
            "lanes of a warp differ",
            {"other_pc": 0, "bytes": 0, "mask": 6},
            "mask .*own lane; .*lanes 1 to 2 of warp 0$",
        ),
    ],
)
def test_what_else_is_named(kind: str, changes: dict[str, object], said: str | None) -> None:
    flat = {"block": (1, 2, 0), "thread": (4, 5, 0), "other_block": (1, 2, 0), "other_thread": (7, 8, 0)}
    raw = made_up(kind, **{**flat, "pc": 10, "other_pc": 20, **changes})
    found = findings.finding(raw, "k", Lines({10: 11, 20: 22}), (Region("As", 100, 8),), (Region("A", 100, 8),))
    if said is None:
        assert found is None
    else:
        assert re.search(said, found.message)
        assert "block (1, 2), thread (4, 5)" in found.message


def test_an_address_that_is_nobodys() -> None:
    found = findings.finding(made_up("global access out of bounds", address=1 << 40), "k", Lines({}), (), ())
    assert re.search("reads 1 byte at an address .*0x10000000000", found.message)


FAR = 1 << 40


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("global access out of bounds", {"address": 0xFFFF}, "address 0xffff, .*null"),
        ("global access out of bounds", {"address": 2**64 - 4}, "address -0x4, .*null"),
        ("global access out of bounds", {"address": 0x10000}, r"bytes before global array A \(8 bytes\)"),
        (
            "global access out of bounds",
            {"address": FAR - 4},
            r"reads 1 byte, 4 bytes before global array A \(8 bytes\)",
        ),
        (
            "global access out of bounds",
            {"address": FAR - 4 + (4 << 32), "bytes": 4},
            r"reads 4 bytes, 4 bytes before global array A \(8 bytes\), .*unsigned",
        ),
        (
            "global access out of bounds",
            {"address": (8 << 32) - 8, "bytes": 8},
            "reads 8 bytes at the address -0x8, .*null.*unsigned",
        ),
        ("uninitialised result", {"address": FAR + (1 << 32) - 1}, r"past the end of global array A \(8 bytes\)"),
        ("shared access out of bounds", {"address": 2**64 - 1}, r"1 byte before shared array As \(8 bytes\)"),
        (
            "shared access out of bounds",
            {"address": (1 << 32) - 2},
            r"reads 1 byte, 2 bytes before shared array As \(8 bytes\), .*unsigned",
        ),
        (
            "shared access out of bounds",
            {"address": 65536},
            r"just past the end of shared array given \(0 bytes\).*shared_bytes=.*shared_mem=",
        ),
    ],
)
def test_what_an_access_to_no_array_was_to_be(kind: str, changes: dict[str, int], said: str) -> None:
    shared = Region("As", 0, 8), Region("given", 65536, 0)
    raw = made_up(kind, **{"space": int(not kind.startswith("shared")), **changes})
    assert re.search(said, findings.finding(raw, "k", Lines({}), shared, (Region("A", FAR, 8),)).message)


def test_an_array_of_no_bytes_has_no_inside() -> None:
    assert Region("A", 100, 0).describe(100, "shared") == "just past the end of shared array A (0 bytes)"
    assert Region("A", 100, 0).describe(98, "shared") == "2 bytes before shared array A (0 bytes)"


@pytest.mark.parametrize(("address", "inside"), [(99, False), (100, True), (107, True), (108, False)])
def test_inside_an_array_an_access_out_of_bounds_is_of_none_of_its_elements(address: int, inside: bool) -> None:
    raw = made_up("global access out of bounds", address=address)
    found = findings.finding(raw, "k", Lines({}), (), (Region("A", 100, 8),))
    assert (GAP in found.message) is inside


def test_the_call_of_a_helper_is_named() -> None:
    text = """
    __device__ __attribute__((noinline)) void outer(float* x, int i);
    __device__ void inner(float* x, int i) {
        x[i] = 1;
    }
    __device__ __attribute__((noinline)) void outer(float* x, int i) {
        inner(x, i);
    }
    __global__ void k(float* x) {
        outer(x, threadIdx.x);
        outer(x, threadIdx.x + 8);
    }
    """
    (found,) = simulator.launch(text, 1, 8, (np.zeros(8, np.float32),)).findings
    assert (found.line, found.calls) == (4, (7, 11))
    assert found.message.endswith("; called at kernel.cu:7, kernel.cu:11")


def test_elements_are_named_as_a_programmer_writes_them() -> None:
    text = """
    struct Stage { float a[2][4]; int n; };
    __device__ double table[3][5];
    __global__ void k(float4* x) {
        __shared__ Stage stages[2];
        __shared__ float As[2][3][5];
        extern __shared__ double dynamic[];
        int i = threadIdx.x;
        As[1][i % 2][4] = i;
        stages[1].a[1][i / 4] = i;
        stages[1].n = i;
        dynamic[i % 2] = i;
        table[2][i % 2 + 1] = i;
        x[2].z = i;
    }
    """
    found = simulator.launch(text, 1, 4, (np.ones(16, np.float32),), shared_bytes=64, workers=1).findings
    places = [re.search(r" at (\S+), byte [\d,]+ of (?:shared|global) array", each.message)[1] for each in found]
    assert sorted(places) == sorted(
        ["As[1][0][4]", "stages[1].a[1][0]", "stages[1].n", "dynamic[0]", "table[2][1]", "x[2]"]
    )


def test_an_index_that_overflows_32_bits_is_said_to_do_so():
    begin, size, element = 1 << 40, 3 << 32, 4
    region = Region("A", begin, size)
    address = (begin + element * (1 << 31) - (element << 32)) % (1 << 64)  # 2 ** 31 as an int
    raw = made_up("global access out of bounds", bytes=element, address=address)
    found = findings.finding(raw, "k", Lines({}), (), (region,))
    assert f"byte {element << 31:,} of global array A" in found.message
    assert found.message.endswith(findings.OVERFLOWED)
    small = findings.finding(raw, "k", Lines({}), (), (Region("A", begin, 1 << 20),))
    assert findings.OVERFLOWED not in small.message
