"""Tests of the page of a trace: what is recorded of any kernel, and that a browser shows it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from docs.tools.browser import PHONE, Browser
from tiledmm import cli
from tiledmm.errors import CompilationError, ConfigError
from tiledmm.own_kernels.kernel_trace import FileTrace, is_page, trace_file
from tiledmm.own_kernels.recording import MOST_PER_WARP, Patterns
from tiledmm.simulator import trace_block

TRANSPOSE = """\
constexpr int TILE = 32;
__global__ void transpose(const float* in, float* out, int width, int height) {
    __shared__ float tile[TILE][TILE%s];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();   // the tile is complete
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}
int main() {
    int width = 80, height = 64;
    float *in, *out;
    cudaMalloc(&in, width * height * sizeof(float));
    cudaMalloc(&out, width * height * sizeof(float));
    transpose<<<dim3(3, 2), dim3(TILE, TILE)>>>(in, out, width, height);
}
"""

REDUCE = """\
// tiledmm: grid=2 block=70 args=x:f32[140],sums:f32[2],140
__global__ void reduce(const float* x, float* sums, int n) {
    __shared__ float partial[70];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    partial[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (t == 0) for (int k = 1; k < 70; ++k) partial[0] += partial[k];
    if (t == 0) sums[blockIdx.x] = partial[0];
}
"""

SCALE = """\
// tiledmm: grid=1 block=64 args=x:f32[64],64
__constant__ float factors[2] = {2, 3};
__global__ void scale(float* x, int n) {
    if (threadIdx.x == 0) printf("</script> %d\\n", n);
    x[threadIdx.x] *= factors[threadIdx.x % 2];
}
"""

RACE = """\
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[16][16], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0;
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0;
        for (int k = 0; k < 16; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""

BEYOND = """\
// tiledmm: grid=4 block=32 args=x:f32[100]
__global__ void twice(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
"""

ENDLESS = """\
// tiledmm: grid=1 block=32 args=x:i32[32]
__global__ void count(int* x) {
    x[threadIdx.x] = 0;
    __syncthreads();
    while (x[threadIdx.x] >= 0) x[threadIdx.x] = (x[threadIdx.x] + 1) % 1000;
}
"""

LONG = """\
// tiledmm: grid=1 block=32 args=x:f32[32]
__global__ void again(float* x) { for (int i = 0; i < 3000; ++i) x[threadIdx.x] += 1; }
"""


def traced(folder: Path, text: str, name: str = "mine.cu", **options: Any) -> FileTrace:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return trace_file(path, **options)


def steps_of(found: FileTrace, warp: int = 0) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the data of the first kernel, and a warp's steps with what each lane accesses."""
    data = found.traces[0].recording.data
    (part,) = (each for each in data["timelines"] if warp in each["warps"])
    index = part["warps"].index(warp)
    steps = []
    for line, kind, array, base, pattern, units, ideal, width, *held in part["steps"]:
        step: dict[str, Any] = {"line": line, "kind": kind, "units": units, "ideal": ideal, "width": width}
        if array >= 0:
            step["array"] = data["arrays"][array]
            step["lanes"] = located(data["patterns"], base, pattern, index)
        if held:
            step["held"] = data["arrays"][held[2]], located(data["patterns"], held[0], held[1], index)
        steps.append(step)
    return data, steps


def located(patterns: list[dict[str, Any]], base: int, pattern: int, index: int) -> list[int | None]:
    found = patterns[pattern]
    return [None if lane is None else base + found["warps"][index] + lane for lane in found["lanes"]]


def test_the_recording_is_what_the_simulator_traced(tmp_path):
    text = TRANSPOSE % ""
    found = traced(tmp_path, text, traced_block=(1, 1))
    assert found.traces[0].block == (1, 1, 0) and not found.traces[0].findings
    data, steps = steps_of(found, warp=3)
    assert [(each["line"], each["kind"]) for each in steps] == [
        (5, "load"), (5, "store"), (6, "barrier"), (9, "load"), (9, "store"),
    ]  # fmt: skip
    assert {name: each["shape"] for name, each in data["globals"].items()} == {"in": [5120], "out": [5120]}
    assert data["globals"]["in"]["columns"] == 80, "its width, one of the arguments"
    assert data["shared"]["tile"] == {"words": 1024, "bank": 0, "pitch": 32, "unused": []}
    load, store, _, read, written = steps
    assert load["lanes"] == [(32 + 3) * 80 + 32 + lane for lane in range(32)]
    assert store["lanes"] == [3 * 32 + lane for lane in range(32)] and store["held"] == ("in", load["lanes"])
    assert read["lanes"] == [32 * lane + 3 for lane in range(32)] and (read["units"], read["ideal"]) == (32, 1)
    assert read["held"] == ("in", [(32 + lane) * 80 + 32 + 3 for lane in range(32)])
    assert written["lanes"] == [(32 + 3) * 64 + 32 + lane for lane in range(32)]
    assert len(data["timelines"]) == 1 and "held" not in written


def test_lanes_that_are_idle_and_warps_that_differ(tmp_path):
    data, steps = steps_of(traced(tmp_path, TRANSPOSE % "", traced_block=(2, 0)), warp=20)
    assert [each["kind"] for each in steps] == ["load", "store", "barrier"], (
        "x is beyond the width for warps from 16 on"
    )
    assert [each is None for each in steps[0]["lanes"]] == [lane >= 16 for lane in range(32)]
    assert len(data["timelines"]) == 2

    data, steps = steps_of(traced(tmp_path, REDUCE))
    assert [each["warps"] for each in data["timelines"]] == [[0], [1], [2]]
    assert steps[3]["lanes"][:2] == [0, None] and steps[-1]["array"] == "sums"
    _, steps = steps_of(traced(tmp_path, REDUCE), warp=2)
    assert steps[0]["lanes"] == [64 + lane if lane < 6 else None for lane in range(32)]
    assert steps[-1]["kind"] == "barrier"


def test_words_that_nobody_accesses_are_padding(tmp_path):
    data, steps = steps_of(traced(tmp_path, TRANSPOSE % " + 1"))
    shared = data["shared"]["tile"]
    assert (shared["words"], shared["pitch"]) == (32 * 33, 33)
    assert shared["unused"] == [end for row in range(32) for end in (33 * row + 32, 33 * row + 33)]
    assert all(each["units"] == each["ideal"] for each in steps if each.get("array") == "tile")


def test_counts_are_those_of_all_events(tmp_path):
    found = traced(tmp_path, TRANSPOSE % "")
    arrays = np.ones(5120, np.float32), np.ones(5120, np.float32)
    events = trace_block(TRANSPOSE % "", (3, 2), (32, 32), (*arrays, 80, 64))
    data = found.traces[0].recording.data
    recorded = sum(
        len(part["warps"]) * sum(each is not None for each in data["patterns"][step[4]]["lanes"])
        for part in data["timelines"]
        for step in part["steps"]
        if step[2] >= 0
    )
    assert recorded == len(events)


def test_a_kernel_with_findings_is_traced_where_it_is_wrong(tmp_path):
    found = traced(tmp_path, RACE)
    (trace,) = found.traces
    assert trace.findings[0].startswith("mm, mine.cu:8: race on shared memory: block (0, 0)")
    assert trace.block == (0, 0, 0) and trace.instructions > 100
    assert "race on shared memory" in found.page


def test_the_block_of_a_finding_is_shown(tmp_path):
    (trace,) = traced(tmp_path, BEYOND).traces
    assert "out of bounds: block (3, 0)" in trace.findings[0] and trace.block == (3, 0, 0)
    (trace,) = traced(tmp_path, BEYOND, traced_block=(1,)).traces
    assert trace.block == (1, 0, 0)


def test_an_endless_kernel_is_traced_until_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("tiledmm.own_kernels.api.TIMEOUT", 0.5)
    (trace,) = traced(tmp_path, ENDLESS).traces
    assert trace.findings and 2 <= trace.instructions <= MOST_PER_WARP


def test_a_kernel_that_accesses_nothing(tmp_path):
    with pytest.raises(ConfigError, match="block 0 accesses no memory"):
        traced(tmp_path, "// tiledmm: grid=1 block=32 args=x:f32[32]\n__global__ void nothing(float* x) { }")


def test_variables_are_arrays_and_what_a_kernel_prints_cannot_end_the_script(tmp_path):
    found = traced(tmp_path, SCALE)
    data, _ = steps_of(found)
    assert data["globals"]["factors"]["shape"] == [2] and data["shared"] == {}
    assert any("</script> 64" in each for each in found.traces[0].notes)
    assert found.page.count("</script>") == 2


def test_a_long_kernel_is_cut_and_says_so(tmp_path):
    found = traced(tmp_path, LONG)
    assert found.traces[0].instructions == MOST_PER_WARP
    assert any(f"{MOST_PER_WARP:,} instructions" in each for each in found.traces[0].notes)


def test_several_kernels_of_a_file_and_those_that_cannot_be_traced(tmp_path):
    text = TRANSPOSE % "" + "__global__ void other(struct Unknown* p, float** q) { }\n"
    found = traced(tmp_path, text)
    assert [each.name for each in found.traces] == ["transpose"] and found.missing[0].startswith("other")
    with pytest.raises(CompilationError, match="Unknown"):
        traced(tmp_path, text, kernel="other")


def test_blocks_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"3 x 2 blocks: there is no block \(3, 0\)"):
        traced(tmp_path, TRANSPOSE % "", traced_block=(3,))


def test_the_page_is_one_file_that_loads_nothing(tmp_path):
    found = traced(tmp_path, TRANSPOSE % "")
    assert set(re.findall(r"https?://[^\"'\s]*", found.page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(?:link|script|img)[^>]*(?:href|src)=\"(?!data:)", found.page)
    path = tmp_path / "page.html"
    assert is_page(path)
    path.write_text("mine", encoding="utf-8")
    assert not is_page(path)
    path.write_text(found.page, encoding="utf-8")
    assert is_page(path)
    data = re.search(r"<script>const RECORDED = (.*);</script>", found.page)
    assert data and json.loads(data[1])["sources"][0] == (TRANSPOSE % "").splitlines()


def test_patterns_separate_warps_and_lanes():
    patterns = Patterns()
    assert patterns.place([[5, 7, None], [9, 11, None]]) == [5, 0]
    assert patterns.place([[6, 8, None], [10, 12, None]]) == [6, 0]
    assert patterns.place([[0, 1], [2, 4]]) is None
    assert patterns.found == [{"warps": [0, 4], "lanes": [0, 2, None]}]


# ---- in a browser ----


EVERY_STEP = """(() => {
  const said = [];
  for (let warp = 0; warp < recording.warps; ++warp) {
    change({ warp, lane: 3, step: 0 });
    for (let step = 0; step < recording.steps(warp).length; ++step) {
      change({ step });
      said.push(document.querySelector("#says").textContent);
    }
  }
  return said;
})()"""


@pytest.mark.parametrize("text", [TRANSPOSE % "", REDUCE, SCALE, RACE], ids=["transpose", "reduce", "scale", "race"])
def test_every_step_of_every_warp_is_shown(browser: Browser, tmp_path, text):
    browser.errors.clear()
    path = tmp_path / "mine.html"
    path.write_text(traced(tmp_path, text).page, encoding="utf-8")
    browser.resize(1280, 800)
    browser.open(path)
    said = browser.evaluate(EVERY_STEP)
    assert said and not any("undefined" in each or "NaN" in each or not each for each in said)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 1280
    assert browser.evaluate("document.querySelector('#listing').getBoundingClientRect().bottom") <= 800
    browser.resize(*PHONE)
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert browser.errors == []


def test_the_page_of_a_transpose(browser: Browser, tmp_path):
    browser.errors.clear()
    path = tmp_path / "mine.html"
    path.write_text(traced(tmp_path, TRANSPOSE % "").page, encoding="utf-8")
    browser.resize(1280, 800)
    browser.open(path)

    def text(selector: str) -> str:
        return str(browser.evaluate(f"document.querySelector({selector!r}).textContent"))

    assert text("#says") == "Warp 0 reads 32 contiguous elements, in[0] to in[31]: 4 sectors of 32 bytes."
    assert text("#facts") == "Block (0, 0) of 3 x 2, with 32 x 32 threads (as launched at mine.cu:16)."
    browser.click("#conflict")
    assert text("#says") == "The lanes read 32 different words of tile in one bank: 32 wavefronts where 1 would do."
    assert text("#code [aria-current]").strip().startswith("if (x < height")
    assert text("#where") == "mine.cu, line 9 · after the last barrier"
    assert browser.evaluate("document.querySelectorAll('#wires .conflict').length") == 32
    assert text("#story") == "Thread (0, 0) reads in[0] and writes out[0]."
    browser.press("ArrowLeft")
    assert text("#says") == "All 1024 threads wait for each other: the tile is complete."
    browser.click("#shared [data-lane='21']")
    assert text("#story") == "Thread (21, 0) reads in[21] and writes out[21]."
    rows = browser.evaluate("[...document.querySelectorAll('#totals tbody tr')].map((row) => row.cells[5].textContent)")
    assert rows == ["0", "0", "31", "0"]
    assert browser.evaluate("document.querySelector('#findings').hidden")
    assert browser.errors == []


def test_the_command(tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or len(opened) < 2)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "mine.cu").write_text(TRANSPOSE % "", encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["trace", "kernels/mine.cu", "--open"])
    assert done.exit_code == 0 and "mine.html: written" in done.output
    assert opened == [(tmp_path / "mine.html").as_uri()]
    done = CliRunner().invoke(cli.app, ["trace", "kernels/mine.cu", "--open"])  # its own page is replaced
    assert done.exit_code == 1 and "No browser was found" in done.output
    (tmp_path / "mine.html").write_text("a page of mine", encoding="utf-8")
    assert CliRunner().invoke(cli.app, ["trace", "kernels/mine.cu"]).exit_code == 2
    done = CliRunner().invoke(cli.app, ["trace", "kernels/mine.cu", "--output", "other.html", "--traced-block", "1,1"])
    assert done.exit_code == 0 and "Block (1, 1)" in done.output
    assert (tmp_path / "mine.html").read_text(encoding="utf-8") == "a page of mine"
    for wrong in ("x", "1,2,3,4", "9,9"):
        assert (
            CliRunner().invoke(cli.app, ["trace", "kernels/mine.cu", "-o", "o.html", "--traced-block", wrong]).exit_code
            == 2
        )
    shutil.copy(folder / "mine.cu", tmp_path / "race.cu")
    (tmp_path / "race.cu").write_text(RACE, encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["trace", "race.cu"])
    assert done.exit_code == 1 and "finding: mm, race.cu:8: race" in done.output and is_page(tmp_path / "race.html")
