"""Tests of computation types and permitted conversions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import PROPERTY, np_dtype
from tiledmm.elements import ELEMENTS, element
from tiledmm.errors import KeywordError, UnsupportedTypeError
from tiledmm.problem.casting import can_cast, check_cast, converts_in_kernel, loop_type

NUMPY_TYPES = tuple(name for name in ELEMENTS if name != "bfloat16")
RULES = ("no", "equiv", "safe", "same_kind", "unsafe")
BFLOAT16 = np_dtype("bfloat16")


def test_the_type_of_a_product_is_numpys() -> None:
    for left, right in itertools.product(NUMPY_TYPES, repeat=2):
        x1, x2 = np.ones((1, 1), left), np.ones((1, 1), right)
        assert loop_type(x1.dtype, x2.dtype) == np.matmul(x1, x2).dtype, (left, right)


@pytest.mark.parametrize("dtype", [np.float64, "float64", "d", float, np.dtype("float64"), "f8", "<f8"])
def test_dtype_is_anything_numpy_takes(dtype: Any) -> None:
    assert loop_type(np.dtype("f4"), np.dtype("f4"), dtype) == np.float64


def test_bfloat16_by_name_and_as_a_dtype() -> None:
    for dtype in ("bfloat16", BFLOAT16, BFLOAT16.type):
        assert loop_type(np.dtype("f4"), np.dtype("f4"), dtype) == BFLOAT16
        assert element(dtype).name == "bf16"


@pytest.mark.parametrize(
    "signature",
    ["dd->d", ("d", "d", "d"), (None, None, "d"), ("d", None, "d"), (None, "float64", np.float64)],
)
def test_signature(signature: Any) -> None:
    assert loop_type(np.dtype("f4"), np.dtype("f4"), None, signature) == np.float64


@pytest.mark.parametrize(
    "signature", ["", "d", "dd", "dd->", "->d", "ddd->d", "dd->dd", ["d"] * 3, 5, ("d",), ("d", "d")]
)
def test_a_malformed_signature_is_a_keyword_error(signature: Any) -> None:
    with pytest.raises(KeywordError):
        loop_type(np.dtype("f4"), np.dtype("f4"), None, signature)


@pytest.mark.parametrize("signature", ["fd->d", "ff->d", ("f", "d", "d"), "gg->g", "OO->O"])
def test_a_loop_that_is_not_there_is_an_unsupported_type(signature: Any) -> None:
    with pytest.raises(UnsupportedTypeError):
        loop_type(np.dtype("f4"), np.dtype("f4"), None, signature)


def test_casts_are_numpys() -> None:
    for source, target, rule in itertools.product(map(np.dtype, NUMPY_TYPES), map(np.dtype, NUMPY_TYPES), RULES):
        assert can_cast(source, target, rule) == np.can_cast(source, target, rule), (source, target, rule)  # type: ignore[arg-type]


def test_bfloat16_casts_as_a_float_of_the_same_kind() -> None:
    for dtype in map(np_dtype, ELEMENTS):
        assert can_cast(dtype, BFLOAT16, "same_kind") == (dtype == BFLOAT16 or dtype.kind != "c"), dtype
        assert can_cast(BFLOAT16, dtype, "same_kind") == (dtype == BFLOAT16 or dtype.kind in "fc"), dtype
        assert can_cast(BFLOAT16, dtype, "unsafe"), dtype
        assert can_cast(BFLOAT16, dtype, "no") == (dtype == BFLOAT16), dtype


def test_bfloat16_casts_safely_only_to_what_holds_it() -> None:
    safe = {name for name in ELEMENTS if can_cast(BFLOAT16, np_dtype(name), "safe")}
    assert safe == {"bfloat16", "float32", "float64", "complex64", "complex128"}


def test_kernels_convert_what_is_of_the_same_kind() -> None:
    assert converts_in_kernel(np.dtype("i1"), np.dtype("f4"))
    assert converts_in_kernel(np.dtype("D"), np.dtype("F"))
    assert converts_in_kernel(np.dtype("f2"), BFLOAT16)
    assert not converts_in_kernel(np.dtype("f4"), np.dtype("i4"))
    assert not converts_in_kernel(np.dtype("F"), np.dtype("f4"))
    assert not converts_in_kernel(np.dtype("i4"), np.dtype("?"))


def test_a_forbidden_cast_says_which() -> None:
    check_cast(np.dtype("f4"), np.dtype("f4"), "no", "operand 0")
    with pytest.raises(UnsupportedTypeError, match=r"operand 0 .*float64 .*float32.*'safe'"):
        check_cast(np.dtype("f8"), np.dtype("f4"), "safe", "operand 0")


# ---- elements ----


def test_an_element_describes_its_dtype() -> None:
    for name, row in ELEMENTS.items():
        assert row.dtype.name == row.dtype_name == name
        assert row.dtype.itemsize == row.itemsize
        assert element(row.dtype) is element(name) is row
        assert row.sum_bytes >= 4


def test_elements_are_all_numeric_types_and_their_names_are_unique() -> None:
    kinds = {"b": 1, "i": 4, "u": 4, "f": 3, "c": 2, "V": 1}
    counted = {kind: sum(np_dtype(name).kind == kind for name in ELEMENTS) for kind in kinds}
    assert counted == kinds
    assert len({row.name for row in ELEMENTS.values()}) == len({row.c_type for row in ELEMENTS.values()}) == 15


@PROPERTY
@given(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(("(2,f4", "f4,f4", "f4; int x", "float32 ", "2f4", "V4", "(2,)f4")),
    )
)
@example("a")  # NumPy warns of its own
def test_no_text_is_a_type_but_the_names_numpy_knows(text: str) -> None:
    try:
        row = element(text)
    except UnsupportedTypeError:
        return
    assert row in ELEMENTS.values()


@pytest.mark.parametrize("char", ["l", "q", "L", "Q"])
def test_types_of_one_size_keep_their_names(char: str) -> None:
    """Check that results may be ``longlong``, which NumPy treats as a type apart although it equals int64."""
    one, other = np.ones((1, 1), char), np.ones((1, 1), "q" if char.islower() else "Q")
    for x1, x2 in ((one, one), (one, other), (other, one)):
        assert loop_type(x1.dtype, x2.dtype).char == np.matmul(x1, x2).dtype.char
    assert loop_type(one.dtype, one.dtype, dtype="q").char == "q"
    assert loop_type(one.dtype, one.dtype, dtype=np.longlong).char == "q"
    assert loop_type(one.dtype, one.dtype, signature="qq->q").char == "q"
    assert loop_type(one.dtype, one.dtype, dtype="int64").char == np.dtype("int64").char
