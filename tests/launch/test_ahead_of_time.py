"""Tests of kernels compiled ahead, for given products or all, by ``precompile`` and on the command line."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tiledmm
from tests.strategies import tight
from tiledmm import cli
from tiledmm.cli import device
from tiledmm.elements import compute_element
from tiledmm.errors import CompilationError, ConfigError, ShapeError, UnsupportedTypeError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.launch import ahead_of_time
from tiledmm.problem.arrays import Array, describe
from tiledmm.selection.model import H100, H100_IEEE


class Compiler:
    """A stand-in for ``tiledmm.compile.compilation``.

    Attributes:
        asked: Requested kernels.
        on_disk: Symbols of kernels that need not be compiled.
        broken: Symbol of a kernel that does not compile.
    """

    def __init__(self) -> None:
        self.asked: list[KernelSpec] = []
        self.on_disk: set[str] = set()
        self.broken = ""

    def raw_kernels(self, specs: Iterable[KernelSpec], progress: Any = None) -> None:
        for number, each in enumerate(specs):
            if each.symbol == self.broken:
                raise CompilationError(f"{each.symbol} does not compile")
            self.asked.append(each)
            seconds = None if each.symbol in self.on_disk else 0.5 + number
            if progress is not None:
                progress(SimpleNamespace(spec=each, symbol=each.symbol, seconds=seconds))

    @property
    def symbols(self) -> list[str]:
        return [each.symbol for each in self.asked]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    models = SimpleNamespace(device_model=lambda ieee=False: H100_IEEE if ieee else H100)
    monkeypatch.setitem(sys.modules, "tiledmm.compile.compilation", made)
    monkeypatch.setitem(sys.modules, "tiledmm.launch.devices", models)
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    return made


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["precompile", *arguments])


# ---- which ----

#: Types and precisions that choose between other kernels; in float32 all layouts and sizes, in others one.
PRODUCTS = [
    (dtype, layout, size, precision)
    for i, (dtype, precision) in enumerate(
        (
            ("float32", "float32"), ("float32", "ieee"), ("float32", "bf16x6"), ("tf32", "float32"),
            ("float16", "float32"), ("int8", "float32"), ("int32", "float32"), ("complex64", "float32"),
        )
    )
    for j, (layout, size) in enumerate((("NN", (300, 301, 700)), ("TN", (64, 64, 4000)), ("GT", (1, 70, 500))))
    if i == 0 or i % 3 == j
]  # fmt: skip


@pytest.mark.cupy
@pytest.mark.parametrize(("dtype", "layout", "size", "precision"), PRODUCTS)
def test_what_a_product_launches_is_what_is_compiled(
    dtype: str,
    layout: str,
    size: tuple[int, int, int],
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")
    from tests.host_gpu import HostGpu
    from tests.strategies import Layout, plain

    gpu = HostGpu()
    gpu.install(monkeypatch, tmp_path)
    m, n, k = size
    kind = compute_element(dtype).dtype
    every_second = Layout(plain(2).memory, (1, 2), plain(2).margins)
    x1, x2 = (
        gpu.array(np.zeros(shape, kind), every_second if letter == "G" else tight(letter))
        for shape, letter in zip(((m, k), (k, n)), layout, strict=True)
    )
    tiledmm.matmul(x1, x2, precision="tf32" if dtype == "tf32" else precision)
    found = ahead_of_time.kernels_of_products([size], ["auto"], None, [dtype], [layout], precision)
    assert set(found) == set(gpu.launched)
    assert {tuple(each) for each in found.values()} == {(f"{m} x {n} x {k}  {dtype}  {layout}",)}


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_operands_lie_as_arrays_do(dtype: str) -> None:
    arrays = {"N": np.zeros((3, 5), dtype), "T": np.zeros((5, 3), dtype).T, "G": np.zeros((3, 10), dtype)[:, ::2]}
    for letter, array in arrays.items():
        assert Array.laid_out((3, 5), np.dtype(dtype), letter) == describe(array)


def test_products_that_share_a_kernel_compile_it_once(compiler: Compiler) -> None:
    count = tiledmm.precompile(sizes=[(4096, 4096, 4096), (4096, 8192, 4096)], layouts=["NN", "NN"])
    assert count == len(compiler.asked) == len({*compiler.symbols})
    assert any("_split_float32_" in symbol for symbol in compiler.symbols)
    assert compiler.symbols == sorted(compiler.symbols)


def test_every_type_layout_and_size(compiler: Compiler) -> None:
    names = itertools.chain(*ahead_of_time.kernels_of_products(
        [(64, 64, 64), (1, 2, 3)], ["auto"], None, ["float64", None], ["NN", "TT"], "float32"
    ).values())  # fmt: skip
    assert {*names} == {
        f"{size}  {dtype}  {layout}"
        for size in ("64 x 64 x 64", "1 x 2 x 3")
        for dtype in ("float64", "float32")
        for layout in ("NN", "TT")
    }


@pytest.mark.parametrize("symmetry", ["symmetric", "hermitian"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_the_kernels_of_a_symmetric_product_are_those_that_it_launches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dtype: str, symmetry: str
) -> None:
    pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")
    from tests.host_gpu import HostGpu

    gpu = HostGpu()
    gpu.install(monkeypatch, tmp_path)
    x = gpu.array(np.zeros((300, 400), compute_element(dtype).dtype), tight("N"))
    if symmetry == "symmetric":
        tiledmm.matmul(x, x.T)
    else:
        tiledmm.gemm(x, x, adjoint_b=True)
    found = ahead_of_time.kernels_of_products([(300, 300, 400)], ["auto"], None, [dtype], ["NN"], "full", symmetry)
    assert set(found) == set(gpu.launched)
    assert {tuple(each) for each in found.values()} == {(f"300 x 300 x 400  {dtype}  NT  {symmetry}",)}


def test_symmetry_without_sizes() -> None:
    with pytest.raises(ConfigError, match="sizes= is needed"):
        tiledmm.precompile(symmetry="symmetric")
    result = CliRunner().invoke(cli.app, ["precompile", "--symmetry", "symmetric"])
    assert result.exit_code == 2 and "sizes of products" in result.output


def test_sizes_with_a_named_variant_and_tiles(compiler: Compiler) -> None:
    assert tiledmm.precompile("tiled", sizes=[(100, 100, 100)], tiles=[8, 16], layouts=["NN"]) == 2
    assert compiler.symbols == ["tiledmm_tiled_f32_16x16x16_nn", "tiledmm_tiled_f32_8x8x8_nn"]
    compiler.asked.clear()
    assert tiledmm.precompile(["tiled", "naive"], sizes=iter([(100, 100, 100)]), layouts=["NN"]) == 2, "their own tiles"


def test_precision_without_sizes(compiler: Compiler) -> None:
    tiledmm.precompile(layouts=["NN"])
    everything = {*compiler.symbols}
    compiler.asked.clear()
    tiledmm.precompile(layouts=["NN"], precision="ieee")
    assert {*compiler.symbols} < everything
    assert any("_split_float32_" in each for each in everything)
    assert not any("_split_float32_" in each or "_decompose_" in each for each in compiler.symbols)
    compiler.asked.clear()
    tiledmm.precompile(layouts=["NN"], precision="tf32")
    of_precision = {*compiler.symbols}
    compiler.asked.clear()
    tiledmm.precompile(layouts=["NN"], dtypes="tf32")
    assert {*compiler.symbols} == of_precision


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"sizes": [(0, 4, 4)]}, ConfigError),
        ({"sizes": [(4, 4)]}, ConfigError),
        ({"sizes": [(4, 4, 4)], "layouts": ["XX"]}, ShapeError),
        ({"sizes": [(4, 4, 4)], "dtypes": "nope"}, UnsupportedTypeError),
        ({"sizes": [(4, 4, 4)], "variants": ["tiled", "cublas"]}, ConfigError),
        ({"sizes": [(4, 4, 4)], "precision": "exact"}, ConfigError),
        ({"precision": "exact"}, ConfigError),
        ({"precision": "bf16x9"}, ConfigError),
    ],
)
def test_mistakes_are_found_before_anything_is_compiled(
    compiler: Compiler, keywords: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        tiledmm.precompile(**keywords)
    assert not compiler.asked


# ---- the command ----


def test_the_command_compiles_what_the_products_launch(compiler: Compiler) -> None:
    expected = ahead_of_time.kernels_of_products(
        [(512, 512, 512), (61, 83, 47)], ["auto"], None, ["float32", "float16"], ["NN", "NT"], "float32"
    )
    result = invoke("512", "61x83x47", "--dtypes", "float32,float16", "--layouts", "nn,NT", "--json")
    assert result.exit_code == 0, result.output
    (table,) = json.loads(result.stdout)["tables"]
    assert compiler.asked == list(expected)
    assert [row["kernel"] for row in table["rows"]] == compiler.symbols
    assert [row["products"] for row in table["rows"]] == list(expected.values())
    assert [row["seconds"] for row in table["rows"]] == [0.5 + i for i in range(len(expected))]


def test_what_was_there_is_said(compiler: Compiler) -> None:
    first, second = list(
        ahead_of_time.kernels_of_products([(64, 64, 64)], ["auto"], None, ["float32"], ["NN", "TT"], "ieee")
    )[:2]
    compiler.on_disk = {first.symbol}
    result = invoke("64", "--layouts", "NN,TT", "--precision", "ieee")
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.output.splitlines() if line.lstrip().startswith("tiledmm_")}
    assert lines[first.symbol].rstrip().endswith("cached")
    assert lines[second.symbol].rstrip().endswith("1.50")


def test_many_products_of_a_kernel_are_counted(compiler: Compiler) -> None:
    result = invoke("1024", "1088", "1152", "1216", "1280", "--dtypes", "float16")
    assert result.exit_code == 0, result.output
    assert "more" in result.output


def test_without_sizes_everything_is_compiled(compiler: Compiler) -> None:
    result = invoke("--dtypes", "float64", "--json")
    assert result.exit_code == 0, result.output
    (table,) = json.loads(result.stdout)["tables"]
    seen = compiler.symbols
    compiler.asked = []
    tiledmm.precompile(dtypes="float64", layouts=["NN"])
    assert seen == compiler.symbols == [row["kernel"] for row in table["rows"]]
    assert all(row.keys() == {"kernel", "seconds"} for row in table["rows"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0",), "MxNxK"),
        (("64", "--dtypes", "float33"), "float33"),
        (("64", "--dtypes", ","), ""),
        (("64", "--layouts", ","), ""),
        (("64", "--layouts", "NX"), "NX"),
        (("64", "--precision", "exact"), "exact"),
        (("--precision", "bf16x6"), "bf16x6"),
    ],
)
def test_mistakes_are_named(compiler: Compiler, arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not compiler.asked


def test_without_a_gpu_there_is_nothing_to_compile_for(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")
    result = invoke("64")
    assert result.exit_code == 1
    assert "none in this test" in result.output
    assert not compiler.asked
    assert invoke("64", "--layouts", "NX").exit_code == 2


def test_a_kernel_that_does_not_compile_fails(compiler: Compiler) -> None:
    (spec,) = ahead_of_time.kernels_of_products([(64, 64, 64)], ["auto"], None, ["float32"], ["NN"], "ieee")
    compiler.broken = spec.symbol
    result = invoke("64", "--precision", "ieee")
    assert result.exit_code == 1
    assert "does not compile" in result.output
