"""Tests of pointers in memory: in structures, tables and variables, those that kernels store, and wild ones."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.errors import AlignmentError, ConfigError, OperandTypeError, SimulationError
from tiledmm.simulator import cupy as cp

# The matrix of the CUDA programming guide: its product, and other uses of it.
PRODUCT = """
typedef struct { int width; int height; float* elements; } Matrix;

extern "C" __global__ void product(Matrix A, Matrix B, Matrix C) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < A.width; ++k) sum += A.elements[row * A.width + k] * B.elements[k * B.width + col];
    C.elements[row * C.width + col] = sum;
}
"""
MATRIX = np.dtype([("width", "i4"), ("height", "i4"), ("elements", "u8")], align=True)
Named = namedtuple("Named", "width height elements")


@dataclasses.dataclass
class Members:
    width: int
    height: int
    elements: np.ndarray


class Native(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int), ("elements", ctypes.c_void_p)]


def scalar(x: np.ndarray) -> Any:
    return np.array((x.shape[1], x.shape[0], x.ctypes.data), MATRIX)[()]


MAKERS = {
    "dict": lambda x: {"width": x.shape[1], "height": x.shape[0], "elements": x},
    "tuple": lambda x: (x.shape[1], x.shape[0], x),
    "namedtuple": lambda x: Named(x.shape[1], x.shape[0], x),
    "dataclass": lambda x: Members(x.shape[1], x.shape[0], x),
    "numpy scalar": scalar,
    "ctypes": lambda x: Native(x.shape[1], x.shape[0], x.ctypes.data),
    "bytes": lambda x: bytes(Native(x.shape[1], x.shape[0], x.ctypes.data)),
}


@pytest.mark.parametrize(
    "make",
    # A tuple with names is a tuple, and the bytes are those of a structure of ctypes.
    [
        pytest.param(make, marks=slow_unless(name not in ("namedtuple", "bytes")), id=name)
        for name, make in MAKERS.items()
    ],
)
def test_structures_with_pointers(make: Any) -> None:
    """Pass matrices in each form to ``launch``: the product is right, and an access beyond one names it."""
    a, b = np.arange(64, dtype=np.float32).reshape(8, 8), np.ones((8, 12), np.float32)
    c = np.zeros((8, 12), np.float32)
    simulator.launch(PRODUCT, (3, 2), (4, 4), (make(a), make(b), make(c))).check()
    np.testing.assert_array_equal(c, a @ b)
    wrong = simulator.launch(
        PRODUCT, (3, 2), (4, 4), (make(a), make(b), make(c)), expected={"C.elements": a @ b + np.eye(8, 12)}
    )
    assert "8 of 96 elements of C.elements; C.elements[0, 0] is" in wrong.findings[0].message
    with pytest.raises(ConfigError, match=r"'C\.data'.* A, B, C, A\.elements"):
        simulator.launch(PRODUCT, 1, 1, (make(a), make(b), make(c)), expected={"C.data": c})
    (found,) = simulator.launch(PRODUCT, (3, 3), (4, 4), (make(a), make(b), make(c))).findings
    assert "just past the end of global array A.elements (256 bytes)" in found.message


def test_a_view_in_a_structure_ends_where_it_ends() -> None:
    a, b, c = np.ones((3, 8, 8), np.float32)
    simulator.launch(PRODUCT, (2, 2), (4, 4), tuple(map(MAKERS["dict"], (a, b, c)))).check()
    assert (c == 8).all()
    (found,) = simulator.launch(PRODUCT, (2, 3), (4, 4), tuple(map(MAKERS["dict"], (a, b, c)))).findings
    assert "just past the end of global array A.elements (256 bytes)" in found.message


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        ({"width": 8, "height": 8}, ConfigError, "A .*width, height, elements; got width, height"),
        ((8, 8), ConfigError, "A .*width, height, elements; got 2"),
        ((8, 8, np.ones((8, 8))), OperandTypeError, r"A\.elements is a float\*; .*float64"),
        ((8, 8, "x"), OperandTypeError, r"A\.elements is a float\*; .*'x'"),
        ((8.5, 8, None), ConfigError, r"A\.width is an int; .*8\.5"),
        (5, OperandTypeError, "A is a Matrix of 16 bytes"),
        (np.zeros((), MATRIX.newbyteorder()), OperandTypeError, "A .*byte order"),
    ],
)
def test_what_is_no_structure(matrix: Any, error: type[Exception], message: str) -> None:
    x = np.ones((8, 8), np.float32)
    with pytest.raises(error, match=message):
        simulator.launch(PRODUCT, 1, (8, 8), (matrix, scalar(x), scalar(x)))


def test_wild_pointers_are_described_as_such() -> None:
    x = np.ones((8, 8), np.float32)
    gone = scalar(np.ones((8, 8), np.float32))
    gc.collect()
    for address, said in (
        (0x123456789000, "0x123456789000, through a pointer to no array"),
        (int(gone["elements"]), f"{int(gone['elements']):#x}, through a pointer to no array"),
        (0, "0x0, through a null pointer"),
        (2**64 - 1, "a pointer that was not set"),
    ):
        wild = np.array((8, 8, address), MATRIX)[()]
        (found,) = simulator.launch(PRODUCT, 1, (8, 8), (wild, scalar(x), scalar(x))).findings
        assert found.kind == "global access out of bounds" and said in found.message, found.message


MANY = """
struct Part { int n; float* data; };
struct Node { float value; Node* next; };
__device__ Node* first;
__device__ Node pool[4];
__constant__ Part part;

extern "C" __global__ void twice(float** x, int n) { if (threadIdx.x < n) x[blockIdx.x][threadIdx.x] *= 2; }
extern "C" __global__ void add(Part* parts) {
    Part mine = parts[blockIdx.x];
    if (threadIdx.x < mine.n) mine.data[threadIdx.x] += 1;
}
extern "C" __global__ void rows(float** to, float* x, int n) { to[threadIdx.x] = x + n * threadIdx.x; }
extern "C" __global__ void second(float** from, float* out) { out[threadIdx.x] = from[threadIdx.x][1]; }
extern "C" __global__ void chain(Node* nodes, int n) {
    for (int i = 0; i < n; ++i) {
        nodes[i].value = i;
        nodes[i].next = i + 1 < n ? nodes + i + 1 : nullptr;
    }
    first = nodes;
}
extern "C" __global__ void chain_of_own() {
    for (int i = 0; i < 4; ++i) {
        pool[i].value = 10;
        pool[i].next = i < 3 ? &pool[i + 1] : nullptr;
    }
    first = pool;
}
extern "C" __global__ void sum(float* out) {
    float s = 0;
    for (Node* at = first; at; at = at->next) s += at->value;
    *out = s;
}
extern "C" __global__ void fill() { if (threadIdx.x < part.n) part.data[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void before(float* x) { x[0] = x[-1] + 1; }
extern "C" __global__ void from_one(float** to, float* x) { *to = x - 1; }
extern "C" __global__ void sum_from_one(float** x, int n, float* out) { for (int i = 1; i <= n; ++i) *out += (*x)[i]; }
extern "C" __global__ void store(size_t* to, float* x) { to[threadIdx.x] = (size_t)(x + threadIdx.x); }
"""
PART = np.dtype([("n", "i4"), ("data", "u8")], align=True)
NODE = np.dtype([("value", "f4"), ("next", "u8")], align=True)


def test_tables_of_pointers() -> None:
    """Pass ``float**`` as a list of arrays and as addresses, and an array of structures with pointers."""
    xs = [np.ones(32, np.float32) for _ in range(3)]
    table = np.array([x.ctypes.data for x in xs], np.uint64)
    parts = np.array([(32, x.ctypes.data) for x in xs], PART)
    held = table.copy(), parts.copy()
    simulator.launch(MANY, 3, 32, (xs, 32), name="twice").check()
    simulator.launch(MANY, 3, 32, (table, 32), name="twice").check()
    simulator.launch(MANY, 3, 32, (parts,), name="add").check()
    assert all((x == 5).all() for x in xs) and (held[0] == table).all() and (held[1] == parts).all()
    (found,) = simulator.launch(MANY, 3, 64, (table, 33), name="twice", workers=1).findings
    assert "just past the end of global array x[0] (128 bytes)" in found.message
    parts["n"][1] = 33
    (found,) = simulator.launch(MANY, 3, 64, (parts,), name="add").findings
    assert "just past the end of global array parts[1].data (128 bytes)" in found.message
    with pytest.raises(OperandTypeError, match=r"x is a float\*\*; got int as element 1"):
        simulator.launch(MANY, 3, 32, ([xs[0], 5], 32), name="twice")


def test_pointers_that_one_kernel_stores_are_of_use_to_the_next() -> None:
    module = cp.RawModule(code=MANY)
    x, table, out = cp.arange(32, dtype=cp.float32), cp.zeros(8, cp.uint64), cp.zeros(8, cp.float32)
    module.get_function("rows")((1,), (8,), (table, x, 4))
    assert table.tolist() == [x.data.ptr + 16 * i for i in range(8)]
    module.get_function("second")((1,), (8,), (table, out))
    assert out.tolist() == [4 * i + 1 for i in range(8)]
    nodes = cp.zeros(10, NODE)
    module.get_function("chain")((1,), (1,), (nodes, 10))
    module.get_function("sum")((1,), (1,), (out,))
    assert out[0] == 45
    module.get_function("chain_of_own")((1,), (1,), ())  # pointers to a variable, which each kernel has a copy of
    module.get_function("sum")((1,), (1,), (out,))
    assert out[0] == 40
    first = cp.ndarray((1,), cp.uint64, module.get_global("first"))
    assert first[0] == module.get_global("pool").ptr


def test_pointers_in_constant_memory() -> None:
    module = cp.RawModule(code=MANY)
    x = cp.zeros(8, cp.float32)
    part = np.array([(8, x.data.ptr)], PART)
    cp.ndarray((16,), cp.uint8, module.get_global("part"))[...] = cp.asarray(part.view(np.uint8))
    fill = module.get_function("fill")
    fill((1,), (8,), ())
    assert x.tolist() == list(range(8))
    part["n"] = 9
    cp.ndarray((16,), cp.uint8, module.get_global("part"))[...] = cp.asarray(part.view(np.uint8))
    with pytest.raises(SimulationError, match=r"just past the end of global array part\.data \(32 bytes\)"):
        fill((1,), (16,), ())
    y = np.zeros(8, np.float32)
    simulator.launch(MANY, 1, 8, (), name="fill", variables={"part": {"n": 8, "data": y}}).check()
    assert y.tolist() == list(range(8))


def test_a_pointer_is_to_all_of_its_memory() -> None:
    before = cp.RawModule(code=MANY).get_function("before")
    x = cp.arange(4, dtype=cp.float32)
    before((1,), (1,), (x.data.ptr + 8,))
    assert x.tolist() == [0, 1, 2, 3]
    for pointer in (x.data.ptr, x.data, int(x.data.ptr)):
        with pytest.raises(SimulationError, match="4 bytes before global array x"):
            before((1,), (1,), (pointer,))
    with pytest.raises(SimulationError, match="4 bytes before global array x"):
        before((1,), (1,), (x[2:],))  # a view ends where it ends
    before((1,), (1,), (cp.asarray(x[2:]).data + 0,))


def test_pointers_to_before_an_array() -> None:
    """Number elements from one: the pointer is to none, and its accesses are right."""
    module = cp.RawModule(code=MANY)
    x, table, out = cp.arange(4, dtype=cp.float32), cp.zeros(1, cp.uint64), cp.zeros(1, cp.float32)
    add_up = module.get_function("sum_from_one")
    module.get_function("from_one")((1,), (1,), (table, x))
    add_up((1,), (1,), (table, 4, out))
    add_up((1,), (1,), (cp.asarray([x.data.ptr - 4], dtype=cp.uint64), 4, out))
    assert out[0] == 12 and table[0] == x.data.ptr - 4
    with pytest.raises(SimulationError, match=r"just past the end of global array x\[0\]"):
        add_up((1,), (1,), (table, 5, out))


def test_addresses_that_a_kernel_writes_are_those_of_the_program() -> None:
    x, to = np.zeros(4, np.float32), np.zeros(4, np.uint64)
    address = x.ctypes.data
    simulator.launch(MANY, 1, 4, (to, x), name="store").check()
    assert to.tolist() == [address + 4 * i for i in range(4)]
    assert not simulator.launch(MANY, 1, 4, (to, x), name="store", checks="full").findings


def test_a_structure_takes_the_array_of_its_member_by_value() -> None:
    text = """
    struct Box { float lo[2][2]; short n; double at; };
    __global__ void volume(Box box, double* out) { out[0] = box.lo[1][0] * box.n + box.at; }
    """
    out = np.zeros(1)
    for lo in ([[1, 2], [3, 4]], [1, 2, 3, 4], np.array([[1, 2], [3, 4]], np.float32)):
        simulator.launch(text, 1, 1, ({"lo": lo, "n": 2, "at": 0.5}, out)).check()
        assert out[0] == 6.5
    for lo, error in (([1, 2], OperandTypeError), (np.ones(4), OperandTypeError), (np.ones(1, "f4"), OperandTypeError)):
        with pytest.raises(error, match=r"box\.lo"):
            simulator.launch(text, 1, 1, ({"lo": lo, "n": 2, "at": 0.5}, out))


def test_arrays_in_the_other_byte_order_are_refused() -> None:
    text = "__global__ void one(float* x) { x[0] = 1; }"
    swapped = np.ones(4, np.dtype(np.float32).newbyteorder())
    with pytest.raises(OperandTypeError, match=r"x .*byte"):
        simulator.launch(text, 1, 1, (swapped,))
    x = cp.asarray(swapped)  # CuPy swaps them
    cp.RawKernel(f'extern "C" {text}', "one")((1,), (1,), (x,))
    assert x.tolist() == [1, 1, 1, 1]
    with pytest.raises(AlignmentError):
        simulator.launch(text, 1, 1, (np.zeros(17, np.uint8)[1:].view(np.float32),))
