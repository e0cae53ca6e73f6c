"""Tests of prepared operands on a stand-in GPU: results, what is launched, streams, memory and graphs.

Needs CuPy, but no GPU.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

import tiledmm
from tests.host_gpu import HostGpu, OutOfDeviceMemory
from tests.launch.test_shared_workspace import DECOMPOSING
from tests.strategies import small_integers, tight
from tiledmm import simulator
from tiledmm.errors import (
    KeywordTypeError,
    OperandTypeError,
    PreparedOperandError,
    ShapeError,
    TiledmmError,
    UnsupportedTypeError,
)
from tiledmm.kernels.variants import find_variant, kernel_variants
from tiledmm.launch import by_cupy, forms, plans
from tiledmm.launch import plan as plan_module
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import UfuncKeywords
from tiledmm.problem.product import resolve
from tiledmm.selection import choice, model, parts, tuned

pytestmark = pytest.mark.cupy

#: Kernels that pack or decompose operands: type, variant, config, and layout.
PREPARING: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("float32", "split_float32", {}, "NN"),
    ("float32", "split_float32", {"split_k": 2}, "TT"),
    ("float32", "split_float32", {"scheme": "tf32x3"}, "NN"),
    ("complex64", "split_float32", {}, "TN"),
    ("float32", "split_tensor_core", {"split_k": 2}, "NT"),
    ("complex64", "split_tensor_core", {}, "NN"),
    ("float64", "split_float64", {}, "NN"),
    ("complex128", "split_float64_tensor_core", {}, "TN"),
    ("int32", "split_integer", {}, "NN"),
    ("uint64", "split_integer", {"split_k": 2}, "TT"),
    ("int8", "wgmma", {}, "TN"),
    ("float16", "warp_tiled", {"pack_a": 1, "pack_b": 1}, "TT"),
    ("bool", "warp_tiled", {"pack_elements": 1}, "NN"),
)
each_kernel = pytest.mark.parametrize(("dtype", "variant", "config", "layout"), PREPARING)

AUXILIARY = {"decompose", "decompose_residues", "decompose_bytes", "pack", "pack_elements", "copy"}


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostGpu]:
    device = HostGpu()
    with pytest.MonkeyPatch.context() as patch:
        device.install(patch, tmp_path_factory.mktemp("cache"))
        patch.setattr(forms, "fingerprint", lambda array: hash(array.held.tobytes()))
        yield device


@pytest.fixture
def h100(gpu: HostGpu) -> HostGpu:
    gpu.become("sm_90")
    gpu.capturing = False
    return gpu


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return integers for integer types, and normal numbers, which no limb represents exactly, for all others."""
    if np.dtype(dtype).kind in "biu":
        return small_integers(rng, shape, dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def placed(gpu: HostGpu, x: np.ndarray, letter: str = "N") -> Any:
    return gpu.array(x, tight(letter, x.ndim - 2) if x.ndim > 1 else None)


def launched(gpu: HostGpu, run: Any) -> tuple[np.ndarray, list[str]]:
    """Return the result of a call, and the names of the kernels that it launched."""
    gpu.launched.clear()
    result = run().held.copy()
    gpu.memory.check()
    return result, [each.variant.name for each in gpu.launched]


def prepare(x: Any, **keywords: Any) -> Any:
    return tiledmm.prepare(x, **keywords)


@each_kernel
def test_results_are_those_without_preparation_bit_for_bit(
    h100: HostGpu, dtype: str, variant: str, config: dict[str, Any], layout: str
) -> None:
    rng = np.random.default_rng(1)
    a, b = (
        placed(h100, values(rng, shape, dtype), letter)
        for shape, letter in zip(((70, 530), (530, 45)), layout, strict=True)
    )
    keywords = {"variant": variant, "config": config or None}
    plain, everything = launched(h100, lambda: tiledmm.matmul(a, b, **keywords))
    for left, right in ((a, prepare(b)), (prepare(a), b), (prepare(a), prepare(b))):
        first, made = launched(h100, lambda x=left, y=right: tiledmm.matmul(x, y, **keywords))
        again, reused = launched(h100, lambda x=left, y=right: tiledmm.matmul(x, y, **keywords))
        np.testing.assert_array_equal(first, plain)
        np.testing.assert_array_equal(again, plain)
        assert sorted(made) == sorted(everything), "the first product makes what later ones reuse"
        left_out = len(everything) - len(reused)
        assert [name for name in everything if name not in AUXILIARY] == [x for x in reused if x not in AUXILIARY]
        prepared = [x for x in (left, right) if isinstance(x, tiledmm.PreparedOperand)]
        assert left_out >= sum(bool(x.held_bytes) for x in prepared) and left_out + 1 >= len(prepared)


@pytest.mark.parametrize("special", [np.nan, np.inf, 1e-30])
@pytest.mark.parametrize(("dtype", "variant"), [("float32", "split_float32"), ("float64", "split_float64")])
def test_what_cannot_be_decomposed_is_remembered(h100: HostGpu, dtype: str, variant: str, special: float) -> None:
    """Check values of either operand that the fallback computes, whichever operand is prepared."""
    rng = np.random.default_rng(2)
    for odd in (0, 1):
        x = [values(rng, (300, 300), dtype) for _ in range(2)]
        x[odd][7] = x[odd][:, 7] = special
        x[odd][7, 7] = 1
        a, b = (placed(h100, each) for each in x)
        plain = tiledmm.matmul(a, b, variant=variant).held.copy()
        for left, right in ((a, prepare(b)), (prepare(a), b), (prepare(a), prepare(b))):
            for _ in range(2):
                found = tiledmm.matmul(left, right, variant=variant).held
                np.testing.assert_array_equal(found, plain)


def test_the_operator(h100: HostGpu) -> None:
    rng = np.random.default_rng(3)
    a, b = placed(h100, values(rng, (300, 300), "float32")), placed(h100, values(rng, (300, 300), "float32"))
    p = prepare(b)
    np.testing.assert_array_equal((a @ p).held, tiledmm.matmul(a, p).held)
    np.testing.assert_array_equal((p @ a).held, tiledmm.matmul(p, a).held)
    np.testing.assert_array_equal((p @ p).held, tiledmm.matmul(p, p).held)
    assert type(a @ p).__mro__[1] is cupy.ndarray
    assert "(300, 300)" in repr(p) and "float32" in repr(p)
    with pytest.raises(OperandTypeError):
        a.held @ p
    with pytest.raises(OperandTypeError):
        p @ 3
    assert (p.ndim, p.size, p.itemsize, p.array) == (2, 90_000, 4, b)


def test_shapes_share_a_form(h100: HostGpu) -> None:
    """Check that products with few and with many rows, and parts of C, read the same limbs."""
    rng = np.random.default_rng(4)
    b = placed(h100, values(rng, (600, 512), "float32"))
    p = prepare(b)
    held = []
    for m in (300, 1, 64, 700):
        x = placed(h100, values(rng, (m, 600), "float32"))
        found, names = launched(h100, lambda x=x: tiledmm.matmul(x, p, variant="split_float32"))
        np.testing.assert_array_equal(found, tiledmm.matmul(x, b, variant="split_float32").held)
        held.append((p.held_bytes, names.count("decompose")))
    assert held == [(held[0][0], 2), *[(held[0][0], 1)] * 3]
    x = placed(h100, values(rng, (64, 600), "float32"))
    for keywords in ({"variant": "split_tensor_core"}, {"variant": "split_float32", "config": {"split_k": 2}}):
        _, names = launched(h100, lambda keywords=keywords: tiledmm.matmul(x, p, **keywords))
        assert names.count("decompose") == 1 and p.held_bytes == held[0][0], "kernels of one scheme share limbs"
    tiledmm.matmul(p, placed(h100, values(rng, (512, 40), "float32")), variant="split_float32")
    assert p.held_bytes > held[0][0], "K is the other axis"


def test_rows_of_other_lengths_have_other_forms(h100: HostGpu) -> None:
    """Check two operands whose kernels have the same name and size, but read other strides."""
    rng = np.random.default_rng(23)
    a, wide = placed(h100, values(rng, (20, 300), "float32")), placed(h100, values(rng, (300, 64), "float32"))
    for b in (placed(h100, wide.held[:, :32].copy()), h100.over(wide.held[:, :32])):
        found = tiledmm.matmul(a, prepare(b), variant="split_float32").held
        np.testing.assert_array_equal(found, tiledmm.matmul(a, b, variant="split_float32").held)


def test_products_that_are_computed_transposed(h100: HostGpu) -> None:
    rng = np.random.default_rng(24)
    a, b = placed(h100, values(rng, (900, 1000), "float32")), placed(h100, values(rng, (1000, 700), "float32"))
    out = placed(h100, np.zeros((900, 700), "f4"), "T")
    plain = tiledmm.matmul(a, b, variant="split_float32", out=out).held.copy()
    p, q = prepare(b), prepare(a)
    for left, right, names in ((a, p, ["x2"]), (q, b, ["x1"]), (q, p, ["x1", "x2"])):
        for _ in range(2):
            found = tiledmm.matmul(left, right, variant="split_float32", out=out).held
            np.testing.assert_array_equal(found, plain)
        explained = tiledmm.explain(left, right, out)
        assert explained.product.is_transposed and [each.name for each in explained.prepared] == names
        assert all(each.bytes for each in explained.prepared)


def test_tuned_tables_are_of_products_that_prepare_their_operands(h100: HostGpu) -> None:
    a, b = placed(h100, np.ones((600, 300), "f4")), placed(h100, np.ones((300, 600), "f4"))
    path = tuned.path_of(h100.gpu.name)
    described = tuned.describe_product(resolve(describe(a), describe(b)))
    tuned.add(path, tuned.stamped(tuned.Entry(described, "float32", "double_buffered", False, {}, 1.0, 1.0)))
    plans.forget_plans()
    try:
        for right, is_tuned in ((b, True), (prepare(b), False)):
            _, names = launched(h100, lambda right=right: tiledmm.matmul(a, right))
            assert (names == ["double_buffered"]) is is_tuned
    finally:
        path.unlink()
        tuned.table_of.cache_clear()
        plans.forget_plans()


def test_a_kernel_that_prepares_nothing_reads_the_array(h100: HostGpu) -> None:
    rng = np.random.default_rng(5)
    a, b = placed(h100, values(rng, (33, 40), "float32")), placed(h100, values(rng, (40, 21), "float32"))
    p = prepare(b)
    found, names = launched(h100, lambda: tiledmm.matmul(a, p, variant="tiled", tile=16))
    np.testing.assert_array_equal(found, tiledmm.matmul(a, b, variant="tiled", tile=16).held)
    assert names == ["tiled"] and p.held_bytes == 0


def test_short_sums_are_computed_in_place(h100: HostGpu) -> None:
    rng = np.random.default_rng(6)
    a, b = placed(h100, values(rng, (300, 100), "float32")), placed(h100, values(rng, (100, 300), "float32"))
    found, names = launched(h100, lambda: tiledmm.matmul(a, prepare(b), variant="split_float32"))
    np.testing.assert_array_equal(found, tiledmm.matmul(a, b, variant="split_float32").held)
    assert names == ["warp_tiled"]


@pytest.mark.parametrize(
    ("batch", "of_b"),
    [((), ()), ((3,), ()), ((), (3,)), ((3,), (3,)), ((2, 1), (2, 3)), ((2, 3, 1, 2, 2), (2, 3, 2, 2, 2)),
     ((2, 1, 2, 1, 2), (1, 2, 1, 2, 1))],
)  # fmt: skip
def test_batches(h100: HostGpu, batch: tuple[int, ...], of_b: tuple[int, ...]) -> None:
    """Check batches; those of the last case have more dimensions than a kernel addresses."""
    rng = np.random.default_rng(7)
    a = placed(h100, values(rng, (*batch, 20, 300), "float32"))
    b = placed(h100, values(rng, (*of_b, 300, 9), "float32"))
    p, q = prepare(b), prepare(a)
    plain = tiledmm.matmul(a, b, variant="split_float32").held.copy()
    for left, right in ((a, p), (q, b), (q, p), (a, p)):
        np.testing.assert_array_equal(tiledmm.matmul(left, right, variant="split_float32").held, plain)


@pytest.mark.parametrize(("shape", "other"), [((300,), (300, 40)), ((300,), (300,)), ((0, 300), (300, 40)),
                                              ((40, 0), (0, 30)), ((40, 300), (300, 0))])  # fmt: skip
def test_vectors_and_empty_arrays(h100: HostGpu, shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    a, b = placed(h100, values(rng, shape, "float32")), placed(h100, values(rng, other, "float32"))
    for variant in ("auto", "split_float32"):
        plain = tiledmm.matmul(a, b, variant=variant).held.copy()
        for left, right in ((a, prepare(b)), (prepare(a), b), (prepare(a), prepare(b))):
            found = tiledmm.matmul(left, right, variant=variant)
            assert found.shape == plain.shape
            np.testing.assert_array_equal(found.held, plain)


def test_gemm(h100: HostGpu) -> None:
    rng = np.random.default_rng(9)
    a, b, c, bias = (placed(h100, values(rng, shape, "float32")) for shape in ((70, 300), (300, 40), (70, 40), (40,)))
    p = prepare(b)
    for keywords in ({"bias": bias, "activation": "relu"}, {"c": c, "alpha": 2, "beta": 0.5}, {"c": c, "beta": 1}):
        for variant in ("split_float32", "warp_tiled", "auto"):
            plain = tiledmm.gemm(a, b, **keywords, variant=variant).held.copy()
            atol = 1e-4 if variant == "auto" else 0  # which may choose another kernel
            for _ in range(2):
                found = tiledmm.gemm(a, p, **keywords, variant=variant).held
                np.testing.assert_allclose(found, plain, rtol=0, atol=atol)
    into = placed(h100, c.held)
    assert tiledmm.gemm(a, p, into, beta=1, out=into, variant="split_float32") is into
    np.testing.assert_array_equal(into.held, tiledmm.gemm(a, b, c, beta=1, variant="split_float32").held)
    np.testing.assert_array_equal(tiledmm.gemm(a, p, c, alpha=0, beta=2).held, 2 * c.held)


def test_a_matrix_times_its_transpose(h100: HostGpu) -> None:
    rng = np.random.default_rng(10)
    x = placed(h100, values(rng, (200, 300), "float32"))
    t = h100.over(x.held.T)
    for variant in ("split_float32", "auto", "split_tensor_core"):
        plain = tiledmm.matmul(x, t, variant=variant).held.copy()
        for left, right in ((prepare(x), t), (x, prepare(t)), (prepare(x), prepare(t))):
            for _ in range(2):
                np.testing.assert_array_equal(tiledmm.matmul(left, right, variant=variant).held, plain)


def test_types_that_are_converted_first(h100: HostGpu) -> None:
    rng = np.random.default_rng(11)
    a, b = placed(h100, values(rng, (40, 300), "float32")), placed(h100, small_integers(rng, (300, 30), "int32"))
    for left, right in ((a, prepare(b)), (prepare(a), b), (prepare(a), prepare(b))):
        for dtype in ("float64", "int32"):
            plain = tiledmm.matmul(a, b, dtype=dtype, casting="unsafe").held
            found = tiledmm.matmul(left, right, dtype=dtype, casting="unsafe").held
            np.testing.assert_array_equal(found, plain)
    names = [each.name for each in tiledmm.explain(prepare(a), prepare(b), dtype="int32", casting="unsafe").prepared]
    assert names == ["x2"], "the other is converted in each product"


def test_an_operand_that_tma_cannot_read_where_it_lies(h100: HostGpu) -> None:
    rng = np.random.default_rng(12)
    x, y = values(rng, (64, 128), "float16"), values(rng, (128, 64), "float16")
    shifted = h100.array(np.zeros(y.size + 1, "f2")).held[1:].reshape(y.shape)
    shifted[...] = y
    a, b = placed(h100, x), h100.over(shifted)
    p = prepare(b)
    plain, names = launched(h100, lambda: tiledmm.matmul(a, b, variant="wgmma"))
    assert names == ["pack", "pack", "wgmma"]
    for expected in (["pack", "pack", "wgmma"], ["pack", "wgmma"]):
        found, names = launched(h100, lambda: tiledmm.matmul(a, p, variant="wgmma"))
        np.testing.assert_array_equal(found, plain)
        assert sorted(names) == sorted(expected)
    eager = prepare(b, left=(64, 128))
    assert eager.held_bytes == (p.held_bytes if "wgmma" in str(tiledmm.explain(a, eager)) else 0)


def test_forms_can_be_made_at_once(h100: HostGpu) -> None:
    rng = np.random.default_rng(13)
    a, b = placed(h100, values(rng, (900, 1000), "float32")), placed(h100, values(rng, (1000, 1000), "float32"))
    h100.launched.clear()
    p = prepare(b, left=(900, 1000), right=(1000, 800))
    assert [each.variant.name for each in h100.launched] == ["decompose", "decompose"] and p.held_bytes
    right = placed(h100, values(rng, (1000, 800), "float32"))
    for run in (lambda: tiledmm.matmul(a, p), lambda: tiledmm.matmul(p, right)):
        _, names = launched(h100, run)
        assert names.count("decompose") == 1 and any(name.startswith("split") for name in names)
    h100.launched.clear()
    prepare(b, left=(900, 1000), precision="ieee")
    assert not h100.launched
    with pytest.raises(ShapeError):
        prepare(b, left=(900, 1001))
    with pytest.raises(TiledmmError):
        prepare(b, left=(900, 1000), precision="tf23")
    assert prepare(b, left=a).held_bytes == prepare(b, left=(900, 1000)).held_bytes > 0
    for wrong in (3, "x"):
        with pytest.raises(OperandTypeError, match="right"):
            prepare(b, right=wrong)
    h100.most = 1000
    with pytest.raises(MemoryError):
        prepare(b, left=(900, 1000))


def test_memory_is_freed_with_the_operand(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(14)
    a, b = placed(h100, values(rng, (400, 800), "float32")), placed(h100, values(rng, (800, 800), "float32"))
    variant = "split_float32"
    freed: list[int] = []

    class Memory:
        def __init__(self, size: int) -> None:
            self.size, self.ptr = size, h100.memory.allocate(size)

        def __del__(self) -> None:
            freed.append(self.size)

    monkeypatch.setattr(forms.cupy.cuda, "alloc", Memory)
    p = prepare(b)
    tiledmm.matmul(a, p, variant=variant)
    size = p.held_bytes
    assert size and size not in freed
    del p
    gc.collect()
    assert size in freed


def test_without_memory_for_a_form_the_product_prepares_its_operands(h100: HostGpu) -> None:
    rng = np.random.default_rng(15)
    a, b = placed(h100, values(rng, (30, 800), "float32")), placed(h100, values(rng, (800, 800), "float32"))
    out = h100.array(np.zeros((30, 800), "f4"))
    p = prepare(b)
    kernel = str(tiledmm.explain(a, p).best)
    assert "split" in kernel
    plain, names = launched(h100, lambda: tiledmm.matmul(a, p, out=out))
    held = p.held_bytes
    for most in (held - 1, 0):
        q = prepare(b)
        h100.most = most
        for _ in range(2):
            found, names = launched(h100, lambda q=q: tiledmm.matmul(a, q, out=out))
            np.testing.assert_allclose(found, plain, rtol=0, atol=1e-4)
            assert q.held_bytes == 0 and len(names) == 1, names
        h100.most = None
        found, names = launched(h100, lambda q=q: tiledmm.matmul(a, q, out=out))
        np.testing.assert_array_equal(found, plain)
        assert q.held_bytes == held, "there is memory again"
    h100.most = 0
    with pytest.raises(MemoryError, match="workspace"):
        tiledmm.matmul(a, prepare(b), out=out, variant="split_float32")


def test_with_memory_for_a_small_workspace_only(h100: HostGpu) -> None:
    """The workspaces of several kernels do not fit, and kernels that read forms need none."""
    rng = np.random.default_rng(26)
    a, b = placed(h100, values(rng, (128, 2048), "float32")), placed(h100, values(rng, (2048, 2048), "float32"))
    out = h100.array(np.zeros((128, 2048), "f4"))
    plain, _ = launched(h100, lambda: tiledmm.matmul(a, b, out=out))
    p = prepare(b)
    h100.most = 4 << 20
    for _ in range(2):
        found, _ = launched(h100, lambda: tiledmm.matmul(a, p, out=out))
        np.testing.assert_allclose(found, plain, rtol=0, atol=1e-3)
        assert p.held_bytes == 0


@pytest.mark.parametrize("error", [MemoryError(), OutOfDeviceMemory(), KeyError()])
def test_a_form_that_is_not_kept_is_made_in_the_workspace(
    h100: HostGpu, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(25)
    a, b = placed(h100, values(rng, (30, 300), "float32")), placed(h100, values(rng, (300, 80), "float32"))
    plain, everything = launched(h100, lambda: tiledmm.matmul(a, b, variant="split_float32"))

    def refuse(self: Any, form: Any) -> int:
        raise error

    monkeypatch.setattr(forms.DeviceForms, "address", refuse)
    p = prepare(b)
    for _ in range(2):
        if isinstance(error, KeyError):
            with pytest.raises(KeyError):
                tiledmm.matmul(a, p, variant="split_float32")
            continue
        found, names = launched(h100, lambda: tiledmm.matmul(a, p, variant="split_float32"))
        np.testing.assert_array_equal(found, plain)
        assert names == everything, "the same kernels"


def test_streams_wait_until_a_form_is_made(h100: HostGpu) -> None:
    rng = np.random.default_rng(16)
    a, b = placed(h100, values(rng, (300, 300), "float32")), placed(h100, values(rng, (300, 300), "float32"))
    h100.launched.clear()
    h100.waited.clear()
    p = prepare(b)
    tiledmm.matmul(a, p, variant="split_float32")
    readable, written = h100.waited
    assert (readable.after, written.after) == (0, 1), "the array, and its limbs once the first kernel has run"
    tiledmm.matmul(a, p, variant="split_float32")
    assert h100.waited == [readable, written] * 2, "on any stream, as long as the device has not come so far"
    readable.done = written.done = True
    for _ in range(2):
        tiledmm.matmul(a, p, variant="split_float32")
    assert len(h100.waited) == 4
    q = prepare(b)
    tiledmm.matmul(a, q, variant="tiled")
    assert len(h100.waited) == 5, "also where the array is read in place"
    tiledmm.matmul(q, placed(h100, small_integers(rng, (300, 3), "int64")), dtype="int64", casting="unsafe")
    assert len(h100.waited) == 6, "and where it is converted"


def test_graphs(h100: HostGpu) -> None:
    rng = np.random.default_rng(17)
    a, b = placed(h100, values(rng, (300, 300), "float32")), placed(h100, values(rng, (300, 300), "float32"))
    p = prepare(b)
    tiledmm.matmul(a, p, variant="split_float32")
    h100.capturing = True
    h100.waited.clear()
    _, names = launched(h100, lambda: tiledmm.matmul(a, p, variant="split_float32"))
    assert names.count("decompose") == 1 and not h100.waited
    assert [each.synchronized for each in h100.events[-2:]] == [1, 1], "the host has waited"
    with pytest.raises(PreparedOperandError, match="limbs of B"):
        tiledmm.matmul(a, p, variant="split_float32", precision="tf32x3")
    with pytest.raises(PreparedOperandError):
        prepare(b)
    h100.capturing = False
    tiledmm.matmul(a, p, variant="split_float32", precision="tf32x3")
    q = prepare(b, check=True)
    tiledmm.matmul(a, q)
    h100.capturing = True
    with pytest.raises(PreparedOperandError, match="check"):
        tiledmm.matmul(a, q)


@pytest.mark.parametrize(
    "keywords", [{}, {"variant": "tiled"}, {"dtype": "float64"}, {"dtype": "int64", "casting": "unsafe"}]
)
def test_a_changed_array_is_found(h100: HostGpu, keywords: dict[str, Any]) -> None:
    rng = np.random.default_rng(18)
    a, b = placed(h100, values(rng, (60, 300), "float32")), placed(h100, values(rng, (300, 30), "float32"))
    p = prepare(b, check=True)
    plain = tiledmm.matmul(a, b, **keywords).held.copy()
    np.testing.assert_allclose(tiledmm.matmul(a, p, **keywords).held, plain, rtol=0, atol=1e-4)
    b.held[299, 29] += 10
    with pytest.raises(PreparedOperandError, match=r"\(300, 30\)"):
        tiledmm.matmul(a, p, **keywords)
    with pytest.raises(RuntimeError):
        tiledmm.gemm(a, p, alpha=2)
    again = tiledmm.matmul(a, tiledmm.prepare(p, check=True), **keywords)
    assert abs(again.held - plain).max() > 1, "prepared anew"


def test_threads_make_a_form_once(h100: HostGpu) -> None:
    rng = np.random.default_rng(19)
    a, b = placed(h100, values(rng, (64, 300), "float32")), placed(h100, values(rng, (300, 64), "float32"))
    plain = tiledmm.matmul(a, b, variant="split_float32").held.copy()
    p, found, start = prepare(b), list[Any](), threading.Barrier(4)

    def work() -> None:
        start.wait()
        found.append(tiledmm.matmul(a, p, variant="split_float32").held)

    h100.launched.clear()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.array_equal(each, plain) for each in found)
    assert [each.variant.name for each in h100.launched].count("decompose") == 5, "of A in each product, of B in one"


def test_parts_that_share_a_workspace(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(h100._models, (h100.gpu.name, False), DECOMPOSING)
    monkeypatch.setattr(choice, "MOST_APART", 0)
    monkeypatch.setattr(model, "MOST_APART", 0)
    monkeypatch.setattr(parts, "_GRID_TILE", 32)
    rng = np.random.default_rng(20)
    for dtype in ("float32", "float64", "int32"):
        a, b = placed(h100, values(rng, (130, 700), dtype)), placed(h100, values(rng, (700, 120), dtype))
        product = resolve(describe(a), describe(b))
        variant = find_variant(next(DECOMPOSING.kernels_for(product.compute)).variant)
        size = variant.operands.prepared_bytes(product.problem, variant.computes_in(product.compute))
        for row in kernel_variants():
            monkeypatch.setattr(type(row.operands), "most_bytes", int(size / 2.2))
        plain = tiledmm.matmul(a, b).held.copy()
        p, q = prepare(b), prepare(a)
        plan = plans.plan_of(a, p, None, tuple(UfuncKeywords()), ("auto", None, None, "full"))
        assert len(plan.choice.parts) > 1  # type: ignore[attr-defined]
        for left, right in ((a, p), (q, b), (q, p)):
            for _ in range(2):
                np.testing.assert_array_equal(tiledmm.matmul(left, right).held, plain)


def test_what_is_no_operand(h100: HostGpu) -> None:
    b = placed(h100, np.ones((30, 30), "f4"))
    p = prepare(b)
    for x in (np.ones((3, 3), "f4"), 3, None, "b"):
        with pytest.raises(OperandTypeError):
            prepare(x)
    with pytest.raises(UnsupportedTypeError):
        prepare(placed(h100, np.ones((3, 3), "M8[s]")))
    with pytest.raises(ShapeError):
        prepare(h100.array(np.float32(1)))
    for call in (tiledmm.matmul, tiledmm.gemm):
        with pytest.raises(OperandTypeError, match="out"):
            call(b, b, out=p)
        with pytest.raises(OperandTypeError, match="out"):
            call(b, p, out=p)
    with pytest.raises(KeywordTypeError, match="c must"):
        tiledmm.gemm(b, b, p, beta=1)
    with pytest.raises(KeywordTypeError, match="bias"):
        tiledmm.gemm(b, b, bias=p)
    with pytest.raises(ShapeError):
        p @ placed(h100, np.ones((29, 30), "f4"))
    of_simulator = simulator.prepare(np.ones((30, 30), "f4"))
    for call in (tiledmm.matmul, tiledmm.gemm):
        with pytest.raises(OperandTypeError, match="simulator"):
            call(b, of_simulator)
        with pytest.raises(OperandTypeError, match="simulator"):
            call(of_simulator, b)
    with pytest.raises(OperandTypeError):
        simulator.matmul(np.ones((30, 30), "f4"), p)
    with pytest.raises(OperandTypeError):
        prepare(of_simulator)


def test_cublas_gets_the_array(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(by_cupy, "cupy_matmul", lambda *operands, **keywords: seen.append(operands))
    b = placed(h100, np.ones((30, 30), "f4"))
    tiledmm.matmul(b, prepare(b), variant="cublas")
    assert len(seen) == 1 and all(x is b for x in seen[0])


def test_each_launch_can_be_called_by_itself(h100: HostGpu) -> None:
    rng = np.random.default_rng(21)
    a, b = placed(h100, values(rng, (64, 300), "float32")), placed(h100, values(rng, (300, 64), "float32"))
    p, out = prepare(b), h100.array(np.zeros((64, 64), "f4"))
    plan: Any = plans.plan_of(a, p, out, tuple(UfuncKeywords()), ("split_float32", None, None, "full"))
    for call in plan.launch_functions(a, p, out):
        call()
    np.testing.assert_array_equal(out.held, tiledmm.matmul(a, b, variant="split_float32").held)
    assert isinstance(plan, plan_module.Plan)


def test_explain(h100: HostGpu) -> None:
    rng = np.random.default_rng(22)
    a, b = placed(h100, values(rng, (900, 1000), "float32")), placed(h100, values(rng, (1000, 1000), "float32"))
    p = prepare(b)
    before = tiledmm.explain(a, p)
    (reused,) = before.prepared
    tiledmm.matmul(a, p)
    (after,) = tiledmm.explain(a, p).prepared
    assert (reused.name, reused.held_bytes) == ("x2", 0) and after.held_bytes == p.held_bytes == reused.bytes > 0
    assert f"{p.held_bytes:,} bytes" in str(tiledmm.explain(a, p)) and "limbs of B" in str(tiledmm.explain(a, p))
    assert before.expected_us < tiledmm.explain(a, b).expected_us and not tiledmm.explain(a, b).prepared
    (in_place,) = tiledmm.explain(a, p, precision="ieee").prepared
    assert in_place.bytes == 0 and "in place" in str(in_place)
    both = tiledmm.explain(prepare(a), p).prepared
    assert [each.name for each in both] == ["x1", "x2"] and both[0].held_bytes == 0
