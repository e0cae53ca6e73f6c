"""Tests of which parts of its headers a rendered kernel keeps."""

from __future__ import annotations

import textwrap

import pytest

from tiledmm.codegen.tree_shaking import BEGIN, END, shake

HEADER = """
// What this header is for.

// ---- types ----

using real = float;
using wide = double;

struct Pair {
    real left, right;

    // The larger of both.
    __device__ real larger() const { return left > right ? left : right; }

    __device__ real smaller() const {
        return left > right ? right : left;
    }
};

// ---- sums ----

#ifdef FAST

// A sum.
__device__ real add(real x, real y) { return x + y; }
__device__ wide add(wide x, wide y) { return x + y; }

#endif

// Two numbers.
constexpr int ONE = 1, TWO = 2;
static_assert(ONE < TWO, "in order");

template <class T>
struct Cast {
    static T from(T x) { return x; }
};
template <>
struct Cast<wide> {
    template <class From>
    static wide from(From x) {
        return static_cast<wide>(x);   // not real
    }
};
"""


def shaken(page: str, header: str = HEADER) -> str:
    return shake(f"{BEGIN}\n{header}{END}\n{page}\n")


def test_what_nobody_names_is_left_out_with_its_headings():
    numbers = '// Two numbers.\nconstexpr int ONE = 1, TWO = 2;\nstatic_assert(ONE < TWO, "in order");\n'
    assert shaken("int x;") == numbers + "\nint x;\n", "what has no name stays, and what it names"


def test_a_member_function_is_kept_if_it_is_called():
    text = shaken("real f(Pair p) { return p.smaller(); }")
    assert "smaller() const {\n        return left" in text and "real left, right;\n\n" in text
    assert "larger" not in text and "The larger" not in text
    assert text.startswith("// ---- types ----\n\nusing real = float;\n\nstruct Pair {\n")


def test_of_overloads_those_for_types_at_hand_stay():
    text = shaken("real f(real x) { return add(x, x); }")
    assert "#ifdef FAST\n\n// A sum.\n__device__ real add(real x, real y) { return x + y; }\n\n#endif\n" in text
    assert "wide" not in text
    assert "__device__ wide add" in shaken("wide f(wide x) { return add(x, x); }")


def test_of_specializations_those_for_types_at_hand_stay():
    assert "struct Cast<wide>" not in shaken("real x = Cast<real>::from(1);")
    text = shaken("wide x = Cast<wide>::from(1);")
    assert "struct Cast<wide>" in text and "using real" not in text, "a comment names nothing"


@pytest.mark.parametrize("page", ["// real", "int surreal;", "int add;"])
def test_what_is_no_name_keeps_nothing(page):
    assert "using real" not in shaken(page) and "add(" not in shaken(page)


def test_a_constructor_stays_with_its_struct():
    header = "struct A {\n    int x;\n\n    __device__ A(int x) : x(x) {}\n    __device__ int f() { return x; }\n};\n"
    assert shaken("A a(1);", header) == header.replace("    __device__ int f() { return x; }\n", "") + "\nA a(1);\n"


def test_text_without_headers_stays_as_it_is():
    text = textwrap.dedent("""\
        // nothing calls this
        __device__ int f() { return 1; }
        """)
    assert shake(text) == text


def test_macros_stay_whole():
    new, twice = "#if NEWER\n#define NEW 1\n#else\n#define NEW 0\n#endif\n", "#define TWICE(x) \\\n    ((x) + (x))\n"
    assert shaken("int x = NEW;", f"{new}\n{twice}") == f"{new}\nint x = NEW;\n"
    assert shaken("int x = TWICE(1);", f"{new}\n{twice}") == f"{twice}\nint x = TWICE(1);\n"
