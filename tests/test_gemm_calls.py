"""Tests of ``tiledmm.gemm`` from call to result on every device: cached plans, arguments, memory, placement.

They run on a stand-in GPU with NumPy versions of all kernels, even those that cannot be simulated. Needs CuPy, but no
GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

import tiledmm
from tests.gemm_calls import GemmCall, adjoint, gemm_calls
from tests.host_gpu import HostGpu
from tests.strategies import PROPERTY, tight
from tiledmm.errors import AlignmentError, OperandTypeError, TiledmmError, UnsupportedTypeError
from tiledmm.kernels import launches
from tiledmm.kernels.operands import residues
from tiledmm.launch import devices, plans
from tiledmm.problem import epilogue as epilogues
from tiledmm.problem.keywords import UfuncKeywords

pytestmark = pytest.mark.cupy


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostGpu]:
    device = HostGpu()
    with pytest.MonkeyPatch.context() as patch:
        device.install(patch, tmp_path_factory.mktemp("cache"))
        yield device


@pytest.fixture
def h100(gpu: HostGpu) -> HostGpu:
    gpu.become("sm_90")
    return gpu


def integers(seed: int, *shape: int, dtype: str = "float32") -> Any:
    """Return integers so small that sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


KERNELS: list[tuple[str, dict[str, Any]]] = [
    ("sm_80", {}), ("sm_90", {}), ("sm_90", {"variant": "wgmma", "precision": "tf32"}),
    ("sm_90", {"variant": "split_float32"}), ("sm_90", {"variant": "split_float32", "config": {"split_k": 2}}),
    ("sm_80", {"variant": "split_tensor_core", "config": {"split_k": 2}}),
    ("sm_80", {"variant": "warp_tiled", "config": {"pack_a": 1, "pack_b": 1, "split_k": 3}}),
    ("sm_80", {"variant": "naive"}),
]  # fmt: skip


@settings(PROPERTY, max_examples=40)
@given(gemm_calls(), st.sampled_from(("sm_75", "sm_80", "sm_90")))
def test_any_call_by_auto(gpu: HostGpu, call: GemmCall, target: str) -> None:
    gpu.become(target)
    placed = {name: gpu.array(*each) for name, each in call.arrays.items()}
    keywords = {name: placed[name] for name in ("bias", "alpha") if name in placed}
    keywords |= {"alpha": call.numbers["alpha"]} if "alpha" in call.numbers else {}
    if "c" in placed:
        keywords |= {"c": placed["c"], "beta": call.numbers["beta"]}
    expected, out = call.result(), placed["c"] if call.in_place else None
    if call.out is not None:
        out = gpu.array(np.zeros(expected.shape, call.dtype), call.out)
    around = None if out is None or not out.size else gpu.surroundings(out)
    keywords |= {"activation": "relu" if call.relu else None, **call.adjoint}
    result = tiledmm.gemm(placed["a"], placed["b"], out=out, **keywords)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype) and (out is None or result is out)
    np.testing.assert_array_equal(result.held if result.size else np.empty(result.shape, result.dtype), expected)
    gpu.memory.check()
    if around is not None:
        np.testing.assert_array_equal(gpu.surroundings(out), around)


@pytest.mark.parametrize(("target", "kernel"), KERNELS)
@pytest.mark.parametrize("letter", "NTG")
def test_every_way_to_a_result(gpu: HostGpu, target: str, kernel: dict[str, Any], letter: str) -> None:
    gpu.become(target)
    a, b, c, bias = integers(1, 2, 70, 300), integers(2, 300, 90), integers(3, 70, 90), integers(4, 2, 1, 90)
    scale = integers(5, 70, 1)
    x1, x2, addend, each, factors = map(gpu.array, (a, b, c, bias, scale))
    out = gpu.array(np.zeros((2, 70, 90), "f4"), tight(letter, 1))
    wanted = scale * (a @ b) - 3 * c + bias
    assert tiledmm.gemm(x1, x2, addend, alpha=factors, beta=-3, bias=each, out=out, **kernel) is out
    np.testing.assert_array_equal(out.held, wanted)
    a[0, 3, 5] = np.inf  # what is not decomposed
    x1 = gpu.array(a)
    tiledmm.gemm(x1, x2, out, beta=1, bias=each, activation="relu", out=out, **kernel)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out.held, np.maximum(a @ b + wanted + bias, 0))
    gpu.memory.check()


# ---- what is passed on ----


@pytest.mark.parametrize("function", [tiledmm.matmul, tiledmm.gemm])
def test_which_kernel_is_asked_for(h100: HostGpu, function: Callable[..., Any]) -> None:
    x = h100.array(integers(1, 300, 300))
    given = {"bias": h100.array(integers(2, 300))} if function is tiledmm.gemm else {}

    def ran(**keywords: Any) -> Any:
        h100.launched.clear()
        function(x, x, **given, **keywords)
        return h100.launched[0]

    assert ran(variant="tiled", tile=8).config.bm == 8 and ran(variant="tiled", tile=32).config.bm == 32
    assert ran(variant="tiled", tile=8, config={"unroll": 1}).config.unroll == 1
    assert ran(variant="naive").variant.name == "naive"
    assert ran(precision="tf32").compute.dtype_name == "tf32" and ran(precision="ieee").compute.dtype_name == "float32"


def test_types_and_casts_of_a_call(h100: HostGpu) -> None:
    a, b = integers(1, 8, 9), integers(2, 9, 8)
    x, y, bias = h100.array(a), h100.array(b), integers(3, 8, dtype="float64")
    bytes_ = h100.array(a.astype("i1")), h100.array(b.astype("i1"))
    found = tiledmm.gemm(*bytes_, alpha=0.5, bias=h100.array(bias), dtype="float32", activation="relu")
    np.testing.assert_array_equal(found.held, np.maximum(0.5 * (a @ b) + bias, 0).astype("f4"))
    for dtype in (None, "float32", "float64"):
        found = tiledmm.gemm(x, y, bias=h100.array(bias), dtype=dtype)
        assert found.dtype == (dtype or "float32")
        np.testing.assert_array_equal(found.held, a @ b + bias)
    assert tiledmm.gemm(x, y, bias=h100.array(bias), dtype="float64", casting="safe").dtype == np.float64
    for name in ("bias", "c", "alpha"):
        with pytest.raises(UnsupportedTypeError, match=f"{name}.*float64"):
            tiledmm.gemm(x, y, **({"beta": 1, "c": x[:, :8]} | {name: h100.array(bias)}), casting="safe")
    out = h100.array(np.zeros((8, 8), "i4"))
    with pytest.raises(UnsupportedTypeError, match="float32"):
        tiledmm.gemm(x, y, out=out)
    assert tiledmm.gemm(x, y, out=(out,), bias=h100.array(bias), casting="unsafe") is out
    np.testing.assert_array_equal(out.held, a @ b + bias)


# ---- what is kept of calls ----


def fresh() -> None:
    """Clear all caches of calls."""
    plans.forget_plans()
    epilogues._kept.clear()


def outcome(gpu: HostGpu, call: Callable[[], Any]) -> Any:
    """Return what a caller sees, and which kernels ran."""
    gpu.launched.clear()
    try:
        found = call()
    except (TiledmmError, TypeError, ValueError) as error:
        return type(error), str(error)
    held = found.held if found.size else np.empty(found.shape, found.dtype)
    kernels = [each.symbol for each in gpu.launched]
    return type(found), found.strides, found.dtype.char, held.tolist(), kernels


def elsewhere_on(gpu: HostGpu, x: Any, device: int) -> Any:
    """Return an array over the same memory that claims to be on another device."""
    memory = cupy.cuda.UnownedMemory(x.data.ptr, max(x.nbytes, 1), x, device)
    return gpu._made(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, 0), strides=x.strides)


def arrays_of(gpu: HostGpu) -> dict[str, Callable[..., Any]]:
    """Return makers of arrays of small integers that differ in one property each, by name."""
    values = integers(1, 12, 12)
    square = gpu.array(values)
    other = gpu.array(integers(2, 12, 12))
    padded = gpu.array(np.zeros((12, 17), "f4"))
    padded.held[:, :12] = values
    elsewhere = gpu.array(values)
    foreign = devices.ForeignArray(square.data.ptr, square.shape, square.strides, square.dtype, square, 0)
    return {
        "square": lambda: square, "other": lambda: other, "transposed": lambda: square.T,
        "padded": lambda: padded[:, :12], "reversed": lambda: square[::-1], "one row": lambda: square[:1],
        "one column": lambda: square[:, :1], "row": lambda: square[0], "column": lambda: square[:, 0],
        "fewer": lambda: square[:8], "elsewhere": lambda: elsewhere, "float64": lambda: gpu.array(values.astype("f8")),
        "int32": lambda: gpu.array(values.astype("i4")), "int64": lambda: gpu.array(values.astype("q")),
        "longlong": lambda: gpu.array(values.astype(np.longlong)), "int8": lambda: gpu.array(values.astype("i1")),
        "uint8": lambda: gpu.array(abs(values).astype("u1")), "complex64": lambda: gpu.array(values.astype("c8")),
        "float16": lambda: gpu.array(values.astype("f2")), "batch": lambda: gpu.array(integers(3, 2, 12, 12)),
        "scalar": lambda: gpu.array(np.array(3, "f4")), "wide scalar": lambda: gpu.array(np.array(3, "f8")),
        "foreign": lambda: foreign, "there": lambda: elsewhere_on(gpu, square, 1),
        "broadcast row": lambda: gpu.over(np.lib.stride_tricks.as_strided(square.held, (12, 12), (0, 4))),
        "broadcast column": lambda: gpu.over(np.lib.stride_tricks.as_strided(square.held, (12, 12), (48, 0))),
    }  # fmt: skip


#: Calls of each function by what differs from the first one. Strings are arrays; each call is made beside all others.
MATMULS: list[dict[str, Any]] = [
    {"x1": "square", "x2": "other"},
    *({"x1": x, "x2": "other"} for x in ("transposed", "padded", "reversed", "row", "fewer")),
    *({"x1": x, "x2": "other"} for x in ("float64", "int32", "batch")),
    *({"x1": "square", "x2": x} for x in ("transposed", "padded", "reversed", "column", "float64", "int32", "batch")),
    {"x1": "there", "x2": "other"}, {"x1": "square", "x2": "there"}, {"x1": "square", "x2": "other", "out": "there"},
    {"x1": "square", "x2": "square"}, {"x1": "elsewhere", "x2": "transposed"},
    {"x1": "int64", "x2": "int64"}, {"x1": "longlong", "x2": "longlong"}, {"x1": "int64", "x2": "longlong"},
    {"x1": "int8", "x2": "int8"}, {"x1": "int8", "x2": "int8", "dtype": "int32"}, {"x1": "float16", "x2": "float16"},
    *({"x1": "square", "x2": "other", "out": x} for x in ("N", "T", "G", "f8", "batch", "i4", "short")),
    *(
        {"x1": "square", "x2": "other", **keywords}
        for keywords in (
            {"casting": "no"}, {"order": "F"}, {"dtype": "float64"}, {"dtype": "int8"}, {"axis": 0}, {"keepdims": True},
            {"axes": [(0, 1), (0, 1), (0, 1)]}, {"axes": [(1, 0), (0, 1), (0, 1)]}, {"axes": [(0, 1), (0, 1), (1, 0)]},
            {"axes": ((0, 1), (0, 1), (0, 1))}, {"signature": "dd->d"}, {"variant": "naive"}, {"variant": "tiled"},
            {"variant": "tiled", "tile": 8}, {"variant": "tiled", "tile": 8, "config": {"unroll": 1}},
            {"variant": "tiled", "tile": 8, "config": {"split_k": 2}}, {"precision": "tf32"}, {"precision": "ieee"},
            {"precision": "none"},
        )
    ),
    {"x1": "float64", "x2": "other", "casting": "unsafe", "dtype": "float32"},
    {"x1": "float64", "x2": "other", "casting": "same_kind", "dtype": "float32"},
    {"x1": "float64", "x2": "other", "casting": "safe", "dtype": "float32"},
    {"x1": "square", "x2": "other", "out": "i4", "casting": "unsafe"},
]  # fmt: skip

GEMMS: list[dict[str, Any]] = [
    {},
    *({"alpha": x} for x in (0, 1, 2, 0.0, 1.0, 2.0, True, 2j, 1j, 1 + 0j, np.float32(2), np.float64(1), np.int8(0))),
    *({"alpha": x} for x in ("scalar", "wide scalar", "row", "one column", "square")),
    {"c": "square"},
    *({"c": "square", "beta": x} for x in (0, 1, 2, 0.0, -1.5, 1j, "scalar", "wide scalar", "row")), {"beta": 2},
    *(
        {name: x} | ({"beta": 1} if name == "c" else {})
        for name in ("c", "bias")
        for x in ("transposed", "padded", "reversed", "one row", "one column", "row", "float64", "float16", "int8",
                  "foreign", "broadcast row", "broadcast column", "column", "batch", "fewer", "there")
    ),
    {"c": "square", "beta": 1, "bias": "row"}, {"c": "row", "beta": 1, "bias": "square"}, {"bias": 3},
    {"c": 3, "beta": 1},
    *({"bias": "row", "activation": x} for x in (None, "relu", "softmax")), {"activation": "relu"},
    *({"bias": x, "casting": y} for x in ("float64", "float16") for y in ("no", "safe", "unsafe")),
    *({"x1": "int8", "x2": "int8", "alpha": x} for x in (2, 2.0, 2j)),
    *({"x1": "int8", "x2": "int8", "bias": x} for x in ("row", "int8")),
    *({"x1": "uint8", "x2": "uint8", "activation": x} for x in (None, "relu")),
    {"x1": "int8", "x2": "int8", "activation": "relu"},
    {"x1": "complex64", "x2": "complex64", "alpha": 2j}, {"x1": "complex64", "x2": "complex64", "activation": "relu"},
    {"dtype": "float64"}, {"dtype": "float64", "alpha": 0.5}, {"dtype": "int8", "casting": "unsafe"},
    *({"c": "square", "beta": 2, "out": x} for x in ("N", "T", "G", "f8", "f2")),
    *({"bias": "row", "variant": "tiled", "tile": x} for x in (8, 16)), {"bias": "row", "variant": "naive"},
    {"bias": "row", "variant": "tiled", "tile": 8, "config": {"split_k": 2}}, {"bias": "row", "precision": "ieee"},
]  # fmt: skip


def made(gpu: HostGpu, function: Callable[..., Any], arrays: dict[str, Any], call: dict[str, Any]) -> Any:
    """Return the outcome of a call."""
    outs = {
        "N": ("N", "f4"), "T": ("T", "f4"), "G": ("G", "f4"), "f8": ("N", "f8"), "f2": ("N", "f2"), "i4": ("N", "i4"),
    }  # fmt: skip

    def value(name: str, x: Any) -> Any:
        if name == "out" and x in outs:
            return gpu.array(np.zeros((12, 12), outs[x][1]), tight(outs[x][0]))
        if name == "out" and x == "there":
            return elsewhere_on(gpu, gpu.array(np.zeros((12, 12), "f4")), 1)
        if name == "out":
            return gpu.array(np.zeros({"batch": (2, 12, 12), "short": (11, 12)}[x], "f4"))
        return arrays[x]() if isinstance(x, str) and x in arrays else x

    given = {"x1": "square", "x2": "other", **call}
    if function is tiledmm.gemm and given.get("dtype") == "int8":
        given |= {"x1": "int8", "x2": "int8"}
    given = {name: value(name, x) for name, x in given.items()}
    return outcome(gpu, lambda: function(given.pop("x1"), given.pop("x2"), **given))


@pytest.mark.parametrize(("function", "calls"), [(tiledmm.matmul, MATMULS), (tiledmm.gemm, GEMMS)])
def test_no_call_is_taken_for_another(h100: HostGpu, function: Callable[..., Any], calls: list[dict[str, Any]]) -> None:
    """Check that each call has the same outcome alone and after other calls, in either order."""
    arrays, alone = arrays_of(h100), []
    for call in calls:
        fresh()
        alone.append(made(h100, function, arrays, call))
    for turn in (1, -1):
        fresh()
        for call, wanted in [*zip(calls, alone, strict=True)][::turn]:
            assert made(h100, function, arrays, call) == wanted, (
                f"{call} after others, from {'first' if turn > 0 else 'last'}"
            )


def test_a_plan_is_of_one_device(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = h100.array(integers(1, 8, 8)), h100.array(np.zeros((8, 8), "f4"))
    for function in (tiledmm.matmul, tiledmm.gemm):
        with monkeypatch.context() as patch:
            function(x, x, out=out)
            patch.setattr(devices, "current_device", lambda: 1)
            with pytest.raises(OperandTypeError, match=r"x1.*0.*1"):
                function(x, x, out=out)


def test_a_plan_for_one_array_twice_is_for_no_other_two(h100: HostGpu) -> None:
    """Check that half of C is computed only if B is the transpose of A itself."""
    values, others = integers(1, 6, 200, 64), integers(2, 6, 200, 64)
    x, y = h100.array(values), h100.array(others)
    for first, second in ((x, y), (x, x), (y, x)):
        found = tiledmm.matmul(first, h100.over(second.held.swapaxes(1, 2)))
        np.testing.assert_array_equal(found.held, first.held @ second.held.swapaxes(1, 2))
    assert {each.config.triangle for each in h100.launched} == {0, 1}


def test_addresses_and_scalars_of_a_call_are_its_own(h100: HostGpu) -> None:
    """Check that cached launch arguments are replaced by each call's addresses and scalars."""
    a, b, c, bias = (
        [h100.array(integers(10 * i + j, *shape)) for j in range(2)]
        for i, shape in enumerate(((12, 9), (9, 7), (12, 7), (7,)))
    )
    outs = [h100.array(np.zeros((12, 7), "f4")) for _ in range(2)]
    for turn in (1, -1):
        every = [*itertools.product(a, b, c, bias, (1.5, 2), (-1, 3), outs)][::turn]
        for x, y, addend, each, alpha, beta, out in every:
            tiledmm.gemm(x, y, addend, alpha=alpha, beta=beta, bias=each, out=out)
            np.testing.assert_array_equal(out.held, alpha * (x.held @ y.held) + beta * addend.held + each.held)


# ---- what lies over the result ----


#: Parts of a square array that are not all of it, or not in its order.
OVER: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x, "its transpose": lambda x: x.T, "its rows reversed": lambda x: x[::-1],
    "its columns reversed": lambda x: x[:, ::-1], "its first row": lambda x: x[:1], "its last row": lambda x: x[-1:],
    "a row of it": lambda x: x[3], "its first column": lambda x: x[:, :1], "its last column": lambda x: x[:, -1:],
    "its last element": lambda x: x[-1:, -1:], "its first number": lambda x: x[0, 0, ...],
    "its last number": lambda x: x[-1, -1, ...],
    "its rows one on": lambda x: np.lib.stride_tricks.as_strided(x[0, 1:], x.shape, x.strides),
}  # fmt: skip


#: A view, and what it can be: beta has no dimensions, and operands have two and fit.
CASES = [
    (view, name)
    for view, part in OVER.items()
    for shape in [part(np.zeros((16, 16))).shape]
    for name in ("c", "bias", "alpha", *(["beta"] if shape == () else []), *("ab" if shape == (16, 16) else ""))
]


@pytest.mark.parametrize("order", ["rows", "columns", "reversed"])
@pytest.mark.parametrize(("view", "name"), CASES)
def test_what_is_read_lies_over_the_result(h100: HostGpu, view: str, name: str, order: str) -> None:
    memory = h100.array(integers(7, 17, 16)).held
    whole = memory[:16]
    out = {"rows": whole, "columns": whole.T, "reversed": whole[::-1, ::-1]}[order]
    x = OVER[view](whole)
    given: dict[str, Any] = {"a": integers(8, 16, 16), "b": integers(9, 16, 16), "c": integers(10, 16, 16)}
    given |= {"alpha": np.array(2, "f4"), "beta": np.array(-1, "f4"), "bias": integers(11, 16)} | {name: x}
    wanted = given["alpha"] * (given["a"] @ given["b"]) + given["beta"] * given["c"] + given["bias"]
    placed = {key: h100.over(each) if each is x else h100.array(each) for key, each in given.items()}
    around = memory[16].copy()
    target = h100.over(out)
    assert tiledmm.gemm(placed.pop("a"), placed.pop("b"), out=target, **placed) is target
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(memory[16], around)
    h100.memory.check()


def test_in_place_nothing_is_copied(h100: HostGpu) -> None:
    a, b, c = (h100.array(integers(i, 16, 16)) for i in range(3))
    before = h100.memory.count
    tiledmm.gemm(a, b, c, beta=1, out=c, variant="naive")
    tiledmm.gemm(a, b, c.T, beta=1, bias=c.T, out=c.T, variant="naive")
    tiledmm.gemm(a, b, beta=0, c=a, out=c, variant="naive")
    assert h100.memory.count == before


# ---- memory, devices, addresses ----


def test_less_workspace_has_the_same_epilogue(h100: HostGpu) -> None:
    a, b, c, bias = integers(1, 200, 900), integers(2, 900, 200), integers(3, 200, 200), integers(4, 200)
    x, y, addend, each = map(h100.array, (a, b, c, bias))
    out = h100.array(np.zeros((200, 200), "f4"))
    for most in (None, 1 << 20, 1 << 16, 0):
        h100.most = most
        out.held[...] = np.nan
        for _ in range(2):
            tiledmm.gemm(x, y, addend, alpha=2, beta=-1, bias=each, out=out)
            np.testing.assert_array_equal(out.held, 2 * (a @ b) - c + bias)
    assert h100.failed, "otherwise this shows nothing"


@pytest.mark.parametrize("operand", [0, 1])
def test_operands_that_tma_cannot_read_where_they_are(h100: HostGpu, operand: int) -> None:
    values = [integers(1, 64, 64), integers(2, 64, 64)]
    bias, made = integers(3, 64), list[Any]()
    placed = [h100.array(x) for x in values]
    room = h100.array(np.zeros(64 * 64 + 1, "f4")).held
    room[1:] = values[operand].reshape(-1)
    placed[operand] = h100.over(room[1:].reshape(64, 64))
    epilogue = epilogues.resolve_epilogue(
        np.dtype("f4"), "same_kind", epilogues.EpilogueKeywords(alpha=2, bias=h100.array(bias), activation="relu")
    )
    plan = plans.plan_of(*placed, None, tuple(UfuncKeywords()), ("wgmma", None, None, "tf32"), epilogue)

    def allocate(shape: tuple[int, ...], dtype: Any, order: str) -> Any:
        made.append(h100.array(np.zeros(shape, dtype)))
        return made[-1]

    found = plan.run(*placed, None, epilogue, allocate)
    np.testing.assert_array_equal(found.held, np.maximum(2 * (values[0] @ values[1]) + bias, 0))
    assert found is made[0] and any(each.variant.name == "pack" for each in h100.launched)


@pytest.mark.parametrize("name", ["c", "bias", "alpha", "beta"])
def test_an_array_that_begins_within_an_element(h100: HostGpu, name: str) -> None:
    x, bytes_ = h100.array(integers(1, 8, 8)), h100.array(np.zeros(300, "u1")).held
    odd = bytes_[2:6].view("f4").reshape(()) if name == "beta" else bytes_[2:258].view("f4").reshape(8, 8)
    given = {"c": x, "beta": 1} | {name: h100.over(odd)}
    with pytest.raises(AlignmentError, match=f"address of {'addend' if name == 'c' else name} "):
        tiledmm.gemm(x, x, **given)


@pytest.mark.parametrize("name", ["a", "b", "c", "bias", "alpha", "beta", "out"])
def test_an_array_on_another_device(h100: HostGpu, name: str) -> None:
    values = integers(1, 8, 8)[0, 0, ...] if name == "beta" else integers(1, 8, 8)
    there = elsewhere_on(h100, h100.array(values), 1)
    given = {"a": h100.array(integers(2, 8, 8)), "b": h100.array(integers(3, 8, 8)), "c": h100.array(integers(4, 8, 8))}
    given |= {"beta": 1, name: there}
    with pytest.raises(OperandTypeError, match=f"^{ {'a': 'x1', 'b': 'x2'}.get(name, name) } .*1 "):
        tiledmm.gemm(given.pop("a"), given.pop("b"), **given)


@pytest.mark.parametrize("letter", "NT")
@pytest.mark.parametrize("variant", ["naive", "split_tensor_core", "split_float64_tensor_core"])
def test_batches_that_the_host_walks(gpu: HostGpu, variant: str, letter: str) -> None:
    """Check batches that the host walks, whose arrays have their own strides and element sizes."""
    gpu.become("sm_80")
    kind = "f8" if "64" in variant else "f4"
    a, b = integers(1, 2, 1, 3, 1, 2, 9, 260, dtype=kind), integers(2, 1, 2, 1, 3, 2, 260, 7, dtype=kind)
    c, bias = integers(3, 2, 2, 3, 3, 1, 9, 7, dtype="f2"), integers(4, 2, 1, 3, 1, 1, 7, dtype="f8")
    alpha, out = (
        integers(5, 3, 1, 1, 9, 1, dtype="i1"),
        gpu.array(np.zeros((2, 2, 3, 3, 2, 9, 7), kind), tight(letter, 5)),
    )
    given = {"alpha": gpu.array(alpha), "bias": gpu.array(bias), "beta": 2, "casting": "same_kind", "variant": variant}
    tiledmm.gemm(*map(gpu.array, (a, b, c)), out=out, **given)
    np.testing.assert_array_equal(out.held, alpha * (a @ b) + 2 * c.astype(kind) + bias)
    assert sum(each.variant.name == variant for each in gpu.launched) > 1
    gpu.memory.check()


@pytest.mark.parametrize(("kernel", "letter"), [
    ({"variant": "tiled", "tile": 32}, "N"), ({"variant": "warp_tiled", "tile": 32, "config": {"split_k": 2}}, "T"),
    ({"variant": "split_float64_tensor_core", "tile": 64}, "N"),
    ({"variant": "split_float64_tensor_core", "tile": 64}, "T"),
])  # fmt: skip
def test_parts_of_c(gpu: HostGpu, kernel: dict[str, Any], letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check products that exceed one launch, by tiles or by rows whose residues fit in memory."""
    gpu.become("sm_80")
    monkeypatch.setattr(launches, "MOST_TILES", 10**9 if "float64" in kernel["variant"] else 6)
    monkeypatch.setattr(residues, "MOST_RESIDUES_OF_C", 1)
    kind = "f8" if "float64" in kernel["variant"] else "f4"
    shapes = (2, 150, 60), (60, 90), (150, 90), (2, 1, 90)
    a, b, c, bias = (integers(i, *shape, dtype=kind) for i, shape in enumerate(shapes))
    alpha, out = integers(5, 150, 1, dtype=kind), gpu.array(np.zeros((2, 150, 90), kind), tight(letter, 1))
    x, y, addend, each, factors = map(gpu.array, (a, b, c, bias, alpha))
    tiledmm.gemm(x, y, addend, alpha=factors, beta=2, bias=each, out=out, **kernel)
    np.testing.assert_array_equal(out.held, alpha * (a @ b) + 2 * c + bias)
    tiledmm.gemm(x, y, out, beta=-1, out=out, **kernel)
    np.testing.assert_array_equal(out.held, a @ b - (alpha * (a @ b) + 2 * c + bias))
    assert len(gpu.launched) > 4
    gpu.memory.check()


def test_what_is_added_to_a_symmetric_product_is_not(h100: HostGpu) -> None:
    x, c = h100.array(integers(1, 8, 200, 64)), h100.array(integers(2, 8, 200, 200))
    turned = h100.over(x.held.swapaxes(1, 2))
    product = x.held @ turned.held
    for keywords, wanted in (({"c": c, "beta": 2}, product + 2 * c.held), ({"bias": c}, product + c.held)):
        np.testing.assert_array_equal(tiledmm.gemm(x, turned, **keywords).held, wanted)
    np.testing.assert_array_equal(tiledmm.gemm(x, turned, alpha=c).held, c.held * product)
    np.testing.assert_array_equal(
        tiledmm.gemm(x, turned, alpha=-2, activation="relu").held, np.maximum(-2 * product, 0)
    )


@pytest.mark.parametrize("alpha", [2j, 1 - 3j, 0j])
def test_factors_with_an_imaginary_part(h100: HostGpu, alpha: complex) -> None:
    a, b, c = (integers(i, 8, 8) + 1j * integers(i + 3, 8, 8).astype("c8") for i in range(3))
    found = tiledmm.gemm(*map(h100.array, (a, b, c)), alpha=alpha, beta=-alpha)
    np.testing.assert_array_equal(found.held, alpha * (a @ b) - alpha * c)


def test_the_last_bytes_of_what_is_read_lie_over_the_result(h100: HostGpu) -> None:
    """Check a bias with wider elements than the result, whose last bytes overlap it."""
    a, b, c, bias = integers(1, 16, 9), integers(2, 9, 16), integers(3, 1, 1), integers(4, 16, dtype="f8")
    memory = h100.array(np.zeros(2048, "u1")).held
    memory[:128].view("f8")[...] = bias
    out = memory[124 : 124 + 1024].view("f4").reshape(16, 16)
    x, y, addend = map(h100.array, (a, b, c))
    tiledmm.gemm(x, y, addend, beta=1, bias=h100.over(memory[:128].view("f8")), out=h100.over(out))
    np.testing.assert_array_equal(out, a @ b + c + bias)


# ---- adjoint operands ----


def complexes(seed: int, *shape: int, dtype: str = "complex64") -> Any:
    return (integers(seed, *shape) + 1j * integers(seed + 50, *shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float32"])
@pytest.mark.parametrize("letter", "NT")
def test_a_hermitian_c_is_computed_by_half(h100: HostGpu, dtype: str, letter: str) -> None:
    for shape in ((300, 200), (3, 90, 300), (1100, 600)):
        x = h100.array(complexes(1, *shape, dtype=dtype) if "complex" in dtype else integers(1, *shape))
        for keywords in ({"adjoint_a": True}, {"adjoint_b": True}):
            wanted = adjoint(x.held) @ x.held if "adjoint_a" in keywords else x.held @ adjoint(x.held)
            out = h100.array(np.zeros_like(wanted), tight(letter, x.ndim - 2))
            h100.launched.clear()
            assert tiledmm.gemm(x, x, out=out, **keywords) is out
            np.testing.assert_array_equal(out.held, wanted)
            assert any(each.hermitian for each in h100.launched) == (dtype != "float32")
            h100.memory.check()


def test_plans_of_adjoint_operands_are_others(h100: HostGpu) -> None:
    a, b = complexes(1, 60, 60), complexes(2, 60, 60)
    x, y, first = h100.array(a), h100.array(b), len(plans._plans)
    for _ in range(2):
        for left, right in itertools.product((False, True), repeat=2):
            found = tiledmm.gemm(x, y, adjoint_a=left, adjoint_b=right).held
            np.testing.assert_array_equal(found, (adjoint(a) if left else a) @ (adjoint(b) if right else b))
    assert len(plans._plans) == first + 4


def test_adjoint_operands_that_are_prepared_or_converted(h100: HostGpu) -> None:
    a, b = complexes(1, 300, 310), complexes(2, 200, 310)
    x, y = h100.array(a), h100.array(b)
    p, q = tiledmm.prepare(x), tiledmm.prepare(y)
    for left, right in itertools.product((x, p), (y, q)):
        np.testing.assert_array_equal(tiledmm.gemm(left, right, adjoint_b=True).held, a @ b.conj().T)
        np.testing.assert_array_equal(tiledmm.gemm(right, left, adjoint_b=True).held, b @ a.conj().T)
    np.testing.assert_array_equal(tiledmm.gemm(p, p, adjoint_b=True).held, a @ a.conj().T)
    np.testing.assert_array_equal(tiledmm.gemm(p, p, adjoint_a=True).held, a.conj().T @ a)
    np.testing.assert_array_equal(tiledmm.gemm(p, h100.over(p.array.held.T)).held, a @ a.T)
    for left, right in ((x, y), (p, y), (p, q)):
        found = tiledmm.gemm(left, right, adjoint_b=True, dtype="complex128", variant="split_float64")
        np.testing.assert_array_equal(found.held, a @ b.conj().T)
    wide = h100.array(b.astype("c16"))
    np.testing.assert_array_equal(tiledmm.gemm(x, wide, adjoint_b=True, dtype="c8").held, a @ b.conj().T)


def test_a_batch_of_hermitian_products_in_parts(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "MOST_TILES", 7)
    y = complexes(3, 5, 190, 70, dtype="complex128")
    x = h100.array(y)
    for variant in ("warp_tiled", "tensor_core"):
        h100.launched.clear()
        found = tiledmm.gemm(x, x, adjoint_b=True, variant=variant, tile=64, config={"triangle": 1})
        np.testing.assert_array_equal(found.held, y @ adjoint(y))
        assert len(h100.launched) > 1
