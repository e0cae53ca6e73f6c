"""Tests that the tile-loop page's data is what the simulator records, and that the page shows it."""

from __future__ import annotations

import functools
import json
import re
import shutil
import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.interactive import picture, record
from docs.tools.browser import DESKTOP, PHONE, Browser
from tests.conftest import full_unless, slow_unless
from tiledmm.kernels.variants import general_variants, kernel_spec
from tiledmm.simulator import Request, trace

PAGE = Path(record.__file__).parent / "index.html"
ROOT = PAGE.parents[2]
TRACE_PAGE = "../../tiledmm/own_kernels/trace_page"
KERNELS = [
    pytest.param(
        variant,
        layout,
        tile,
        id=f"{variant}-{layout}-{tile}",
        marks=full_unless(tile != 32) + slow_unless(tile == 8),
    )
    for variant, layout, tile in record.cases()
]
TEXTBOOK = record.KERNELS["tiled"]


# ---- what is recorded ----


@functools.lru_cache(maxsize=1)
def recordings() -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(each["variant"], each["layout"], each["tile"]): each for each in record.read()}


def test_every_kernel_is_there_and_the_file_is_as_it_is_written():
    found = record.read()
    assert list(recordings()) == list(record.cases())
    assert list(record.KERNELS) == [row.name for row in general_variants() if row.name in record.KERNELS]
    assert record.render(found) == record.DATA.read_text(encoding="utf-8")
    assert record.DATA.stat().st_size < 260_000


def without_comments(recording: dict[str, Any]) -> dict[str, Any]:
    """Return a recording without its source's comments, with source lines in place of line numbers."""
    source = [line.partition("//")[0].strip() for line in recording["source"]]
    steps = [(source[line], *rest) for line, *rest in recording["steps"]]
    return {**recording, "source": list(filter(None, source)), "steps": steps}


@pytest.mark.parametrize(("variant", "layout", "tile"), KERNELS)
def test_the_data_is_what_the_simulator_records(variant, layout, tile):
    recorded, now = recordings()[variant, layout, tile], record.record(variant, layout, tile)
    assert without_comments(recorded) == without_comments(now), "python -m docs.interactive.record writes it anew"


def test_what_cannot_be_drawn_in_one_picture_is_an_error():
    with pytest.raises(ValueError, match="a constant further"):
        record._separate([[0, 1], [2, 4]])
    assert record._separate([[5, 7], [9, 11]]) == (5, {"warps": [0, 4], "lanes": [0, 2]})


def conflicts(variant: str, layout: str, tile: int) -> tuple[int, int]:
    """Count a warp's bank conflicts per tile along K, of stores to shared memory and of loads from it."""
    found = recordings()[variant, layout, tile]
    sums = {"store": 0, "load": 0}
    for _, kind, array, _, _, units, ideal, *_ in found["steps"]:
        if array >= 0 and len(found["arrays"][array]) > 1:
            sums["load" if kind == "load" else "store"] += units - ideal
    assert not any(total % record.STEPS for total in sums.values())
    return sums["store"] // record.STEPS, sums["load"] // record.STEPS


def test_the_textbook_loop_has_no_conflict_and_nt_has_until_it_is_padded():
    for tile in TEXTBOOK:
        assert conflicts("tiled", "NN", tile) == (0, 0)
        ways = tile * tile // 32  # as many words in one bank
        assert conflicts("tiled", "NT", tile) == (0, tile * (ways - 1))
        stores = 0 if tile == 32 else 2  # one for each array, where a warp spans several rows
        assert conflicts("tiled_padded", "NN", tile) == conflicts("tiled_padded", "NT", tile) == (stores, 0)


COUNTED = ("variant", "layout", "tile")


def test_joined_accesses_are_those_of_the_machine_code():
    """Compare loads and wavefronts per multiply-add of a warp with the counts of ``benchmarks.counts``."""
    counts = json.loads((ROOT / "benchmarks" / "results" / "counts.json").read_text(encoding="utf-8"))["kernels"]
    compared = 0
    for (variant, layout, tile), found in recordings().items():
        if variant in record.ELEMENTWISE:
            continue
        shared = [step for step in found["steps"] if step[2] >= 0 and len(found["arrays"][step[2]]) > 1]
        products = sum(step[1] == "arithmetic" for step in found["steps"]) * found["products"]
        (row,) = (each for each in counts if [each[name] for name in COUNTED] == [variant, layout, tile])
        # What is counted includes the fragments that warp_tiled reads at the end of K, for a step that does not exist.
        assert sum(step[1] == "load" for step in shared) / products == pytest.approx(row["shared loads"], rel=0.03)
        assert sum(step[5] for step in shared) / products == pytest.approx(row["wavefronts"], rel=0.03)
        assert conflicts(variant, layout, tile) == (0, 0)
        compared += 1
    assert compared == 10


# ---- what is shown ----


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    browser.errors.clear()
    browser.resize(*DESKTOP)
    browser.open(PAGE)
    yield browser
    assert browser.errors == []


LOOK = """(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const matrices = Object.fromEntries(["A", "B", "C"].map((name) => [name, {
    tile: document.querySelector(`#matrix-${name} .tile`).getAttribute("d"),
    own: document.querySelector(`#matrix-${name} .own`).getAttribute("d"),
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
    sectors: all("#sectors rect").length,
    squares: [all("#cost i").length, all("#cost i.extra").length],
    cost: document.querySelector("#cost").textContent,
    says: document.querySelector("#says").textContent,
    line: document.querySelector("#code [aria-current]").textContent,
    count: document.querySelector("#count").value,
  };
})()"""


Element = tuple[int, ...]


def lit(look: dict[str, Any], matrix: str) -> set[tuple[int, int]]:
    return {(int(row), int(col)) for col, row in re.findall(r"M(\d+) (\d+)h1v1h-1z", look["matrices"][matrix]["lit"])}


def areas(look: dict[str, Any], matrix: str, what: str) -> set[tuple[int, ...]]:
    """Return row, column, height and width of the areas marked as the thread's ("own") or the block's ("tile")."""
    found = re.findall(r"M(\d+) (\d+)h(\d+)v(\d+)h-\d+z", look["matrices"][matrix][what])
    return {(int(row), int(col), int(height), int(width)) for col, row, width, height in found}


class Expected:
    """Data that the page must show of a block, computed from the simulator's trace."""

    def __init__(self, variant: str, layout: str, tile: int, warp: int) -> None:
        kernel = kernel_spec(variant, tile=tile, layout=layout)
        self.config, self.layout, self.warp = kernel.config, layout, warp
        self.recorded = trace(
            variant, tile=tile, layout=layout, sizes=record.sizes_of(kernel), block=record.TILES_OF_C**2 - 1,
            arithmetic=True,
        )  # fmt: skip
        requests = self.recorded.requests(warp)
        if variant not in record.ELEMENTWISE:
            requests = record.joined(requests)
        self.timeline: list[Request | int] = []
        self.k: dict[int, int] = {}  # by place in the timeline, what is multiplied
        products = 0
        for request in requests:
            while sum(isinstance(each, int) for each in self.timeline) < request.step:
                self.timeline.append(self.recorded.barriers[sum(isinstance(each, int) for each in self.timeline)])
            if request.kind == "arithmetic":
                products += 1
                if products % (self.config.tm * self.config.tn):
                    continue
                self.k[len(self.timeline)] = products // (self.config.tm * self.config.tn) - 1
            self.timeline.append(request)
        stores = [request for request in requests if request.array == "C"]
        self.owned = [
            {element for each in stores for element in self.elements("C", each.elements[lane], each.bytes)}
            for lane in range(32)
        ]
        # By address, what was stored there and in which step: each thread's loads are stored in their order.
        self.stored: dict[int, list[tuple[int, str, Element]]] = defaultdict(list)
        carried: dict[tuple[int, ...], deque[tuple[str, Element]]] = defaultdict(deque)
        for event in self.recorded.events:
            if event.space == "global" and event.array != "C":
                carried[event.thread].extend(
                    (event.array, each) for each in self.elements(event.array, event.element, event.bytes)
                )
            elif event.space == "shared" and event.kind != "load":
                for address in range(event.address, event.address + event.bytes, 4):
                    self.stored[address].append((event.step, *carried[event.thread].popleft()))
        self.begins = {
            name: min(address for address, held in self.stored.items() if held[0][1] == name) for name in "AB"
        }

    def elements(self, matrix: str, first: Element, size: int) -> list[Element]:
        down = matrix != "C" and self.layout["AB".index(matrix)] == "T"
        row, col = first
        return [(row + i, col) if down else (row, col + i) for i in range(size // 4)]

    def held(self, address: int, step: int, is_load: bool) -> tuple[str, Element]:
        """Return the matrix and element at an address of shared memory when it is read or written in a step."""
        before = [each for each in self.stored[address] if (each[0] < step if is_load else each[0] <= step)]
        _, matrix, element = before[-1]
        return matrix, element

    def in_shared(self, each: Request) -> tuple[str, set[Element]]:
        held = {
            self.held(address, each.step, each.kind == "load")
            for first in each.addresses
            for address in range(first, first + each.bytes, 4)
        }
        (matrix,) = {matrix for matrix, _ in held}
        return matrix, {element for _, element in held}

    def check(self, number: int, look: dict[str, Any], lane: int) -> None:
        each = self.timeline[number]
        assert look["count"] == f"{number + 1} of {len(self.timeline)}"
        line = each if isinstance(each, int) else each.line
        assert look["line"] == self.recorded.text.splitlines()[line - 1]
        _, _, depth = self.recorded.sizes
        owned = self.owned[lane]
        assert areas(look, "A", "own") == {(row, 0, 1, depth) for row, _ in owned}
        assert areas(look, "B", "own") == {(0, col, depth, 1) for _, col in owned}
        assert areas(look, "C", "own") == {(row, col, 1, 1) for row, col in owned}

        expected: dict[str, set[Element]] = {"A": set(), "B": set(), "C": set()}
        matrix = ""
        if number in self.k:
            everyone = set().union(*self.owned)
            k = self.k[number]
            expected = {"A": {(row, k) for row, _ in everyone}, "B": {(k, col) for _, col in everyone}, "C": everyone}
        elif isinstance(each, Request) and each.space == "shared":
            matrix, expected_here = self.in_shared(each)
            expected[matrix] = expected_here
        elif isinstance(each, Request):
            expected[each.array] = {x for first in each.elements for x in self.elements(each.array, first, each.bytes)}
        assert {name: lit(look, name) for name in "ABC"} == expected

        c = self.config
        top, left = record.TILES_OF_C * c.bm - c.bm, record.TILES_OF_C * c.bn - c.bn  # of the last block
        assert areas(look, "C", "tile") == {(top, left, c.bm, c.bn)}
        ((row, begin, *extent),) = areas(look, "A", "tile")
        assert [row, *extent] == [top, c.bm, c.bk] and begin % c.bk == 0
        assert areas(look, "B", "tile") == {(begin, left, c.bk, c.bn)}
        depths = {col for _, col in expected["A"]} | {row for row, _ in expected["B"]}
        assert all(begin <= k < begin + c.bk for k in depths)

        banks = each.banks if isinstance(each, Request) else {}
        units, ideal = (0, 0) if isinstance(each, int) else (each.units, each.ideal_units)
        assert look["sectors"] == (0 if banks else units)
        costs = units > ideal and bool(banks)
        assert look["banks"] == [len(banks.get(bank, {})) for bank in range(32)]
        assert look["red"] == [costs and len(banks.get(bank, {})) > 1 for bank in range(32)]
        assert look["wires"] == sum(len(lanes) for asked in banks.values() for lanes in asked.values())
        shown: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
        for word in look["words"]:
            shown[word["word"] % 32][word["word"]] = tuple(word["lanes"])
            assert word["array"] == f"{matrix}s" and word["x"] == word["word"] % 32
            assert word["conflict"] == (costs and len(banks[word["x"]]) > 1)
            assert word["broadcast"] == (len(word["lanes"]) > 1)
        begin = self.begins[matrix] // 4 if matrix else 0
        assert begin % 32 == 0
        assert shown == {b: {word - begin: lanes for word, lanes in asked.items()} for b, asked in banks.items()}

        assert look["squares"] == [units, units - ideal]
        conflict = re.search(r"(\d+) conflict", look["cost"])
        assert int(conflict[1] if conflict else 0) == (units - ideal if banks else 0)
        if units:
            unit = "wavefront" if banks else "sector"
            assert f"{units} {unit}" in look["cost"] and f": {units} {unit}" in look["says"]
            assert (f"where {ideal} would do" in look["says"]) == (units > ideal)


@pytest.mark.parametrize(("variant", "layout", "tile"), KERNELS)
def test_every_step_shows_what_the_simulator_says(page, variant, layout, tile):
    warp, lane = kernel_spec(variant, tile=tile, layout=layout).threads // 32 - 1, 21
    for name, value in {"variant": variant, "layout": layout, "tile": tile}.items():
        page.click(f"input[name={name}][value='{value}']")
    page.evaluate(
        f"for (const [id, value] of [['warp', {warp}], ['lane', {lane}]]) {{"
        "const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('change')); }"
    )
    page.evaluate("document.activeElement.blur()")
    page.press("Home")
    expected = Expected(variant, layout, tile, warp)
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
        "Warp 0 reads 32 elements of A, 8 contiguous elements in each of 4 rows: 4 sectors of 32 bytes."
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
    assert areas(page.evaluate(LOOK), "C", "own") == {(24, 24, 1, 1)}


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
    for tile in (8, 16, 32, 64):
        page.click(f"input[name=tile][value='{tile}']")
        cells = "[...row.cells].map((cell) => cell.textContent)"
        rows = page.evaluate(f"[...document.querySelectorAll('#totals tbody tr')].map((row) => {cells})")
        nearest = {name: min(tiles, key=lambda each: abs(each - tile)) for name, tiles in record.KERNELS.items()}
        assert [(variant, int(of), layout, int(red)) for variant, of, layout, _, _, red, _ in rows] == [
            (variant, of, layout, sum(conflicts(variant, layout, of)))
            for variant, of in nearest.items()
            for layout in record.LAYOUTS
        ]
        assert rows[0][3:5] == ["2", str(2 * nearest["tiled"])]


# ---- finding a way ----


def test_a_conflict_is_shown_on_request(page):
    def cost() -> str:
        return str(page.evaluate("document.querySelector('#cost').textContent"))

    page.click("#conflict")  # tiled on NN has none
    assert page.evaluate("location.hash").startswith("#variant=tiled&layout=NT&tile=16") and "7 conflicts" in cost()
    first = page.evaluate("document.querySelector('#count').value")
    page.click("#conflict")
    assert page.evaluate("document.querySelector('#count').value") != first and "conflict" in cost()
    page.press("End")
    page.click("#conflict")  # around to the first
    assert page.evaluate("document.querySelector('#count').value") == first
    page.click("input[name=variant][value=tiled_padded]")
    page.click("#conflict")
    assert page.evaluate("document.querySelector('input[value=tiled_padded]').checked") and "1 conflict" in cost()
    page.click("input[name=variant][value=warp_tiled]")
    page.click("#conflict")
    assert page.evaluate("document.querySelector('input[value=tiled]').checked") and "conflict" in cost()


def test_arrow_keys_step_after_a_click_on_any_control(page):
    count = "Number(document.querySelector('#count').value.split(' ')[0])"
    for control in (
        "input[name=layout][value=NT]",
        "input[name=layout][value=NT]",  # which is selected already
        "input[name=tile][value='32']",
        "#conflict",
        "input[value=vectorized]",
    ):
        page.click(control)
        chosen, before = page.evaluate("location.hash.replace(/&step.*/, '')"), page.evaluate(count)
        page.press("ArrowRight")
        assert page.evaluate(count) == before + 1
        assert page.evaluate("location.hash.replace(/&step.*/, '')") == chosen
    page.evaluate("document.querySelector('input[name=layout]:checked').focus()")
    layout = page.evaluate("document.querySelector('input[name=layout]:checked').value")
    page.press("ArrowRight")  # a control that the keyboard reached keeps its keys
    assert page.evaluate("document.querySelector('input[name=layout]:checked').value") != layout


def test_a_kernel_without_the_tile_is_shown_in_its_nearest_and_a_tile_finds_a_kernel(page):
    page.click("input[name=variant][value=warp_tiled]")
    assert page.evaluate("document.querySelector('input[name=tile]:checked').value") == "64"
    page.click("input[name=tile][value='8']")
    assert page.evaluate("document.querySelector('input[name=variant]:checked').value") == "tiled"
    page.click("input[name=variant][value=double_buffered]")
    assert page.evaluate("document.querySelector('input[name=tile]:checked').value") == "16"


def test_it_leads_back_to_the_site(page):
    links = page.evaluate("[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href'))")
    assert links == ["../index.md", "../padding.md"]
    assert all((PAGE.parent / link).exists() for link in links)
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") != "none"


def test_it_needs_nothing_but_its_own_files(page, tmp_path):
    for path in (PAGE, record.DATA, *(PAGE.parent / TRACE_PAGE / name for name in ("page.css", "page.js"))):
        copy = tmp_path / path.resolve().relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    page.open(tmp_path / PAGE.relative_to(ROOT))
    assert page.evaluate("document.querySelector('#says').textContent").startswith("Warp 0 reads")
    assert page.evaluate("document.styleSheets.length") == 1
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        assert set(re.findall(r"https?://[^\"'\s]*", file.read_text(encoding="utf-8"))) <= {
            "http://www.w3.org/2000/svg"
        }


def test_it_fits_a_phone_and_follows_the_color_scheme(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    page.prefer("dark")
    dark = page.evaluate(paper)
    page.prefer("light")
    assert page.evaluate(paper) != dark
    top = "document.querySelector('{}').getBoundingClientRect().top"
    for tile in (8, 16, 32, 64):
        page.click(f"input[name=tile][value='{tile}']")
        page.resize(*PHONE)
        page.evaluate("scrollTo(0, 0)")
        assert page.evaluate(top.format("#shared")) < page.evaluate(top.format("#matrices")), "banks come first"
        assert page.evaluate(top.format("#wires")) < PHONE[1] / 2, "and are seen at once"
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert page.evaluate("document.querySelector('#play').getBoundingClientRect().bottom") <= PHONE[1]


SEEN = """[...document.querySelectorAll(
    "#conflict, #play, #where, #says, #cost, #shared .lane, #shared .bank, #array-As, #array-Bs, #matrix-C, " +
    "#story, #listing, #code [aria-current]"
)].filter((each) => {
  const { top, bottom, left, right } = each.getBoundingClientRect();
  return top < 0 || left < 0 || bottom > innerHeight || right > innerWidth;
}).map((each) => each.id || each.className.baseVal || each.textContent)"""


def test_a_desktop_shows_everything_of_a_conflict_in_one_screen(page):
    page.resize(1280, 800)
    for variant in record.KERNELS:
        page.click(f"input[name=variant][value={variant}]")
        page.evaluate("scrollTo(0, 0)")
        assert page.evaluate(SEEN) == [], variant
        page.click("#conflict")
        assert "conflict" in page.evaluate("document.querySelector('#cost').textContent")
        assert page.evaluate("scrollY") == 0 and page.evaluate(SEEN) == [], variant
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


FRAME = """<!DOCTYPE html><iframe class="tile-loop" src="%s" style="width: 100%%; height: 300px"></iframe>
<script src="%s"></script>"""


def test_a_frame_becomes_as_high_as_the_page_in_it(page, tmp_path):
    around = tmp_path / "around.html"
    around.write_text(FRAME % (PAGE.as_uri(), PAGE.with_name("frame.js").as_uri()), encoding="utf-8")
    for size in (DESKTOP, PHONE):
        page.resize(*size)
        page.open(around)
        page.wait_for("document.querySelector('iframe').getBoundingClientRect().height > 1000")


def test_everything_that_can_be_operated_has_a_name(page):
    unnamed = page.evaluate("""[...document.querySelectorAll("button, input, select, pre, svg[role]")].filter((each) =>
        !each.getAttribute("aria-label") && !each.labels?.length &&
        !(each.matches("button") && each.textContent.trim()) &&
        !document.getElementById(each.getAttribute("aria-labelledby"))).map((each) => each.outerHTML)""")
    assert unnamed == []


def test_its_picture_is_there_in_both_schemes():
    for path in picture.pictures().values():
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) < 250_000
        assert struct.unpack(">II", data[16:24]) == picture.SIZE
        for page in ("README.md", "docs/index.md"):
            assert f"pictures/{path.name}" in (ROOT / page).read_text(encoding="utf-8")
