from __future__ import annotations

import numpy as np
import pytest

import tiledmm
from tests.conftest import missing_simulator
from tiledmm import errors, simulator
from tiledmm.bench.variant_tiles import expand
from tiledmm.codegen.template_files import template_folder
from tiledmm.kernels.variants import VARIANTS, general_variants
from tiledmm.launch import plans

TILED = (template_folder() / "tiled.cu.j2").read_text()


@pytest.fixture
def mine(tmp_path):
    """Copy a template for editing; unregister what was registered afterwards."""
    before = set(VARIANTS)
    path = tmp_path / "mine.cu.j2"
    path.write_text(TILED)
    yield path
    for name in VARIANTS.keys() - before:
        tiledmm.unregister(name)


def test_a_template_becomes_a_variant(mine):
    assert tiledmm.register(mine) == "mine"
    assert tiledmm.variants()[-2:] == ("mine", "cublas")
    assert general_variants()[-1].name == "mine"
    text = tiledmm.source("mine", tile=16, layout="NT")
    assert "tiledmm_mine_f32_16x16x16_nt" in text
    assert ("mine", 32) in expand()
    tiledmm.unregister("mine")
    assert "mine" not in tiledmm.variants()
    with pytest.raises(errors.UnknownVariantError):
        tiledmm.source("mine")


def test_its_numbers_are_those_of_the_rung_it_is_like(mine):
    tiledmm.register(mine, name="other", like="tiled_padded", tiles=(8, 16), summary="padded")
    row = VARIANTS["other"]
    assert (row.tiles, row.default_tile, row.summary) == ((8, 16), 8, "padded")
    assert "constexpr int PAD = 1;" in tiledmm.source("other")
    with pytest.raises(errors.ConfigError, match="8, 16"):
        tiledmm.source("other", tile=32)


def test_the_text_counts_as_it_was_until_it_is_registered_again(mine):
    tiledmm.register(mine)
    first = tiledmm.source("mine")
    mine.write_text(TILED.replace("Sum acc = {};", "Sum acc = {};   // mine"))
    assert tiledmm.source("mine") == first
    tiledmm.register(mine)
    assert tiledmm.source("mine") != first
    assert tiledmm.variants().count("mine") == 1


def test_plans_of_the_old_text_are_dropped(mine, monkeypatch):
    tiledmm.register(mine)
    plans._plans["a call"] = "a plan"
    tiledmm.register(mine)
    assert not plans._plans


def test_it_may_include_what_lies_beside_it(mine):
    (mine.parent / "extra.cuh").write_text("// from beside it\n", encoding="utf-8-sig")
    mine.write_text(TILED.replace('//% include "tile_parameters.cuh.j2"',
                                  '//% include "tile_parameters.cuh.j2"\n//% include "extra.cuh"'))  # fmt: skip
    tiledmm.register(mine)
    assert "\n// from beside it" in tiledmm.source("mine")


@pytest.mark.parametrize(
    ("text", "keywords", "message"),
    [
        (TILED, {"name": "Mine"}, "'Mine'"),
        (TILED, {"name": "tiled"}, "'tiled'"),
        (TILED, {"name": "auto"}, "'auto'"),
        (TILED, {"like": "cublas"}, "'cublas'"),
        (TILED, {"tiles": ()}, "tiles"),
        ("//% if\n", {}, "^mine.cu.j2:1: "),
        ("\n{{ undefined_name }}\n" + TILED, {}, "^mine.cu.j2:2: .*undefined_name"),
        ('\n//% include "nowhere.cuh"\n', {}, "^mine.cu.j2:2: .*nowhere.cuh"),
        ("\n{{ bm / 0 }}\n", {}, "^mine.cu.j2:2: ZeroDivisionError"),
        ("\n{{ bm + 'x' }}\n", {}, "^mine.cu.j2:2: TypeError: "),
        ("\n{{ bm() }}\n", {}, "^mine.cu.j2:2: TypeError"),
        ('\n//% include "mine.cu.j2"\n', {}, "^mine.cu.j2:2: "),
        ("float q[2][2] = {{1.f, 2.f}, {3.f, 4.f}};\n", {}, r"^mine.cu.j2:1: .*'{ {'"),
        ("\n//%d format\n", {}, "^mine.cu.j2:2: .*'d'.*'// %'"),
        ("int x;\n", {}, "tiledmm_mine_f32_32x32x32_nn"),
        (TILED.replace("KERNEL(", "mykernel("), {}, "KERNEL"),
        (TILED.replace("KERNEL(", "mykernel(  // KERNEL(\n"), {}, "KERNEL"),
    ],
)
def test_what_cannot_be_registered_is_not(mine, text, keywords, message):
    mine.write_text(text)
    before = dict(VARIANTS)
    with pytest.raises(errors.ConfigError, match=message):
        tiledmm.register(mine, **keywords)
    assert before == VARIANTS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{{ bkk }}", "^mine.cu.j2:2: .*bkk"),
        ('//% include "nowhere.cuh"', "^mine.cu.j2:2: .*nowhere.cuh"),
        ('//% include "extra.cuh"', "^extra.cuh:3: .*bkk"),
        ('//% include "broken.cuh"', "^broken.cuh:2: .*'x'"),
    ],
)
def test_an_error_in_a_branch_is_named_when_a_kernel_takes_it(mine, line, message):
    (mine.parent / "extra.cuh").write_text("\n\n{{ bkk }}\n")
    (mine.parent / "broken.cuh").write_text("\n{% x %}\n")
    mine.write_text(f'//% if order_a == "COLUMNS"\n{line}\n//% endif\n{TILED}')
    tiledmm.register(mine)
    tiledmm.source("mine", layout="NT")
    with pytest.raises(errors.ConfigError, match=message):
        tiledmm.source("mine", layout="TN")


def test_the_kernel_goes_by_its_symbol_or_by_what_a_macro_makes_of_it(mine):
    for text in (
        TILED.replace("KERNEL(", "{{ symbol }}("),
        TILED.replace("    KERNEL(", "    MINE(").replace('extern "C"', '#define MINE KERNEL\nextern "C"'),
    ):
        mine.write_text(text)
        tiledmm.register(mine)


def test_a_byte_order_mark_is_no_text(mine):
    mine.write_text(TILED, encoding="utf-8-sig")
    tiledmm.register(mine)
    assert "\ufeff" not in tiledmm.source("mine")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"nothing\.cu\.j2"):
        tiledmm.register(tmp_path / "nothing.cu.j2")
    with pytest.raises(errors.UnknownVariantError, match="tiled"):
        tiledmm.register(tmp_path / "nothing.cu.j2", like="tild")


def test_the_packages_own_stay():
    with pytest.raises(errors.ConfigError, match="tiled"):
        tiledmm.unregister("tiled")


def test_it_runs_on_the_simulator_and_its_bugs_are_found(mine):
    if reason := missing_simulator():
        pytest.skip(reason)
    tiledmm.register(mine)
    a = np.arange(20 * 30, dtype=np.float32).reshape(20, 30) % 5
    np.testing.assert_array_equal(tiledmm.simulator.matmul(a, a.T, variant="mine", tile=8), a @ a.T)
    mine.write_text(TILED.replace("__syncthreads();   // both tiles", "// both tiles"))
    tiledmm.register(mine)
    with pytest.raises(errors.SimulationError, match="race") as caught:
        tiledmm.simulator.matmul(a, a.T, variant="mine", tile=8)
    assert "frag_a = As[ty][k];" in str(caught.value)


def test_the_registry_may_change_while_another_thread_reads_it(mine):
    """Check that an iteration continues over the rows with which it began."""
    tiledmm.register(mine)
    rows, names = iter(VARIANTS.values()), iter(VARIANTS)
    assert next(rows).name == next(names) == "naive"
    tiledmm.unregister("mine")
    assert [row.name for row in rows] == list(names)
    assert "mine" not in VARIANTS and list(VARIANTS)[-1] == "cublas"
    tiledmm.register(mine)
    tiledmm.register(mine)
    assert list(VARIANTS)[-2:] == ["mine", "cublas"] and len(VARIANTS) == len(list(VARIANTS))


def test_it_multiplies_no_conjugates(mine):
    tiledmm.register(mine)
    x = np.ones((3, 3), "c8")
    with pytest.raises(errors.UnsupportedTypeError, match=r"'mine'.*b\.conj\(\)\.T"):
        simulator.gemm(x, x, adjoint_b=True, variant="mine")
    assert "mine" not in {choice.spec.variant.name for choice in tiledmm.explain(x, x, adjoint_b=True).choices}
