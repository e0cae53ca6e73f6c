"""Tests of the public functions, as far as they need no GPU."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledmm
from tests.strategies import PROPERTY
from tiledmm.elements import ELEMENTS
from tiledmm.errors import (
    ConfigError,
    DeviceError,
    MissingDependencyError,
    OperandTypeError,
    ShapeError,
    TiledmmError,
    UnknownVariantError,
    UnsupportedTypeError,
)
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import VARIANTS, general_variants, kernel_spec
from tiledmm.launch import plans
from tiledmm.problem.keywords import PRECISIONS
from tiledmm.selection.model import H100, Model

ROOT = Path(__file__).resolve().parents[1]


# ---- variants and source ----


def test_variants_are_the_ladder_and_the_baseline() -> None:
    names = tiledmm.variants()
    assert names == tuple(VARIANTS)
    assert names[0] == "naive" and names[-1] == "cublas" and len(set(names)) == len(names)


@pytest.mark.parametrize("variant", [row.name for row in general_variants()])
def test_source_is_one_kernel_complete_in_itself(variant: str) -> None:
    for dtype, layout in (("float32", "NN"), ("bfloat16", "TT"), ("complex128", "GN"), ("int8", "NG"), ("bool", "NT")):
        text = tiledmm.source(variant, dtype=dtype, layout=layout)
        symbol = kernel_spec(variant, dtype=dtype, layout=layout).symbol
        assert text.startswith(f"// {symbol}\n")
        assert tiledmm.__version__ in text.split("\n")[1]
        assert "#include" not in text
        assert "{{" not in text
        assert "//%" not in text
        assert text.count('extern "C"') == 1
        assert re.search(rf"#define KERNEL {symbol}$", text, re.M)
        assert text.endswith("}\n")
        assert text.isascii()


def test_source_is_the_same_each_time() -> None:
    # CuPy's disk cache finds a kernel by its text.
    keywords = {"tile": 16, "dtype": "float16", "layout": "NT", "out_dtype": "float32"}
    assert tiledmm.source("tiled", **keywords) == tiledmm.source("tiled", **keywords)  # type: ignore[arg-type]


def test_symbols_tell_all_specializations_apart() -> None:
    specs = {
        kernel_spec(row, tile=tile, dtype=dtype, layout=a + b)
        for row in general_variants()
        for tile in row.tiles or (None,)
        for dtype in ELEMENTS
        for a in "NTG"
        for b in "NTG"
    }
    symbols = {each.symbol for each in specs}
    assert len(symbols) == len(specs)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", symbol) for symbol in symbols)


def test_source_of_mixed_types_names_each() -> None:
    text = tiledmm.source("tiled", dtype="float32", a_dtype="int8", b_dtype="float16", out_dtype="float64")
    assert "i8_f16_f32_f64" in text.split("\n")[0]
    for line in ("using TA = int8;", "using TB = float16;", "using TC = float64;", "using T = float32;"):
        assert line in text


# ---- mistakes ----


@pytest.mark.parametrize("call", [tiledmm.source, tiledmm.kernel])
@pytest.mark.parametrize("variant", ["", "auto", None])
def test_unknown_variants(call: Any, variant: Any) -> None:
    with pytest.raises(UnknownVariantError, match=", ".join(VARIANTS)):
        call(variant)


@pytest.mark.parametrize("call", [tiledmm.source, tiledmm.kernel])
@pytest.mark.parametrize(
    ("variant", "meant"),
    [("nive", "naive"), ("Tiled", "tiled"), ("tiled ", "tiled"), (["tiled"], "tiled"), ("tiled_paded", "tiled_padded")],
)
def test_a_near_miss_is_named(call: Any, variant: Any, meant: str) -> None:
    with pytest.raises(UnknownVariantError, match=f"{meant!r}.*tiledmm variants"):
        call(variant)


@pytest.mark.parametrize("tile", [0, 1, 24, -16, "16", "sixteen", True, 16.5, [16], {16}, int])
def test_tiles_that_a_variant_does_not_have(tile: Any) -> None:
    with pytest.raises(ConfigError, match=", ".join(map(str, VARIANTS["tiled"].tiles))):
        tiledmm.source("tiled", tile=tile)


def test_a_tile_that_is_an_array_is_an_error_of_ours() -> None:
    with pytest.raises(ConfigError):
        tiledmm.source("tiled", tile=np.array([8, 16]))  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", ["naive", "coalesced"])
def test_variants_without_tiles(variant: str) -> None:
    with pytest.raises(ConfigError, match=variant):
        tiledmm.source(variant, tile=16)


def test_the_baseline_has_no_source() -> None:
    with pytest.raises(ConfigError, match=r"cupy\.matmul"):
        tiledmm.source("cublas")


@pytest.mark.parametrize("layout", ["", "N", "nn", "NX", "NNN", None, ["N", "N"], ("N", "T")])
def test_unknown_layouts(layout: Any) -> None:
    with pytest.raises(ShapeError, match="layout"):
        tiledmm.source("tiled", layout=layout)


@pytest.mark.parametrize(
    ("keyword", "dtype"),
    [
        *(("dtype", each) for each in ("flot32", "float8", "O", "U3", ">f4", "longdouble", 5, [1], "f4,f4", "(2,f4")),
        *((keyword, "float8") for keyword in ("a_dtype", "b_dtype", "out_dtype")),
    ],
)
def test_unknown_types(keyword: str, dtype: Any) -> None:
    if np.dtype("longdouble") == np.dtype("float64") and dtype == "longdouble":
        pytest.skip("long double is float64 here")
    with pytest.raises(UnsupportedTypeError):
        tiledmm.source("tiled", **{keyword: dtype})


@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "bool", "a_dtype": "float32"},
        {"dtype": "float32", "b_dtype": "complex64"},
        {"dtype": "int32", "a_dtype": "float32"},
        {"dtype": "float32", "out_dtype": "int32"},
        {"dtype": "complex64", "out_dtype": "float32"},
        {"dtype": "int32", "out_dtype": "bool"},
    ],
)
def test_conversions_that_no_kernel_does(types: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTypeError):
        tiledmm.source("tiled", **types)  # type: ignore[arg-type]


# ---- no text of a caller reaches source ----

NASTY = 'float32; } __global__ void evil() { asm("trap;"); //'


@pytest.mark.parametrize("keyword", ["variant", "tile", "dtype", "layout", "a_dtype", "b_dtype", "out_dtype"])
def test_text_is_never_pasted(keyword: str) -> None:
    keywords: dict[str, Any] = {"variant": "tiled", keyword: NASTY}
    with pytest.raises(TiledmmError):
        tiledmm.source(keywords.pop("variant"), **keywords)


class _Shifty(str):
    """A string that equals a name but prints as something else."""

    def __str__(self) -> str:
        return NASTY

    def __format__(self, spec: str) -> str:
        return NASTY

    def __repr__(self) -> str:
        return NASTY


class _ShiftyInt(int):
    def __str__(self) -> str:
        return NASTY

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return NASTY


@pytest.mark.parametrize(
    "keywords",
    [
        {"variant": _Shifty("tiled")},
        {"tile": _ShiftyInt(16)},
        {"dtype": _Shifty("float32")},
        {"layout": _Shifty("NT")},
        {"out_dtype": _Shifty("float64")},
    ],
)
def test_not_even_by_a_subclass_that_prints_differently(keywords: dict[str, Any]) -> None:
    keywords = {"variant": "tiled"} | keywords
    try:
        text = tiledmm.source(keywords.pop("variant"), **keywords)
    except TiledmmError:
        return
    assert "evil" not in text


WORDS = st.one_of(st.text(max_size=10), st.integers(), st.none(), st.floats(), st.booleans(), st.binary(max_size=4))


@settings(PROPERTY, max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from(("tile", "dtype", "layout", "a_dtype", "b_dtype", "out_dtype")),
        st.one_of(WORDS, st.sampled_from(tuple(ELEMENTS)), st.sampled_from((8, 16, "NN", "GT"))),
    )
)
def test_whatever_comes_the_source_is_one_of_a_closed_set(keywords: dict[str, Any]) -> None:
    try:
        text = tiledmm.source("tiled", **keywords)
    except TiledmmError:
        return
    symbol = text.split("\n")[0].removeprefix("// ")
    assert re.fullmatch(r"tiledmm_tiled_([a-z]+\d+_)+(8x8|16x16|32x32|64x64)x\d+_[ntg]{2}", symbol)
    types = "|".join(row.c_type for row in ELEMENTS.values())
    for name in ("TA", "TB", "TC", "T"):
        assert re.search(rf"^using {name} = ({types});", text, re.M)


# ---- matmul without a GPU ----

X = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    "operands",
    [(X, X), ([[1.0]], [[1.0]]), (1.0, 2.0), (None, None), ("ab", "cd"), (X.astype("M8[s]"), X)],
    ids=["numpy", "lists", "numbers", "None", "text", "dates"],
)
@pytest.mark.cupy
def test_only_cupy_arrays_are_multiplied(operands: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match=r"cupy\.asarray") as caught:
        tiledmm.matmul(*operands)
    assert isinstance(caught.value, TiledmmError)


@pytest.mark.cupy
def test_numpy_bfloat16_is_refused_like_any_numpy_array() -> None:
    x = np.ones((2, 2), ELEMENTS["bfloat16"].dtype)
    with pytest.raises(TypeError, match=r"cupy\.asarray"):
        tiledmm.matmul(x, x)


def test_without_cupy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(plans, "_devices", None)
    for name in ("launch.devices", "compile.compilation"):
        monkeypatch.delitem(sys.modules, f"tiledmm.{name}", raising=False)
    with pytest.raises(MissingDependencyError, match="cupy"):
        tiledmm.matmul(X, X)
    with pytest.raises(ConfigError, match="'float16'"):
        tiledmm.matmul(X, X, precision="float16")
    with pytest.raises(MissingDependencyError, match="cupy"):
        tiledmm.kernel("tiled")
    with pytest.raises(ImportError):
        tiledmm.precompile("tiled")


@pytest.mark.cupy
def test_without_a_device_the_error_is_a_device_error() -> None:
    import cupy

    if cupy.cuda.is_available():
        pytest.skip("there is a device")
    with pytest.raises(DeviceError):
        tiledmm.kernel("tiled", tile=8)
    with pytest.raises(DeviceError):
        tiledmm.precompile("tiled", tiles=[8], layouts=["NN"])


def test_importing_the_package_imports_no_cupy() -> None:
    code = (
        "import sys, tiledmm; tiledmm.source('tiled'); tiledmm.variants();"
        "assert not [m for m in sys.modules if m.split('.')[0].startswith('cupy')], 'cupy was imported'"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)


def test_signature_is_cupys_and_what_names_a_kernel() -> None:
    parameters = inspect.signature(tiledmm.matmul).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    assert kinds[:2] == [inspect.Parameter.POSITIONAL_ONLY] * 2
    assert set(kinds[2:]) == {inspect.Parameter.KEYWORD_ONLY}
    assert list(parameters)[2:] == [
        "out", "casting", "order", "dtype", "axes", "axis", "keepdims", "signature",
        "variant", "tile", "config", "precision",
    ]  # fmt: skip
    assert parameters["casting"].default == "same_kind"
    assert parameters["order"].default == "K"
    assert parameters["variant"].default == "auto"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_precision_is_one_of_a_few(precision: str) -> None:
    with pytest.raises(ConfigError, match=r"precision.*'tf32'.*'float16'"):
        tiledmm.matmul(np.ones((2, 2)), np.ones((2, 2)), precision="float16")
    with pytest.raises((OperandTypeError, MissingDependencyError)):
        tiledmm.matmul(np.ones((2, 2)), np.ones((2, 2)), precision=precision)


# ---- plans ----


class _FakeArray:
    """A stand-in that the plan cache takes for a CuPy array."""

    def __init__(self, *shape: int, dtype: str = "f4", device: int = 0) -> None:
        self.shape = shape
        self.strides = tuple(4 for _ in shape)
        self.dtype = np.dtype(dtype)
        self.data = SimpleNamespace(device_id=device, ptr=id(self))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the plans that are made; the cache starts empty and holds eight."""
    made: list[Any] = []

    def make(*args: Any) -> Any:
        made.append(args)
        number = len(made)
        return SimpleNamespace(run=lambda x1, x2, out: number)

    monkeypatch.setattr(plans, "_make_plan", make)
    monkeypatch.setattr(plans, "_devices", SimpleNamespace(ndarray=_FakeArray, current_device=lambda: 0))
    monkeypatch.setattr(plans, "_plans", {})
    monkeypatch.setattr(plans, "MAX_PLANS", 8)
    return made


def test_a_repeated_call_makes_no_plan(made: list[Any]) -> None:
    assert [tiledmm.matmul(_FakeArray(2, 2), _FakeArray(2, 2)) for _ in range(3)] == [1, 1, 1]
    assert len(made) == 1


def test_plans_are_bounded_and_the_oldest_goes_first(made: list[Any]) -> None:
    for size in range(20):
        tiledmm.matmul(_FakeArray(size, 2), _FakeArray(2, 2))
    assert len(plans._plans) == 8
    assert len(made) == 20
    tiledmm.matmul(_FakeArray(19, 2), _FakeArray(2, 2))
    assert len(made) == 20
    tiledmm.matmul(_FakeArray(0, 2), _FakeArray(2, 2))
    assert len(made) == 21


@pytest.mark.parametrize(
    "other",
    [
        {"casting": "safe"},
        {"order": "F"},
        {"dtype": np.float64},
        {"axes": [(0, 1), (0, 1), (0, 1)]},
        {"axis": 0},
        {"keepdims": True},
        {"signature": "ff->f"},
        {"variant": "tiled"},
        {"tile": 16},
        {"config": {"bk": 8}},
        {"precision": "ieee"},
        {"out": _FakeArray(2, 2)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_every_keyword_makes_a_plan_of_its_own(made: list[Any], other: dict[str, Any]) -> None:
    x = _FakeArray(2, 2)
    assert tiledmm.matmul(x, x) == 1
    assert tiledmm.matmul(x, x, **other) == 2
    assert tiledmm.matmul(x, x, **other) == 2
    assert tiledmm.matmul(x, x) == 1


@pytest.mark.parametrize(
    "other",
    [_FakeArray(2, 3), _FakeArray(2, 2, dtype="i4"), _FakeArray(2, 2, device=1), _FakeArray(2, 2, 2)],
    ids=["shape", "dtype", "device", "ndim"],
)
def test_every_property_of_an_operand_makes_a_plan_of_its_own(made: list[Any], other: _FakeArray) -> None:
    x = _FakeArray(2, 2)
    tiledmm.matmul(x, x)
    tiledmm.matmul(x, other)
    tiledmm.matmul(other, x)
    tiledmm.matmul(x, x, out=other)
    assert len(made) == 4


def test_one_array_twice_makes_a_plan_of_its_own(made: list[Any]) -> None:
    x, other = _FakeArray(2, 2), _FakeArray(2, 2)
    tiledmm.matmul(x, x)
    tiledmm.matmul(x, other)
    tiledmm.matmul(other, x)
    assert len(made) == 2, "half the work where C is symmetric"


def test_strides_make_a_plan_of_their_own(made: list[Any]) -> None:
    x, other = _FakeArray(2, 2), _FakeArray(2, 2)
    other.strides = (4, 8)
    tiledmm.matmul(x, x)
    tiledmm.matmul(x, other)
    assert len(made) == 2


def test_the_current_device_makes_a_plan_of_its_own(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = _FakeArray(2, 2)
    tiledmm.matmul(x, x)
    monkeypatch.setattr(plans, "_devices", SimpleNamespace(ndarray=_FakeArray, current_device=lambda: 1))
    tiledmm.matmul(x, x)
    assert len(made) == 2


def test_equal_texts_of_different_axes_are_told_apart(made: list[Any]) -> None:
    x = _FakeArray(2, 2)
    axes = [(0, 1), (0, 1), (0, 1)]
    tiledmm.matmul(x, x, axes=axes)
    tiledmm.matmul(x, x, axes=str(axes))
    assert len(made) == 2


def test_keywords_that_cannot_be_hashed_work_without_a_plan_kept(made: list[Any]) -> None:
    x = _FakeArray(2, 2)
    for _ in range(2):
        tiledmm.matmul(x, x, signature=["f", "f", "f"])
    assert len(made) == 2
    assert not plans._plans


def test_a_plan_that_fails_is_not_kept(made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise ShapeError("no")

    monkeypatch.setattr(plans, "_make_plan", fail)
    with pytest.raises(ShapeError):
        tiledmm.matmul(_FakeArray(2, 2), _FakeArray(2, 2))
    assert not plans._plans


def test_threads_may_fill_the_cache_at_once(made: list[Any]) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        try:
            for size in range(300):
                tiledmm.matmul(_FakeArray(size % 23, number), _FakeArray(number, 2))
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors
    assert len(plans._plans) <= 8 + 8


# ---- precompile ----


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the symbols that ``precompile`` requests."""
    symbols: list[str] = []

    def raw_kernels(kernels: Any, progress: Any) -> None:
        for each in kernels:
            symbols.append(each.symbol)
            if progress is not None:
                progress(SimpleNamespace(symbol=each.symbol))

    fake = SimpleNamespace(raw_kernels=raw_kernels)
    monkeypatch.setitem(sys.modules, "tiledmm.compile.compilation", fake)
    monkeypatch.setitem(sys.modules, "tiledmm.launch.devices", SimpleNamespace(device_model=lambda ieee=False: H100))
    return symbols


def test_precompile_takes_every_tile_and_plain_layout_of_a_variant(compiled: list[str]) -> None:
    assert tiledmm.precompile("tiled") == len(compiled) == len(set(compiled)) == 4 * len(VARIANTS["tiled"].tiles)
    assert tiledmm.precompile("naive") == 4


def test_precompile_for_auto(compiled: list[str]) -> None:
    assert tiledmm.precompile() > 0
    names = {row.variant for row in H100.rates.rows} | {"split_k_reduction", "pack", "decompose"}
    assert all(
        any(symbol.startswith((f"tiledmm_{name}_f32_", f"tiledmm_{name}_f16_")) for name in names)
        for symbol in compiled
    )
    assert sum("split_k_reduction" in symbol for symbol in compiled) == 3, "for few slices and for many"


def test_precompile_for_auto_and_tf32(compiled: list[str]) -> None:
    tiledmm.precompile(dtypes="tf32", layouts=["NT"])
    assert any("_tensor_core_tf32_" in symbol for symbol in compiled)
    assert any("_warp_tiled_f32_" in symbol for symbol in compiled), "which may be faster"
    assert not any("_pack_f32_f32_tf32_" in symbol for symbol in compiled), "what is packed is float32"


def test_precompile_for_auto_compiles_what_the_device_runs(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiledmm.precompile(dtypes="float16", layouts=["NN"])
    assert any("_wgmma_f16_" in symbol for symbol in compiled)
    compiled.clear()
    ampere = SimpleNamespace(device_model=lambda ieee=False: Model(REFERENCE_GPUS["sm_80"]))
    monkeypatch.setitem(sys.modules, "tiledmm.launch.devices", ampere)
    tiledmm.precompile(dtypes="float16", layouts=["NN"])
    assert compiled
    assert not any("_wgmma_" in symbol for symbol in compiled)


@pytest.mark.parametrize(
    "dtypes", ["float64", np.float64, np.dtype("f8"), ["float64"], (np.float64,), iter(["float64"])]
)
def test_precompile_takes_a_type_or_several(compiled: list[str], dtypes: Any) -> None:
    assert tiledmm.precompile("tiled", tiles=[8], dtypes=dtypes, layouts=["NN"]) == 1
    assert "_f64_" in compiled[0]


def test_precompile_takes_iterators(compiled: list[str]) -> None:
    count = tiledmm.precompile(
        iter(["tiled", "tiled_padded"]),
        tiles=iter([8, 16]),
        dtypes=iter(["int8", "int16"]),
        layouts=iter(["NN", "NT"]),
    )
    assert count == len(set(compiled)) == 16


def test_precompile_reports_each_kernel(compiled: list[str]) -> None:
    seen: list[str] = []
    tiledmm.precompile("tiled", tiles=[8], layouts=["NN", "TT"], progress=seen.append)
    assert seen == compiled


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"variants": "nope"}, UnknownVariantError),
        ({"variants": ["tiled", "cublas"]}, ConfigError),
        ({"variants": "tiled", "tiles": [5]}, ConfigError),
        ({"variants": "tiled", "dtypes": ["nope"]}, UnsupportedTypeError),
        ({"variants": "tiled", "layouts": ["XX"]}, ShapeError),
    ],
)
def test_precompile_checks_everything_before_it_compiles(
    compiled: list[str], keywords: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        tiledmm.precompile(**keywords)
    assert not compiled
