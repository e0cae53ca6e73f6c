"""Tests that pictures of what threads touch match the recorded accesses or the kernel's parameters."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from docs.pictures import banks, clusters, draw, fragments, pipelines, sm, svg
from docs.pictures.blocks import Scene, caption
from docs.pictures.traced import iteration, together
from docs.tools import plain
from tests.conftest import slow_unless
from tiledmm.codegen.rendering import render
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.simulator import trace
from tiledmm.simulator.report.requests import WARP

ROOT = Path(__file__).resolve().parents[2]
STAGED = [scene for scene in draw.SCENES if scene.kernel.config.stages and not scene.kernel.variant.operands.schemes]


def box(rows: range, cols: range) -> set[tuple[int, int]]:
    return {(row, col) for row in rows for col in cols}


# Those for which tiles of 32 and more are simulated take seconds each; the first six are drawn as another one is.
_SLOW = (
    "naive", "coalesced", "thin", "block_dot_products", "split_float64", "split_integer",
    "tiled", "tiled_padded", "double_buffered", "register_tiled", "vectorized", "warp_tiled", "tensor_core",
    "split_tensor_core", "split_float64_tensor_core",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_unless(name not in _SLOW)) for name in draw.PICTURES])
def test_pictures_are_what_is_drawn_now(name):
    written = draw.PICTURES[name]()
    assert (draw.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == written, (
        "python -m docs.pictures.draw writes it anew"
    )
    root = ElementTree.fromstring(written)
    # The recording is a terminal, dark on every page, and moves only for readers who let it.
    assert root.tag.endswith("svg") and ("prefers-color-scheme: dark" in written) == (name != "race")
    assert ("animation" in written) == ("prefers-reduced-motion: no-preference" in written) == (name == "race")


def test_every_picture_is_shown_and_told():
    assert {path.stem for path in draw.FOLDER.glob("*.svg")} == set(draw.PICTURES)
    shown = {}
    for rung in plain.rungs():
        page = (ROOT / "docs" / "rungs" / f"{rung}.md").read_text(encoding="utf-8")
        found = dict(reversed(each) for each in re.findall(r"!\[(.*)\]\(\.\./pictures/(\w+)\.svg\)", page))
        assert (rung in found) == (rung in draw.PICTURES), f"docs/rungs/{rung}.md"
        shown |= found
    for name in ("architecture", "padding", "sm"):
        page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        shown |= dict(reversed(each) for each in re.findall(r"!\[(.*)\]\(pictures/(\w+)\.svg\)", page))
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    shown |= dict(re.findall(r'src="pictures/(\w+)\.svg"[^>]*alt="([^"]*)"', home))
    assert shown.keys() == draw.PICTURES.keys()
    for words in shown.values():
        assert len(words.split()) >= 10, "what is seen, for those who do not see it"


@pytest.mark.parametrize("way", pipelines.WAYS, ids=lambda way: way.name)
def test_timelines_have_the_stages_of_their_kernels(way):
    for variant in way.rungs.split(", "):
        kernel = kernel_spec(variant).kernel
        staged = clusters.Cluster(kernel.symbol, render(kernel)).constants if way.by_stage else {}
        assert staged.get("STAGES", kernel.config.stages or 1) == way.stages


def test_timelines_keep_the_rules_of_their_barriers():
    for way in pipelines.WAYS:
        copies, products = way.works()
        for copy, product in zip(copies, products, strict=True):
            assert copy.end <= product.begin
            if copy.tile >= way.stages:
                assert products[copy.tile - way.stages].end <= copy.begin, "its place is free"
    ends = [way.works()[1][-1].end for way in pipelines.WAYS]
    assert ends == sorted(ends, reverse=True)


def test_wavefronts_by_padding_are_those_of_the_hardware():
    assert [tile.told() for tile in banks.TILES] == [
        "4 bytes: 8 wavefronts; 16: 8", "4 bytes: 1 wavefront; 16: misaligned",
        "4 bytes: 1 wavefront; 16: 1", "4 bytes: 1 wavefront; 16: 1",
    ]  # fmt: skip


@pytest.mark.parametrize("scene", draw.SCENES, ids=lambda scene: scene.variant)
def test_text_picture_and_registry_have_the_same_numbers(scene):
    """Check that a picture shows the default tile, which its page describes, and says so."""
    kernel = kernel_spec(scene.variant, dtype=scene.dtype, layout=scene.layout).kernel
    config = kernel.config
    picture = (draw.FOLDER / f"{scene.variant}.svg").read_text(encoding="utf-8")
    assert f">{caption(kernel)}<" in picture and f">{kernel.symbol}:" in picture
    page = (ROOT / "docs" / "rungs" / f"{scene.variant}.md").read_text(encoding="utf-8")
    told = page[page.index(f"pictures/{scene.variant}.svg") :].split("\n## ")[0].replace(",0", "0")
    tiles = re.findall(r"a tile of (\d+) x (\d+) elements", told.replace("\n  ", " "))
    assert tiles == [(str(config.bm), str(config.bn))]
    threads = [int(x) * int(y or 1) for x, y in re.findall(r"(\d+)(?: x (\d+))? threads", told)]
    assert threads == [kernel.threads]
    for length in re.findall(r"step covers (\d+) values of k", told.replace("\n  ", " ")):
        assert int(length) == config.bk
    of_warps = r"computes (\d+) x (\d+) of these elements, and each lane (\d+) x (\d+)"
    for rows, columns, tm, tn in re.findall(of_warps, told):
        assert (int(rows), int(columns), int(tm), int(tn)) == (config.wm, config.wn, config.tm, config.tn)


def test_a_warp_of_the_naive_kernel_walks_down_a_column_and_of_the_next_along_a_row():
    naive = iteration(trace("naive"), kernel_spec("naive").kernel, 3, warp=2)
    assert box(range(32), range(3, 4)) == naive.warp.A and {(3, 2)} == naive.warp.B
    assert box(range(32), range(2, 3)) == naive.warp.C
    coalesced = iteration(trace("coalesced"), kernel_spec("coalesced").kernel, 3, warp=2, lane=5)
    assert {(2, 3)} == coalesced.warp.A and box(range(3, 4), range(32)) == coalesced.warp.B
    assert ({(2, 3)}, {(3, 5)}, {(2, 5)}) == (coalesced.thread.A, coalesced.thread.B, coalesced.thread.C)


@pytest.mark.parametrize(
    ("scene", "layout"),
    [
        pytest.param(scene, layout, id=f"{scene.variant}-{layout}", marks=slow_unless((i + j) % 12 == 0))
        for i, scene in enumerate(STAGED)
        for j, layout in enumerate(["NN", "NT", "TN", "TT"])
    ],
)
def test_a_block_multiplies_its_tiles_one_after_the_other(scene, layout):
    variant = find_variant(scene.variant)
    tile = scene.tile if variant.tensor_cores else min(variant.tiles)
    kernel = replace(scene, layout=layout, tile=tile).kernel
    config = kernel.config
    bm, bn, bk = config.bm, config.bn, config.bk
    recorded = trace(scene.variant, tile=tile, dtype=scene.dtype, layout=layout, sizes=(2 * bm, bn, 3 * bk), block=1)
    for number in range(3):
        done = iteration(recorded, kernel, number, warp=min(1, kernel.threads // WARP - 1))
        rows, cols, steps = range(bm, 2 * bm), range(bn), range(number * bk, (number + 1) * bk)
        assert (box(rows, steps), box(steps, cols), box(rows, cols)) == (done.block.A, done.block.B, done.block.C)
        # A thread and a warp read the rows and columns that their elements of C need, and nothing else. A lane of
        # ldmatrix reads for others.
        for part in (done.warp,) if kernel.variant.tensor_cores else (done.thread, done.warp):
            assert {(row, k) for row, _ in part.C for k in steps} == part.A
            assert {(k, col) for _, col in part.C for k in steps} == part.B
        assert done.thread.C <= done.warp.C <= done.block.C
        ahead = number + max(config.stages, 1) - 1
        later = range(ahead * bk, (ahead + 1) * bk)
        expected = (box(rows, later), box(later, cols)) if number < ahead < 3 else (set(), set())
        assert expected == (done.fetched.A, done.fetched.B)


def test_lanes_that_share_k_have_four_steps_each():
    scene = Scene("dot_products", 4, layout="NT")
    kernel = scene.kernel
    recorded = trace("dot_products", tile=4, layout="NT", sizes=(4, 8, 256))
    done = iteration(recorded, kernel, 1, warp=1, lane=5)
    rows, cols, steps = range(4), {col for _, col in done.warp.C}, range(128 + 20, 128 + 24)
    assert len(cols) == kernel.config.tn
    assert box(rows, steps) == done.thread.A and {(k, col) for k in steps for col in cols} == done.thread.B
    assert box(rows, range(128, 256)) == done.block.A and box(range(128, 256), range(8)) == done.block.B


def test_a_warp_of_axpy_has_four_rows_of_b():
    scene = next(each for each in draw.SCENES if each.variant == "axpy")
    config, done = scene.kernel.config, scene.iteration(scene.recorded())
    rows, cols = range(config.bm), range(config.bn, 2 * config.bn)
    steps = range(config.bk, 2 * config.bk)
    assert box(rows, steps) == done.block.A and box(steps, cols) == done.block.B and box(rows, cols) == done.block.C
    assert box(steps[4:8], cols) == done.warp.B and done.warp.C == done.block.C
    assert box([steps[4]], cols[20:24]) == done.thread.B and box(rows, cols[20:24]) == done.thread.C


@pytest.mark.slow
def test_all_limbs_are_read_at_the_same_places():
    (scene,) = (each for each in draw.SCENES if each.variant == "split_tensor_core")
    done = scene.iteration(scene.recorded())
    bk = scene.kernel.config.bk
    tile, steps = range(128, 256), range(bk, 2 * bk)
    assert {(limb, *each) for limb in range(2) for each in box(tile, steps)} == done.block.A
    assert {(limb, *each) for limb in range(2) for each in box(steps, tile)} == done.block.B
    assert box(tile, tile) == done.block.C and len(done.thread.C) * WARP == len(done.warp.C)
    first = together(done.first)
    assert Counter(limb for limb, _, _ in first.A) == Counter(limb for limb, _, _ in first.B) == {0: 256, 1: 256}


def test_fragments_are_where_the_header_says():
    # tensor_cores.cuh: a[i] is word quad + i / 2 * 4 of row `row` + i % 2 * 8, b[i] word quad + i * 4 of column `row`.
    for lane, touched in enumerate(fragments.operands()):
        row, quad = divmod(lane, 4)
        words_a = [(row + i % 2 * 8, quad + i // 2 * 4) for i in range(4)]
        words_b = [(row, quad + i * 4) for i in range(2)]
        assert {(of, 2 * word + half) for of, word in words_a for half in range(2)} == touched.A
        assert {(2 * word + half, of) for of, word in words_b for half in range(2)} == touched.B


@pytest.mark.parametrize("variant", ["wgmma", "split_float32", "split_integer", "split_float64"])
def test_clusters_are_those_of_their_parameters(variant):
    kernel = kernel_spec(variant).kernel
    cluster, config = clusters.Cluster(kernel.symbol, render(kernel)), kernel.config
    its = cluster.constants
    assert (its["BM"], its["BN"], its["BK"], its["STAGES"]) == (config.bm, config.bn, config.bk, config.stages)
    assert (its["THREADS"], 1) == kernel.block
    assert its["ROWS"] == 64 * its["CONSUMERS"] == config.bm // config.cluster
    assert cluster.share * config.cluster == config.bn
    sums = Counter(element for lane in range(WARP) for element in cluster.sums(lane))
    assert sums == dict.fromkeys(box(range(config.wm), range(config.wn)), 1), "each element has one lane"


def test_pairs_of_limbs_in_order():
    def pairs(constants: str) -> list[tuple[int, int]]:
        return clusters.Cluster("", f"constexpr int {constants};").pairs()

    assert pairs("BYTES = 2") == [(0, 1), (1, 0), (0, 0)]
    assert pairs("LIMBS = 2;\nconstexpr int PRODUCTS = 3") == [(0, 1), (1, 0), (0, 0)]
    assert len(pairs("BYTES = 8")) == 36 and len(pairs("LIMBS = 3;\nconstexpr int PRODUCTS = 6")) == 6
    assert pairs("LIMBS = 3;\nconstexpr int PRODUCTS = 9")[0] == (2, 2)


def test_rectangles_cover_elements_once():
    dice = random.Random(0)
    for _ in range(50):
        elements = {(dice.randrange(6), dice.randrange(6)) for _ in range(dice.randrange(30))}
        covered = [
            (row + i, col + j)
            for row, col, height, width in svg.rectangles(elements)
            for i in range(height)
            for j in range(width)
        ]
        assert sorted(covered) == sorted(elements)
    assert svg.rectangles(box(range(2, 5), range(3, 9))) == [(2, 3, 3, 6)]


def test_the_page_of_an_sm_has_the_widths_of_its_picture():
    page = (ROOT / "docs" / "sm.md").read_text(encoding="utf-8")
    gpu = REFERENCE_GPUS[sm.GPU]
    wide = sm.widths(gpu)
    assert f"| registers, for multiply-adds | {wide['registers']:,} |" in page
    assert f"| shared memory, or L1 | {wide['shared memory']} |" in page
    assert f"| memory | {wide['memory']:.1f} |" in page
    assert f"{gpu.bandwidth / 1e12:g} TB/s / ({gpu.sms} SMs x {gpu.clock / 1e9:g} GHz)" in page
