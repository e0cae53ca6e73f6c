"""All that a plan launches, run by the simulator on arrays in the host's memory. Needs CuPy, and no GPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

import cupy

from tests import host_arrays
from tests.simulator.unchecked import execute
from tests.strategies import lay_out, small_integers, tight
from tiledmm import launch
from tiledmm.choice import Choice, oriented, specialization_of
from tiledmm.codegen import Specialization
from tiledmm.errors import AlignmentError
from tiledmm.ladder import find_variant
from tiledmm.model import H100, H100_UNSPLIT
from tiledmm.operands import describe, resolve
from tiledmm.selection import select

pytestmark = pytest.mark.cupy


class HostArray(cupy.ndarray):
    """A CuPy array over a NumPy array's memory."""

    held: np.ndarray

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held[key] = value.held

    def fill(self, value: Any) -> None:
        self.held.fill(value)


def over(x: np.ndarray) -> HostArray:
    array: HostArray = host_arrays.over(x, HostArray)
    array.held = x
    return array


def as_argument(x: Any) -> Any:
    return ctypes.c_void_p(x.data.ptr) if isinstance(x, cupy.ndarray) else x


def on_the_simulator(specialization: Specialization) -> Any:
    """What stands for ``raw_kernel``."""

    def run(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...], shared: int) -> None:
        assert block == specialization.block
        execute(specialization, grid[0], [*map(as_argument, arguments)])

    return SimpleNamespace(kernel=run)


class Device:
    """What plans ask of a device: memory, which is full of NaNs, and a stream."""

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray] = {}
        self.capturing = False
        self.runtime = SimpleNamespace(memsetAsync=self.memset, mallocAsync=self.malloc, freeAsync=self.free)

    def malloc(self, size: int, stream: int = 0) -> int:
        piece = np.full(size + 512, 255, np.uint8)
        address = piece.ctypes.data + -piece.ctypes.data % 512
        self.memory[address] = piece
        return address

    def free(self, address: int, stream: int) -> None:
        del self.memory[address]

    def memset(self, address: int, value: int, size: int, stream: int) -> None:
        ctypes.memset(address, value, size)

    def alloc(self, size: int) -> Any:
        address = self.malloc(size)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, size, self.memory[address], 0), 0)

    def get_current_stream(self) -> Any:
        return SimpleNamespace(ptr=0, is_capturing=lambda: self.capturing)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()

    def ndarray(shape: Any, dtype: Any, memory: Any = None, strides: Any = None, order: str = "C") -> HostArray:
        if memory is None:
            return over(np.full(shape, 99, dtype, order=order))
        first = np.frombuffer((ctypes.c_char * np.dtype(dtype).itemsize).from_address(memory.ptr), dtype)
        return over(np.lib.stride_tricks.as_strided(first, shape, strides))

    monkeypatch.setattr(launch, "cupy", SimpleNamespace(ndarray=ndarray, cuda=device))
    monkeypatch.setattr(launch, "raw_kernel", on_the_simulator)
    monkeypatch.setattr(launch, "_PreparedArgument", lambda array: array)
    monkeypatch.setattr(launch, "device_model", lambda splits=True: H100)
    return device


def laid_out(values: np.ndarray, letter: str) -> np.ndarray:
    return lay_out(np, values, tight(letter, values.ndim - 2))[0]


def matrices(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, letter: str) -> np.ndarray:
    return laid_out(small_integers(rng, shape, dtype), letter)


def result_like(shape: tuple[int, ...], dtype: str, letter: str = "N") -> np.ndarray:
    """Where a result goes."""
    return laid_out(np.full(shape, 99, dtype), letter)


def planned(x1: np.ndarray, x2: np.ndarray, out: np.ndarray | None, variant: str, **numbers: int) -> launch.Plan:
    product = resolve(describe(x1), describe(x2), None if out is None else describe(out))
    return launch.Plan(select(variant, None, product, numbers or None))


KERNELS = [
    ("naive", "float32", {}),
    ("naive", "complex128", {}),
    ("tiled", "float16", {"split_k": 3}),
    ("warp_tiled", "float32", {"pack_a": 1, "pack_b": 1, "split_k": 2}),
    ("warp_tiled", "int8", {"pack_words": 1}),
    ("split_tensor_core", "float32", {}),
    ("split_tensor_core", "complex64", {"split_k": 2}),
]


@pytest.mark.parametrize("layout", ["NN", "TG"])
@pytest.mark.parametrize(("variant", "dtype", "numbers"), KERNELS)
def test_a_plan_computes_the_product_wherever_the_arrays_are(
    device: Device, variant: str, dtype: str, numbers: dict[str, int], layout: str
) -> None:
    rng = np.random.default_rng(5)
    for letter in "NTG":
        plan = None
        for _ in range(3):
            a, b = matrices(rng, (2, 1, 33, 270), dtype, layout[0]), matrices(rng, (3, 270, 18), dtype, layout[1])
            c = result_like((2, 3, 33, 18), dtype, letter)
            plan = plan or planned(a, b, c, variant, **numbers)
            assert plan.run(over(a), over(b), out := over(c)) is out
            np.testing.assert_array_equal(c, np.matmul(a, b))


def test_a_split_product_of_data_that_does_not_split(device: Device) -> None:
    rng = np.random.default_rng(6)
    a, b = (matrices(rng, shape, "float32", "N") for shape in ((20, 300), (300, 24)))
    plan = planned(a, b, None, "split_tensor_core")
    for wrong in (np.inf, np.nan):
        a[3, 5] = wrong
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(plan.run(over(a), over(b), None).held, a @ b)


@pytest.mark.parametrize("variant", ["naive", "split_tensor_core"])
@pytest.mark.parametrize("letter", "NT")
def test_batches_that_the_host_walks(device: Device, variant: str, letter: str) -> None:
    rng = np.random.default_rng(7)
    shape, broadcast = (2, 3, 2, 3), (2, 1, 2, 1)
    a, b = matrices(rng, (*shape, 5, 260), "float32", "N"), matrices(rng, (*broadcast, 260, 3), "float32", "T")
    c = result_like((*shape, 5, 3), "float32", letter)
    plan = planned(a, b, c, variant)
    assert plan.product.problem.outer
    assert plan.product.swapped == (letter == "T")
    plan.run(over(a), over(b), over(c))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("letter", "NT")
def test_a_c_in_parts(device: Device, letter: str) -> None:
    rng = np.random.default_rng(8)
    a, b = matrices(rng, (70, 40), "float32", "N"), matrices(rng, (40, 36), "float32", "T")
    c = result_like((70, 36), "float32", letter)
    variant = find_variant("tiled")
    whole = oriented(variant, resolve(describe(a), describe(b), describe(c)))
    cut = (min(64, whole.problem.m), min(32, whole.problem.n))
    first, others = H100_UNSPLIT.with_others(whole, cut)
    config = variant.config(16, whole.compute)
    plan = launch.Plan(Choice(first, specialization_of("tiled", config, first), others=others))
    assert others
    plan.run(over(a), over(b), over(c))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("begin", [0, 3, -3])
def test_a_result_over_its_operand(device: Device, begin: int, operand: int) -> None:
    rng = np.random.default_rng(9)
    memory = small_integers(rng, (8 * 8 + 6,), "float32")
    operands = [matrices(rng, (8, 8), "float32", "N") for _ in range(2)]
    operands[operand] = memory[3:67].reshape(8, 8)[::-1]
    a, b = operands
    c = memory[3 + begin : 67 + begin].reshape(8, 8)
    expected, rest = a @ b, np.concatenate((memory[: 3 + begin], memory[67 + begin :]))
    plan = planned(a, b, c, "naive")
    assert plan.run(over(a), over(b), out := over(c)) is out
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(np.concatenate((memory[: 3 + begin], memory[67 + begin :])), rest)


def test_a_result_beside_its_operand_is_written_in_place(device: Device) -> None:
    rng = np.random.default_rng(10)
    memory = small_integers(rng, (3, 64), "float32")
    a, b, c = (row.reshape(8, 8) for row in memory)
    expected = a @ b
    planned(a, b, c, "naive").run(over(a), over(b), over(c))
    np.testing.assert_array_equal(c, expected)
    assert not device.memory, "nothing was asked for"


def test_a_new_result(device: Device) -> None:
    rng = np.random.default_rng(11)
    a, b = matrices(rng, (5, 7), "int32", "T"), matrices(rng, (7, 4), "int32", "T")
    result = planned(a, b, None, "naive").run(over(a), over(b), None).held
    np.testing.assert_array_equal(result, a @ b)


def test_scratch_memory_of_a_captured_graph_is_its_own_and_given_back(device: Device) -> None:
    rng = np.random.default_rng(12)
    a, b, c = (matrices(rng, (40, 40), "float32", "N") for _ in range(3))
    device.capturing = True
    planned(a, b, c, "tiled", split_k=2).run(over(a), over(b), over(c))
    np.testing.assert_array_equal(c, a @ b)
    assert not device.memory


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_address_that_no_gpu_can_read(device: Device, which: int) -> None:
    arrays = [np.zeros((4, 4), "f4") for _ in range(3)]
    arrays[which] = np.zeros(65, np.uint8)[1:].view("f4").reshape(4, 4)
    plan = planned(*(np.zeros((4, 4), "f4") for _ in range(3)), "naive")
    with pytest.raises(AlignmentError, match=("x1", "x2", "out")[which]):
        plan.run(*map(over, arrays))


@pytest.mark.parametrize("shape", [(0, 3, 4), (4, 3, 0), (4, 0, 3), (0, 0, 0)])
@pytest.mark.parametrize(("variant", "numbers"), [("naive", {}), ("warp_tiled", {"pack_b": 1}), ("auto", {})])
def test_nothing_to_multiply(
    device: Device, shape: tuple[int, int, int], variant: str, numbers: dict[str, int]
) -> None:
    m, k, n = shape
    a, b, c = np.ones((m, k), "f4"), np.ones((k, n), "f4"), result_like((m, n), "float32")
    planned(a, b, c, variant, **numbers).run(over(a), over(b), over(c))
    np.testing.assert_array_equal(c, np.zeros((m, n)))
