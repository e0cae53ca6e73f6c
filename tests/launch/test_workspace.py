"""Tests of products whose workspace cannot be allocated: ``auto`` selects other kernels, named ones report it.

They run on a stand-in GPU. Needs CuPy, but no GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

import tiledmm
from tests.conftest import slow_unless
from tests.host_gpu import HostGpu
from tests.strategies import small_integers, tight
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.kernels.variants import find_variant
from tiledmm.launch import plan as plan_module
from tiledmm.launch import plans
from tiledmm.launch.plan import Plan
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import UfuncKeywords
from tiledmm.problem.product import resolve
from tiledmm.selection import model, tuned
from tiledmm.selection.choose import select
from tiledmm.selection.model import H100, Model

pytestmark = pytest.mark.cupy

OutOfMemory = cupy.cuda.memory.OutOfMemoryError


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostGpu]:
    device = HostGpu()
    with pytest.MonkeyPatch.context() as patch:
        device.install(patch, tmp_path_factory.mktemp("cache"))
        yield device


@pytest.fixture
def h100(gpu: HostGpu) -> HostGpu:
    gpu.become("sm_90")
    gpu.capturing = False
    return gpu


class Product:
    """A product of small integers into an existing result, so that only workspace is allocated."""

    def __init__(self, gpu: HostGpu, dtype: str, *shapes: tuple[int, ...], layout: str = "NN", **keywords: Any) -> None:
        self.gpu, self.keywords = gpu, keywords
        rng = np.random.default_rng(sum(shapes[0]))
        self.values = [small_integers(rng, shape, dtype) for shape in shapes]
        self.x1, self.x2 = (
            gpu.array(x, tight(letter, x.ndim - 2)) for x, letter in zip(self.values, layout, strict=True)
        )
        wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64  # by BLAS, and as exact as in integers
        total = np.matmul(*(x.astype(wide) for x in self.values))
        self.right = (total.astype(np.int64) if np.dtype(dtype).kind in "biu" else total).astype(dtype)
        self.out = gpu.array(np.zeros_like(self.right))

    def run(self, most: int | None = None) -> list[Any]:
        """Compute the product within a limit of workspace in bytes (None: no limit), and return its kernels."""
        self.gpu.launched.clear()
        self.gpu.failed, self.gpu.most = 0, most
        self.out.fill(0)
        assert tiledmm.matmul(self.x1, self.x2, out=self.out, **self.keywords) is self.out
        np.testing.assert_array_equal(self.out.held, self.right)
        self.gpu.memory.check()
        return list(self.gpu.launched)

    @property
    def plan(self) -> Plan:
        """Plan of the product."""
        return planned(self.x1, self.x2, self.out, self.keywords.get("precision", "float32"))


def planned(x1: Any, x2: Any, out: Any, precision: str = "float32") -> Plan:
    """Return the plan of ``auto``."""
    return plans.plan_of(x1, x2, out, tuple(UfuncKeywords()), ("auto", None, None, precision))


def names(kernels: list[Any]) -> list[str]:
    return [each.variant.name for each in kernels]


CASES: tuple[tuple[Any, ...], ...] = (
    ("float32", (1000, 1000), (1000, 1000), {}, "split_float32"),
    ("float32", (1000, 900), (900, 1001), {}, "split_float32"),
    ("complex64", (600, 600), (600, 600), {}, "split_float32"),
    ("int32", (1200, 1200), (1200, 1200), {}, "split_integer"),
    ("float32", (64, 20000), (20000, 64), {"precision": "ieee"}, "split_k_reduction"),
    ("float32", (300, 4000), (4000, 301), {"precision": "ieee"}, "split_k_reduction"),
    ("float32", (64, 20000), (20000, 64), {"precision": "tf32"}, "split_k_reduction"),
    ("int64", (64, 9000), (9000, 64), {}, "split_k_reduction"),
    ("float16", (601, 601), (601, 601), {}, "pack"),
    ("int8", (600, 600), (600, 600), {}, "pack"),
    ("float32", (3, 700, 700), (3, 700, 700), {}, "split_float32"),
)


@pytest.mark.parametrize(
    ("dtype", "left", "right", "keywords", "needs"),
    [pytest.param(*case, marks=slow_unless(i in (4, 10))) for i, case in enumerate(CASES)],
)
def test_auto_takes_a_kernel_without_workspace_where_there_is_no_memory(
    h100: HostGpu, dtype: str, left: Any, right: Any, keywords: dict[str, Any], needs: str
) -> None:
    product = Product(h100, dtype, left, right, **keywords)
    fast = product.run()
    assert needs in names(fast) and not h100.failed
    (alone,) = product.run(most=0)
    assert h100.failed and not alone.variant.operands.schemes
    assert product.run(most=0) == [alone] and h100.failed == 1, "what failed in between is not tried again"
    assert product.run() == fast and not h100.failed, "there is memory again"


@pytest.mark.parametrize(
    "target", ["sm_75", *(pytest.param(each, marks=pytest.mark.slow) for each in ("sm_80", "sm_120"))]
)
def test_on_other_devices(gpu: HostGpu, target: str) -> None:
    gpu.become(target)
    for dtype, m, n, k in (("float32", 64, 64, 8000), ("int8", 150, 150, 3000)):
        product = Product(gpu, dtype, (m, k), (k, n))
        fast = product.run()
        assert len(fast) > 1 and len(product.run(most=0)) == 1 and product.run() == fast


def test_the_fastest_kernels_that_fit_are_taken(h100: HostGpu) -> None:
    product = Product(h100, "float32", (64, 20000), (20000, 64), precision="ieee")
    everything = product.plan.scratch_bytes
    for most in (everything, everything // 2, everything // 8):
        *_, last = product.run(most)
        assert last.variant.name == "split_k_reduction"
        assert h100.failed == (most < everything) + (most < everything // 2) * 2
    expected = H100.best_within(product.plan.product, lambda choice: choice.workspace <= everything // 8)
    assert expected is not None and everything // 16 < expected.workspace <= everything // 8


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_the_precision_is_that_of_the_call(h100: HostGpu, precision: str) -> None:
    product = Product(h100, "float32", (64, 8000), (8000, 64), layout="TN", precision=precision)
    for most in (None, 1 << 16, 0):
        for each in product.run(most):
            assert not each.variant.operands.schemes
            assert precision == "tf32" or each.compute.name == "f32"


def test_an_operand_that_tma_cannot_read_where_it_lies(h100: HostGpu) -> None:
    """Check that without workspace another kernel is used if an operand is not aligned to 16 bytes."""
    product = Product(h100, "float16", (640, 640), (640, 640))
    assert names(product.run(most=0)) == ["wgmma"], "which needs no workspace"
    shifted = h100.array(np.zeros(640 * 640 + 1, "f2")).held[1:].reshape(640, 640)
    shifted[...] = product.values[0]
    product.x1 = h100.over(shifted)
    packing = product.run()
    assert names(packing) == ["pack", "pack", "wgmma"]
    (alone,) = product.run(most=0)
    assert not alone.variant.hopper.tma
    assert product.run() == packing


def test_a_measured_kernel_gives_way_to_the_models(h100: HostGpu) -> None:
    product = Product(h100, "float32", (300, 300), (300, 300))
    described = resolve(describe(product.x1), describe(product.x2), describe(product.out))
    variant = find_variant("warp_tiled")
    own, other = (variant.config(tile, described.compute).as_dict() for tile in (32, None))
    differs = {field: value for field, value in own.items() if other[field] != value} | {"split_k": 3}
    name = tuned.describe_product(described)
    entry = tuned.Entry(name, "float32", "warp_tiled", False, differs, 1.0, 1.0, (256, 256))
    path = tuned.path_of(h100.gpu.name)
    tuned.add(path, tuned.stamped(entry))
    plans.forget_plans()
    try:
        assert len(product.plan.choice.parts) == 3
        measured = product.run()
        assert names(measured).count("split_k_reduction") >= 1
        assert len(product.run(most=0)) == 1
        assert product.run() == measured
    finally:
        path.unlink()
        tuned.table_of.cache_clear()
        plans.forget_plans()


def test_c_in_parts(h100: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the parts' workspaces add up."""
    monkeypatch.setattr(model, "_WORTH_CUTTING", 0.0)
    monkeypatch.setattr(model, "_LEFT_AFTER_CUTTING", 2.0)
    found = [each for each in H100.rank(_described(520, 530, 20000)) if each.others]
    assert any(part.workspace for each in found for part in each.others)
    for choice in found:
        first = replace(choice, others=())
        assert choice.workspace == Plan(choice).scratch_bytes
        assert choice.workspace == first.workspace + sum(other.workspace for other in choice.others)


def _described(m: int, n: int, k: int) -> Any:
    return resolve(describe(np.empty((m, k), "f4")), describe(np.empty((k, n), "f4")))


def test_a_batch_of_more_dimensions_than_a_kernel_counts(h100: HostGpu) -> None:
    """Check that workspace is allocated once before the first step, so that a failed try has written nothing."""
    rng = np.random.default_rng(5)
    left, right = small_integers(rng, (2, 3, 2, 3, 2, 5, 300), "float32"), small_integers(rng, (300, 6), "float32")
    x1, x2 = h100.over(h100.array(left).held.transpose(4, 1, 2, 0, 3, 5, 6)), h100.array(right)
    out = h100.array(np.zeros((*x1.shape[:-1], 6), "f4"))
    plan = planned(x1, x2, out)
    named = select("split_float32", None, plan.product)
    assert len(list(plan.product.problem.outer_offsets())) == 2
    for enough in (0, 1):
        named_plan, tries = Plan(named, plan._within), itertools.count()
        with pytest.MonkeyPatch.context() as patch:
            have = plan_module.cupy.cuda.alloc

            def alloc(size: int, have: Any = have, tries: Any = tries, enough: int = enough) -> Any:
                if next(tries) >= enough:
                    raise OutOfMemory(size, 0, 0)
                return have(size)

            patch.setattr(plan_module.cupy.cuda, "alloc", alloc)
            h100.launched.clear()
            out.fill(0)
            named_plan.run(x1, x2, out)
        np.testing.assert_array_equal(out.held, x1.held @ right)
        assert names(h100.launched).count("split_float32") == 2 * enough
        assert next(tries) == 1, "the kernels taken instead need none"
        if not enough:
            assert h100.launched[-1].variant.name == plan.choice.spec.variant.name
        h100.memory.check()


@pytest.mark.parametrize(("given", "compute", "result"), [("float32", "int32", "int32"), ("float32", None, "int32")])
def test_arrays_that_cupy_converts(h100: HostGpu, given: str, compute: str | None, result: str) -> None:
    rng = np.random.default_rng(7)
    left, right = small_integers(rng, (64, 4000), given), small_integers(rng, (4000, 64), given)
    x1, x2, out = h100.array(left), h100.array(right), h100.array(np.zeros((64, 64), result))
    temporary = out.size * 4  # which the product needs, and its workspace is more
    for most in (None, temporary):
        h100.launched.clear()
        h100.copies, h100.most = 0, most
        tiledmm.matmul(x1, x2, out=out, dtype=compute, casting="unsafe")
        assert h100.copies
        np.testing.assert_array_equal(out.held, (left @ right).astype(result))
        assert (len(h100.launched) == 1) is (most is not None)


def test_a_captured_stream(h100: HostGpu) -> None:
    product = Product(h100, "float32", (600, 600), (600, 600))
    fast, (alone,) = product.run(), product.run(most=0)
    h100.capturing = True
    assert product.run() == fast and h100.captured == 1
    assert product.run(most=0) == [alone] and h100.captured == 2
    with pytest.raises(RuntimeError, match="workspace"):
        tiledmm.matmul(product.x1, product.x2, variant="split_float32", out=product.out)


@pytest.mark.parametrize(
    "kernel",
    [
        {"variant": "split_float32"},
        {"precision": "bf16x6"},
        {"variant": "warp_tiled", "tile": 64, "config": {"split_k": 4}},
        {"variant": "warp_tiled", "tile": 64, "config": {"pack_b": 1}},
    ],
)
def test_a_kernel_that_was_asked_for_says_what_the_memory_was_for(h100: HostGpu, kernel: dict[str, Any]) -> None:
    x1, x2, out = (h100.array(np.ones((300, 300), "f4")) for _ in range(3))
    h100.most = 0
    for _ in range(2):
        with pytest.raises(OutOfMemory, match=r"workspace.*tiledmm_.*'auto'"):
            tiledmm.matmul(x1, x2, out=out, **kernel)
    assert not h100.launched and h100.failed == 2
    h100.most = None
    tiledmm.matmul(x1, x2, out=out, **kernel)
    np.testing.assert_array_equal(out.held, np.full((300, 300), 300, "f4"))


def test_a_result_that_does_not_fit_is_cupys_error(h100: HostGpu) -> None:
    product = Product(h100, "float32", (1000, 1000), (1000, 1000))
    h100.most = product.out.nbytes - 1
    with pytest.raises(OutOfMemory) as raised:
        tiledmm.matmul(product.x1, product.x2)
    assert "workspace" not in str(raised.value)
    assert h100.failed == 1 and not h100.launched
    h100.most = product.out.nbytes
    result = tiledmm.matmul(product.x1, product.x2)
    np.testing.assert_array_equal(result.held, product.right)


def test_a_result_over_its_operand(h100: HostGpu) -> None:
    """Check a result that overlaps its operand, with memory for a single copy."""
    product = Product(h100, "float32", (1000, 1000), (1000, 1000))
    h100.most = product.out.nbytes
    assert tiledmm.matmul(product.x1, product.x2, out=product.x1) is product.x1
    np.testing.assert_array_equal(product.x1.held, product.right)
    assert len(h100.launched) == 1


def test_where_no_kernel_fits_the_error_is_the_allocators(h100: HostGpu) -> None:
    product = Product(h100, "float32", (64, 20000), (20000, 64), precision="ieee")
    plan = Plan(product.plan.choice, lambda fits: None)
    h100.most = 0
    for _ in range(2):
        with pytest.raises(OutOfMemory, match="workspace"):
            plan.run(product.x1, product.x2, product.out)


@pytest.mark.parametrize("error", [MemoryError("std::bad_alloc"), RuntimeError("something else"), KeyError("x")])
def test_other_allocators(h100: HostGpu, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a MemoryError of any allocator leads to a smaller kernel, and that other errors are raised."""
    product = Product(h100, "float32", (64, 20000), (20000, 64), precision="ieee")

    def alloc(size: int) -> Any:
        raise error

    monkeypatch.setattr(plan_module.cupy.cuda, "alloc", alloc)
    if isinstance(error, MemoryError):
        assert len(product.run()) == 1
        with pytest.raises(MemoryError, match=r"std::bad_alloc.*workspace"):
            tiledmm.matmul(product.x1, product.x2, variant="warp_tiled", config={"split_k": 2})
    else:
        with pytest.raises(type(error)) as raised:
            product.run()
        assert raised.value is error and "workspace" not in str(error)


# ---- the search ----


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        pytest.param(target, dtype, marks=slow_unless((i + j) % 2 == 0))
        for i, target in enumerate(("sm_75", "sm_90"))
        for j, dtype in enumerate(("float32", "float16", "int8", "bool", "complex128"))
    ],
)
def test_every_product_has_a_kernel_without_workspace(target: str, dtype: str) -> None:
    for (m, n, k), layout in (((1, 5000, 3), "NN"), ((100, 100, 100_000), "TT"), ((4095, 33, 4097), "GG")):
        wanted = resolve(_array((m, k), dtype, layout[0]), _array((k, n), dtype, layout[1]))
        found = Model(REFERENCE_GPUS[target]).best_within(wanted, lambda choice: choice.workspace == 0)
        assert found is not None and found.workspace == 0
        launch_config = found.spec.config.launch
        assert not (launch_config.pack_a or launch_config.pack_b or launch_config.pack_elements)


def _array(shape: tuple[int, int], dtype: str, letter: str) -> Any:
    rows, cols = shape
    size = np.dtype(dtype).itemsize
    strides = {"N": (cols * size, size), "T": (size, rows * size), "G": (2 * cols * size, 2 * size)}[letter]
    return describe(np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides))


def test_nothing_may_fit() -> None:
    assert H100.best_within(_described(64, 64, 20000), lambda choice: False) is None


def test_of_a_kernel_the_fastest_way_that_fits(h100: HostGpu) -> None:
    wanted = _described(64, 64, 100_000)
    best = H100.best(wanted)
    bounded = H100.best_within(wanted, lambda choice: True)
    assert bounded == best, "where everything fits"
    splits = []
    for most in (best.workspace - 1, best.workspace // 2, best.workspace // 4, 0):
        found = H100.best_within(wanted, lambda choice, most=most: choice.workspace <= most)
        assert found is not None and found.workspace <= most and found.microseconds is not None
        splits.append(found.spec.config.launch.split_k)
    assert splits == sorted(splits, reverse=True) and splits[-1] == 1
