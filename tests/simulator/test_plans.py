"""Tests of whole products whose CUDA C kernels run on the simulator. Needs CuPy, but no GPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import tiledmm
from tests.conftest import slow_unless
from tests.host_gpu import HostGpu, run_on_simulator
from tests.strategies import small_integers, tight
from tiledmm.errors import AlignmentError

pytestmark = pytest.mark.cupy


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> HostGpu:
    device = HostGpu(run_on_simulator)
    device.install(monkeypatch, tmp_path)
    return device


def matrices(gpu: HostGpu, shape: tuple[int, ...], dtype: str, letter: str, seed: int = 0) -> Any:
    values = small_integers(np.random.default_rng([seed, *shape]), shape, dtype)
    return gpu.array(values, tight(letter, len(shape) - 2))


def result_like(gpu: HostGpu, shape: tuple[int, ...], dtype: str, letter: str = "N") -> Any:
    return gpu.array(np.full(shape, 99, dtype), tight(letter, len(shape) - 2))


def check(gpu: HostGpu, result: Any, x1: Any, x2: Any) -> None:
    np.testing.assert_array_equal(result.held, np.matmul(x1.held, x2.held))
    gpu.memory.check()


#: Smallest tiles, since the simulator's time grows with the number of threads.
DECOMPOSE = {"variant": "split_tensor_core", "tile": 64}

KERNELS: list[tuple[str, dict[str, Any]]] = [
    ("float32", {"variant": "naive"}),
    ("complex128", {"variant": "naive"}),
    ("float16", {"variant": "tiled", "tile": 8, "config": {"split_k": 3}}),
    ("float32", {"variant": "warp_tiled", "tile": 32, "config": {"pack_a": 1, "pack_b": 1, "split_k": 2}}),
    ("int8", {"variant": "warp_tiled", "tile": 32, "config": {"pack_elements": 1}}),
    ("float32", DECOMPOSE),
    ("complex64", DECOMPOSE | {"config": {"split_k": 2}}),
]


@pytest.mark.parametrize(
    ("dtype", "kernel", "layout"),
    [
        pytest.param(*kernel, layout, marks=slow_unless(kernel[0] != "complex64"))
        for kernel, layout in zip(KERNELS, itertools.cycle(("NN", "TG")), strict=False)
    ],
)
def test_a_plan_computes_the_product_wherever_the_arrays_are(
    gpu: HostGpu, dtype: str, kernel: dict[str, Any], layout: str
) -> None:
    for seed, letter in enumerate("NNG"):
        a = matrices(gpu, (2, 1, 33, 270), dtype, layout[0], seed)
        b = matrices(gpu, (270, 18), dtype, layout[1], seed)
        c = result_like(gpu, (2, 1, 33, 18), dtype, letter)
        around = gpu.surroundings(c)
        assert tiledmm.matmul(a, b, out=c, **kernel) is c
        check(gpu, c, a, b)
        np.testing.assert_array_equal(gpu.surroundings(c), around)


@pytest.mark.parametrize("shape", [(33, 21, 300), (1, 40, 600), (130, 70, 64), (5, 130, 33)])
@pytest.mark.parametrize(("dtype", "layout"), [("float32", "TN"), ("float64", "NT"), ("int8", "NN")])
def test_what_auto_takes(gpu: HostGpu, dtype: str, layout: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    gpu.become("sm_75")  # none of whose kernels is for GPUs only
    a, b = matrices(gpu, (m, k), dtype, layout[0]), matrices(gpu, (k, n), dtype, layout[1])
    check(gpu, tiledmm.matmul(a, b), a, b)


def test_a_split_product_of_data_that_does_not_split(gpu: HostGpu) -> None:
    a, b = matrices(gpu, (20, 300), "float32", "N"), matrices(gpu, (300, 24), "float32", "N")
    for wrong in (np.inf, np.nan):
        a.held[3, 5] = wrong
        with np.errstate(invalid="ignore"):
            check(gpu, tiledmm.matmul(a, b, **DECOMPOSE), a, b)


@pytest.mark.parametrize(
    ("kernel", "letter"), [({"variant": "naive"}, "N"), ({"variant": "naive"}, "T"), (DECOMPOSE, "T")]
)
def test_batches_that_the_host_walks(gpu: HostGpu, kernel: dict[str, Any], letter: str) -> None:
    shape, broadcast = (2, 2, 2, 2), (2, 1, 2, 1)
    a, b = matrices(gpu, (*shape, 5, 260), "float32", "N"), matrices(gpu, (*broadcast, 260, 3), "float32", "T")
    c = result_like(gpu, (*shape, 5, 3), "float32", letter)
    tiledmm.matmul(a, b, out=c, **kernel)
    assert sum(each.variant.name == kernel["variant"] for each in gpu.launched) == 2
    check(gpu, c, a, b)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("begin", [0, 3, -3])
def test_a_result_over_its_operand(gpu: HostGpu, begin: int, operand: int) -> None:
    memory = matrices(gpu, (1, 70), "float32", "N").held[0]
    operands = [matrices(gpu, (8, 8), "float32", "N").held for _ in range(2)]
    operands[operand] = memory[3:67].reshape(8, 8)[::-1]
    out = gpu.over(memory[3 + begin : 67 + begin].reshape(8, 8))
    expected, around = np.matmul(*operands), gpu.surroundings(out)
    assert tiledmm.matmul(*map(gpu.over, operands), out=out, variant="naive") is out
    np.testing.assert_array_equal(out.held, expected)
    np.testing.assert_array_equal(gpu.surroundings(out), around)
    gpu.memory.check()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_a_result_beside_its_operand_is_written_in_place(gpu: HostGpu, order: tuple[int, ...]) -> None:
    memory = matrices(gpu, (3, 64), "float32", "N").held
    a, b, c = (gpu.over(memory[i].reshape(8, 8)) for i in order)
    before = gpu.memory.count
    tiledmm.matmul(a, b, out=c, variant="naive")
    check(gpu, c, a, b)
    assert gpu.memory.count == before, "nothing was asked for"


def test_scratch_memory_of_a_captured_graph_is_its_own_and_given_back(gpu: HostGpu) -> None:
    a, b, c = (matrices(gpu, (40, 40), "float32", "N", seed) for seed in range(3))
    before = gpu.memory.count
    gpu.capturing = True
    tiledmm.matmul(a, b, out=c, variant="tiled", config={"split_k": 2})
    check(gpu, c, a, b)
    assert gpu.memory.count == before
    assert gpu.captured == 1, "and not CuPy's pool's"


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_address_that_no_gpu_can_read(gpu: HostGpu, which: int) -> None:
    arrays = [gpu.array(np.zeros((4, 4), "f4")) for _ in range(3)]
    memory = gpu.array(np.zeros(65, np.uint8)).held
    arrays[which] = gpu.over(memory[1:].view("f4").reshape(4, 4))
    with pytest.raises(AlignmentError, match=("x1", "x2", "out")[which]):
        tiledmm.matmul(arrays[0], arrays[1], out=arrays[2], variant="naive")


@pytest.mark.parametrize("shape", [(0, 3, 4), (4, 3, 0), (4, 0, 3), (0, 0, 0)])
@pytest.mark.parametrize(("variant", "numbers"), [("naive", {}), ("warp_tiled", {"pack_b": 1}), ("auto", {})])
def test_nothing_to_multiply(gpu: HostGpu, shape: tuple[int, int, int], variant: str, numbers: dict[str, int]) -> None:
    m, k, n = shape
    a, b = gpu.array(np.ones((m, k), "f4")), gpu.array(np.ones((k, n), "f4"))
    c = result_like(gpu, (m, n), "float32")
    tiledmm.matmul(a, b, out=c, variant=variant, config=numbers or None)
    if c.size:
        np.testing.assert_array_equal(c.held, np.zeros((m, n)))
