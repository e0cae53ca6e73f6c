"""Tests of counts, compared with counts by hand and with recorded ones of Nsight Compute."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tiledmm
from benchmarks.studies import agreement
from tests.conftest import slow_unless
from tiledmm import errors, simulator
from tiledmm.codegen.template_files import template_folder
from tiledmm.hardware.banks import ideal_wavefronts, sectors, wavefronts
from tiledmm.simulator import explain_conflicts, trace


def laid_out(layout: str, m: int, n: int, k: int, dtype: str = "float32"):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    return tuple(np.asfortranarray(x) if letter == "T" else x for x, letter in zip((a, b), layout, strict=True))


def run(variant, tile, layout="NN", sizes=(64, 64, 64), **keywords):
    return simulator.run(*laid_out(layout, *sizes), variant=variant, tile=tile, **keywords)[1]


def test_counts_of_a_tiled_kernel_by_hand():
    report = run("tiled", 16)
    blocks, steps, warps = 16, 4, 8
    traffic = report.source
    assert report.grid == (16, 1, 1) and report.block == (16, 16, 1)
    assert report.barriers == blocks * steps * 2
    assert report.flops == 2 * 64**3 == 2 * report.multiply_adds
    assert traffic.global_load.requests == blocks * steps * warps * 2
    assert traffic.global_load.lanes == 32 * traffic.global_load.requests
    assert traffic.global_load.bytes == 4 * traffic.global_load.lanes
    assert traffic.global_load.sectors_per_request == 4  # two rows of 16 floats
    assert traffic.shared_store.requests == traffic.shared_store.wavefronts == blocks * steps * warps * 2
    assert traffic.shared_load.requests == traffic.shared_load.wavefronts == blocks * steps * warps * 16 * 2
    assert traffic.shared_load.bank_conflicts == 0
    assert traffic.global_store.requests == blocks * warps
    assert report.reuse == 16
    assert report.global_bytes == 4 * (2 * 64 * 64 * 4 + 64 * 64)
    assert report.intensity == pytest.approx(2 * 64**3 / report.global_bytes)


@pytest.mark.parametrize(
    ("variant", "tile", "layout", "sizes", "dtype"),
    [
        ("dot_products", 1, "NT", (1, 64, 1023), "float32"),
        ("dot_products", 2, "NT", (1, 64, 1022), "float16"),
        ("axpy", 1, "NN", (1, 1023, 64), "float32"),
        ("axpy", 1, "NN", (1, 1022, 64), "float16"),
        ("tensor_core", 128, "NN", (128, 126, 126), "float16"),
        pytest.param("tensor_core", 64, "TT", (126, 126, 254), "float16", marks=pytest.mark.slow),
    ],
)
def test_rows_that_are_not_aligned_are_read_in_contiguous_words(variant, tile, layout, sizes, dtype):
    """Check that a warp's 32 words of unaligned rows touch five or six sectors, hardly more than four aligned ones."""
    report = simulator.run(*laid_out(layout, *sizes, dtype=dtype), variant=variant, tile=tile)[1]
    traffic = report.source
    loads = traffic.global_load + traffic.copy_load
    assert loads.sectors_per_request < 6.5
    assert traffic.copy_store.bank_conflicts == 0


def test_uncoalesced_and_coalesced():
    naive, coalesced = run("naive", None).source, run("coalesced", None).source
    # A warp of naive reads 32 rows of A and one element of B; one of coalesced, one of A and 32 contiguous ones of B.
    assert naive.global_load.sectors_per_request == (32 + 1) / 2
    assert coalesced.global_load.sectors_per_request == (1 + 4) / 2
    assert naive.global_store.sectors_per_request == 32
    assert coalesced.global_store.sectors_per_request == 4


def test_padding_removes_the_conflict():
    plain, padded = run("tiled", 32, "NT"), run("tiled_padded", 32, "NT")
    assert plain.source.shared_load.wavefronts == (1 + 32) / 2 * plain.source.shared_load.requests
    assert padded.source.shared_load.bank_conflicts == 0


def test_lines_add_up_and_are_those_of_the_source():
    report = run("double_buffered", 16, "NT")
    assert sum((each.source for each in report.lines), simulator.Traffic()) == report.source
    assert sum(each.flops for each in report.lines) == report.flops
    texts = report.text.splitlines()
    for each in report.lines:
        assert texts[each.line - 1] == each.text
    by_text = {each.text.strip(): each for each in report.lines}
    assert (
        by_text["for (int j = 0; j < TN; ++j) frag_b[j] = Bs[stage][k][tx + j * BLOCK_X];"].source.shared_load.requests
        > 0
    )
    barriers = [each for each in report.lines if each.barriers]
    assert [each.text.partition(";")[0].strip() for each in barriers] == ["__syncthreads()"] * 2
    assert sum(each.barriers for each in barriers) == report.barriers
    assert (
        by_text[
            "if constexpr (ASYNC_A) a_view.template copy_or_zero<1>(slot_a(stage, m, k), m, k);"
        ].source.copy_load.requests
        > 0
    )
    assert by_text["c_tile.write(ty + i * BLOCK_Y, tx + j * BLOCK_X, acc[i][j]);"].source.global_store.requests > 0


def test_lanes_beyond_the_edge_take_no_part():
    report = run("tiled", 8, sizes=(9, 7, 5))
    traffic = report.source
    assert traffic.global_load.lanes == 9 * 5 * 1 + 5 * 7 * 2  # A for one column of blocks, B for two rows of blocks
    assert traffic.global_store.lanes == 9 * 7
    assert traffic.global_load.lanes < 32 * traffic.global_load.requests


def test_workers_and_orders_change_no_count():
    reports = [run("double_buffered", 8, "TN", (20, 30, 17), workers=w, threads=t)
               for w, t in ((1, "forward"), (2, "reverse"), (2, "random"))]  # fmt: skip
    assert all(each.source == reports[0].source and each.lines == reports[0].lines for each in reports)


def test_a_report_as_json_table_and_listing():
    report = run("tiled", 8, "NT", sass=False)
    data = json.loads(report.json())
    assert data["source"]["shared_load"]["requests"] == report.source.shared_load.requests
    assert data["nsight"]["smsp__sass_inst_executed_op_shared_ld.sum"] == report.source.shared_load.requests
    assert data["ok"] is True and data["findings"] == []
    table = report.table()
    assert table.rows[0][0] == "all"
    assert any("frag_b = " in row[-1] for row in table.rows)
    assert table.markdown().count("|") > 10
    listing = report.listing()
    assert listing.count("\n") < report.listing(headers=True).count("\n")
    line = next(row for row in listing.splitlines() if "frag_b = " in row)
    b_line = next(each for each in report.lines if "frag_b = " in each.text)
    assert f"{b_line.source.shared_load.wavefronts:,}" in line and f" {b_line.location} " in line


def test_a_table_marks_lines_that_race(tmp_path):
    text = tiledmm.source("tiled", tile=16)
    path = tmp_path / "broken.cu"
    path.write_text(text.replace("__syncthreads();", ";", 1))
    _, report = simulator.run(np.ones((17, 18), "f4"), np.ones((18, 19), "f4"), variant="tiled", tile=16, source=path)
    table = report.table()
    assert table.bad and any("race" in note for note in table.notes)
    assert "> " in report.listing()


def test_a_report_shows_its_warnings_which_are_no_errors():
    text = "__global__ void k(float* x) {\n    if (threadIdx.x < 32) __syncthreads();\n    x[threadIdx.x] = 1;\n}"
    report = simulator.launch(text, 1, 64, (np.zeros(64, np.float32),))
    report.check()
    (warning,) = report.warnings
    said = f"Warning: {warning.message}"
    assert report.ok and "which has ended; it counts as arrived" in said
    assert report.table().notes[-1] == report.listing().splitlines()[-1] == said
    assert str(report) == str(report.table()) and said in " ".join(str(report).split())


def machine_code():
    pytest.importorskip("cuda.core", reason="needs the extra 'inspect'")
    from tiledmm.compile.disassembly import nvdisasm

    try:
        nvdisasm()
    except errors.MissingDependencyError as error:
        pytest.skip(str(error))


def agrees(case, kernel):
    """Check that every count equals Nsight Compute's."""
    counts = agreement.simulated(case)
    assert counts == {name: kernel["counted"][name] for name in counts}
    assert counts == kernel["simulated"]  # as the table in the documentation has it


COUNTED = list(zip(agreement.CASES, json.loads(agreement.RESULTS.read_text())["kernels"], strict=True))


def named(cases):
    return [pytest.param(case, kernel, id=f"{case.symbol}-{case.sizes[0]}") for case, kernel in cases]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "kernel"), named(COUNTED[::7]))
def test_counts_are_those_of_nsight_compute(case, kernel):
    machine_code()
    agrees(case, kernel)


@pytest.mark.full
@pytest.mark.parametrize(("case", "kernel"), named(COUNTED))
def test_all_counts_are_those_of_nsight_compute(case, kernel):
    machine_code()
    agrees(case, kernel)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        pytest.param(dtype, layout, marks=slow_unless((i + j) % 3 == 0 and i != 1))
        for i, dtype in enumerate(["float32", "float64", "complex128", "int8"])
        for j, layout in enumerate(["NN", "NT", "TT"])
    ],
)
def test_the_runtime_counts_by_the_rules_of_banks(dtype, layout):
    """Check that the runtime's C++ and ``hardware.banks`` count the same wavefronts for each line's first access."""
    rng = np.random.default_rng(0)
    tile = 16
    a, b = (rng.integers(0, 3, (tile, tile)).astype(dtype) for _ in range(2))
    a, b = (np.asfortranarray(x) if letter == "T" else x for x, letter in zip((a, b), layout, strict=True))
    _, report = simulator.run(a, b, variant="tiled", tile=tile, workers=1)
    accesses = explain_conflicts("tiled", tile=tile, layout=layout, dtype=dtype)
    for each in accesses:
        line = next(found for found in report.lines if found.line == each.line)
        assert each.location == line.location and each.text == line.text.strip()
        traffic = line.source.shared_load if each.kind == "load" else line.source.shared_store
        if traffic.bytes == traffic.lanes * each.bytes:  # the compiler took the elements whole, as the trace did
            assert traffic.wavefronts == each.wavefronts * traffic.requests
            assert traffic.ideal_wavefronts == each.ideal_wavefronts * traffic.requests


def test_explained_conflicts():
    found = {(each.array, each.kind): each for each in explain_conflicts("tiled", tile=16, layout="NT")}
    b = found["Bs", "load"]
    assert (b.wavefronts, b.ideal_wavefronts, b.conflicts, b.bytes) == (8, 1, 7, 4)
    even, odd = b.banks.values()
    assert list(even.values()) == [(lane, lane + 16) for lane in range(0, 16, 2)]
    assert list(odd.values()) == [(lane, lane + 16) for lane in range(1, 16, 2)]
    assert len({lane.address for lane in b.lanes}) == 16
    a = found["As", "load"]
    assert a.conflicts == 0 and [len(words) for words in a.banks.values()] == [1, 1]
    padded = {(x.array, x.kind): x for x in explain_conflicts("tiled_padded", tile=16, layout="NT")}
    assert padded["Bs", "load"].conflicts == 0 and len(padded["Bs", "load"].banks) == 16
    assert explain_conflicts("naive") == ()


def test_explained_conflicts_of_the_machine_code():
    machine_code()
    found = {(each.array, each.kind): each for each in explain_conflicts("tiled", tile=16, layout="NT", sass=True)}
    assert (found["Bs", "load"].bytes, found["Bs", "load"].wavefronts) == (16, 16)
    assert (found["As", "load"].bytes, found["As", "load"].wavefronts) == (16, 2)


def test_a_copy_has_the_wavefronts_of_a_store(tmp_path):
    """Check that copies to shared memory do not share wavefronts between quarters of a warp, as loads may."""
    begins = "    const int row = threadIdx.x;\n"
    copies = """\
    struct alignas(16) Vector { float element[4]; };
    __shared__ Vector few[16];
    if (threadIdx.y == 0 && threadIdx.x % 2 == 0) {
        copy_async<1>(&few[threadIdx.x / 2], (const Vector*)a, 1);
        commit_copies();
        wait_for_copies_except<0>();
    }
"""
    template = (template_folder() / "naive.cu.j2").read_text()
    assert template.count(begins) == 1
    path = tmp_path / "copies.cu.j2"
    path.write_text(template.replace(begins, copies + begins))
    tiledmm.register(path, like="naive")
    try:
        (copied,) = (each for each in explain_conflicts("copies") if each.kind == "copy")
    finally:
        tiledmm.unregister("copies")
    assert [lane.lane for lane in copied.lanes] == list(range(0, 32, 2))
    assert (copied.bytes, copied.wavefronts, copied.ideal_wavefronts, copied.conflicts) == (16, 4, 2, 2)


def test_a_trace_is_every_access_of_a_block():
    recorded = trace("tiled", tile=8, sizes=(16, 8, 16), block=1)
    assert recorded.grid == (2, 1, 1) and recorded.block == (8, 8, 1)
    steps = [events for _, events in recorded.steps()]
    assert len(steps) == 5  # store, read and store, ..., write
    loads = [event for event in recorded.events if event.array == "A"]
    assert {event.element for event in loads} == {(row, col) for row in range(8, 16) for col in range(16)}
    assert [event.array for event in steps[0] if event.space == "global"].count("B") == 64
    stored = {event.element for event in recorded.events if event.array == "C"}
    assert stored == {(row, col) for row in range(8, 16) for col in range(8)}
    first = [
        event for event in steps[1] if event.thread == (3, 2, 0) and event.kind == "load" and event.space == "shared"
    ]
    assert [event.element for event in first if event.array == "As"][:8] == [(2 * 8 + k,) for k in range(8)]
    assert [event.element for event in first if event.array == "Bs"][:8] == [(8 * k + 3,) for k in range(8)]
    assert all(event.line > 0 for event in recorded.events)
    assert json.loads(recorded.json())["events"][0]["array"] in "AB"


def test_a_trace_of_copies_and_of_general_strides():
    recorded = trace("double_buffered", tile=8, layout="GT")
    kinds = {(event.kind, event.space) for event in recorded.events}
    assert {("copy", "shared"), ("copy", "global"), ("load", "shared"), ("store", "global")} <= kinds
    rows = {event.element for event in recorded.events if event.array == "A"}
    assert rows == {(row, col) for row in range(8) for col in range(max(col for _, col in rows) + 1)}


def test_rules_for_lanes_that_take_no_part():
    assert wavefronts([None] * 32, 4) == ideal_wavefronts([None] * 32, 8) == sectors([None] * 32, 4) == 0


def test_reuse_counts_elements_whatever_a_lane_loads_at_once() -> None:
    x, y = np.ones((2, 128, 128), np.float32)
    _, report = simulator.run(x, y, variant="vectorized", tile=128, checks=False)
    assert report.reuse == 128
