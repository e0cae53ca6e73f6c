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
from tiledmm.simulator.check import finding_kinds, findings
from tiledmm.simulator.check.findings import Region, nearest
from tiledmm.simulator.execute.interface import RawFinding
from tools.bugs.kernels import read

BUGS = {bug.id: bug for bug in read() if bug.own}


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


def test_races_do_not_hide_behind_the_order_of_threads(tmp_path):
    """Check that a missing barrier gives the same pairs of racing lines in each order of threads."""
    for name in ("no barrier after the stores", "no barrier after the reads"):
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


GAP = ", which is none of its elements"


@pytest.mark.parametrize(
    ("access", "at", "said"),
    [
        ("A", 0, None),
        ("A", 2, None),
        ("A", -1, "reads 4 bytes 4 bytes before global array A (956 bytes)"),
        ("A", -300, "reads 4 bytes 1,200 bytes before global array A (956 bytes)"),
        ("A", 1, "reads 4 bytes at byte 4 of global array A (956 bytes)" + GAP),
        ("A", 117, "reads 4 bytes at byte 468 of global array A (956 bytes)" + GAP),
        ("A", 239, "reads 4 bytes just behind global array A (956 bytes)"),
        ("A, 8 bytes", 0, "reads 8 bytes at A[0, 0], byte 0 of global array A (956 bytes)" + GAP),
        ("B", 31, None),
        ("B", 32, "reads 4 bytes just behind global array B (128 bytes)"),
        ("B", 33, "reads 4 bytes 4 bytes behind the end of global array B (128 bytes)"),
        ("C", 32, "writes 4 bytes just behind global array C (128 bytes)"),
        ("shared, 16 bytes", 12, None),
        ("shared", 18, "reads 4 bytes just behind shared array few (72 bytes)"),
        ("shared", 20, "reads 4 bytes 8 bytes behind the end of shared array few (72 bytes)"),
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


def test_the_nearest_array_is_named() -> None:
    first, second, last = Region("first", 0, 16), Region("second", 16, 16), Region("last", 100, 8)
    near = {
        -5: first, 0: first, 15: first, 16: second, 31: second, 32: second, 65: second, 66: last, 107: last, 999: last,
    }  # fmt: skip
    assert {address: nearest((first, second, last), address) for address in near} == near
    assert {address: nearest((last, second, first), address) for address in near} == near
    assert nearest((), 5) is None


SIZES = np.ones((40, 20), np.float32), np.ones((20, 40), np.float32)


def messages(path: Path, variant: str = "naive", **keywords: int) -> list[str]:
    _, report = simulator.run(*SIZES, variant=variant, source=path, counts=False, workers=1, **keywords)
    return [finding.message for finding in report.findings]


def test_the_message_says_who_else_wrote_an_element_of_c(tmp_path: Path) -> None:
    write = "    c_tile.write(row, col, sum);\n"
    another = "    if (blockIdx.x == 0 && row == 1 && col == 0) c[0] = sum;\n"
    (within,) = messages(edited(tmp_path, (write, write + another)))
    assert re.search(
        r"race on global memory: block \(0, 0\), thread \(1, 0\) writes 4 bytes at C\[0, 0\], byte 0 of global array C "
        r"\(6,400 bytes\), which thread \(0, 0\) wrote at edited\.cu:\d+ with no barrier in between", within
    ), within  # fmt: skip
    across, *_ = messages(edited(tmp_path, (write, f"    if (row + col == 0) c[0] = sum;\n    else {write}")))
    found = re.search(
        r"race on global memory: block \((\d), 0\), thread \(0, 0\) writes 4 bytes at C\[0, 0\], byte 0 of global "
        r"array C "
        r"\(6,400 bytes\), which thread \(0, 0\) of block \((\d), 0\) wrote at the same line", across
    )  # fmt: skip
    assert found and found[1] != found[2], across


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ("    if (tx < 8)\n        __syncthreads();\n    else\n        __syncthreads();",
         r"and thread \(\d+, \d+\) is at another one, at edited\.cu:\d+"),
        ("    if (tx < 8) __syncthreads(); else __syncthreads();",
         r"and thread \(\d+, \d+\) is at another one, at the same line"),
    ],
)  # fmt: skip
def test_the_message_says_where_others_are_than_at_a_barrier(tmp_path: Path, instead: str, said: str) -> None:
    begins = "    const int ty = threadIdx.y;\n"
    path = edited(tmp_path, (begins, f"{begins}{instead}\n"), variant="tiled")
    found = messages(path, "tiled", tile=16)
    assert re.search("barrier not reached by all: block .* waits at a barrier, " + said, found[0])


def test_threads_that_have_ended_count_as_arrived_at_a_barrier(tmp_path: Path) -> None:
    begins = "    const int ty = threadIdx.y;\n"
    leaves = (begins, f"{begins}    if (threadIdx.y == 99) return;\n    __syncthreads();\n")
    path = edited(tmp_path, leaves, variant="tiled")
    _, report = simulator.run(*SIZES, variant="tiled", tile=16, source=path, counts=False)
    assert report.ok and not report.warnings
    text = "__global__ void k(int* x, int n) { if (threadIdx.x >= n) return; __syncthreads(); x[threadIdx.x] = 1; }"
    report = simulator.launch(text, 1, 64, (np.zeros(8, np.int32), 8))
    assert report.ok and [each.kind for each in report.warnings] == ["barrier not reached by threads that have ended"]
    assert "waits for thread (63, 0), which has ended, and counts as arrived" in report.warnings[0].message


@pytest.mark.parametrize("subscript", [-1, -2, 16, 17])
def test_the_message_says_which_subscript(tmp_path: Path, subscript: int) -> None:
    old = "As[a_m][a_k] ="
    path = edited(tmp_path, (old, f"As[a_m][a_k + (thread == 0 ? {subscript} : 0)] ="), variant="tiled")
    (found,) = messages(path, "tiled", tile=16)
    assert f"uses the subscript {subscript} of an array of 16 elements" in found


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
    assert (race.line, race.other_line, race.other_thread) == (9, 0, (7, 8, 9))
    assert race.message.startswith("k, k.cu:9: race") and "read at k.cu:0" in race.message
    assert str(race) == f"{race.message}\n  k.cu:9 | 9\n  k.cu:0 | 0"


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
    assert said == ["1 byte before", "at byte 0 of", "at byte 7 of", "just behind", "1 byte behind the end of"]


SAID = {
    "global access out of bounds": "writes 3 bytes at byte 4 of global array A (8 bytes)" + GAP,
    "write to an operand": "writes 3 bytes at byte 4 of global array A (8 bytes), which is read-only",
    "shared access out of bounds": "writes 3 bytes at byte 4 of shared array As (8 bytes)",
    "misaligned access": "writes 3 bytes at byte 4 of global array A (8 bytes), an address that is not a multiple of 3",
    "uninitialised shared memory": (
        "reads 3 bytes at byte 4 of shared array As (8 bytes), which no thread of the block has written"
    ),
    "uninitialised result": "reads 3 bytes at byte 4 of global array A (8 bytes) before anything was written there",
    "race on shared memory": (
        "writes 3 bytes at byte 4 of shared array As (8 bytes), which thread (7, 8, 9) read at k.cu:22 with no barrier "
        "in between"
    ),
    "race on global memory": (
        "writes 3 bytes at byte 4 of global array A (8 bytes), which thread (7, 8, 9) read at k.cu:22 with no barrier "
        "in between"
    ),
    "barrier not reached by all": "waits at a barrier, and thread (7, 8, 9) is at another one, at k.cu:22",
    "warp not converged": "waits for the lanes of its warp, and thread (7, 8, 9) is at k.cu:22",
    "copy not waited for": (
        "writes 3 bytes at byte 4 of shared array As (8 bytes), to which a cp.async of thread (7, 8, 9) at k.cu:22 has "
        "not been waited for"
    ),
    "runaway thread": "made more accesses than the limit and did not end",
    "trap": "executed a trap",
    "subscript out of bounds": "uses the subscript 104 of an array of 3 elements",
    "barrier not reached by threads that have ended": (
        "waits for thread (7, 8, 9), which has ended, and counts as arrived"
    ),
    "volatile read that nothing orders": (
        "writes 3 bytes at byte 4 of global array A (8 bytes), which thread (7, 8, 9) read at k.cu:22: whether it is "
        "there is a matter of luck, and volatile accesses order nothing else"
    ),
    "lanes of a warp differ": (
        "waits for lanes of its warp, and thread (7, 8, 9), at k.cu:22, for another mask or operation"
    ),
    "shuffle from a lane outside the mask": "takes a value from lane 3, which the mask does not have",
    "shuffle of an undefined value": "takes a value from lane 3, which the mask does not have",
    "shuffle of a wrong width": "shuffles with a width of 3, which is no power of two up to 32",
    "access to another thread's local memory": "writes 3 bytes at byte 4 of global array A (8 bytes)",
    "division by zero": "divides an integer by zero, or the least integer by -1",
    "stack overflow": "needs more local memory than a thread has (512 KiB)",
    "call of a null pointer": "calls a function through a pointer that is null or none of a function",
    "memory fault": "accesses the address 0x68",
    "no end": "has made no access to memory for seconds: a loop that does not end?",
    "timeout": "was running when the time was up",
    "call of exit or abort": "calls exit() or abort()",
    "assertion failed": "fails an assertion",
    "copy that the instruction cannot make": (
        "copies 3 bytes by cp.async, which copies 4, 8 or 16, from compute capability 8.0 on"
    ),
    "thread that waits for ever": (
        "reads the same again and again, and no thread that runs writes it (blocks run in the order of their numbers: "
        "one that waits for a later one never ends)"
    ),
    "local access out of bounds": "writes 3 bytes of its local memory that belong to no variable",
    "element read before it is set": "reads 3 bytes of a local array that nothing has set",
    "shuffle from a lane that has ended": "takes a value from lane 3, which has ended: the value is undefined",
    "conversion out of range": (
        "converts 5.13828272e-322 to a signed integer of 2 bits, which C++ leaves undefined: a GPU saturates, and so "
        "does a cast here"
    ),
    "shift out of range": ("shifts a signed integer of 2 bits by 104, which C++ leaves undefined"),
    "call that cannot be made": (
        "loads or stores a fragment with a leading dimension that is not a multiple of 16 bytes"
    ),
    "alignment not declared": (
        "writes 3 bytes at byte 4 of global array A (8 bytes), and the array is declared with a smaller "
        "alignment: a GPU may place it where the access fails (__align__(3) prevents that)"
    ),
}

#: Findings that two threads take part in.
OF_TWO = (
    "race on shared memory", "race on global memory", "barrier not reached by all", "warp not converged",
    "copy not waited for", "barrier not reached by threads that have ended", "lanes of a warp differ",
    "volatile read that nothing orders",
)  # fmt: skip


@pytest.mark.parametrize("kind", finding_kinds.KINDS)
def test_what_is_said_of_each_kind_to_the_byte(kind: str) -> None:
    space = 0 if "shared" in kind or kind == "copy not waited for" else 1
    raw = made_up(kind, space=space, bytes=3, writes=1, pc=10, other_pc=20, count=1234)
    shared, operands = (Region("As", 100, 8),), (Region("A", 100, 8),)
    found = findings.finding(raw, "kernel", Lines({10: 11, 20: 22}, lambda line: f"<{line}>"), shared, operands)
    who = "block (1, 2, 3), thread (4, 5, 6)"
    assert found.message == f"kernel, k.cu:11: {kind}: {who} {SAID[kind]} (1,234 times)"
    assert (found.kind, found.line, found.text, found.count) == (kind, 11, "<11>", 1234)
    other = (found.other_line, found.other_text, found.other_block, found.other_thread)
    assert other == ((22, "<22>", (1, 2, 3), (7, 8, 9)) if kind in OF_TWO else (None,) * 4)


@pytest.mark.parametrize("loop", [0, 7, 9, 11])
def test_a_thread_that_does_not_end_is_in_a_loop(loop: int) -> None:
    said = f", in the loop at k.cu:{loop}" if loop not in (0, 11) else ""
    for kind in finding_kinds.ENDLESS:
        found = findings.finding(made_up(kind, pc=10), "kernel", Lines({10: 11}, loop=loop), (), ())
        assert found.message.endswith(f"{SAID[kind]}{said}")
        assert (found.other_line, found.other_thread) == (loop or None, None)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("race on shared memory", {"space": 0, "other_writes": 1}, "which thread (7, 8) wrote at k.cu:22 with"),
        (
            "race on global memory",
            {"other_block": (3, 2, 0), "other_writes": 1},
            "which thread (7, 8) of block (3, 2) wrote at k.cu:22 with nothing that orders the two",
        ),
        ("barrier not reached by all", {"other_pc": 0}, "and thread (7, 8) has ended without it"),
        ("barrier not reached by all", {"other_pc": 10, "bytes": 0}, None),
        ("barrier not reached by all", {"other_pc": 10}, "is at another one, at the same line"),
        ("warp not converged", {"other_pc": 0}, "and thread (7, 8) has ended"),
        ("copy not waited for", {"other_pc": 10}, "of thread (7, 8) at the same line has not"),
        ("subscript out of bounds", {"address": 2**64 - 5}, "the subscript -5 of an array of 1 elements"),
        ("global access out of bounds", {"address": 108}, "reads 1 byte just behind global array A (8 bytes)"),
        ("uninitialised result", {"count": 2}, "(2 times)"),
        ("race on global memory", {"unfenced": 1}, "at k.cu:22 with no fence after the flag that it read"),
        ("lanes of a warp differ", {"bytes": 2}, "and thread (7, 8), at k.cu:22, which is at another place"),
        ("lanes of a warp differ", {"other_pc": 10, "bytes": 2}, None),
        (
            "lanes of a warp differ",
            {"other_pc": 0, "bytes": 0},
            "waits for lanes of its warp by a mask that does not have its own lane",
        ),
    ],
)
def test_what_else_is_said(kind: str, changes: dict[str, object], said: str | None) -> None:
    flat = {"block": (1, 2, 0), "thread": (4, 5, 0), "other_block": (1, 2, 0), "other_thread": (7, 8, 0)}
    raw = made_up(kind, **{**flat, "pc": 10, "other_pc": 20, **changes})
    found = findings.finding(raw, "k", Lines({10: 11, 20: 22}), (Region("As", 100, 8),), (Region("A", 100, 8),))
    if said is None:
        assert found is None
    else:
        assert said in found.message
        assert found.message.endswith(said) or said.endswith(("with", "has not"))
        assert "block (1, 2), thread (4, 5)" in found.message


def test_an_address_that_is_nobodys() -> None:
    found = findings.finding(made_up("global access out of bounds", address=1 << 40), "k", Lines({}), (), ())
    assert found.message.endswith("reads 1 byte at an address outside all arrays (0x10000000000)")


FAR = 1 << 40


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("global access out of bounds", {"address": 0xFFFF}, "at the address 0xffff, through a null pointer"),
        ("global access out of bounds", {"address": 2**64 - 4}, "at the address -0x4, through a null pointer"),
        ("global access out of bounds", {"address": 0x10000}, "bytes before global array A (8 bytes)"),
        ("global access out of bounds", {"address": FAR - 4}, "reads 1 byte 4 bytes before global array A (8 bytes)"),
        (
            "global access out of bounds",
            {"address": FAR - 4 + (4 << 32), "bytes": 4},
            "reads 4 bytes 4 bytes before global array A (8 bytes), by an unsigned index below 0",
        ),
        (
            "global access out of bounds",
            {"address": (8 << 32) - 8, "bytes": 8},
            "reads 8 bytes at the address -0x8, through a null pointer, by an unsigned index below 0",
        ),
        ("uninitialised result", {"address": FAR + (1 << 32) - 1}, "behind the end of global array A (8 bytes) before"),
        ("shared access out of bounds", {"address": 2**64 - 1}, "1 byte before shared array As (8 bytes)"),
        (
            "shared access out of bounds",
            {"address": (1 << 32) - 2},
            "reads 1 byte 2 bytes before shared array As (8 bytes), by an unsigned index below 0",
        ),
        (
            "shared access out of bounds",
            {"address": 65536},
            "just behind shared array given (0 bytes): the launch has no dynamic shared memory (shared_bytes=, or a "
            "RawKernel's shared_mem=, is its size)",
        ),
    ],
)
def test_what_an_access_to_no_array_was_to_be(kind: str, changes: dict[str, int], said: str) -> None:
    shared = Region("As", 0, 8), Region("given", 65536, 0)
    raw = made_up(kind, **{"space": int(not kind.startswith("shared")), **changes})
    assert said in findings.finding(raw, "k", Lines({}), shared, (Region("A", FAR, 8),)).message


def test_an_array_of_no_bytes_has_no_inside() -> None:
    assert Region("A", 100, 0).describe(100, "shared") == "just behind shared array A (0 bytes)"
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
        As[1][i % 2][4] = 1;
        stages[1].a[1][i / 4] = 1;
        stages[1].n = 1;
        dynamic[i % 2] = 1;
        table[2][i % 2 + 1] = 1;
        x[2].z = i;
    }
    """
    found = simulator.launch(text, 1, 4, (np.ones(16, np.float32),), shared_bytes=64, workers=1).findings
    places = [re.search(r" at (\S+), byte [\d,]+ of (?:shared|global) array", each.message)[1] for each in found]
    assert sorted(places) == sorted(
        ["As[1][0][4]", "stages[1].a[1][0]", "stages[1].n", "dynamic[0]", "table[2][1]", "x[2]"]
    )
