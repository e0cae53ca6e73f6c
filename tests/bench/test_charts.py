"""Tests of charts: all variants are shown, in both themes, and equal data gives equal bytes."""

from __future__ import annotations

import functools
from dataclasses import fields, replace

import numpy as np
import pytest

from tiledmm.bench.results import BASELINE, Comparison, Machine, Row

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.text

from benchmarks.sizes import TYPES, file_of
from benchmarks.support import chart_tables
from tests.conftest import slow_unless
from tiledmm.bench import chart_lines, charts
from tiledmm.bench.results import from_json
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import kernel_variants


def comparisons():
    rows = {"naive": 0.5, "tiled": 8.0, "auto": 100.0, BASELINE: 50.0}
    found = []
    for n in (64, 512, 4096):
        timed = [
            Row(name, 16 if name == "tiled" else None, True, 1e-7, 2 * n**3 / (rate * n / 4096) / 1e6,
                rate * n / 4096, occupancy=0.5)
            for name, rate in rows.items()
        ]  # fmt: skip
        timed.append(Row("numpy, 2 threads", microseconds=2 * n**3 / 1e5, ok=True, peer=True))
        timed.append(Row(chart_lines.WITH_COPIES, microseconds=100 + n * n / 1e3, ok=True, peer=True))
        found.append(Comparison(n, n, n, "float32", "NN", 1e-5, 1, tuple(timed)))
    return found


def with_ratios(comparison):
    """Add the speed over the baseline, and tiled's default tile, to a comparison's rows."""
    rate = comparison.row(BASELINE).tflops
    return replace(
        comparison,
        rows=tuple(
            replace(row, tile=row.tile and 32, to_cupy=row.tflops and row.tflops / rate) for row in comparison.rows
        ),
    )


KINDS = {
    "ladder": lambda found: charts.percent_of_baseline(with_ratios(found[-1])),
    "throughput": charts.throughput,
    "roofline": functools.partial(charts.roofline, gpu=REFERENCE_GPUS["sm_90"]),
    "speed-up": charts.speed_up,
    "tiles": lambda found: charts.tile_study("tiles", [charts.Bar("tiled", 8, 5.0), charts.Bar("tiled", 16, 8.0, 0.5)]),
}


#: Names that each kind of picture shows.
NAMES = {
    "ladder": ("naive", "auto", "16%  (8 TFLOP/s)", "cuBLAS: 50 TFLOP/s"),
    "throughput": ("naive", "tiled", "auto", BASELINE),
    "roofline": ("tiled",),
    "speed-up": ("numpy, with copies",),
    "tiles": ("tiled",),
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=slow_unless(kind == "tiles")) for kind in KINDS])
def test_a_picture_is_written_for_both_themes(tmp_path, kind):
    draw = functools.partial(KINDS[kind], comparisons())
    first = charts.save(draw, tmp_path / kind)
    assert {path.name for path in first} == {
        f"{kind}-{theme}.{suffix}" for theme in ("light", "dark") for suffix in ("svg", "png")
    }
    light, dark = ((tmp_path / f"{kind}-{theme}.svg").read_text() for theme in ("light", "dark"))
    assert light != dark
    assert all(name in light for name in NAMES[kind])
    if kind == "tiles":  # the cheapest: equal data gives equal bytes
        again = charts.save(draw, tmp_path / "again" / kind)
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_names_what_it_shows(kind):
    """Check what each kind of picture draws, without the time that layout and files take."""
    with charts.theme("light"):
        figure = KINDS[kind](comparisons())
    shown = {text.get_text() for text in figure.findobj(mpl.text.Text)}
    assert all(any(name in text for text in shown) for name in NAMES[kind])


def rates_of(**last):
    comparison = comparisons()[-1]
    return {name: [(comparison, rate)] for name, rate in last.items()}


def test_a_picture_has_few_lines_and_those_that_say_most():
    few = rates_of(naive=0.5, tiled=8.0, auto=100.0)
    assert chart_lines.readable(few) == few
    many = rates_of(naive=0.5, coalesced=6.0, tiled=9.0, warp_tiled=50.0, thin=60.0, tiny=0.1, wgmma=300.0,
                    tensor_core=200.0, auto=310.0) | {BASELINE: rates_of(x=305.0)["x"]}  # fmt: skip
    drawn = chart_lines.readable(many)
    assert list(drawn) == ["naive", "coalesced", "warp_tiled", "wgmma", "auto", BASELINE]
    assert len(drawn) <= chart_lines.MOST_LINES


def test_a_table_has_every_variant_and_those_that_are_drawn_in_bold():
    for dtype in TYPES:
        report = from_json(file_of(dtype).read_text(encoding="utf-8"))
        table = chart_tables.throughput_table(report)
        names = [row[0] for row in table.rows]
        bold = [name.strip("*") for name in names if name.startswith("**")]
        lines = chart_lines.rates(chart_tables._by_size(report))
        assert [name.strip("*") for name in names] == list(lines)
        assert bold == list(chart_lines.readable(lines)) and len(bold) <= chart_lines.MOST_LINES
        assert all(len(row) == len(table.columns) for row in table.rows)


@pytest.mark.parametrize("table", ["roofline", "speed_up", "tiles"])
def test_every_chart_has_a_table(table):
    report = from_json(file_of(TYPES[0]).read_text(encoding="utf-8"))
    found = getattr(chart_tables, f"{table}_table")(report)
    assert found.rows and all(len(row) == len(found.columns) for row in found.rows)


def test_variants_have_colours_of_their_own_in_the_registrys_order():
    names = [row.name for row in kernel_variants()]
    with charts.theme("light"):
        colours = [charts._colour(name) for name in [*names, "auto", BASELINE]]
    assert len(set(colours)) == len(names) + 2
    ladder = [row.name for row in kernel_variants() if chart_lines.is_for_any_matrices(row)]
    places = np.linspace(0.1, 0.85, len(ladder))
    np.testing.assert_allclose(
        [colours[names.index(name)] for name in ladder], mpl.colormaps["plasma"](places), err_msg="from cold to hot"
    )


@pytest.mark.parametrize(
    ("capability", "name"),
    [("8.6", "RTX 3090"), ("8.7", "RTX 3090"), ("9.0", "H100 SXM 80 GB"), ("10.3", "B200"), ("12.1", "RTX 5090")],
)
def test_the_data_sheet_of_a_reports_gpu(capability, name):
    machine = Machine(*[""] * len(fields(Machine)))
    assert charts.gpu_of(replace(machine, compute_capability=capability)).name == name


def test_where_the_gpu_begins_to_win():
    assert chart_lines.crossover([(16, 0.25), (64, 4.0)]) == pytest.approx(32)
    assert chart_lines.crossover([(16, 2.0), (64, 4.0)]) is None
    assert chart_lines.crossover([(16, 0.1), (64, 0.4)]) is None
    assert chart_lines.crossover([]) is None
