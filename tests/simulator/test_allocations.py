"""Tests of malloc, free, new and delete in kernels, and of what is wrong with the memory that they return."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import slow_unless
from tiledmm import simulator
from tiledmm.simulator.build.cxx import compiler, is_clang


def launch(code: str, before: str = "", grid: int = 1, block: int = 1, **options: object):
    text = f"{before}\n__global__ void k(int* x) {{\n    const int t = threadIdx.x;\n    {code}\n}}\n"
    x = np.zeros(64, np.int32)
    return simulator.launch(text, grid, block, (x,), **options), x


POINT = """
struct Point { int x, y; __device__ Point(int a = 3) : x(a), y(2 * a) {} };
struct Shape { virtual __device__ int area() const = 0; virtual __device__ ~Shape() {} };
struct Square : Shape {
    int side;
    __device__ Square(int a) : side(a) {}
    __device__ int area() const override { return side * side; }
    __device__ ~Square() { side = 0; }
};
struct alignas(64) Wide { int a[16]; };
struct Node { int value; Node* next; };
"""


#: Launches with the usual checks, without any, and with all.
OPTIONS = ({}, {"checks": False, "counts": False}, {"checks": "full"})
USES = [
    ("int* p = (int*)malloc(4 * sizeof(int)); for (int i = 0; i < 4; ++i) p[i] = i + t; x[t] = p[3]; free(p);",
     [3, 4, 5, 6]),
    ("int* p = new int[3]; p[2] = t; x[t] = p[2] + 1; delete[] p;", [1, 2, 3, 4]),
    ("Point* p = new Point(t); x[t] = p->x + p->y; delete p;", [0, 3, 6, 9]),
    ("Point* p = new Point[5]; x[t] = p[4].y; delete[] p;", [6] * 4),
    ("Shape* s = new Square(t); x[t] = s->area(); delete s;", [0, 1, 4, 9]),
    ("Wide* w = new Wide; w->a[15] = t; x[t] = w->a[15] + (size_t)w % 64; delete w;", [0, 1, 2, 3]),
    ("int* p = new int(7); x[t] = *p; delete p; p = nullptr; delete p; free(p);", [7] * 4),
    ("Point room; Point* p = new (&room) Point(t); x[t] = p->y;", [0, 2, 4, 6]),
    ("Node* list = nullptr; for (int i = 0; i < 9; ++i) list = new Node{i, list};"
     "int sum = 0; while (list) { Node* next = list->next; sum += list->value; delete list; list = next; }"
     "x[t] = sum;",
     [36] * 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected", "options"),
    [
        pytest.param(*use, options, marks=slow_unless(i % len(OPTIONS) == j))
        for i, use in enumerate(USES)
        for j, options in enumerate(OPTIONS)
    ],
)
def test_memory_is_allocated_and_freed(code, expected, options):
    report, x = launch(code, POINT, block=4, **options)
    report.check()
    assert not report.warnings
    assert x[:4].tolist() == expected


def test_memory_of_a_block_is_passed_by_shared_memory_and_counted():
    code = """__shared__ int* p;
    if (t == 0) p = (int*)malloc(blockDim.x * sizeof(int));
    __syncthreads();
    p[t] = t;
    __syncthreads();
    x[t] = p[31 - t];
    __syncthreads();
    if (t == 0) free(p);"""
    report, x = launch(code, block=32)
    report.check()
    assert x[:32].tolist() == list(range(31, -1, -1))
    line = next(each for each in report.lines if each.line == 7)
    assert line.source.global_store.requests == 1
    without = code.replace("__syncthreads();\n    if (t == 0) free(p);", "if (t == 0) free(p);")
    (found, *_) = launch(without, block=32, threads="reverse")[0].findings
    assert found.kind == "race on global memory" and "the memory allocated at kernel.cu:5 (128 bytes)" in found.message
    assert {found.line, found.other_line} == {9, 10}


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("int* p = (int*)malloc(12); p[3] = t; free(p);", "global access out of bounds",
         "writes 4 bytes just past the end of the memory allocated at kernel.cu:4 (12 bytes)"),
        ("int* p = (int*)malloc(9); x[t] = p[2]; free(p);", "global access out of bounds", "(9 bytes)"),
        ("int* p = (int*)malloc(16); p[-1] = t; free(p);", "global access out of bounds", "4 bytes before"),
        ("int* p = new int(1); delete p; x[t] = *p;", "access to freed memory",
         "thread (0, 0) freed at the same line"),
        ("int* p = (int*)malloc(4); free(p);\n    free(p);", "free that cannot be made",
         "has already freed at kernel.cu:4"),
        ("int* p = new int[8]; free(p + 1);", "free that cannot be made", "did not return"),
        ("free(x);", "free that cannot be made", "did not return"),
        ("int* p = new int[8]; p[0] = 1; x[t] = p[1]; delete[] p;", "uninitialised allocated memory", "at byte 4"),
        ("int* p = (int*)malloc(8 << 20); *p = 1; free(p);", "global access out of bounds", "null pointer"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_at_its_line(code, kind, said):
    report, _ = launch(code)
    (found,) = report.findings
    assert (found.kind, found.line) == (kind, 5 if "\n" in code else 4)
    assert said in found.message


def test_two_threads_race_on_allocated_memory():
    code = """__shared__ int* p;
    if (t == 0) p = new int[2];
    __syncthreads();
    p[0] = t;
    __syncthreads();
    if (t == 0) delete[] p;"""
    (found,) = launch(code, block=2)[0].findings
    assert (found.kind, found.line) == ("race on global memory", 7)


def test_what_is_not_freed_is_a_warning_for_each_place():
    report, _ = launch("int* p = (int*)malloc(20); x[t] = p != nullptr; if (t == 0) free(p);", block=4)
    assert report.ok
    (found,) = report.warnings
    assert (found.kind, found.line, found.count) == ("memory that is not freed", 4, 3)
    assert "20 bytes" in found.message and "(3 times)" in found.message


@pytest.mark.skipif(is_clang(compiler()), reason="Clang takes it for granted that new returns memory")
def test_new_returns_null_where_there_is_no_memory():
    report, x = launch("int* p = new int[1 << 22]; x[0] = p == nullptr;")
    report.check()
    assert x[0] == 1


def test_a_heap_that_is_used_up_returns_null_and_freed_memory_is_there_again():
    code = """int blocks = 0;
    char* all[40];
    for (; blocks < 40; ++blocks)
        if (!(all[blocks] = (char*)malloc(1 << 19))) break;
    x[0] = blocks;
    int* more = (int*)malloc(1 << 20);
    x[1] = more == nullptr;
    for (int i = 0; i < blocks; ++i) free(all[i]);
    for (int i = 0; i < 300; ++i) {
        char* p = (char*)malloc(100000);
        p[i] = 1;
        x[2] += p[i];
        free(p);
    }"""
    report, x = launch(code)
    report.check()
    assert x[:3].tolist() == [15, 1, 300]
