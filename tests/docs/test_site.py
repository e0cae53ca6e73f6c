"""Tests of the documentation as a site, built once: its files, and its pages in a headless browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.tools.browser import DESKTOP, PHONE, Browser

ROOT = Path(__file__).resolve().parents[2]

# Building the site takes half a minute. test_docs.py checks links between the sources each day.
pytestmark = pytest.mark.slow

#: Pages to check, one of each kind.
SHOWN = (
    "index.html", "ladder.html", "rungs/tiled.html", "rungs/wgmma.html", "charts.html", "performance.html",
    "padding.html", "sm.html", "tile_loop.html", "interactive/index.html", "pipeline.html",
    "interactive/pipeline.html", "simulator.html", "simulator/findings.html",
    "own_kernels.html", "api.html", "glossary.html", "command_line.html", "notebook.html",
)  # fmt: skip


class Page(HTMLParser):
    """A page's links, what it loads, and its link targets."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.places: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.places |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.add(attributes["href"])
        if tag == "link" and attributes.get("rel") != "canonical":
            self.loaded.add(attributes["href"])
        self.loaded |= {attributes[name] for name in ("src", "srcset") if name in attributes}


# ---- files ----


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.glob("**/*.html")}
    wrong = []
    for path, page in pages.items():
        if path.name == "404.html":  # for servers: its links begin at their root
            continue
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data") or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    wrong.append(f"{path.relative_to(site)} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                wrong.append(f"{path.relative_to(site)}: no file {link}")
            elif target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].places:
                wrong.append(f"{path.relative_to(site)}: no place {link}")
    assert not wrong, "\n".join(wrong)


def test_every_marker_is_expanded(site: Path) -> None:
    marker = re.compile(r"<!-- (?:code|row|diff|mainloop|variants): .*? -->")
    for path in site.glob("**/*.html"):
        if not path.is_relative_to(site / "source"):
            found = marker.search(path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(site)}: {found and found[0]}"


# ---- in a browser ----


@pytest.mark.parametrize("page", SHOWN)
def test_no_page_scrolls_sideways_or_complains(browser: Browser, site: Path, page: str) -> None:
    for width, height in (PHONE, DESKTOP):
        browser.resize(width, height)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.open(site / page)
            wide = browser.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{page} takes {wide} px of {width}"
            background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            is_dark = sum(map(int, re.findall(r"\d+", background)[:3])) < 3 * 128
            assert is_dark == (scheme == "dark"), f"{page} is {background}"
    assert browser.errors == []


#: CSS pixels of a page before anything is unfolded.
HIGHEST = 6000

#: Bytes of a page.
HEAVIEST = 500_000

#: Listings of a page whose lines are cut off.
CUT = "[...document.querySelectorAll('pre > code')].filter((code) => code.scrollWidth > code.clientWidth).length"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_is_long(browser: Browser, site: Path, size: tuple[int, int]) -> None:
    browser.resize(*size)
    extent = "[document.documentElement.scrollHeight, document.documentElement.scrollWidth]"
    for path in site.glob("**/*.html"):
        if path.is_relative_to(site / "source") or path.name == "404.html":
            continue
        browser.open(path)
        height, width = browser.evaluate(extent)
        assert height <= HIGHEST, f"{path.relative_to(site)}: {height}"
        assert width <= size[0], f"{path.relative_to(site)}: {width}"
        if "rungs" in path.parts:
            assert path.stat().st_size < HEAVIEST, path.name
            assert browser.evaluate(CUT) == 0, f"{path.name}: lines of a listing are cut off"
    assert browser.errors == []


#: Tables that are open and wider than the text, which scroll sideways then.
HIDDEN_COLUMNS = """[...document.querySelectorAll(".md-typeset__table")]
  .filter((table) => table.offsetParent && table.scrollWidth > table.closest(".md-content__inner").clientWidth + 32)
  .map((table) => table.textContent.slice(0, 40))"""


@pytest.mark.parametrize("page", ["performance.html", *(f"rungs/{name}.html" for name in ("tiled", "warp_tiled"))])
def test_a_table_of_results_shows_all_its_columns(browser: Browser, site: Path, page: str) -> None:
    browser.resize(*DESKTOP)
    browser.open(site / page)
    assert browser.evaluate(HIDDEN_COLUMNS) == []


def test_a_link_opens_the_section_that_it_leads_to(browser: Browser, site: Path) -> None:
    browser.resize(*PHONE)
    shown = "document.querySelector('#{}').closest('details').open"
    browser.open(site / "glossary.html", "#wavefront")
    assert browser.evaluate(shown.format("wavefront")) and not browser.evaluate(shown.format("warp"))
    browser.evaluate("location.hash = '#warp'")
    browser.wait_for(shown.format("warp"))
    browser.open(site / "changelog.html", "#fixed-results")  # within a section
    assert browser.evaluate(shown.format("fixed-results"))
    browser.resize(*DESKTOP)
    browser.open(site / "glossary.html")
    assert browser.evaluate("document.querySelectorAll('.glossary details:not([open])').length") == 0
    assert browser.errors == []


def test_wide_tables_are_open_where_there_is_room(browser: Browser, site: Path) -> None:
    for size, is_open in ((DESKTOP, True), (PHONE, False)):
        browser.resize(*size)
        browser.open(site / "performance.html")
        found = browser.evaluate("[...document.querySelectorAll('details.wide')].map((each) => each.open)")
        assert found and set(found) == {is_open}
    assert browser.errors == []


def found_by_search(browser: Browser, words: str) -> list[str]:
    """Search on the open page, and return the links of the results, best first."""
    field = "document.querySelector('[data-md-component=search-query]')"
    browser.evaluate(f"{field}.focus(); {field}.value = {json.dumps(words)}; {field}.dispatchEvent(new Event('keyup'))")
    results = "[...document.querySelectorAll('.md-search-result__item a')].map((link) => link.href)"
    browser.wait_for(f"{results}.length > 0")
    return [re.sub(r"\?[^#]*", "", link) for link in browser.evaluate(results)]


@pytest.mark.parametrize("page", ["index.html", "rungs/tiled.html"])
def test_search_works_from_disk(browser: Browser, site: Path, page: str) -> None:
    browser.resize(*DESKTOP)
    browser.open(site / page)
    assert any(link.endswith("/glossary.html#wavefront") for link in found_by_search(browser, "wavefront"))
    assert browser.errors == []


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("write my own kernel", "own_kernels.html"),
        ("bank conflict", "padding.html"),
        ("race", "simulator/findings.html"),
        ("grade", "course/teaching.html"),
        ("install", "supported.html"),
    ],
)
def test_search_lists_the_page_that_answers_first(browser: Browser, site: Path, words: str, page: str) -> None:
    browser.resize(*DESKTOP)
    browser.open(site / "index.html")
    assert found_by_search(browser, words)[0].partition("#")[0].endswith(f"/{page}")
    assert browser.errors == []
