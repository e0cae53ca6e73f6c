"""Tests of the variants' pages: results come first, plain CUDA is right, selectors are complete, pages are short."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import readme
from benchmarks.support import rung_results
from docs.tools import instructions, plain, programs
from docs.tools.browser import DESKTOP, PHONE, Browser
from tests.conftest import missing_simulator
from tiledmm.bench.results import from_json
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.report.cells import significant

ROOT = Path(__file__).resolve().parents[2]
RUNGS = plain.rungs()
needs_simulator = pytest.mark.skipif(bool(reason := missing_simulator()), reason=str(reason))


def page_of(rung: str) -> str:
    return (ROOT / "docs" / "rungs" / f"{rung}.md").read_text(encoding="utf-8")


# How a page begins


@pytest.mark.parametrize("rung", RUNGS)
def test_a_page_opens_with_the_result_if_there_is_one_and_plain_cuda(rung: str) -> None:
    opening, section, *_ = page_of(rung).split("\n## ")
    assert section.startswith("In plain CUDA\n")
    if rung_results.NOT_TIMED in readme.table(f"result-{rung}"):
        return
    assert opening.rstrip().endswith("<!-- /table -->") and f"<!-- table:result-{rung} -->" in opening
    assert "NVIDIA" in opening, "it says on which GPU"
    end = page_of(rung).rpartition("<!-- table:measured -->")[2]
    assert re.search(r"NVIDIA.*\d{4}-\d\d-\d\d", end) and len(end.splitlines()) == 3, "where and when, at the end"


def test_what_was_not_measured_counted_or_profiled_is_said_in_a_sentence() -> None:
    def but(name: str) -> str:
        """Return a table of results in which two variants have another name."""
        file, render = readme.TABLES[name]
        text = (ROOT / "benchmarks" / "results" / f"{file}.json").read_text(encoding="utf-8")
        return render(text.replace("tiled_padded", "no_variant").replace("tiledmm_wgmma", "tiledmm_no_variant"))

    for name in ("result-tiled_padded", "rung-tiled_padded", "counts-tiled_padded", "pipes-wgmma"):
        assert re.fullmatch(r"(> )?It has not been \w+ yet\.", but(name)), name


def test_the_result_is_that_of_the_file() -> None:
    report = from_json((ROOT / "benchmarks" / "results" / "ladder.json").read_text(encoding="utf-8"))
    main = report.comparisons[0]
    row, rival = main.row("vectorized", 128), main.row("register_tiled", 128)
    shown = readme.table("result-vectorized")
    assert f"**{row.to_cupy:.0%} of cuBLAS" in shown
    assert re.search(
        rf"\*\*{significant(row.speed_over(rival))} .*\[`register_tiled`\]\(register_tiled\.md\)\*\*", shown
    )
    assert str(report.machine.gpu) in shown


def test_cublas_is_not_named_where_it_does_not_multiply() -> None:
    shown = readme.table("result-split_integer")
    assert "`cupy.matmul`**" in shown and "cuBLAS" not in shown.split("**")[1]


def test_the_rung_before_serves_any_shape() -> None:
    main = from_json((ROOT / "benchmarks" / "results" / "ladder.json").read_text(encoding="utf-8")).comparisons[0]
    assert rung_results.before("naive", main) is None
    assert rung_results.before("warp_tiled", main) == "vectorized"
    assert rung_results.before("split_float32", main) == "warp_tiled", "not axpy, thin or tiny"


# Plain CUDA

#: Grid, block, layout, M, N and K of the kernels that take A, B, C, M, N and K.
LAUNCHES = {
    "naive": ((5, 9), (32, 16), "NN", 130, 131, 37),
    "coalesced": ((5, 9), (32, 16), "NN", 130, 131, 37),
    "tiled": ((3, 2), (32, 32), "NN", 64, 96, 128),
    "tiled_padded": ((3, 2), (32, 32), "NT", 64, 96, 128),
    "double_buffered": ((3, 2), (32, 32), "NN", 64, 96, 128),
    "register_tiled": ((2, 1), (16, 16), "NN", 128, 256, 40),
    "vectorized": ((2, 1), (16, 16), "NN", 128, 256, 40),
    "warp_tiled": ((2, 1), 256, "TN", 128, 256, 40),
    "thin": (2, 32, "NN", 8, 256, 80),
    "dot_products": ((5, 3), (32, 4), "NT", 3, 20, 260),
    "block_dot_products": ((20, 3), 256, "NT", 3, 20, 1300),
    "axpy": ((2, 3), (32, 8), "NN", 3, 64, 100),
    "outer_products": ((3, 2), (32, 4), "NN", 64, 96, 3),
    "narrow_outer_products": (2, 256, "NN", 99, 30, 3),
    "tensor_core": ((4, 2), 32, "NT", 32, 32, 48),
    "split_float32": ((2, 1), (16, 16), "NN", 16, 32, 40),
    "split_integer": ((2, 1), (16, 16), "NN", 16, 32, 40),
    "split_float64": ((2, 1), (16, 16), "NN", 16, 32, 40),
}


def integers(dtype: type | np.dtype, *shape: int, most: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(-most, most + 1, shape).astype(dtype)


def run(rung: str, text: str):
    from tiledmm.simulator import launch

    grid, block, layout, m, n, k = LAUNCHES[rung]
    types = {"tensor_core": np.float16, "split_integer": np.int32, "split_float64": np.float64}
    dtype = types.get(rung, np.float32)
    most = 2**30 if dtype is np.int32 else 8
    a, b = integers(dtype, m, k, most=most), integers(dtype, k, n, most=most)
    c = np.full((m, n), -1, dtype if dtype in (np.int32, np.float64) else np.float32)
    with np.errstate(over="ignore"):
        right = a.astype(c.dtype) @ b.astype(c.dtype)
    operands = [
        np.ascontiguousarray(each.T if order == "T" else each) for each, order in zip((a, b), layout, strict=True)
    ]
    return launch(text, grid, block, (*operands, c, m, n, k), name=rung, expected={2: right}, rtol=0, atol=0)


@needs_simulator
@pytest.mark.parametrize("rung", LAUNCHES)
def test_plain_cuda_is_correct(rung: str) -> None:
    report = run(rung, plain.text(rung))
    report.check()
    if find_variant(rung).reads.from_shared != "elements" or rung == "tiled_padded":
        assert not report.source.shared_load.bank_conflicts


@needs_simulator
def test_plain_cuda_of_tiny_is_correct() -> None:
    from tiledmm.simulator import launch

    a, b = integers(np.float32, 2, 37, 8, 8)
    launch(plain.text("tiny"), 3, 128, (a, b, np.zeros_like(a), 37), expected={2: a @ b}, rtol=0, atol=0).check()


@needs_simulator
def test_plain_cuda_of_split_tensor_core_is_as_accurate_as_float32() -> None:
    from tiledmm.simulator import launch

    a, b = np.random.default_rng(0).standard_normal((2, 16, 64), dtype=np.float32)
    high = [each.astype(np.float16) for each in (a, b)]
    low = [((each - part) * 2048).astype(np.float16) for each, part in zip((a, b), high, strict=True)]
    c = np.zeros((16, 16), np.float32)
    arguments = (high[0], low[0], high[1], low[1], c, 16, 16, 64)
    launch(plain.text("split_tensor_core"), (2, 1), 32, arguments, name="split_tensor_core").check()
    right = a.astype(float) @ b.astype(float).T
    assert np.linalg.norm(c - right) < 3e-7 * np.linalg.norm(right)


@needs_simulator
def test_plain_cuda_of_split_float64_tensor_core_is_correct() -> None:
    from tiledmm.simulator import launch

    rng = np.random.default_rng(0)
    for m in (256, 199):
        a, b = (rng.integers(0, m, shape).astype(np.uint8) for shape in ((32, 96), (16, 96)))
        right = (a.astype(int) @ b.astype(int).T % m).astype(np.uint8)
        arguments = (a, b, np.zeros((32, 16), np.uint8), 32, 16, 96, m)
        expected = {"expected": {2: right}, "rtol": 0, "atol": 0}
        text = plain.text("split_float64_tensor_core")
        launch(text, (2, 2), 32, arguments, name="split_float64_tensor_core", **expected).check()


@needs_simulator
@pytest.mark.slow
@pytest.mark.parametrize("rung", plain.CHECKS)
def test_the_check_that_a_page_names_finds_plain_cuda_right(rung: str, tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(plain.text(rung), encoding="utf-8")
    arguments = shlex.split(f"tiledmm check mine.cu {plain.CHECKS[rung]}")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


@needs_simulator
@pytest.mark.slow
@pytest.mark.parametrize("rung", [rung for rung in RUNGS if find_variant(rung).simulated])
def test_a_copy_of_the_kernel_runs_as_its_page_says(rung: str, tmp_path: Path) -> None:
    import tiledmm
    from tiledmm import simulator

    path = tmp_path / "mine.cu"
    path.write_text(tiledmm.source(rung), encoding="utf-8")
    k = 256 if "split" in rung else 32  # shorter sums of float32 go to CUDA cores
    a, b = (integers(np.dtype(find_variant(rung).default_type), *shape) for shape in ((32, k), (k, 32)))
    c, report = simulator.run(a, b, variant=rung, source=path)
    report.check()
    assert (c == a @ b).all()


def test_pages_say_how_to_edit_what_can_be_checked() -> None:
    assert {rung for rung in RUNGS if f"<!-- plain: {rung} -->" in page_of(rung)} == plain.CHECKS.keys()
    assert plain.how_to_edit("wgmma") == ""


@needs_simulator
def test_the_padding_is_what_removes_the_conflicts() -> None:
    text = plain.text("tiled_padded")
    assert "[32 + 1]" in text
    assert run("tiled_padded", text.replace("[32 + 1]", "[32]")).source.shared_load.bank_conflicts


@pytest.mark.parametrize("rung", RUNGS)
def test_plain_cuda_is_short(rung: str) -> None:
    lines = plain.text(rung).splitlines()
    assert len(lines) <= (30 if rung == "warp_tiled" else 23)
    assert max(map(len, lines)) <= 118, "comments are not cut off"
    assert "template" not in plain.text(rung)


def test_a_difference_has_the_lines_that_change() -> None:
    shown = plain.diff("naive", "coalesced").splitlines()
    assert shown[0] == "````{ .diff }"
    assert [line[:8] for line in shown if line[:1] in "+-"] == ["-    int", "-    int", "+    int", "+    int"]
    assert not any("naive" in line for line in shown)
    assert plain.diff("vectorized", "warp_tiled").startswith("<details"), "a long one is folded"


def test_a_page_without_plain_cuda_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiled.md").write_text("# tiled\n\n## The idea\n", encoding="utf-8")
    monkeypatch.setattr(plain, "RUNGS", tmp_path)
    with pytest.raises(ValueError, match="In plain CUDA"):
        plain.text("tiled")


# Selectors


def test_a_rung_can_be_shown_in_all_its_tiles_layouts_and_types() -> None:
    rendered = pytest.importorskip("docs.tools.rendered")
    for row in map(find_variant, RUNGS):
        found = rendered.choices(row.name)
        usual = next(iter(found))
        assert usual == (row.default_tile or None, "NN", row.default_type)
        assert {choice.tile for choice in found} == (set(row.tiles) or {None})
        if row.operands.reads_elements or row.operands.schemes:  # K-major bytes of any layout
            assert {choice.layout for choice in found} == set(rendered.LAYOUTS)
        assert {choice.dtype for choice in found} >= {
            name for name, each in ELEMENTS.items() if each.per_packed == 1 and row.multiplies(each)
        }


def test_a_script_has_the_text_of_each_kernel() -> None:
    rendered = pytest.importorskip("docs.tools.rendered")
    from tiledmm.codegen.rendering import render

    text = rendered.script("naive")
    data = json.loads(text.removeprefix('tiledmmKernels("naive", ').removesuffix(");\n"))
    for choice, spec in rendered.choices("naive").items():
        own, headers = (
            [data["lines"][first + i] for first, count in zip(runs[::2], runs[1::2], strict=True) for i in range(count)]
            for runs in data["kernels"][choice.label]
        )
        markup = re.compile(r"<[^>]*>")
        shown = [html.unescape(markup.sub("", line)) for line in [*headers, *own]]
        rest = [line for line in render(spec).splitlines() if line.strip() and "// clang-format" not in line]
        assert [line for line in shown if line] == rest


# Machine code

LISTING = """
.text.kernel:
.L_x_0:
        /*0000*/                   FFMA R0, R1, R2, R0 ;
.L_x_1:
        /*0010*/                   LDS.128 R4, [R8] ;
        /*0020*/                   FFMA R0, R4, R5.reuse, R0 ;
        /*0030*/                   FFMA R1, R4, R5, R1 ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/               @P1 BRA `(.L_x_0) ;
.L_x_2:
        /*0060*/                   IADD3 R0, R0, 0x1, RZ ;
        /*0070*/                   BRA `(.L_x_2);
"""


def test_the_mainloop_is_the_innermost_that_multiplies() -> None:
    assert [opcode for opcode, _ in instructions.mainloop(LISTING)] == ["LDS", "FFMA", "FFMA", "BRA"]
    assert instructions.mainloop(LISTING)[0][1] == "LDS.128 R4, [R8]"
    with pytest.raises(ValueError):
        instructions.mainloop(LISTING.replace("FFMA", "FADD"))


@pytest.mark.parametrize("rung", list(filter(instructions.is_written, RUNGS)))
def test_a_page_has_machine_code_of_its_usual_kernel(rung: str) -> None:
    assert f"// {kernel_spec(rung).kernel.symbol}, sm_90" in instructions.folded(rung)


@pytest.mark.parametrize("rung", sorted(LAUNCHES.keys() - {"split_integer"}))
def test_a_page_ends_with_its_bottleneck(rung: str) -> None:
    *_, last = page_of(rung).split("\n## ")
    assert f"<!-- mainloop: {rung} -->" in last and "mainloop" in instructions.sentence(rung)


@pytest.mark.skipif(not programs._can_inspect(), reason="needs the compiler of the extra inspect that made the files")
@pytest.mark.slow
def test_machine_code_is_what_the_compiler_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert instructions.main(["--check"]) == 0, f"python -m docs.tools.instructions\n{capsys.readouterr().out}"


# The site


SELECT = """(() => {
  const select = document.querySelector("select[name=%s]");
  select.value = "%s";
  select.dispatchEvent(new Event("change", { bubbles: true }));
})()"""
SYMBOL = "document.querySelector('.kernel code').textContent.split('\\n')[0].split(' ').at(-1)"


@pytest.mark.slow
def test_selectors_show_another_kernel(browser: Browser, site: Path) -> None:
    browser.resize(*DESKTOP)
    browser.open(site / "rungs" / "tensor_core.html")
    assert browser.evaluate(SYMBOL) == "tiledmm_tensor_core_f16_128x128x32_nn"
    browser.evaluate(SELECT % ("layout", "TN"))
    browser.wait_for(f"{SYMBOL} === 'tiledmm_tensor_core_f16_128x128x32_tn'")
    browser.evaluate(SELECT % ("tile", "256"))
    assert browser.evaluate(SYMBOL) == "tiledmm_tensor_core_f16_128x256x32_tn"
    browser.evaluate(SELECT % ("dtype", "float64"))
    assert browser.evaluate("document.querySelector('[role=status]').textContent").startswith("No such kernel: 256 TN")
    assert browser.evaluate("document.querySelector('select[name=dtype]').value") == "float16"
    assert not browser.errors


#: Where the kernel begins, in the box that shows it, and what is highest there.
BEGINS = """(() => {
  const code = document.querySelector(".kernel code");
  const first = [...code.querySelectorAll("span")].find((span) => span.textContent === "extern");
  return first.getBoundingClientRect().top - code.getBoundingClientRect().top;
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_box_opens_at_the_kernel(browser: Browser, site: Path, size: tuple[int, int]) -> None:
    browser.resize(*size)
    browser.open(site / "rungs" / "tensor_core.html")
    assert browser.evaluate("scrollY") == 0
    assert 0 <= browser.evaluate(BEGINS) < 40
    browser.evaluate(SELECT % ("tile", "16"))
    browser.wait_for(f"{SYMBOL}.startsWith('tiledmm_tensor_core_f16_16x64')")
    assert 0 <= browser.evaluate(BEGINS) < 40
    assert "clang-format" not in browser.evaluate("document.querySelector('.kernel').textContent")


DRAWN = "[...document.querySelector('.chart.choose').querySelectorAll('svg .name')].map((name) => name.textContent)"
BOXES = "[...document.querySelector('.chart.choose').querySelectorAll('input')]"
OUTSIDE = """[...document.querySelectorAll(".chart svg text")].filter((text) => {
  const { left, right } = text.getBoundingClientRect();
  const box = text.ownerSVGElement.getBoundingClientRect();
  return left < box.left - 1 || right > box.right + 1;
}).map((text) => text.textContent)"""


@pytest.mark.slow
def test_a_chart_draws_the_rows_that_are_checked_and_six_at_most(browser: Browser, site: Path) -> None:
    browser.resize(*DESKTOP)
    browser.open(site / "charts.html")
    first = set(browser.evaluate(DRAWN))
    assert len(first) == 6 and {"auto", "cupy.matmul"} <= first
    assert browser.evaluate(f"{BOXES}.filter((box) => !box.checked).every((box) => box.disabled)")
    browser.evaluate(f"{BOXES}.find((box) => box.checked).click()")
    browser.evaluate(f"{BOXES}.find((box) => box.parentElement.textContent.includes('tiled_padded')).click()")
    assert set(browser.evaluate(DRAWN)) == first - {"naive"} | {"tiled_padded"}
    assert not browser.errors


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_text_of_a_chart_is_inside_it(browser: Browser, site: Path, size: tuple[int, int]) -> None:
    browser.resize(*size)
    browser.open(site / "charts.html")
    assert browser.evaluate("document.querySelectorAll('.chart svg text').length")
    assert browser.evaluate(OUTSIDE) == []


@pytest.mark.slow
def test_auto_has_one_colour(browser: Browser, site: Path) -> None:
    browser.resize(*DESKTOP)
    browser.open(site / "charts.html")
    of_auto = "[...document.querySelectorAll('.chart svg .name')].filter((name) => name.textContent === 'auto')"
    colours = browser.evaluate(f"{of_auto}.map((name) => getComputedStyle(name.previousSibling).fill)")
    assert colours and set(colours) == {"rgb(47, 129, 247)"}, "tiledmm/bench/charts.py draws it so"
