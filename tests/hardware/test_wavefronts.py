from __future__ import annotations

import json
from collections import defaultdict
from functools import partial

import pytest

from benchmarks.studies import wavefronts as benchmark
from benchmarks.studies.wavefronts import RESULTS, Profiler, parse, write
from benchmarks.support.access_kernels import source
from benchmarks.support.access_patterns import GLOBAL_BYTES, LANES, SHARED_BYTES, Access, accesses
from tiledmm.compile.inspection import compile_for
from tiledmm.errors import ConfigError
from tiledmm.hardware.banks import ideal_wavefronts, sectors, wavefronts

EVERY = [access for group in accesses().values() for access in group]
KERNELS = {access.symbol: access for access in EVERY}

CONTIGUOUS = {width: [lane * width for lane in LANES] for width in (1, 2, 4, 8, 16)}


def counted():
    """Return rows of the results by metric, kind and width: name, lanes, and ncu's count."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"accesses": [], "metrics": {}}
    rows = defaultdict(list)
    for row in results["accesses"]:
        if not row["counts"]:
            continue
        kind, width = row["kind"], row["width"]
        counts = dict(zip(results["metrics"][kind.partition("_")[0]], row["counts"], strict=True))
        lanes = [at if row["active"] >> lane & 1 else None for lane, at in enumerate(row["addresses"])]
        for metric, count in counts.items():
            rows[metric, kind, width].append((f"{row['name']} ({row['form']})", lanes, count))
    return rows


COUNTED = counted()


def disagreements(function, metric, kind, width):
    rows = COUNTED[metric, kind, width]
    if not rows:
        pytest.skip("nothing was counted")
    found = [(name, function(lanes, width), count) for name, lanes, count in rows]
    return [(name, ours, theirs) for name, ours, theirs in found if ours != theirs]


# Loads of 16 bytes a lane in which single lanes take no part. What ncu counts for these is not understood in full.
IRREGULAR = {f"random {number} (branch)" for number in (12, 14, 29, 39)}


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["shared_ld", "shared_st"])
def test_wavefronts_are_those_that_ncu_counted(kind, width):
    metric = f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{kind[-2:]}.sum"
    wrong = disagreements(partial(wavefronts, store=kind == "shared_st"), metric, kind, width)
    assert [row for row in wrong if (kind, width) != ("shared_ld", 16) or row[0] not in IRREGULAR] == []


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["shared_ld", "shared_st"])
def test_ideal_wavefronts_are_those_that_ncu_states(kind, width):
    function = partial(ideal_wavefronts, store=kind == "shared_st")
    wrong = disagreements(function, "memory_l1_wavefronts_shared_ideal", kind, width)
    assert [row for row in wrong if (kind, width) != ("shared_ld", 16) or row[0] not in IRREGULAR] == []


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", ["global_ld", "global_st"])
def test_sectors_are_those_that_ncu_counted(kind, width):
    metric = f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind[-2:]}.sum"
    assert disagreements(sectors, metric, kind, width) == []


@pytest.mark.parametrize(("width", "least"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_neighbouring_elements_have_no_conflict(width, least):
    assert wavefronts(CONTIGUOUS[width], width) == ideal_wavefronts(CONTIGUOUS[width], width) == least


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_no_lane_does_what_an_inactive_one_does(width, store):
    for addresses in (
        CONTIGUOUS[width],
        [0] * 32,
        [lane // 2 * width for lane in LANES],
        [128 * lane for lane in LANES],
    ):
        for count in range(33):
            lanes = addresses[:count]
            for function in (wavefronts, ideal_wavefronts):
                assert function(lanes, width, store=store) == function(
                    lanes + [None] * (32 - count), width, store=store
                )


def test_ideal_wavefronts_are_as_many_as_the_bytes_take_and_no_more_than_it_took():
    for lanes, width, store, ideal in (
        (CONTIGUOUS[16], 16, False, 4), ([0] * 32, 16, False, 2), ([0] * 32, 16, True, 4), ([0] * 32, 8, False, 1),
        ([0] * 32, 8, True, 2), ([128 * lane for lane in LANES], 4, False, 1),
        ([256 * lane for lane in LANES], 16, False, 4),
        ([0] * 9 + [None] * 23, 16, True, 2), ([0] * 8 + [None] * 24, 16, True, 1), ([None] * 32, 16, False, 0),
        ([0 if lane % 8 == 0 else None for lane in LANES], 16, True, 1),
    ):  # fmt: skip
        assert ideal_wavefronts(lanes, width, store=store) == ideal, (lanes, width, store)


def test_lanes_beside_or_two_away_that_ask_for_the_same_are_served_together():
    beside, away = [lane // 2 * 16 for lane in LANES], [(lane // 4 * 2 + lane % 2) * 16 for lane in LANES]
    for lanes in (beside, away):
        assert wavefronts(lanes, 16) == 2
        assert wavefronts(lanes, 16, store=True) == 4
        assert wavefronts([*lanes[:31], None], 16) == wavefronts([None, *lanes[1:]], 16) == 2
        assert wavefronts([*lanes[:31], lanes[31] + 16], 16) == 3, "lanes that agree with none"
    four_away = [(lane // 8 * 4 + lane % 4) * 16 for lane in LANES]
    assert wavefronts(four_away, 16) == 4
    mixed = [*beside[:8], *away[8:]]
    assert wavefronts(mixed, 16) == 3, "each quarter by itself would do"
    in_one_bank = [lane // 16 * 512 + lane // 4 % 2 * 128 + lane // 8 % 2 * 16 for lane in LANES]
    assert wavefronts(in_one_bank, 16) == 8, "quarters with conflicts of their own"


def test_the_wavefronts_of_a_word_are_the_different_words_in_a_bank():
    assert wavefronts([128 * lane for lane in LANES], 4) == 32
    assert wavefronts([132 * lane for lane in LANES], 4) == 1
    assert wavefronts([128 * (lane % 2) for lane in LANES], 4) == 2
    assert wavefronts([lane // 8 * 8 * 4 + lane % 8 * 4 + lane // 24 * 128 for lane in LANES], 4) == 1


def test_parts_of_one_word_do_not_conflict():
    assert wavefronts(CONTIGUOUS[1], 1) == 1
    assert wavefronts([2 * (lane % 2) for lane in LANES], 2) == 1


def test_vectors_that_tiles_are_read_by():
    assert wavefronts([0] * 32, 16) == 2
    assert wavefronts([lane // 8 * 32 for lane in LANES], 16) == 2
    assert wavefronts([lane % 8 * 32 for lane in LANES], 16) == 8
    assert wavefronts([lane % 16 * 64 for lane in LANES], 16) == 16
    assert wavefronts([lane * 128 for lane in LANES], 16) == 32
    assert wavefronts([lane * 144 for lane in LANES], 16) == 4


def test_an_access_is_a_load_unless_it_is_said_to_be_a_store():
    same = [0] * 32
    assert wavefronts(same, 16) == ideal_wavefronts(same, 16) == 2
    assert wavefronts(same, 16, store=True) == ideal_wavefronts(same, 16, store=True) == 4


def test_sectors_are_pieces_of_32_bytes():
    assert sectors(CONTIGUOUS[4], 4) == 4
    assert sectors([at + 4 for at in CONTIGUOUS[4]], 4) == 5
    assert sectors([4096 * lane for lane in LANES], 4) == 32
    assert sectors([None] * 31 + [64], 16) == 1


@pytest.mark.parametrize("function", [wavefronts, ideal_wavefronts, sectors])
def test_a_width_that_no_access_has_is_an_error(function):
    with pytest.raises(ConfigError, match="got 3"):
        function([0] * 32, 3)


def test_the_accesses_can_be_made():
    for access in EVERY:
        limit = SHARED_BYTES if access.group == "shared" else GLOBAL_BYTES
        for addresses, end in ((access.addresses, limit), (access.to or (0,) * 32, SHARED_BYTES)):
            assert len(addresses) == 32
            assert all(at % access.width == 0 and 0 <= at <= end - access.width for at in addresses), access


def test_each_access_is_made_once_and_in_the_same_order_everywhere():
    assert len({(a.symbol, a.addresses, a.to, a.active, a.name) for a in EVERY}) == len(EVERY) >= 400
    assert accesses.__wrapped__() == accesses()


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_kernels_compile(every):
    pytest.importorskip("cuda.core")
    for symbol, kernel in [*KERNELS.items()][::every]:
        compiled = compile_for(source(kernel), symbol, "sm_90")
        assert (compiled.stack_bytes, compiled.shared_bytes, compiled.warnings) == (0, SHARED_BYTES, ()), symbol


METRICS = ("a.sum", "b", "c.sum")
OUTPUT = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","a.sum","b","unasked"
"","","","inst","","byte"
"0","7","wavefronts_x(Pattern, unsigned char *)","1,024","16","9"
"1","7","wavefronts_y","n/a","1.5","9"
==WARNING== a remark
"""


def test_counts_are_read_from_what_ncu_prints_and_missing_ones_are_none():
    assert parse(OUTPUT, METRICS) == [("wavefronts_x", [1024, 16, None]), ("wavefronts_y", [None, 1.5, None])]
    assert parse("==ERROR== nothing\n", METRICS) == []


class FakeProfiler(Profiler):
    """A stand-in for ncu that refuses one metric."""

    refused = "memory_l1_tag_requests_global"

    def run(self, arguments, limit_s):
        metrics = arguments[arguments.index("--metrics") + 1].split(",")
        if self.refused in metrics:
            self.complaints = [f"==ERROR== Failed to find metric {self.refused}"]
            return self.complaints[0]
        lines = [",".join(f'"{cell}"' for cell in ("ID", "Kernel Name", *metrics))]
        for case in arguments[-1].split(","):
            group, number = case.split(":")
            lines.append(
                ",".join(
                    f'"{cell}"' for cell in (number, accesses()[group][int(number)].symbol, *["32"] * len(metrics))
                )
            )
        return "\n".join(lines)


def test_everything_is_counted_and_an_unknown_metric_left_out(tmp_path, monkeypatch):
    few = {group: rows[::5] for group, rows in accesses().items()}
    for names in (vars(benchmark), globals()):
        monkeypatch.setitem(names, "accesses", lambda: few)
    saved = []
    results = benchmark.profile(FakeProfiler(1e6), saved.append)
    assert results == saved[-1]
    assert FakeProfiler.refused not in results["metrics"]["global"]
    assert all(row["counts"] and set(row["counts"]) == {2} for row in results["accesses"])
    write(results, tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text()) == json.loads(json.dumps(results))


def test_what_there_is_no_time_for_is_null():
    results = benchmark.profile(FakeProfiler(0), lambda results: None)
    assert {row["counts"] and tuple(row["counts"]) for row in results["accesses"]} == {None}
    assert "0 of" in benchmark.summary(results)


def test_counts_of_other_kernels_are_not_taken(monkeypatch):
    monkeypatch.setattr(FakeProfiler, "run", lambda *_: OUTPUT)
    profiler = FakeProfiler(100)
    assert profiler.count([("shared", 0), ("shared", 1)], METRICS, 1) is None
    assert "2 kernels of 2" in profiler.notes[0]


def test_a_missing_permission_is_said(monkeypatch):
    monkeypatch.setattr(FakeProfiler, "run", lambda *_: "==ERROR== ERR_NVGPUCTRPERM - no")
    with pytest.raises(PermissionError, match="ERR_NVGPUCTRPERM"):
        FakeProfiler(100).count([("shared", 0)], METRICS, 1)


def test_an_access_names_its_kernel():
    access = Access("x", "async_cg", 16, (0,) * 32, form="zfill")
    assert (access.group, access.symbol) == ("async", "wavefronts_async_cg_16_zfill")
