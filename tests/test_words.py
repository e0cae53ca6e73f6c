"""One word for one thing: what people read has the field's terms, and a person who searches for one finds its page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import tiledmm
from tiledmm.cli import app
from tiledmm.registry import auxiliary_kernels
from tiledmm.registry.config import Config
from tiledmm.registry.variant import Variant
from tiledmm.registry.variants import VARIANTS

ROOT = Path(__file__).resolve().parent.parent
ROWS = [*VARIANTS.values(), *(each for each in vars(auxiliary_kernels).values() if isinstance(each, Variant))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]

#: Phrases that were this project's own, and what to write instead. Most of their words have everyday meanings, too ("in
#: other words", "a test passes"): so these are the phrases in which they stood for something else.
RETIRED = {
    r"\bcopy engines?\b": "TMA",
    r"\bsen(?:d|ds|t|ding) for\b": "issue a load",
    r"\bpieces?\b": "limbs; of memory, parts",
    r"\bslices\b|\bslice of K\b": "split-K partitions",
    r"\bsplits? (?:the )?(?:numbers?|operands?|floats?|integers?|float32)\b": "decompose",
    r"\bneighbou?r(?:s|ing)?\b": "contiguous elements, successive lanes",
    r"\bpack(?:s|ed|ing)?\b[^.]*\bwords\b": "packed elements",
    r"\blines of (?:a |an |the )?(?:matrix|matrices|operands?|tiles?|[ABC]\b)": "rows or columns",
    r"\b(?:lies?|lying) (?:along|across) k\b": "K-major, MN-major",
    r"\b(?:of|for) few rows\b": "skinny",
    r"\bswapped\b|\bturned\b|\boriented\b": "transposed",
    r"\b(?:the|two|three|more) passes\b|\bpasses (?:over|before|after) (?:it|the)\b": "schedule",
    r"\bcompanions?\b": "auxiliary kernels",
    r"\bnumbers of (?:a |an |the |each )?(?:kernel|variant|tile)s?\b|\bsingle numbers of\b": "parameters",
    r"\bthe fewest\b": "ideal wavefronts, excess wavefronts",
    r"\bGPU to be\b": "target architecture",
    r"\bwhat (?:was|is) found of\b|\bfindings of (?:an? |the )?(?:scan|operand)": "operand scan",
    r"\bnumbering of (?:tiles|blocks)\b": "rasterization",
    r"\btype (?:that )?[^.]{0,30}\btaken in\b": "computation type",
    r"\blaid out in full\b": "unrolled",
    r"\bcomes? along\b": "also follow",
    r"\banew\b": "re-measure, repeat",
    r"\bway out\b": "epilogue",
    r"\bthere already\b": "existing",
}
RETIRED_NAMES = {
    "companions", "copies", "few", "neighbours", "numbers", "oriented", "passes", "piece", "pieces", "rung", "rungs",
    "slice", "slices", "swapped", "turned", "words",
}  # fmt: skip

#: What people search for, and the page that has to answer: the term stands in its first paragraph or in a heading.
FOUND_ON = {
    "arithmetic intensity": "roofline.md",
    "bank conflict": "padding.md",
    "coalesced": "rungs/coalesced.md",
    "double buffering": "rungs/double_buffered.md",
    "Nsight Compute": "profiling.md",
    "occupancy": "occupancy.md",
    "Ozaki scheme": "rungs/split_float64.md",
    "padding": "padding.md",
    "persistent kernel": "rungs/wgmma.md",
    "roofline": "roofline.md",
    "skinny": "rungs/thin.md",
    "split-K": "sizes.md",
    "swizzle": "rungs/tensor_core.md",
    "tensor core": "rungs/tensor_core.md",
    "tf32": "rungs/tensor_core.md",
    "TMA multicast": "rungs/wgmma.md",
    "warp specialization": "rungs/wgmma.md",
    "wave quantization": "tiles.md",
}


def retired(text: str) -> list[str]:
    """What to write instead of what, for each retired phrase of a text; its whitespace does not count."""
    text = " ".join(text.split())
    found = ((re.search(phrase, text, re.IGNORECASE), better) for phrase, better in RETIRED.items())
    return [f"{match[0]!r}: write {better}" for match, better in found if match]


def prose(page: Path) -> str:
    """What a person wrote: neither programs nor what commands print."""
    text = re.sub(r"<!-- (table|output)\b.*?<!-- /\1 -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"^ *(```|~~~).*?^ *\1", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE)


def test_a_retired_phrase_is_noticed() -> None:
    assert retired("one warpgroup sends\nfor tiles") == ["'sends for': write issue a load"]
    assert retired("x the fewest") and retired("rows that lie across k") and retired("packs elements to words")
    assert not retired("in a few words: a slice of an array passes through the stages of the command line, in turn")


# Names


def public_names() -> Iterator[tuple[str, str]]:
    for name in tiledmm.__all__:
        yield name, name
        value = getattr(tiledmm, name)
        if callable(value) and not isinstance(value, type):
            for parameter in inspect.signature(value).parameters:
                yield f"{name}({parameter})", parameter
    for field in fields(Config):
        yield f"Config.{field.name}", field.name


def test_public_names() -> None:
    assert not {where for where, name in public_names() if RETIRED_NAMES & set(name.lower().split("_"))}


# What is printed


@pytest.mark.parametrize("command", ["", *typer.main.get_command(app).commands])  # type: ignore[attr-defined]
def test_help(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0
    text = result.output.replace("│", " ")
    assert not retired(text)
    assert not re.search(r"\brungs?\b", text), "the ladder's pages explain the word; elsewhere it is a variant"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_summaries(row: Variant) -> None:
    assert not retired(row.summary)
    assert not re.search(r"\brungs?\b", row.summary)


# Pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_headings(page: Path) -> None:
    found = headings(page)
    assert found
    for heading in found:
        assert not retired(heading)
        assert not heading.startswith("Of "), "a heading begins with its subject"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sentences(page: Path) -> None:
    text = prose(page)
    assert not retired(text)
    assert not re.findall(r"(?:^|[.:;] )Of [a-z`*].{0,40}", text, re.MULTILINE), "a sentence begins with its subject"


@pytest.mark.parametrize(("term", "page"), FOUND_ON.items())
def test_a_search_finds_its_page(term: str, page: str) -> None:
    path = ROOT / "docs" / page
    text = re.sub(r"\[([^]]*)\]\([^)]*\)|\*", r"\1", path.read_text(encoding="utf-8"))
    paragraph = next(each for each in text.split("\n\n") if not each.startswith("#"))
    places = " ".join([*headings(path), " ".join(paragraph.split())])
    assert re.search(rf"\b{re.escape(term)}", places, re.IGNORECASE)


# The glossary


GLOSSARY = ROOT / "docs" / "glossary.md"


def test_the_glossary_is_in_alphabetic_order_and_has_each_term_once() -> None:
    terms = [term.lower().replace("-", " ") for term in headings(GLOSSARY)[1:]]
    assert terms == sorted(set(terms))


def test_a_term_links_to_the_guide_that_coined_it_or_to_a_page() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    links = set(re.findall(r"^\[([\w ]+)\]: https://", text, re.MULTILINE))
    assert links == set(re.findall(r"\]\[([\w ]+)\]", text)), "each guide is named once, and is used"
    for entry in text.split("\n## ")[1:]:
        assert "](" in entry or "][" in entry, entry.splitlines()[0]
