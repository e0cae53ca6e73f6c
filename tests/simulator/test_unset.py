"""Tests of ``checks="full"``: uninitialized variables, and accesses outside a thread's variables."""

import re

import numpy as np
import pytest

import tiledmm
from tiledmm import simulator
from tiledmm.errors import ConfigError

SUM = """
__global__ void k(float* x, int n) {
    float sum;
    for (int i = 0; i < n; ++i)
        sum += x[i];
    x[0] = sum;
}
"""

PART = """
__global__ void k(float* x, int n) {
    float part[4];
    part[0] = part[1] = part[2] = 0;
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += part[i % 4];
    x[0] = sum;
}
"""


def launch(text: str, **options) -> simulator.Report:
    return simulator.launch(text, 1, 1, (np.ones(8, np.float32), 8), **options)


def test_what_the_compiler_sees_is_named_by_its_variable():
    (found,) = launch(SUM, checks="full").findings
    assert (found.kind, found.line, found.other_line) == ("variable read before it is set", 5, 3)
    assert "sum, declared at kernel.cu:3" in found.message and found.text.strip() == "sum += x[i];"


def test_a_pattern_that_changes_nothing_where_a_nan_would():
    text = SUM.replace("sum += x[i];", "sum = sum * expf(i ? 0 : -INFINITY) + x[i];")
    (found,) = launch(text, checks="full").findings
    assert (found.kind, found.line, found.other_line) == ("variable read before it is set", 5, 3)
    launch(text.replace("float sum;", "float sum = 0;"), checks="full").check()


def test_a_maximum_that_neither_the_pattern_nor_a_nan_wins():
    text = SUM.replace("sum += x[i];", "sum = fmaxf(sum, x[i]);")
    (found,) = launch(text, checks="full").findings
    assert (found.kind, found.line, found.other_line) == ("variable read before it is set", 5, 3)
    launch(text.replace("float sum;", "float sum = -INFINITY;"), checks="full").check()


def test_a_member_is_named_by_the_element_that_depends_on_it_even_if_that_is_wrong():
    text = """
    struct Moments { float mean, m2; };
    __global__ void k(float* x, int n) {
        __shared__ Moments shared[1];
        Moments mine;
        mine.mean = 0;
        for (int i = 0; i < n; ++i) mine.m2 += x[i];
        shared[0] = mine;
        x[1] = shared[0].m2;
    }
    """
    expected = np.ones(8, np.float32)
    expected[1] = 8
    found = launch(text, expected={"x": expected}).findings
    assert [(each.kind, each.line) for each in found] == [("variable read before it is set", 9), ("wrong result", 9)]
    assert re.search(r"x\[1\] .*block \(0, 0\), thread \(0, 0\)", found[0].message)


def test_a_member_that_is_passed_on_is_named_where_it_is_read():
    text = """
    struct Moments { float mean, m2; int count; };
    __device__ Moments join(const Moments& a, float x) {
        Moments sum;
        sum.mean = a.mean + x;
        sum.m2 = a.m2 + x * x / (a.count + 1);
        return sum;
    }
    __global__ void k(float* x, int n) {
        Moments mine = {0, 0, 0};
        for (int i = 0; i < n; ++i) mine = join(mine, x[i]);
        x[1] = mine.m2;
    }
    """
    found = launch(text, checks="full").findings
    assert [(each.kind, each.line, each.calls) for each in found] == [("element read before it is set", 6, (11,))]


ZEROS = """
struct Both {{ float a, b; }};
struct Set {{ float a; __device__ Set() : a(1) {{}} }};
__global__ void k(float* x, int n) {{
    float sum = 0;
    for (int i = 0; i <= n; ++i) {{
        {declared}
        float other = 0;
        if (i < n) {set}, other = 1;
        sum += {read} * other;
    }}
    x[0] = sum;
}}
"""


@pytest.mark.parametrize(
    ("declared", "set_", "read"),
    [
        pytest.param("float4 v;", "v = make_float4(x[i], 0, 0, 0)", "v.x", marks=pytest.mark.slow),
        ("float2 v, w;", "w.y = x[i], v.y = w.y", "v.y"),
        pytest.param("Both v;", "v.b = x[i]", "v.b", marks=pytest.mark.slow),
        pytest.param("float v[4];", "v[2] = x[i]", "v[2]", marks=pytest.mark.slow),
        ("float v[2][2];", "v[1][0] = x[i]", "v[1][0]"),
    ],
)
def test_a_part_of_a_structure_or_an_array_that_only_a_nan_shows(declared: str, set_: str, read: str) -> None:
    """Check that a variable is found even if its uninitialized parts are only multiplied by zeros."""
    text = ZEROS.format(declared=declared, set=set_, read=read)
    (found,) = launch(text, checks="full").findings
    assert (found.kind, found.line, found.other_line) == ("variable read before it is set", 12, 7)
    assert re.search(r"thread \(0, 0\) .*\bv, declared at kernel\.cu:7$", found.message)
    initialized = declared.replace(";", " = {};").replace("v, ", "v = {}, ")
    launch(text.replace(declared, initialized), checks="full").check()


def test_what_a_constructor_sets_is_set() -> None:
    launch(ZEROS.format(declared="Set v;", set="v.a = x[i]", read="v.a"), checks="full").check()


@pytest.mark.parametrize(("initialized", "declared"), [("re(r), im(i)", None), ("re(r)", 4), ("im(i)", 3)])
def test_a_member_that_a_constructor_of_a_temporary_leaves_out(initialized: str, declared: int | None) -> None:
    text = f"""
    struct Complex {{
        float re,
            im;
        __device__ Complex(float r, float i) : {initialized} {{}}
        __device__ Complex operator*(float by) const {{ return Complex(re * by, im * by); }}
    }};
    __global__ void k(Complex* x, int n) {{
        if (threadIdx.x < n) x[threadIdx.x] = x[threadIdx.x] * 2;
    }}
    """
    report = simulator.launch(text, 1, 32, (np.ones(32, np.complex64), 32), checks="full")
    found = [(each.kind, each.line, each.other_line) for each in report.findings]
    assert found == ([] if declared is None else [("variable read before it is set", 9, declared)])


def test_an_element_that_is_not_set_and_leads_to_a_wild_access():
    text = """
    __global__ void k(float* x, int n) {
        int at[4];
        for (int i = 0; i < n; ++i) at[i % 4] += 1;
        x[at[0]] = 1;
    }
    """
    kinds = [each.kind for each in launch(text, checks="full").findings]
    assert kinds[:2] == ["global access out of bounds", "element read before it is set"]


@pytest.mark.parametrize(("declared", "named"), [("int at;", True), ("int at = 0;", False), ("int at = 9;", None)])
def test_an_access_that_depends_on_what_is_not_set(declared, named):
    text = f"""
    __global__ void k(float* x, int n) {{
        {declared}
        for (int i = 0; i < n; ++i) at += i == 100;
        x[at] = 1;
    }}
    """
    kinds = [(each.kind, each.line) for each in launch(text, checks="full").findings]
    outside = ("global access out of bounds", 5)
    assert kinds == {True: [outside, ("variable read before it is set", 4)], False: [], None: [outside]}[named]


def test_an_access_through_a_member_that_is_not_set():
    text = """
    struct P { int a, b; };
    __global__ void k(float* x, int n) {
        P p;
        p.a = 1;
        P* q = n ? &p : nullptr;
        x[q->b] = 1;
    }
    """
    kinds = {each.kind for each in launch(text, checks="full").findings}
    assert kinds == {"global access out of bounds", "element read before it is set"}


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_shared_variable_that_nothing_writes(kind):
    text = f"""
    __global__ void k(float* x, int n) {{
        __shared__ {kind} first;
        if (!first) x[0] = n;
    }}
    """
    assert [(each.kind, each.line) for each in launch(text).findings] == [("uninitialised shared memory", 4)]


def test_elements_of_a_local_array():
    (found,) = launch(PART, checks="full").findings
    assert (found.kind, found.line, found.thread) == ("element read before it is set", 6, (0, 0, 0))
    assert re.search(r"reads 4 bytes .*\(2 times\); .* part, declared at kernel.cu:3$", found.message)


def test_what_no_build_names_is_named_by_the_element_that_depends_on_it():
    text = """
    struct P { float a, b; };
    __global__ void k(float* x, int n) {
        P p;
        p.a = 1;
        x[0] = (&p.a)[n / 8];
    }
    """
    kinds = {each.kind for each in launch(text, checks="full").findings}
    assert kinds and kinds <= {"variable read before it is set", "element read before it is set"}


GET = """
__device__ __attribute__((noinline)) float get(float* p, int i) { return p[i]; }
__global__ void k(float* x, int n) {
    float one[4], other[4];
    for (int i = 0; i < 4; ++i) one[i] = other[i] = i;
    x[0] = get(one, n) + get(other, 1);
}
"""


@pytest.mark.parametrize(("at", "inside"), [(3, True), (4, False), (-1, False)])
def test_accesses_beside_a_local_array(at, inside):
    report = simulator.launch(GET, 1, 1, (np.ones(1, np.float32), at), checks="full")
    found = [(each.kind, each.line, each.calls) for each in report.findings]
    assert found == ([] if inside else [("local access out of bounds", 2, (6,))])


def test_a_wrong_result_is_looked_at_more_closely():
    expected = np.ones(8, np.float32)
    expected[0] = 8
    kinds = [each.kind for each in launch(SUM, expected={"x": expected}).findings]
    assert kinds == ["variable read before it is set", "wrong result"]
    kinds = [
        each.kind for each in launch(SUM.replace("float sum;", "float sum = 1;"), expected={"x": expected}).findings
    ]
    assert kinds == ["wrong result"]


@pytest.mark.parametrize(
    "text", [SUM.replace("float sum;", "float sum = 0;"), PART.replace("part[2]", "part[2] = part[3]")]
)
def test_kernels_that_set_all_have_no_finding(text):
    launch(text, checks="full").check()


def test_a_variable_that_changes_no_result_is_no_finding():
    text = SUM.replace("sum += x[i]", "sum = i ? sum + x[i] : x[i]")
    launch(text, checks="full").check()


def test_products(tmp_path):
    a, b = np.ones((20, 10), np.float32), np.ones((10, 30), np.float32)
    simulator.matmul(a, b, variant="tiled", tile=8, checks="full")
    text = tiledmm.source("naive")
    assert text.count("Sum sum = {};") == 1
    path = tmp_path / "mine.cu"
    path.write_text(text.replace("Sum sum = {};", "Sum sum;"))
    _, report = simulator.run(a, b, variant="naive", source=path)
    assert report.ok
    _, report = simulator.run(a, b, variant="naive", source=path, checks="full")
    (found,) = report.findings
    assert (
        found.kind == "variable read before it is set" and found.location.startswith("mine.cu:") and "sum" in found.text
    )


@pytest.mark.parametrize("term", ["fmaxf(sum, 1.0f)", pytest.param("sum * 0.0f + 1.0f", marks=pytest.mark.slow)])
def test_products_whose_unset_variable_shows_by_some_values_alone(tmp_path, term):
    text = tiledmm.source("naive")
    added = "multiply_add(A.read(block.row0 + row, k), B.read(k, block.col0 + col), sum)"
    assert text.count(added) == 1
    path = tmp_path / "mine.cu"
    path.write_text(text.replace("Sum sum = {};", "Sum sum;").replace(added, term))
    x = np.ones((8, 8), np.float32)
    _, report = simulator.run(x, x, variant="naive", source=path, checks="full")
    assert {each.kind for each in report.findings} == {"variable read before it is set"}


def test_checks_are_true_false_or_full():
    with pytest.raises(ConfigError, match=r"checks .*full.*'all'"):
        launch(SUM, checks="all")


UNSET_OF_EVERY_KIND = {
    "scalar": ("float v; if (n > 100) v = 3;", "x[0] = v;"),
    "flag": ("bool v; for (int i = 0; i < n; ++i) if (x[i] > 2) { v = true; break; }", "if (v) x[0] = 5;"),
    "bound": ("int v; if (n > 100) v = n;", "for (int i = 0; i < v; ++i) x[0] += 1;"),
    "index": ("int v; if (n > 100) v = 3;", "x[v] = 7;"),
    "pointer": ("float* v; if (n > 100) v = x;", "*v = 7;"),
    "reference": ("float v; auto add = [](float& sum, float y) { sum += y; };", "add(v, x[0]); x[0] = v;"),
    "out parameter": (
        "float v; auto get = [](float y, float* out) { if (y > 2) *out = y; };",
        "get(x[0], &v); x[0] = v;",
    ),
    "bit-field": ("struct F { unsigned a : 3, b : 5; }; F v; v.a = 1;", "x[0] = v.a + v.b;"),
}
SET = {
    "float v;": "float v = 0;", "bool v;": "bool v = false;", "int v;": "int v = 0;", "float* v;": "float* v = x;",
    "F v;": "F v = {};",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(each, marks=[pytest.mark.slow] * (each not in ("bound", "out parameter", "bit-field")))
        for each in UNSET_OF_EVERY_KIND
    ],
)
def test_unset_values_of_every_kind(kind):
    declared, used = UNSET_OF_EVERY_KIND[kind]
    text = f"__global__ void k(float* x, int n) {{\n{declared}\n{used}\n}}"
    found = launch(text, checks="full").findings
    assert any(each.kind in ("variable read before it is set", "element read before it is set") for each in found)
    assert {2, 3} & {each.line for each in found}
    assert any(each.other_line == 2 or each.line == 2 for each in found)
    for unset, value in SET.items():
        declared = declared.replace(unset, value)
    launch(f"__global__ void k(float* x, int n) {{\n{declared}\n{used}\n}}", checks="full").check()


DROPPED = """
struct F { unsigned a : 3, b : 5; };
__device__ int side(float* x) { x[0] += 1; }
__device__ void get(float y, float* out) { *out = y; }
__global__ void k(float* x, int n) {
    __shared__ F shared;
    float v, w = v, previous, part[4];
    bool flag;
    F bits;
    get(x[1], &v);
    bits.a = shared.a = 1;
    side(x);
    for (int i = 0; i < n; ++i) {
        if (i > 0) x[i] += previous;
        previous = x[i];
        part[i % 4] = part[i % 4] * 0 + i > 100;
        flag = i > n || (i > 0 && flag);
    }
    for (int i = 0; i < 4; ++i) part[i] = i;
    x[2] = part[1] + flag + v + bits.a + shared.a + (n > 100 ? w : 0);
}
"""


def test_a_value_that_is_read_and_dropped_is_no_finding():
    launch(DROPPED, checks="full").check()
    launch(DROPPED).check()


@pytest.mark.parametrize("checks", [True, "full"])
@pytest.mark.parametrize(
    "function",
    [
        "__device__ float get(float y) { if (y > 2) return 1; }",
        pytest.param("__device__ __noinline__ float get(float y) {\t}", marks=pytest.mark.slow),
        pytest.param(
            "template <class T> __device__ T get(T y) { switch (int(y)) { case 0: return 1; case 2: return 2; } }",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_function_that_does_not_return_a_value(function, checks):
    text = f"{function}\n__global__ void k(float* x, int n) {{\n x[0] = get(x[0]);\n}}"
    (found,) = launch(text, checks=checks).findings
    assert (found.kind, found.line, found.calls) == ("function that does not return a value", 1, (3,))


def test_a_function_whose_end_no_thread_reaches():
    text = """
    __device__ float get(float y) { if (y < 2) return 1; }
    __device__ float search(const float* x) { for (int i = 0;; ++i) if (x[i] > 0) return i; }
    __global__ void k(float* x, int n) { x[0] = get(x[0]) + search(x); }
    """
    launch(text, checks="full").check()


def test_a_bit_field_in_shared_memory_that_nobody_wrote():
    text = """
    struct F { unsigned a : 3, b : 5; };
    __global__ void k(float* x, int n) {
        __shared__ F f;
        f.a = 1;
        x[0] = f.a + f.b;
    }
    """
    (found,) = launch(text, checks="full").findings
    assert found.line == 6 and "shared memory" in found.message


def test_a_loop_bound_that_is_a_great_number_ends():
    text = """
    __global__ void k(float* x, int n) {
        unsigned m;
        if (n > 100) m = n;
        for (unsigned i = 0; i < m; ++i) x[i % 8] += 1;
    }
    """
    found = launch(text, checks="full", max_steps=1000).findings
    assert "runaway thread" in {each.kind for each in found} or any(each.other_line == 3 for each in found)
