"""The page of the tile loop: that its data is what the simulator records, and that it shows just that."""

from __future__ import annotations

import functools
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.interactive import record
from tests.browser import DESKTOP, PHONE, Browser, find_browser
from tiledmm.simulator import Request, Trace, trace

PAGE = Path(record.__file__).parent / "index.html"
KERNELS = [
    pytest.param(variant, layout, tile, marks=pytest.mark.full if tile > 16 else (), id=f"{variant}-{layout}-{tile}")
    for tile in record.TILES
    for variant in record.VARIANTS
    for layout in record.LAYOUTS
]


# ---- what is recorded ----


@functools.lru_cache(maxsize=1)
def recordings() -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(each["variant"], each["layout"], each["tile"]): each for each in record.read()}


def test_every_kernel_is_there_and_the_file_is_as_it_is_written():
    found = record.read()
    assert list(recordings()) == [
        (variant, layout, tile) for tile in record.TILES for variant in record.VARIANTS for layout in record.LAYOUTS
    ]
    assert record.render(found) == record.DATA.read_text(encoding="utf-8")
    assert record.DATA.stat().st_size < 200_000


@pytest.mark.parametrize(("variant", "layout", "tile"), KERNELS)
def test_the_data_is_what_the_simulator_records(variant, layout, tile):
    assert recordings()[variant, layout, tile] == record.record(variant, layout, tile), (
        "python -m docs.interactive.record writes it anew"
    )


def test_what_cannot_be_drawn_in_one_picture_is_an_error():
    with pytest.raises(ValueError, match="a constant further"):
        record._separate([[0, 1], [2, 4]])
    assert record._separate([[5, 7], [9, 11]]) == (5, {"warps": [0, 4], "lanes": [0, 2]})


def conflicts(variant: str, layout: str, tile: int) -> tuple[int, int]:
    """Of a warp and one tile along K: conflicts of stores to shared memory, and of loads from it."""
    found = recordings()[variant, layout, tile]
    sums = {"store": 0, "load": 0}
    for _, kind, array, _, _, units, ideal in found["steps"]:
        if array >= 0 and len(found["arrays"][array]) > 1:
            sums[kind] += units - ideal
    assert not any(total % record.STEPS for total in sums.values())
    return sums["store"] // record.STEPS, sums["load"] // record.STEPS


def test_the_textbook_loop_has_no_conflict_and_nt_has_until_it_is_padded():
    for tile in record.TILES:
        assert conflicts("tiled", "NN", tile) == (0, 0)
        ways = tile * tile // 32  # as many words in one bank
        assert conflicts("tiled", "NT", tile) == (0, tile * (ways - 1))
        stores = 0 if tile == 32 else 2  # one for each array, where a warp spans several rows
        assert conflicts("tiled_padded", "NN", tile) == conflicts("tiled_padded", "NT", tile) == (stores, 0)


# ---- what is shown ----


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    command = find_browser()
    if command is None:
        pytest.skip("no test of the page: there is no chromium, chromium-browser or google-chrome on PATH")
    started = Browser(command)
    yield started
    started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    browser.errors.clear()
    browser.resize(*DESKTOP)
    browser.open(PAGE)
    yield browser
    assert browser.errors == []


LOOK = """(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const seen = (rect) => rect.style.display !== "none" &&
    ["y", "x", "height", "width"].map((name) => Number(rect.getAttribute(name)));
  const matrices = Object.fromEntries(["A", "B", "C"].map((name) => [name, {
    tile: seen(document.querySelector(`#matrix-${name} .tile`)),
    own: seen(document.querySelector(`#matrix-${name} .own`)),
    lit: document.querySelector(`#matrix-${name} .lit`).getAttribute("d"),
  }]));
  const words = all("#shared .word").map((word) => ({
    array: word.closest(".array").id.slice(6), word: Number(word.dataset.word),
    lanes: word.dataset.lanes.split(" ").map(Number),
    conflict: word.classList.contains("conflict"), broadcast: word.classList.contains("broadcast"),
    x: Number(word.getAttribute("x")),
  }));
  return {
    matrices, words,
    banks: all("#shared .bank").map((bank) => Number(bank.dataset.words)),
    red: all("#shared .bank").map((bank) => bank.classList.contains("conflict")),
    wires: all("#wires path").length,
    squares: [all("#cost i").length, all("#cost i.extra").length],
    cost: document.querySelector("#cost").textContent,
    says: document.querySelector("#says").textContent,
    line: document.querySelector("#code [aria-current]").textContent,
    count: document.querySelector("#count").value,
  };
})()"""


def lit(look: dict[str, Any], matrix: str) -> set[tuple[int, int]]:
    return {(int(row), int(col)) for col, row in re.findall(r"M(\d+) (\d+)h1v1h-1z", look["matrices"][matrix]["lit"])}


class Expected:
    """What the page has to show of a block, straight from the simulator's trace."""

    def __init__(self, recorded: Trace, warp: int) -> None:
        self.recorded = recorded
        self.timeline: list[Request | int] = []
        for request in recorded.requests(warp):
            while sum(isinstance(each, int) for each in self.timeline) < request.step:
                self.timeline.append(recorded.barriers[sum(isinstance(each, int) for each in self.timeline)])
            self.timeline.append(request)
        # By step and array, the elements that the block reads or writes; by step, what each word was stored from.
        self.touched: dict[tuple[int, str], list[tuple[int, ...]]] = defaultdict(list)
        self.origin: dict[int, dict[tuple[str, int], tuple[int, ...]]] = defaultdict(dict)
        read: dict[tuple[int, int, int], tuple[int, ...]] = {}
        for event in recorded.events:
            if event.space == "global":
                self.touched[event.step, event.array].append(event.element)
                read[event.thread] = event.element
            elif event.kind == "store":
                self.origin[event.step][event.array, event.element[0]] = read[event.thread]
        (self.owned,) = [request for request in recorded.requests(warp) if request.array == "C"]

    def box(self, step: int, array: str) -> list[int]:
        rows, cols = zip(*self.touched[step, array], strict=True)
        return [min(rows), min(cols), max(rows) - min(rows) + 1, max(cols) - min(cols) + 1]

    def check(self, number: int, look: dict[str, Any], lane: int) -> None:
        each = self.timeline[number]
        assert look["count"] == f"{number + 1} of {len(self.timeline)}"
        line = each if isinstance(each, int) else each.line
        assert look["line"] == self.recorded.text.splitlines()[line - 1]
        requests = [other for other in self.timeline[: number + 1] if isinstance(other, Request)]
        # The tiles were copied in the last even step, between an odd barrier and the next.
        last = max(self.recorded.barriers and [event.step for event in self.recorded.events])
        copied = min(requests[-1].step // 2 * 2, last - 2)
        for array in "AB":
            assert look["matrices"][array]["tile"] == self.box(copied, array)
        assert look["matrices"]["C"]["tile"] == self.box(last, "C")
        row, col = self.owned.elements[lane]
        _, _, k = self.recorded.sizes
        owns = {"A": [row, 0, 1, k], "B": [0, col, k, 1], "C": [row, col, 1, 1]}
        assert {name: matrix["own"] for name, matrix in look["matrices"].items()} == owns

        expected: dict[str, set[tuple[int, ...]]] = {"A": set(), "B": set(), "C": set()}
        if isinstance(each, Request):
            parts = [each]
            if each.kind == "arithmetic":  # of what was read last, for the warp's elements of C
                parts = [next(x for x in reversed(requests) if x.array == array) for array in ("As", "Bs")]
                parts.append(self.owned)
            for part in parts:
                if part.space == "shared":
                    expected[part.array[0]] = {self.origin[copied][part.array, word] for (word,) in part.elements}
                else:
                    expected[part.array] = set(part.elements)
        assert {name: lit(look, name) for name in "ABC"} == expected

        banks = each.banks if isinstance(each, Request) else {}
        assert look["banks"] == [len(banks.get(bank, {})) for bank in range(32)]
        assert look["red"] == [len(banks.get(bank, {})) > 1 for bank in range(32)]
        assert look["wires"] == (32 if banks else 0)
        words: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
        for word in look["words"]:
            words[word["word"] % 32][word["word"]] = tuple(word["lanes"])
        first = min((word for asked in banks.values() for word in asked), default=0)
        begin = first - min((word["word"] for word in look["words"]), default=0)  # of the array, in shared memory
        assert begin % 32 == 0
        assert words == {b: {word - begin: lanes for word, lanes in asked.items()} for b, asked in banks.items()}
        for word in look["words"]:
            assert word["array"] == each.array and word["x"] == word["word"] % 32
            assert word["conflict"] == (len(banks[word["x"]]) > 1) and word["broadcast"] == (len(word["lanes"]) > 1)

        units, ideal = (0, 0) if isinstance(each, int) else (each.units, each.ideal_units)
        assert look["squares"] == [units, units - ideal]
        conflict = re.search(r"(\d+) conflict", look["cost"])
        assert int(conflict[1] if conflict else 0) == (units - ideal if banks else 0)
        if units:
            unit = "wavefront" if banks else "sector"
            assert f"{units} {unit}" in look["cost"] and f": {units} {unit}" in look["says"]
            assert (f"where {ideal} would do" in look["says"]) == (units > ideal)


@pytest.mark.parametrize(("variant", "layout", "tile"), KERNELS)
def test_every_step_shows_what_the_simulator_says(page, variant, layout, tile):
    size = record.TILES_OF_C * tile
    sizes = (size, size, record.STEPS * tile)
    recorded = trace(variant, tile=tile, layout=layout, sizes=sizes, block=record.TILES_OF_C**2 - 1, arithmetic=True)
    warp, lane = tile * tile // 32 - 1, 21
    for name, value in {"variant": variant, "layout": layout, "tile": tile}.items():
        page.click(f"input[name={name}][value='{value}']")
    page.evaluate(
        f"for (const [id, value] of [['warp', {warp}], ['lane', {lane}]]) {{"
        "const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('change')); }"
    )
    page.evaluate("document.activeElement.blur()")
    page.press("Home")
    expected = Expected(recorded, warp)
    for number in range(len(expected.timeline)):
        expected.check(number, page.evaluate(LOOK), lane)
        page.press("ArrowRight")
    assert page.evaluate(LOOK)["count"] == f"{len(expected.timeline)} of {len(expected.timeline)}"  # no step beyond


def test_sentences(page):
    def says(fragment: str) -> str:
        page.evaluate(f"location.hash = {fragment!r}")
        page.wait_for(f"location.hash.includes({fragment!r})")
        return str(page.evaluate("document.querySelector('#says').textContent"))

    nn = "variant=tiled&layout=NN&tile=8&warp=0&lane=9"
    assert says(f"{nn}&step=0") == (
        "Warp 0 reads 32 elements of A, 8 neighbours in each of 4 rows: 4 sectors of 32 bytes."
    )
    assert (
        says(f"{nn}&step=4") == "All 64 threads wait for each other: both tiles are complete before anyone reads them."
    )
    assert says(f"{nn}&step=5") == (
        "The lanes read 4 different words of As (each for 8 lanes at once) in 4 banks: 1 wavefront."
    )
    assert says(f"{nn}&step=7") == (
        "Each thread multiplies and adds, in registers: thread (1, 1) adds A[9, 0] · B[0, 9] to its C[9, 9]."
    )
    nt = "variant=tiled&layout=NT&tile=32&warp=2&lane=0"
    assert says(f"{nt}&step=5") == "All lanes read the same word of As, a broadcast: 1 wavefront."
    assert says(f"{nt}&step=6") == (
        "The lanes read 32 different words of Bs in one bank: 32 wavefronts where 1 would do."
    )


def test_keys_and_controls(page):
    count = "document.querySelector('#count').value"
    page.press("ArrowRight")
    page.press("ArrowRight")
    page.press("ArrowLeft")
    assert page.evaluate(count) == "2 of 163"
    page.press("ArrowRight", shift=True)
    assert page.evaluate("document.querySelector('#where').textContent").startswith("Tile 2 of 3 along K, k = 16 to 31")
    page.press("End")
    assert page.evaluate(count) == "163 of 163" and page.evaluate("document.querySelector('#forward').disabled")
    page.press("ArrowLeft", shift=True)
    assert page.evaluate("document.querySelector('#where').textContent").startswith("Tile 3 of 3")
    page.press("Home")
    page.click("#forward")
    assert page.evaluate(count) == "2 of 163"
    page.press("ArrowRight")  # with a button in focus
    assert page.evaluate(count) == "3 of 163"
    page.evaluate("document.querySelector('#step').focus()")
    page.press("ArrowRight")  # the slider's own key: one step, not two
    assert page.evaluate(count) == "4 of 163"
    page.evaluate("document.activeElement.blur()")
    page.press(" ")
    page.wait_for(f"{count} === '6 of 163'")
    assert page.evaluate("document.querySelector('#play').getAttribute('aria-label')") == "Pause"
    page.press(" ")
    assert page.evaluate("document.querySelector('#play').getAttribute('aria-label')") == "Play"


def test_a_click_chooses_the_thread(page):
    page.click("#shared [data-lane='21']")
    assert page.evaluate("[warp.value, lane.value].join()") == "0,21"
    page.click("#matrix-C .tile", right=8.5 / 16, down=8.5 / 16)  # element (24, 24), of the thread (8, 8)
    assert page.evaluate("[warp.value, lane.value].join()") == "4,8"
    assert page.evaluate(LOOK)["matrices"]["C"]["own"] == [24, 24, 1, 1]


def test_the_address_names_what_is_shown_and_nonsense_in_it_does_no_harm(page):
    page.open(PAGE, "#variant=tiled_padded&layout=NT&tile=32&warp=31&lane=4&step=306")
    assert page.evaluate("document.querySelector('#says').textContent").startswith("Warp 31 writes 32 elements of C")
    page.press("ArrowLeft")
    assert "step=305" in page.evaluate("location.hash")
    page.open(PAGE, "#variant=nothing&tile=7&warp=99&lane=-3&step=x&other=1")
    assert page.evaluate("document.querySelector('#count').value") == "1 of 163"
    page.click("#totals tr[data-variant=tiled_padded][data-layout=NT] a")
    page.wait_for("document.querySelector('input[value=tiled_padded]').checked")
    assert page.evaluate("document.querySelector('input[value=NT]').checked")


def test_totals_are_those_of_the_data(page):
    for tile in record.TILES:
        page.click(f"input[name=tile][value='{tile}']")
        cells = "[...row.cells].map((cell) => cell.textContent)"
        rows = page.evaluate(f"[...document.querySelectorAll('#totals tbody tr')].map((row) => {cells})")
        assert [(variant, layout, int(red)) for variant, layout, _, _, red in rows] == [
            (variant, layout, sum(conflicts(variant, layout, tile)))
            for variant in record.VARIANTS
            for layout in record.LAYOUTS
        ]
        assert rows[0][2:4] == ["2", str(2 * tile)]


def test_it_needs_nothing_but_its_own_files(page, tmp_path):
    for name in ("index.html", "tile_loop.css", "tile_loop.js", "recorded.js"):
        shutil.copy(PAGE.with_name(name), tmp_path)
    page.open(tmp_path / "index.html")
    assert page.evaluate("document.querySelector('#says').textContent").startswith("Warp 0 reads")
    assert page.evaluate("document.styleSheets.length") == 1
    for file in tmp_path.iterdir():
        assert set(re.findall(r"https?://[^\"'\s]*", file.read_text(encoding="utf-8"))) <= {
            "http://www.w3.org/2000/svg"
        }


def test_it_fits_a_phone_and_follows_the_color_scheme(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    page.prefer("dark")
    dark = page.evaluate(paper)
    page.prefer("light")
    assert page.evaluate(paper) != dark
    for tile in record.TILES:
        page.click(f"input[name=tile][value='{tile}']")
        page.resize(*PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert page.evaluate("document.querySelector('#play').getBoundingClientRect().bottom") <= PHONE[1]


def test_everything_that_can_be_operated_has_a_name(page):
    unnamed = page.evaluate("""[...document.querySelectorAll("button, input, select, pre, svg[role]")].filter((each) =>
        !each.getAttribute("aria-label") && !each.labels?.length &&
        !document.getElementById(each.getAttribute("aria-labelledby"))).map((each) => each.outerHTML)""")
    assert unnamed == []
