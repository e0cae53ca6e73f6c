"""Tests of replaced CuPy products, on real CuPy arrays that NumPy multiplies. Needs CuPy, but no GPU."""

from __future__ import annotations

import concurrent.futures
import json
import operator
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

import tiledmm
from tests.host_arrays import HostPlan, numbers, of_host, on_host, pretend
from tiledmm.errors import ConfigError, TiledmmError, UnknownVariantError
from tiledmm.launch import devices, plans
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.replacement import names, products
from tiledmm.replacement.products import Products

pytestmark = pytest.mark.cupy

NAMES = [(cupy, "matmul"), (cupy, "inner"), (cupy, "tensordot"), (cupy, "vdot"), (cupy.linalg, "matmul")]
NAMES += [(cupy.linalg._product, "matmul")]
METHODS = ["__matmul__", "dot"]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Replace the device of this package and of CuPy, and record by name what is left to CuPy."""
    calls: list[str] = []

    def cupys(name: str, multiply: Callable[..., Any]) -> Callable[..., Any]:
        def function(a: Any, b: Any, *others: Any, **keywords: Any) -> Any:
            calls.append(name)
            return on_host(multiply(of_host(a), of_host(b), *others))

        return function

    pretend(monkeypatch.setattr)
    monkeypatch.setattr(devices, "cupy_matmul", cupys("matmul", np.matmul))
    monkeypatch.setattr(cupy.ndarray, "__matmul__", cupys("@", np.matmul))
    monkeypatch.setattr(cupy.ndarray, "dot", cupys("dot", lambda a, b, out=None: np.dot(a, b)))
    for name in ("inner", "tensordot", "vdot"):
        monkeypatch.setattr(cupy, name, cupys(name, getattr(np, name)))
    plans.forget_plans()
    yield calls
    plans.forget_plans()


def state() -> list[Any]:
    """Return CuPy's current objects under all names that a replacement assigns."""
    return [getattr(owner, name) for owner, name in NAMES] + [vars(cupy.ndarray).get(name) for name in METHODS]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = state()
    yield
    assert not names._in_force
    assert state() == before


# ---- what is replaced ----

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "cupy.matmul": lambda a, b: cupy.matmul(a, b),
    "cupy.linalg.matmul": lambda a, b: cupy.linalg.matmul(a, b),
    "cupyx.distributed": lambda a, b: cupy.linalg._product.matmul(a, b),  # as its chunks are multiplied
    "@": lambda a, b: a @ b,
    "operator.matmul": operator.matmul,
    "operator.imatmul": operator.imatmul,
    "numpy.matmul": np.matmul,
    "cupy.dot": lambda a, b: cupy.dot(a, b),
    "ndarray.dot": lambda a, b: a.dot(b),
    "ndarray.dot, by name": lambda a, b: a.dot(b=b),
    "numpy.dot": np.dot,
    "out=": lambda a, b: cupy.matmul(a, b, out=on_host(np.zeros((len(a), b.shape[1]), "f4"))),
    "a tuple for out=": lambda a, b: cupy.matmul(a, b, out=(on_host(np.zeros((len(a), b.shape[1]), "f4")),)),
    "cupy.dot, out": lambda a, b: cupy.dot(a, b, on_host(np.zeros((len(a), b.shape[1]), "f4"))),
}


def test_dot_of_a_vector_into_an_out(own: list[str]) -> None:
    a, b, out = numbers(7), numbers(7, 3), on_host(np.zeros(3, "f4"))
    with tiledmm.replacing(variant="tiled", tile=16) as found:
        assert cupy.dot(a, b, out) is out
    np.testing.assert_array_equal(of_host(out), of_host(a) @ of_host(b))
    (line,) = found.groups
    assert line.count == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_goes_through(own: list[str], way: str) -> None:
    a, b = numbers(5, 7), numbers(7, 3)
    with tiledmm.replacing(variant="tiled", tile=16) as found:
        result = WAYS[way](a, b)
    np.testing.assert_array_equal(of_host(result), of_host(a) @ of_host(b))
    assert isinstance(result, cupy.ndarray)
    (line,) = found.groups
    assert (line.operands, line.types, line.layout, line.count) == ("(5, 7) @ (7, 3)", "float32", "NN", 1)
    assert (line.kernel, line.variants, line.reason) == ("tiledmm_tiled_f32_16x16x16_nn", ("tiled",), "")
    assert not own


KERNELS: list[dict[str, Any]] = [
    {}, {"precision": "ieee"}, {"precision": "tf32"}, {"variant": "tiled"}, {"variant": "tiled", "tile": 32},
    {"variant": "warp_tiled", "tile": 64, "config": {"split_k": 3}},
    {"variant": "warp_tiled", "config": {"split_k": 2}, "precision": "ieee"},
]  # fmt: skip
CALLS: list[tuple[Callable[[Any, Any], Any], dict[str, Any]]] = [
    (lambda a, b: a @ b, {}), (lambda a, b: a.dot(b), {}), (lambda a, b: cupy.matmul(a, b), {}),
    (lambda a, b: cupy.matmul(a, b, dtype="f8"), {"dtype": "f8"}),
    (lambda a, b: cupy.matmul(a, b, casting="safe", order="F"), {"casting": "safe", "order": "F"}),
    (lambda a, b: cupy.matmul(a, b, axes=[(0, 1), (0, 1), (0, 1)]), {"axes": [(0, 1), (0, 1), (0, 1)]}),
    (lambda a, b: cupy.matmul(a, b, signature="ff->f"), {"signature": "ff->f"}),
    (lambda a, b: cupy.linalg.matmul(a, b, dtype="f8", casting="unsafe"), {"dtype": "f8", "casting": "unsafe"}),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_kernel_and_all_keywords_are_passed_on(
    own: list[str], kernel: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []
    plan_of = names.plan_of
    monkeypatch.setattr(names, "plan_of", lambda *each: asked.append(each[2:]) or plan_of(*each))
    wanted = KernelKeywords(*({"variant": "auto", "tile": None, "config": None, "precision": "full"} | kernel).values())
    a, b = numbers(5, 7), numbers(7, 3)
    for multiply, ufunc in CALLS:
        with tiledmm.replacing(**kernel):
            multiply(a, b)
        assert asked.pop() == (None, UfuncKeywords(**ufunc), wanted)
        assert not asked
    with tiledmm.replacing(**kernel):
        cupy.matmul(a, b, out=(out := on_host(np.zeros((5, 3), "f4"))), casting="safe")
    assert asked == [(out, UfuncKeywords(casting="safe"), wanted)] and asked[0][0] is out


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        ({"variant": "tiled", "tile": 24}, ConfigError), ({"variant": "tiled", "config": {"stages": 3}}, ConfigError),
        ({"config": {"bm": 64}}, ConfigError), ({"variant": "tilde"}, UnknownVariantError),
        ({"variant": "cublas", "precision": "half"}, ConfigError),
    ],
)  # fmt: skip
def test_a_kernel_that_there_is_not_is_refused_before_the_block(
    own: list[str], kernel: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        tiledmm.replacing(**kernel)


@pytest.mark.parametrize(
    "multiply",
    [
        lambda a, b, out: cupy.matmul(a, b, out=out), lambda a, b, out: cupy.matmul(a, b, out=(out,)),
        lambda a, b, out: cupy.linalg.matmul(a, b, out=out), lambda a, b, out: cupy.dot(a, b, out),
        lambda a, b, out: a.dot(b, out), lambda a, b, out: np.matmul(a, b, out=out),
    ],
)  # fmt: skip
def test_the_result_is_written_to_out(own: list[str], multiply: Callable[..., Any]) -> None:
    a, b, out = numbers(5, 7), numbers(7, 3), on_host(np.full((5, 3), 77, "f4"))
    with tiledmm.replacing() as found:
        assert multiply(a, b, out) is out
    np.testing.assert_array_equal(of_host(out), of_host(a) @ of_host(b))
    assert (found.taken, found.total, own) == (1, 1, [])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_any_array_of_a_class_of_its_own_leaves_the_product_to_cupy(own: list[str], place: int) -> None:
    arrays = [np.ones((3, 3), "f4")] * 3
    x1, x2, out = (on_host(x, Heir) if i == place else on_host(x) for i, x in enumerate(arrays))
    with tiledmm.replacing() as found:
        cupy.matmul(x1, x2, out=out)
    (line,) = found.groups
    assert "Heir" in line.reason and own == ["matmul"]


def test_matrix_power_goes_through(own: list[str]) -> None:
    with tiledmm.replacing() as found:
        cupy.linalg.matrix_power(numbers(4, 4), 5)
    assert (found.total, found.taken, own) == (3, 3, [])


@pytest.mark.parametrize(
    "shapes", [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((0, 4), (4, 5)), ((3, 0), (0, 5))]
)
def test_vectors_batches_and_nothing(own: list[str], shapes: Any) -> None:
    a, b = (numbers(*shape) for shape in shapes)
    with tiledmm.replacing() as found:
        results = [a @ b, cupy.matmul(a, b), a.dot(b)]
    for result in results:
        np.testing.assert_array_equal(of_host(result), np.matmul(of_host(a), of_host(b)))
    assert (found.total, found.taken, own) == (3, 3, [])


def test_an_augmented_assignment_makes_a_new_array_as_without(own: list[str]) -> None:
    a, b = numbers(3, 3), numbers(3, 3)
    same, before = a, of_host(a).copy()
    with tiledmm.replacing() as found:
        a @= b
    assert a is not same
    np.testing.assert_array_equal(of_host(same), before)
    assert found.taken == 1


# ---- what is not ----


class Answers:
    __array_ufunc__ = None

    def __rmatmul__(self, other: Any) -> str:
        return "answered"


class Heir(cupy.ndarray):
    def __rmatmul__(self, other: Any) -> str:
        return "the heir's"


OTHERS: dict[str, Callable[[], Any]] = {
    "something that answers": lambda: numbers(3, 3) @ Answers(),
    "an heir that answers": lambda: numbers(3, 3) @ on_host(np.zeros((3, 3), "f4"), Heir),
    "a list": lambda: numbers(3, 3) @ [[1], [2], [3]],
    "a list on the left": lambda: [[1, 2, 3]] @ numbers(3, 3),
    "NumPy": lambda: numbers(3, 3) @ np.zeros((3, 3)),
    "NumPy on the left": lambda: np.zeros((3, 3)) @ numbers(3, 3),
    "a number": lambda: numbers(3, 3) @ 2,
    "None": lambda: numbers(3, 3) @ None,
    "matmul of lists": lambda: cupy.matmul([[1]], [[1]]),
    "matmul of one": lambda: cupy.matmul(numbers(3, 3)),
    "matmul of three": lambda: cupy.matmul(numbers(3, 3), numbers(3, 3), numbers(3, 3)),
    "an unknown keyword": lambda: cupy.matmul(numbers(3, 3), numbers(3, 3), where=None),
    "a keyword of tiledmm": lambda: cupy.matmul(numbers(3, 3), numbers(3, 3), variant="naive"),
    "dot of a list": lambda: cupy.dot(numbers(3, 3), [1, 2, 3]),
    "sizes that differ": lambda: numbers(3, 4) @ numbers(3, 4),
    "a scalar": lambda: cupy.matmul(numbers(3, 3), on_host(np.float32(2))),
    "an axis": lambda: cupy.matmul(numbers(3, 3), numbers(3, 3), axis=0),
    "dot into a list": lambda: cupy.dot(numbers(3, 3), numbers(3, 3), []),
    "dot into NumPy": lambda: cupy.dot(numbers(3, 3), numbers(3, 3), np.zeros((3, 3), "f4")),
    "inner of a list": lambda: cupy.inner(numbers(3, 3), [1, 2, 3]),
    "dot into another type": lambda: cupy.dot(numbers(3, 3), numbers(3, 3), numbers(3, 3, dtype="f8")),
    "dot into columns": lambda: cupy.dot(numbers(3, 3), numbers(3, 3), numbers(3, 3).T),
    "dot into another size": lambda: cupy.dot(numbers(3, 3), numbers(3, 3), numbers(2, 3, 3)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_everything_else_is_as_without(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    pretend(monkeypatch.setattr)

    def outcome() -> Any:
        try:
            return OTHERS[what]()
        except Exception as error:
            assert error.__context__ is None or not isinstance(error.__context__, TiledmmError)
            return type(error), str(error)

    expected = outcome()
    with tiledmm.replacing() as found:
        assert outcome() == expected
    assert not found.total


def test_what_the_kernel_does_not_take_is_cupys_and_counted_with_the_reason(own: list[str]) -> None:
    a, b = numbers(5, 7), numbers(7, 3)
    with tiledmm.replacing(variant="tensor_core") as found:
        for _ in range(3):
            np.testing.assert_array_equal(of_host(a @ b), of_host(a) @ of_host(b))
        cupy.matmul(a, b)
        a.dot(b)
    (line,) = found.groups
    assert own == ["@", "@", "@", "matmul", "dot"]
    assert (line.count, line.variants, line.layout) == (5, (), "NN")
    assert "'tensor_core'" in line.reason
    assert (found.total, found.taken) == (5, 0)


def test_the_baseline_may_be_asked_for(own: list[str]) -> None:
    with tiledmm.replacing(variant="cublas") as found:
        numbers(5, 7) @ numbers(7, 3)
    assert own == ["@"]
    assert "'cublas'" in found.groups[0].reason


def test_an_array_of_a_class_of_its_own_is_cupys(own: list[str]) -> None:
    a, b = numbers(3, 3), on_host(np.zeros((3, 3), "f4"), Heir)
    with tiledmm.replacing() as found:
        cupy.matmul(a, b)
        b @ a
    assert own == ["matmul", "@"]
    assert {line.reason for line in found.groups} == {f"{__name__}.Heir is a subclass of cupy.ndarray"}


def test_where_memory_runs_out_cupy_is_tried(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: Any) -> Any:
        raise cupy.cuda.memory.OutOfMemoryError(8, 0, 0)

    monkeypatch.setattr(HostPlan, "run", run)
    with tiledmm.replacing() as found:
        numbers(3, 3) @ numbers(3, 3)
    assert own == ["@"]
    assert "memory" in found.groups[0].reason


def test_other_errors_are_not_hidden(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(HostPlan, "run", run)
    with pytest.raises(ZeroDivisionError), tiledmm.replacing():
        numbers(3, 3) @ numbers(3, 3)
    assert not own


@pytest.mark.parametrize(
    ("multiply", "reason"),
    [
        (lambda a: cupy.inner(a, a), "cupy.inner is not replaced"),
        (lambda a: cupy.tensordot(a, b=a), "cupy.tensordot is not replaced"),
        (lambda a: cupy.vdot(a, a), "cupy.vdot is not replaced"),
        (lambda a: cupy.dot(a, on_host(np.float32(2))), "0-d array"),
        (lambda a: cupy.dot(a, numbers(2, 3, 3)), "more than two dimensions on the right"),
        (lambda a: cupy.dot(a, a, numbers(9)), "needs an out of shape"),
    ],
)
def test_relatives_are_cupys_and_counted(own: list[str], multiply: Callable[[Any], Any], reason: str) -> None:
    with tiledmm.replacing() as found:
        multiply(numbers(3, 3))
    (line,) = found.groups
    assert reason in line.reason
    assert line.layout == "-"
    assert len(own) == 1


# ---- when ----


def test_nothing_is_replaced_by_a_kernel_that_there_is_not() -> None:
    for mistake, error in (
        ({"variant": "tilde"}, UnknownVariantError),
        ({"variant": "tiled", "tile": 17}, ConfigError),
        ({"tile": 17}, ConfigError),
        ({"precision": "float31"}, ConfigError),
        ({"variant": "split_float32", "precision": "ieee"}, ConfigError),
        ({"config": {"bk": 8}}, ConfigError),
    ):
        with pytest.raises(error):  # where it is called
            tiledmm.replacing(**mistake)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", ["auto", *tiledmm.variants()])
def test_every_variant_may_replace(variant: str) -> None:
    with tiledmm.replacing(variant=variant) as found:
        pass
    assert str(found).startswith("no ")


def test_cupy_is_as_it_was_after_an_exception(own: list[str]) -> None:
    before = state()
    with pytest.raises(KeyError), tiledmm.replacing() as found:
        assert not any(now is then for now, then in zip(state(), before, strict=True))
        numbers(3, 3) @ numbers(3, 3)
        raise KeyError
    assert state() == before
    numbers(3, 3) @ numbers(3, 3)
    assert (found.total, own) == (1, ["@"]), "what comes after the block is not counted"


@pytest.mark.parametrize("way", ["@", "cupy.matmul", "ndarray.dot"])
def test_in_nested_blocks_the_inner_one_takes_and_counts(own: list[str], way: str) -> None:
    a, multiply = numbers(3, 3), WAYS[way]
    with tiledmm.replacing(variant="naive") as outer:
        multiply(a, a)
        with tiledmm.replacing(variant="tiled", tile=8) as inner:
            multiply(a, a)
            multiply(a, a)
        multiply(a, a)
    assert [(line.variants, line.count) for line in outer.groups] == [(("naive",), 2)]
    assert [(line.variants, line.count) for line in inner.groups] == [(("tiled",), 2)]


def test_in_nested_blocks_the_inner_one_counts_what_is_cupys(own: list[str]) -> None:
    a = numbers(3, 3)
    with tiledmm.replacing() as outer:
        cupy.vdot(a, a)
        with tiledmm.replacing() as inner:
            cupy.inner(a, a)
            cupy.dot(a, numbers(2, 3, 3))
    assert (outer.total, inner.total) == (1, 2)


def test_blocks_of_two_threads_may_end_in_any_order(own: list[str]) -> None:
    before = state()
    first, second = tiledmm.replacing(variant="naive"), tiledmm.replacing(variant="tiled")
    found = [first.__enter__(), second.__enter__()]
    first.__exit__(None, None, None)
    numbers(3, 3) @ numbers(3, 3)
    assert [each.total for each in found] == [0, 1]
    second.__exit__(None, None, None)
    assert state() == before


def test_what_somebody_assigns_meanwhile_stays(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy, "matmul", before := cupy.matmul)
    with tiledmm.replacing():
        cupy.matmul = theirs = lambda a, b: None
    assert cupy.matmul is theirs
    cupy.matmul = before


def test_a_function_kept_from_a_block_is_cupys_after_it(own: list[str]) -> None:
    with tiledmm.replacing() as found:
        kept = cupy.matmul, cupy.ndarray.__matmul__, cupy.ndarray.dot, cupy.inner
    for function in kept:
        function(numbers(3, 3), numbers(3, 3))
    assert own == ["matmul", "@", "dot", "inner"]
    assert not found.total


def test_stand_ins_say_what_they_stand_for() -> None:
    matmul, doc = cupy.matmul, cupy.ndarray.dot.__doc__
    with tiledmm.replacing():
        assert (cupy.matmul.__name__, cupy.matmul.__doc__) == ("matmul", matmul.__doc__)
        assert cupy.matmul.__wrapped__ is devices.cupy_matmul
        assert (cupy.ndarray.dot.__name__, cupy.ndarray.dot.__doc__) == ("dot", doc)


def test_it_decorates_a_function(own: list[str]) -> None:
    @tiledmm.replacing(variant="naive")
    def square(a: Any) -> Any:
        return a @ a

    square(numbers(3, 3))
    square(numbers(3, 3))
    assert not own


def test_products_of_all_threads_are_counted(own: list[str]) -> None:
    a = numbers(3, 3)
    begun = threading.Barrier(4)

    def multiply(_: int) -> None:
        begun.wait()
        for _ in range(250):
            a @ a

    with tiledmm.replacing() as found, concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(multiply, range(4)))
    assert (found.total, len(found.groups)) == (1000, 1)


# ---- what is told ----


def test_products_are_told_by_kind(own: list[str]) -> None:
    a, b = numbers(500, 600), numbers(600, 200)
    with tiledmm.replacing(variant="tiled", tile=32) as found:
        for _ in range(1200):
            numbers(4, 4) @ numbers(4, 4)
        a @ b
        a @ numbers(200, 600).T
        cupy.matmul(a, b, out=on_host(np.zeros((200, 500), "f4")).T)
        numbers(3, 4, dtype="f2") @ numbers(4, 5)
        cupy.inner(a, a)
        cupy.inner(b, b)
        cupy.vdot(a, a)
    assert found.summary() == "1,207 matrix products: 1,204 by tiledmm (tiled 1,204), 3 by CuPy"
    told = found.table()
    assert told.title == found.summary()
    assert told.rows[0] == ("1,200", "(4, 4) @ (4, 4)", "float32", "NN", "tiledmm_tiled_f32_32x32x32_nn")
    assert told.rows[1:] == (
        ("1", "(500, 600) @ (600, 200)", "float32", "NN", "tiledmm_tiled_f32_32x32x32_nn"),
        ("1", "(500, 600) @ (600, 200)", "float32", "NT", "tiledmm_tiled_f32_32x32x32_nt"),
        ("1", "(500, 600) @ (600, 200)", "float32", "NN", "tiledmm_tiled_f32_32x32x32_tt"),
        ("1", "(3, 4) @ (4, 5)", "float16 @ float32 in float32", "NN", "tiledmm_tiled_f16_f32_f32_f32_32x32x32_nn"),
        ("1", "(500, 600) @ (500, 600)", "float32", "-", "CuPy (1)"),
        ("1", "(600, 200) @ (600, 200)", "float32", "-", "CuPy (1)"),
        ("1", "(500, 600) @ (500, 600)", "float32", "-", "CuPy (2)"),
    )
    assert told.notes == ("(1) cupy.inner is not replaced", "(2) cupy.vdot is not replaced")
    text = str(found)
    assert all(part in text for part in (found.summary(), *told.rows[3], *told.notes))
    document = json.loads(json.dumps(found.to_json()))
    assert (document["total"], document["taken"]) == (1207, 1204)
    assert document["products"][0] == {
        "operands": "(4, 4) @ (4, 4)", "types": "float32", "layout": "NN", "variants": ["tiled"],
        "kernel": "tiledmm_tiled_f32_32x32x32_nn", "reason": "", "count": 1200,
    }  # fmt: skip


def test_one_product_is_no_products(own: list[str]) -> None:
    with tiledmm.replacing(variant="naive") as found:
        numbers(3, 3) @ numbers(3, 3)
    assert found.summary() == "1 matrix product: 1 by tiledmm (naive 1)"


def test_a_product_in_parts_names_all_kernels(own: list[str]) -> None:
    for m in range(4096, 4096 + 1024, 64):
        a = SimpleNamespace(shape=(m, 4096), strides=(4 * 4096, 4), dtype=np.dtype("f4"))
        b = SimpleNamespace(shape=(4096, 4000), strides=(4 * 4000, 4), dtype=np.dtype("f4"))
        choice = tiledmm.explain(a, b, precision="ieee").choices[0]
        if choice.others:
            break
    else:
        pytest.fail("no product is cut into parts")
    found = Products()
    found.took(HostPlan(choice), a, b)
    (line,) = found.groups
    assert line.operands == f"({m}, 4096) @ (4096, 4000)"
    assert len(line.variants) == len(choice.parts)
    assert line.kernel == str(choice)


def test_nothing_to_multiply_is_told(own: list[str]) -> None:
    with tiledmm.replacing() as found:
        numbers(0, 4) @ numbers(4, 3)
        numbers(2, 0) @ numbers(0, 3)
    assert {line.kernel for line in found.groups} == {"nothing to multiply"}


def test_plans_are_not_kept_for_ever(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MAX_PLANS", 3)
    found, alive, most = Products(), weakref.WeakSet[HostPlan](), 0
    for k in range(1, 10):
        a, b = numbers(3, k), numbers(k, 3)
        plan = HostPlan(tiledmm.explain(of_host(a), of_host(b)).choices[0])
        found.took(plan, a, b)
        alive.add(plan)
        del plan
        most = max(most, len(alive))
        assert found.total == k
    assert most == 3


@pytest.mark.parametrize("variant", ["naive", "cublas"])
@pytest.mark.parametrize("other", [{"shape": (4, 7)}, {"dtype": "f8"}, {"transposed": True}], ids=str)
def test_what_differs_in_anything_has_a_line_of_its_own(own: list[str], variant: str, other: dict[str, Any]) -> None:
    def multiply(shape: tuple[int, int] = (5, 7), dtype: str = "f4", transposed: bool = False) -> None:
        b = numbers(3, shape[1], dtype=dtype).T if transposed else numbers(shape[1], 3, dtype=dtype)
        numbers(*shape, dtype=dtype) @ b

    with tiledmm.replacing(variant=variant) as found:
        multiply()
        multiply(**other)
        multiply()
    assert [line.count for line in found.groups] == [2, 1]


def test_a_long_table_ends(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MAX_PLANS", 3)
    with tiledmm.replacing(variant="naive") as found:
        for _ in range(2):
            for k in range(1, 51):
                numbers(3, k) @ numbers(k, 3)
    assert (found.total, len(found.groups)) == (100, 50)
    assert len(found.table().rows) == 40
    assert found.table().notes == ("Not shown: 20 products of 10 other kinds.",)


def test_axes_that_a_layout_cannot_be_told_of_are_no_error(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cupy_matmul", lambda a, b, **keywords: own.append("matmul"))
    with tiledmm.replacing(variant="cublas") as found:
        cupy.matmul(numbers(3, 4), numbers(5, 4), axes=[(0, 1), (1, 0), (0, 1)])
    (line,) = found.groups
    assert (line.layout, line.operands, own) == ("-", "(3, 4) @ (5, 4)", ["matmul"])
