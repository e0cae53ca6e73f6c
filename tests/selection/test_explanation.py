"""Tests of the descriptions of choices by ``explain``: measured or predicted, on which GPU, by whose rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiledmm
from tests.selection.test_selection import product
from tiledmm.hardware.data_sheets import DATA_SHEETS
from tiledmm.selection import explanation as module
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import select
from tiledmm.selection.explanation import Explanation, explanation, origin
from tiledmm.selection.model import H100, Model
from tiledmm.selection.rates import nearest_rates

WANTED = product(700, 600, 500)


def made(
    tuned: Choice | None, monkeypatch: pytest.MonkeyPatch, wanted: Any = WANTED, model: Model = H100
) -> Explanation:
    monkeypatch.setattr(module, "measured", lambda *asked: tuned)
    return explanation(wanted, model, {})


def named(variant: str, tile: int, microseconds: float | None = None, **config: int) -> Choice:
    return replace(select(variant, tile, WANTED, config), microseconds=microseconds)


def test_what_is_expected_is_shown_fastest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(None, monkeypatch)
    times = [choice.microseconds for choice in found.choices]
    assert times == sorted(times) and len(times) > 5  # type: ignore[type-var]
    assert found.best is found.choices[0] and found.expected_us == times[0]
    assert found.config == found.best.spec.config
    assert found.variant == found.best.spec.variant.name
    _, first, *others, last = str(found).splitlines()
    assert first == f"{found.choices[0]}: {times[0]:.3g} us expected on {H100.gpu.name}"
    assert others == [f"  {each}: {each.microseconds:.3g} us expected" for each in found.choices[1:5]]
    assert last.startswith(f"roofline {H100.bound(WANTED):.3g} us; rates {origin(H100)}")
    assert (found.gpu, found.bound_us, found.rates) == (H100.gpu.name, H100.bound(WANTED), origin(H100))


def test_what_was_measured_comes_first_whatever_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = named("tiled", 16, 1234.5)
    found = made(tuned, monkeypatch)
    assert found.best is found.tuned is tuned
    assert (found.variant, found.tile, found.expected_us) == ("tiled", 16, 1234.5)
    assert found.config == tuned.spec.config
    _, first, *others, _ = str(found).splitlines()
    assert first == f"{tuned}: 1,234 us measured on {H100.gpu.name}"
    assert others == [f"  {each}: {each.microseconds:.3g} us expected" for each in found.choices[:4]]


@pytest.mark.parametrize(("microseconds", "text"), [(0.5, "0.5"), (12.345, "12.3"), (999.4, "999"), (999.5, "1,000")])
def test_figures_are_short(microseconds: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = named("tiled", 16, microseconds)
    assert f": {text} us measured" in str(made(tuned, monkeypatch))


@pytest.mark.parametrize(
    ("variant", "tile", "config", "named_tile"),
    [
        ("tiled", 16, {}, 16), ("tiled", 32, {"split_k": 2}, 32), ("warp_tiled", 64, {"split_k": 3}, 64),
        ("warp_tiled", 128, {"pack_b": 1}, 128), ("warp_tiled", 64, {"stages": 2}, None),
        ("warp_tiled", 64, {"group": 4}, None), ("naive", None, {}, None),
    ],
)  # fmt: skip
def test_a_kernel_is_one_of_its_variants_tiles_if_what_a_product_does_not_choose_is_the_same(
    variant: str, tile: Any, config: dict[str, int], named_tile: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(named(variant, tile, 5.0, **config), monkeypatch).tile == named_tile


def test_the_product_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def head(wanted: Any) -> str:
        return str(made(None, monkeypatch, wanted)).splitlines()[0]

    assert head(product(7, 8, 9)) == "(7 x 9) @ (9 x 8), float32, layout NN"
    assert head(product(7, 8, 9, layout="TN", dtype="int8", batch=3)) == "3 x (7 x 9) @ (9 x 8), int8, layout TN"
    turned = product(7, 8, 9, layout="NT").transposed()
    assert head(turned) == f"(8 x 9) @ (9 x 7), float32, layout {turned.problem.layout}, computed transposed"
    symmetric = replace(product(16, 16, 4, layout="NT"), symmetric=True)
    assert head(symmetric) == "(16 x 4) @ (4 x 16), float32, layout NT, C symmetric"
    x = np.empty((16, 4), "c8")
    for keywords, text in (
        ({"adjoint_b": True}, "(16 x 4) @ (4 x 16), complex64, layout NT, B conjugated, C Hermitian"),
        ({"adjoint_a": True}, "(4 x 16) @ (16 x 4), complex64, layout TN, A conjugated, C Hermitian"),
    ):
        assert str(tiledmm.explain(x, x, **keywords)).splitlines()[0] == text
    assert "adjoint" not in str(tiledmm.explain(x.real, x.real, adjoint_b=True))


def test_rates_are_scaled_unless_they_are_a_gpus_own() -> None:
    gpu = DATA_SHEETS["H100 SXM 80 GB"]
    rates = nearest_rates(gpu)
    assert origin(Model(rates.gpu, rates)) == origin(Model(gpu, rates)) == origin(H100)
    assert origin(H100).startswith(f"measured on {rates.gpu.name}, {rates.date}")
    for change in ({"sms": 114}, {"clock": 1.7e9}, {"bandwidth": 2e12}):
        other = replace(gpu, name="another", **change)
        assert origin(Model(other, rates)).endswith(", scaled to the data sheet of another")
        assert "scaled" not in origin(Model(replace(rates.gpu, **change), rates)), "the name is the same"
    alike = replace(gpu, name="another", arch=DATA_SHEETS["B200"].arch)
    assert origin(Model(alike, rates)).endswith("of another, where no kernel was ever measured")
