"""Tests of the keywords of ``gemm``, independent of earlier calls; arrays are only described, so no GPU is needed."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tiledmm.errors import KeywordError, ShapeError, UnsupportedTypeError
from tiledmm.problem import epilogue as module
from tiledmm.problem.epilogue import ACTIVATIONS, EpilogueCall, EpilogueKeywords, resolve_epilogue

FLOAT = np.dtype("float32")
C, BIAS = np.ones((4, 4), "f4"), np.ones(4, "f4")


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", {})


def resolved(compute: Any = FLOAT, casting: str = "same_kind", **keywords: Any) -> EpilogueCall:
    return resolve_epilogue(np.dtype(compute), casting, EpilogueKeywords(**keywords))


def outcome(call: dict[str, Any]) -> Any:
    """Return a call's epilogue, or the class of its error."""
    try:
        found = resolved(**call)
    except (KeywordError, ShapeError, UnsupportedTypeError) as error:
        return type(error)
    read = [(x.shape, x.dtype) for x in found.arrays]
    return found.epilogue, read, found.scalars, found.without_product


class Listed(list[float]):
    """An object that is no array."""


class Typed:
    """An object with a type that is no array."""

    dtype, shape = FLOAT, (4,)


class Strided:
    """An object with strides that is no array."""

    strides, shape = (4,), (4,)


CALLS: list[dict[str, Any]] = [
    {}, {"activation": "relu"}, {"activation": "silu"}, {"activation": "silu", "compute": "i4"},
    {"activation": "relu", "compute": "i4"}, {"activation": "relu", "compute": "u4"}, {"activation": "rel"},
    {"activation": "relu", "compute": "c8"}, {"compute": "bool"},
    {"alpha": 2}, {"alpha": 1}, {"alpha": 0}, {"alpha": 0.5}, {"alpha": 2j}, {"alpha": np.float32(2)},
    {"alpha": 2, "compute": "i4"}, {"alpha": 0.5, "compute": "i4"}, {"alpha": 2j, "compute": "c8"},
    {"alpha": np.complex64(2)}, {"alpha": "2"}, {"alpha": [2.0]},
    {"alpha": np.array(2, "f4")}, {"alpha": np.array([2], "f4")}, {"alpha": np.array(2, "f8")},
    {"alpha": np.array(2, "f8"), "casting": "safe"}, {"alpha": np.array(2, "c8")},
    {"beta": 1}, {"beta": 0}, {"c": C}, {"c": C, "beta": 1}, {"c": C, "beta": 2}, {"c": C, "beta": 0},
    {"c": C, "beta": np.array(1, "f4")}, {"c": C, "beta": np.array([1], "f4")}, {"c": C, "beta": np.ones((1, 1), "f4")},
    {"c": C, "beta": np.array(1, "f8"), "casting": "safe"}, {"c": C, "beta": np.array(1, "f8")},
    {"c": C, "beta": 0.5, "compute": "i4", "casting": "unsafe"}, {"c": C, "beta": 2, "compute": "i4"},
    {"beta": np.array(1, "f4")}, {"beta": np.array(0, "f4")},
    {"c": C.astype("f8"), "beta": 1}, {"c": C.astype("f8"), "beta": 1, "casting": "safe"},
    {"c": C.astype("f2"), "beta": 1}, {"c": Listed([1]), "beta": 1}, {"c": 3.0, "beta": 1},
    {"bias": BIAS}, {"bias": BIAS.astype("f2")}, {"bias": BIAS.astype("f8"), "casting": "safe"},
    {"bias": Listed([1])}, {"bias": Typed()}, {"bias": Strided()}, {"c": Typed(), "beta": 1}, {"alpha": Typed()},
    {"bias": 3.0}, {"bias": BIAS, "c": C, "beta": 2, "alpha": 3, "activation": "tanh"},
    {"bias": BIAS, "alpha": np.array(2, "f4")},
]  # fmt: skip


def test_no_call_changes_what_another_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that cached epilogues are keyed by all that they depend on."""
    alone = []
    for call in CALLS:
        monkeypatch.setattr(module, "_kept", {})
        alone.append(outcome(call))
    for (i, first), (j, second) in itertools.permutations(enumerate(CALLS), 2):
        monkeypatch.setattr(module, "_kept", {})
        assert outcome(first) == alone[i]
        assert outcome(second) == alone[j], f"{second} after {first}"


@pytest.mark.parametrize(
    ("error", "names", "call"),
    [
        (KeywordError, "beta.*c", {"beta": 1}),
        (KeywordError, "beta.*c", {"beta": np.array(0, "f4")}),
        (KeywordError, "'rel'", {"activation": "rel"}),
        (UnsupportedTypeError, "complex.*'relu'", {"activation": "relu", "compute": "c8"}),
        (UnsupportedTypeError, "'silu'.*int32", {"activation": "silu", "compute": "i4"}),
        (UnsupportedTypeError, "'gelu'.*uint8", {"activation": "gelu", "compute": "u1"}),
        (UnsupportedTypeError, "bool", {"compute": "bool"}),
        (UnsupportedTypeError, "alpha.*float32.*2j", {"alpha": 2j}),
        (UnsupportedTypeError, "alpha.*bfloat16.*2j", {"alpha": 2j, "compute": ml_dtypes.bfloat16}),
        (UnsupportedTypeError, "alpha.*float32", {"alpha": np.complex64(2)}),
        (UnsupportedTypeError, "beta.*float32.*2j", {"beta": 2j, "c": C}),
        (UnsupportedTypeError, r"alpha.*int32.*0\.5", {"alpha": 0.5, "compute": "i4"}),
        (UnsupportedTypeError, r"beta.*uint32.*0\.5", {"beta": 0.5, "c": C.astype("u4"), "compute": "u4"}),
        (KeywordError, "^alpha .*'2'", {"alpha": "2"}),
        (KeywordError, r"^alpha .*2\.0", {"alpha": [2.0]}),
        (KeywordError, "^beta ", {"beta": Listed([2.0]), "c": C}),
        (UnsupportedTypeError, "alpha.*datetime64", {"alpha": np.datetime64(1, "s")}),
        (UnsupportedTypeError, "alpha.*U1", {"alpha": np.str_("2")}),
        *((KeywordError, "^bias ", {"bias": x}) for x in (Listed([1]), 3.0, Typed(), Strided())),
        *((KeywordError, "^c ", {"c": x, "beta": 1}) for x in (Listed([1]), 3.0, Typed(), Strided())),
        (UnsupportedTypeError, "alpha.*float64", {"alpha": np.ones(4), "casting": "safe"}),
        (UnsupportedTypeError, "beta.*float64", {"beta": np.array(2.0), "c": C, "casting": "safe"}),
        (UnsupportedTypeError, "bias.*float64", {"bias": BIAS.astype("f8"), "casting": "safe"}),
        (UnsupportedTypeError, r"\bc\b.*float64", {"c": C.astype("f8"), "beta": 1, "casting": "safe"}),
        (UnsupportedTypeError, "bias.*complex64", {"bias": BIAS.astype("c8")}),
    ],
)
def test_mistakes_are_named(error: type[Exception], names: str, call: dict[str, Any]) -> None:
    with pytest.raises(error, match=names):
        resolved(**call)


def test_what_may_be_converted_is_taken() -> None:
    for name, other in (("bias", {}), ("alpha", {}), ("c", {"beta": 1})):
        assert resolved(casting="safe", **{name: C.astype("i1")}, **other).epilogue is not None
    assert resolved("f8", "safe", bias=BIAS).epilogue is not None
    assert resolved("c8", alpha=2j).epilogue is not None and resolved("i4", alpha=np.int8(3)).epilogue is not None
    assert resolved("i4", alpha=True).epilogue is None and resolved(alpha=np.float64(1)).epilogue is None
    for name in ACTIVATIONS:
        found = resolved(activation=name).epilogue
        assert found is not None and found.activation == name
    assert {*ACTIVATIONS} == {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}
    relu = resolved("i4", activation="relu").epilogue
    assert relu is not None and relu.activation == "relu"
    assert resolved("u4", activation="relu").epilogue is None, "unsigned numbers are never below 0"
    assert resolved().epilogue is resolved("i4", activation=None).epilogue is None


def test_calls_that_alternate_are_checked_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, check = [], module._checked

    def counted(*arguments: Any) -> Any:
        checked.append(arguments)
        return check(*arguments)

    monkeypatch.setattr(module, "_checked", counted)
    for alpha in (2, 3, 2, 4):
        resolved(alpha=alpha, bias=BIAS)
        resolved(c=C, beta=alpha)
    assert len(checked) == 2, "a number's value is no part of an epilogue"


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3,), (0,)])
def test_a_beta_with_dimensions_is_refused_also_after_one_without(shape: tuple[int, ...]) -> None:
    assert resolved(c=C, beta=np.array(2, "f4")).epilogue is not None
    with pytest.raises(ShapeError, match="beta"):
        resolved(c=C, beta=np.ones(shape, "f4"))


def test_arrays_and_scalars_are_in_order() -> None:
    arrays = {"alpha": np.ones(4, "f8"), "bias": BIAS, "beta": np.array(2, "f2"), "c": C.astype("i1")}
    found = resolved(casting="unsafe", **arrays)
    assert found.epilogue is not None
    assert found.epilogue.names == ("addend", "bias", "alpha", "beta")
    assert [id(x) for x in found.arrays] == [id(arrays[name]) for name in ("c", "bias", "alpha", "beta")]
    assert [each.element.name for each in found.epilogue.operands] == ["i8", "f32", "f64", "f16"]
    assert found.scalars == b"" and found.epilogue.scalars == ()
    numbers = resolved(c=C, alpha=3, beta=-0.5)
    assert numbers.epilogue is not None and numbers.epilogue.scalars == ("alpha", "beta")
    np.testing.assert_array_equal(np.frombuffer(numbers.scalars), [3, 0, -0.5, 0])
    one = resolved(c=C, beta=1)
    assert one.epilogue is not None and one.epilogue.scalars == () and one.scalars == b""
    np.testing.assert_array_equal(np.frombuffer(resolved("c8", alpha=3 - 2j).scalars), [3, -2])
    wrapped = resolved("i4", c=C.astype("i4"), alpha=-1, beta=2**70 + 5)
    np.testing.assert_array_equal(np.frombuffer(wrapped.scalars, "u8"), [2**64 - 1, 0, 5, 0])
    with pytest.raises(KeywordError, match="alpha"):
        resolved(alpha=10**400)


def test_what_is_multiplied_by_the_number_0_is_not_read() -> None:
    assert resolved(alpha=0, c=C, beta=1).without_product and resolved(alpha=np.float32(0)).without_product
    assert not resolved(alpha=1, c=C, beta=1).without_product
    assert not resolved(alpha=np.array(0, "f4")).without_product, "nobody knows an array's elements"
    dropped, kept = resolved(c=C, beta=0, bias=BIAS), resolved(c=C, beta=np.array(0, "f4"))
    assert dropped.arrays == (BIAS,) and len(kept.arrays) == 2
    assert resolved(c=C, beta=0).epilogue is None


@pytest.mark.parametrize("name", ["addend", "bias", "alpha"])
def test_known_strides_are_part_of_a_kernel(name: str) -> None:
    arrays = {"addend": {"c": C, "beta": 1}, "bias": {"bias": BIAS}, "alpha": {"alpha": np.ones(4, "f4")}}[name]
    epilogue = resolved(**arrays).epilogue
    assert epilogue is not None
    for row, col in itertools.product((0, 1, 2, 7, -1), repeat=2):
        (operand,) = epilogue.with_strides([(row, col)]).operands
        assert operand.strides == (row if row in (0, 1) else None, col if col in (0, 1) else None)
        letters = "".join(str(each) if each in (0, 1) else "x" for each in (row, col))
        assert operand.symbol == f"{name}_f32_{letters}"
        assert operand.view == ", ".join(["float32", *(x.replace("x", "ANY_STRIDE") for x in letters)])
    with pytest.raises(ValueError):
        epilogue.with_strides([])


def test_an_epilogues_name_tells_all_of_it() -> None:
    names = {}
    for call in CALLS:
        if isinstance(found := outcome(call), tuple) and found[0] is not None:
            names.setdefault(found[0].name, found[0])
            assert names[found[0].name] == found[0]
    bare = resolved(alpha=np.ones(4, "f4")).epilogue
    assert bare is not None and bare.name == "alpha_f32_xx"
    whole = resolved(c=C, alpha=2, beta=3, bias=BIAS.astype("f8"), activation="relu").epilogue
    assert whole is not None
    assert whole.with_strides([(4, 1), (0, 1)]).name == "alpha_beta_addend_f32_x1_bias_f64_01_relu"


def test_no_more_epilogues_are_kept_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 3)
    for call in CALLS:
        outcome(call)
        assert len(module._kept) <= 3
