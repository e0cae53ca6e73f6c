"""Tests of prepared operands on a device: bits, streams, graphs, threads, memory, and what check=True finds."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import cupy
import ml_dtypes
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import matrix_layout, to_device, to_host
from tests.gpu.test_streams import CYCLES, SPIN, captured, in_threads
from tests.strategies import small_integers
from tiledmm.elements import ELEMENTS
from tiledmm.errors import OperandTypeError, PreparedOperandError
from tiledmm.kernels.variants import find_variant
from tiledmm.launch.forms import fingerprint

CAPABILITY = divmod(int(cupy.cuda.Device().compute_capability), 10)

#: Kernels that pack or decompose operands: type, variant, config, and layout.
PREPARING: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("float32", "split_float32", {}, "NN"),
    ("float32", "split_float32", {"split_k": 3}, "TT"),
    ("float32", "split_float32", {"scheme": "tf32x3"}, "NN"),
    ("float32", "split_float32", {"scheme": "bf16x9"}, "NT"),
    ("complex64", "split_float32", {}, "TN"),
    ("float32", "split_tensor_core", {"split_k": 2}, "NT"),
    ("complex64", "split_tensor_core", {}, "NN"),
    ("float64", "split_float64", {}, "NN"),
    ("complex128", "split_float64", {}, "TN"),
    ("float64", "split_float64_tensor_core", {}, "NT"),
    ("int32", "split_integer", {}, "NN"),
    ("uint64", "split_integer", {"split_k": 2}, "TT"),
    ("int8", "wgmma", {}, "TN"),
    ("float16", "wgmma", {"pack_a": 1, "pack_b": 1}, "NN"),
    ("float16", "warp_tiled", {"pack_a": 1, "pack_b": 1}, "TT"),
    ("bool", "warp_tiled", {"pack_elements": 1}, "NN"),
)
RUN = [each for each in PREPARING if find_variant(each[1]).runs_on(CAPABILITY, ELEMENTS[each[0]])]
#: The variant that decomposes float32 on this device.
SPLIT = next((variant for _, variant, *_ in RUN if variant.startswith("split_") and "64" not in variant), None)
needs_split = pytest.mark.skipif(SPLIT is None, reason="needs compute capability 8.0 or newer")


def values(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Return integers for integer types, and normal numbers, which no limb represents exactly, for all others."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "biu":
        return small_integers(rng, shape, dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def same_bits(found: Any, expected: Any, what: str = "") -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    one, other = (cupy.ascontiguousarray(x).view("u1") for x in (found, expected))
    assert cupy.array_equal(one, other), what


@pytest.mark.parametrize(("dtype", "variant", "config", "layout"), RUN)
@pytest.mark.parametrize("sizes", [(70, 45, 530), (513, 300, 2049), (1, 64, 1024)])
def test_results_are_those_without_preparation_bit_for_bit(
    dtype: str, variant: str, config: dict[str, Any], layout: str, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    a, b = (
        to_device(values(seed, shape, dtype), matrix_layout(letter))
        for seed, shape, letter in zip((1, 2), ((m, k), (k, n)), layout, strict=True)
    )
    keywords: dict[str, Any] = {"variant": variant, "config": config or None}
    plain = tiledmm.matmul(a, b, **keywords)
    p, q = tiledmm.prepare(b), tiledmm.prepare(a)
    for left, right in ((a, p), (a, p), (q, b), (q, p), (q, p)):
        same_bits(tiledmm.matmul(left, right, **keywords), plain)
    assert p.held_bytes or q.held_bytes


@needs_split
@pytest.mark.parametrize("special", [np.nan, np.inf, 1e-30, 3e38])
@pytest.mark.parametrize("odd", [0, 1])
def test_values_that_cannot_be_decomposed(special: float, odd: int) -> None:
    x = [values(3, (300, 300)), values(4, (300, 300))]
    x[odd][7], x[odd][:, 7] = special, special
    a, b = map(to_device, x)
    plain = tiledmm.matmul(a, b, variant=SPLIT)
    p, q = tiledmm.prepare(b), tiledmm.prepare(a)
    for left, right in ((a, p), (a, p), (q, b), (q, p), (q, p)):
        np.testing.assert_array_equal(to_host(tiledmm.matmul(left, right, variant=SPLIT)), to_host(plain))


def test_the_operator_and_gemm() -> None:
    a, b, c = to_device(values(5, (200, 300))), to_device(values(6, (300, 200))), to_device(values(7, (200, 200)))
    p = tiledmm.prepare(b)
    same_bits(a @ p, tiledmm.matmul(a, p))
    same_bits(p @ a, tiledmm.matmul(p, a))
    assert isinstance(a @ p, cupy.ndarray)
    with tiledmm.replacing():
        same_bits(a @ p, tiledmm.matmul(a, p))
    with pytest.raises(OperandTypeError):
        a.get() @ p
    keywords: dict[str, Any] = {"c": c, "beta": 0.5, "alpha": 2, "bias": c[0], "activation": "relu"}
    for variant in filter(None, ("warp_tiled", SPLIT)):
        plain = tiledmm.gemm(a, b, **keywords, variant=variant)
        for _ in range(2):
            same_bits(tiledmm.gemm(a, p, **keywords, variant=variant), plain)
    out = c.copy()
    assert tiledmm.gemm(a, p, out, beta=1, out=out) is out
    cupy.testing.assert_allclose(out, c + a @ b, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "int8", "float16"])
def test_auto_at_many_sizes(dtype: str) -> None:
    b = to_device(values(8, (2048, 2048), dtype))
    p = tiledmm.prepare(b)
    for m in (1, 4, 64, 500, 2048):
        a = to_device(values(9, (m, 2048), dtype))
        for left, right, plain in ((a, p, (a, b)), (p, a.T, (b, a.T))):
            expected = tiledmm.matmul(*plain)
            for _ in range(2):
                found = tiledmm.matmul(left, right)
                if np.dtype(dtype).kind in "iu":
                    same_bits(found, expected)
                    continue
                tolerance = {"float16": 0.5, "float64": 1e-10}.get(dtype, 1e-3)
                cupy.testing.assert_allclose(
                    found.astype("D"), expected.astype("D"), rtol=0, atol=tolerance, err_msg=f"{dtype} {m}"
                )


@needs_split
def test_batches_and_many_dimensions() -> None:
    for of_a, of_b in (((3,), ()), ((2, 3), (3,)), ((), (5,)), ((2, 1, 2, 1, 2), (1, 2, 1, 2, 1))):
        a, b = to_device(values(10, (*of_a, 65, 300))), to_device(values(11, (*of_b, 300, 70)))
        plain = tiledmm.matmul(a, b, variant=SPLIT)
        p = tiledmm.prepare(b)
        for _ in range(2):
            same_bits(tiledmm.matmul(a, p, variant=SPLIT), plain, f"{of_a} {of_b}")


@needs_split
def test_a_matrix_times_its_transpose() -> None:
    x = to_device(values(12, (700, 600)))
    for variant in ("auto", SPLIT):
        plain = tiledmm.matmul(x, x.T, variant=variant)
        p, q = tiledmm.prepare(x), tiledmm.prepare(x.T)
        for left, right in ((p, x.T), (x, q), (p, q)):
            for _ in range(2):
                cupy.testing.assert_allclose(tiledmm.matmul(left, right, variant=variant), plain, rtol=0, atol=1e-3)


@needs_split
def test_a_form_is_complete_before_another_stream_reads_it() -> None:
    """Check that streams wait for the array and for its limbs, both of which are written late."""
    left, right = values(13, (64, 2048)), values(14, (2048, 2048))
    a, b, zeros = to_device(left), to_device(right), cupy.zeros((2048, 2048), "f4")
    expected = tiledmm.matmul(a, b, variant=SPLIT)
    tiledmm.matmul(a, tiledmm.prepare(b), variant=SPLIT)  # compiled and loaded
    cupy.copyto(cupy.empty_like(zeros), b)
    cupy.cuda.runtime.deviceSynchronize()
    first, second, third = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))
    with first:
        SPIN((1,), (1,), (CYCLES,))
        cupy.copyto(zeros, b)
        p = tiledmm.prepare(zeros)
    with second:  # makes the form, and must wait for the copy
        results = [tiledmm.matmul(a, p, variant=SPLIT)]
    with third:  # must wait for the form
        results += [tiledmm.matmul(a, p, variant=SPLIT), tiledmm.matmul(a, p, variant="warp_tiled")]
    for stream in (first, second, third):
        stream.synchronize()
    same_bits(results[0], expected)
    same_bits(results[1], expected)
    cupy.testing.assert_allclose(results[2], expected, rtol=0, atol=1e-3)


@needs_split
def test_products_that_follow_each_other_closely() -> None:
    """Check launches that may begin before the one before them has ended, right after a form was made."""
    b = to_device(values(15, (1024, 1024)))
    xs = [to_device(values(16 + i, (64, 1024))) for i in range(4)]
    expected = [tiledmm.matmul(x, b, variant=SPLIT) for x in xs]
    both = [tiledmm.prepare(x, right=(1024, 1024)) for x in xs]
    for _ in range(20):
        p = tiledmm.prepare(b)
        found = [tiledmm.matmul(x, p, variant=SPLIT) for x in itertools.chain(xs, both)]
        for one, other in zip(found, expected * 2, strict=True):
            same_bits(one, other)


@needs_split
def test_graphs() -> None:
    a, b = to_device(values(20, (64, 512))), to_device(values(21, (512, 512)))
    expected, out = tiledmm.matmul(a, b, variant=SPLIT), cupy.zeros((64, 512), "f4")
    p = tiledmm.prepare(b)
    with pytest.raises(PreparedOperandError, match="captured"):
        captured(lambda: tiledmm.matmul(a, p, out=out, variant=SPLIT))
    tiledmm.matmul(a, p, out=out, variant=SPLIT)
    out.fill(0)
    stream, graph = captured(lambda: tiledmm.matmul(a, p, out=out, variant=SPLIT))
    for _ in range(2):
        out.fill(0)
        cupy.cuda.runtime.deviceSynchronize()
        graph.launch(stream)
        stream.synchronize()
        same_bits(out, expected)
    with pytest.raises(PreparedOperandError):
        captured(lambda: tiledmm.prepare(b))


@needs_split
def test_threads_share_an_operand() -> None:
    b = to_device(values(22, (512, 512)))
    p = tiledmm.prepare(b)
    xs = [to_device(values(30 + i, (64, 512))) for i in range(8)]
    expected = [tiledmm.matmul(x, b, variant=SPLIT) for x in xs]
    cupy.cuda.runtime.deviceSynchronize()

    def work(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            found = [tiledmm.matmul(xs[number], p, variant=SPLIT) for _ in range(20)]
            stream.synchronize()
            for each in found:
                same_bits(each, expected[number])

    in_threads(8, work)
    q = tiledmm.prepare(b)
    tiledmm.matmul(xs[0], q, variant=SPLIT)
    assert p.held_bytes == q.held_bytes, "made once"


@needs_split
def test_memory_is_freed_with_the_operand() -> None:
    a, b = to_device(values(23, (64, 1024))), to_device(values(24, (1024, 1024)))
    tiledmm.matmul(a, b, variant=SPLIT)
    gc.collect()
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    p = tiledmm.prepare(b)
    tiledmm.matmul(a, p, variant=SPLIT)
    held = p.held_bytes
    assert 0 < held <= pool.used_bytes() - before < held + 4096
    del p
    gc.collect()
    assert pool.used_bytes() == before


@needs_split
def test_without_memory_for_a_form() -> None:
    a, b = to_device(values(25, (64, 2048))), to_device(values(26, (2048, 2048)))
    expected = tiledmm.matmul(a, b)
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=4 << 20)
    with cupy.cuda.using_allocator(pool.malloc):
        p = tiledmm.prepare(b)
        for _ in range(2):
            cupy.testing.assert_allclose(tiledmm.matmul(a, p), expected, rtol=0, atol=1e-3)
        assert p.held_bytes == 0
        if tiledmm.explain(a, p).prepared[0].bytes:
            with pytest.raises(MemoryError):
                tiledmm.prepare(b, left=a.shape)
    pool.free_all_blocks()


@pytest.mark.parametrize("dtype", list(ELEMENTS))
def test_every_changed_element_is_found(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = to_device(np.ones((3, 33, 65), kind))
    views = {"all": x, "strided": x[::2, 1:, ::-3], "transposed": x.swapaxes(0, 2), "vector": x[1, 2]}
    for name, view in views.items():
        before = fingerprint(view)
        assert before == fingerprint(view)
        for at in ((0,) * view.ndim, (-1,) * view.ndim):
            raw = view[at].reshape(1).view("u1")
            raw ^= 1
            assert fingerprint(view) != before, f"{name} {at}"
            raw ^= 1
        assert fingerprint(view) == before
    if x.dtype.kind != "b":
        swapped = to_device(np.arange(8).astype(kind))
        before, raw = fingerprint(swapped), swapped.view("u1").reshape(8, -1)
        raw[2:4] = raw[2:4][::-1].copy()
        assert fingerprint(swapped) != before, "elements that change places"


def test_a_changed_array_is_found() -> None:
    a, b = to_device(values(27, (60, 300))), to_device(values(28, (300, 30)))
    p, unchecked = tiledmm.prepare(b, check=True), tiledmm.prepare(b)
    tiledmm.matmul(a, p)
    b[299, 29] += 1
    for keywords in ({}, {"variant": "tiled"}, {"variant": "cublas"}, {"dtype": "int64", "casting": "unsafe"}):
        with pytest.raises(PreparedOperandError, match=r"\(300, 30\)"):
            tiledmm.matmul(a, p, **keywords)
    tiledmm.matmul(a, unchecked)
    cupy.testing.assert_allclose(tiledmm.matmul(a, tiledmm.prepare(p, check=True)), a @ b, rtol=0, atol=1e-4)


def test_forms_can_be_made_at_once() -> None:
    b = to_device(values(29, (2048, 2048)))
    p = tiledmm.prepare(b, left=(64, 2048), right=(2048, 64))
    held = p.held_bytes
    a = to_device(values(30, (64, 2048)))
    reads = [sum(x.bytes for x in tiledmm.explain(*each).prepared) for each in ((a, p), (p, a.T.copy()))]
    assert held == sum(reads)
    tiledmm.matmul(a, p)
    tiledmm.matmul(p, a.T.copy())
    assert p.held_bytes == held


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.randn(64, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
    p = tiledmm.prepare(w)
    for product, expected in (
        (lambda: x @ p, x.double() @ w.double()),
        (lambda: tiledmm.matmul(x, p), x.double() @ w.double()),
        (lambda: p @ x.T, w.double() @ x.T.double()),
        (lambda: tiledmm.gemm(x, p, bias=w[0], activation="relu"), (x.double() @ w.double() + w[0]).relu()),
    ):
        for _ in range(2):
            found = product()
            assert isinstance(found, torch.Tensor) and found.is_cuda
            torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-3)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        q = tiledmm.prepare(w)
        late = x @ q
    torch.testing.assert_close((x @ q), x @ p, rtol=0, atol=1e-3)
    stream.synchronize()
    torch.testing.assert_close(late, x @ p, rtol=0, atol=1e-3)
    mixed = tiledmm.matmul(cupy.asarray(x), p)
    assert isinstance(mixed, cupy.ndarray)


@pytest.mark.skipif(cupy.cuda.runtime.getDeviceCount() < 2, reason="needs two devices")
def test_an_operand_belongs_to_its_device() -> None:
    with cupy.cuda.Device(1):
        far = to_device(values(31, (300, 300)))
        expected = tiledmm.matmul(far, far)
    p = tiledmm.prepare(far)
    with pytest.raises(OperandTypeError, match="device 1"):
        tiledmm.matmul(p, far)
    with cupy.cuda.Device(1):
        cupy.testing.assert_allclose(tiledmm.matmul(far, p), expected, rtol=0, atol=1e-3)
