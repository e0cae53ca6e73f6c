"""What the model expects: as it is written down, so that no line of it changes unseen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import expected
from tests.expected import product
from tiledmm.registry.variants import find_variant
from tiledmm.selection.model import H100, H100_IEEE, SPLIT_K_FACTORS, Model


@pytest.mark.parametrize("target", json.loads(expected.PATH.read_text("utf-8")))
def test_expectations_are_those_written_down(target: str) -> None:
    written = json.loads(expected.PATH.read_text("utf-8"))[target]
    assert list(expected.lines(target)) == written, "if intended, python -m tests.expected rewrites them"


def split_factors(*sizes: int) -> set[int]:
    return {
        choice.specialization.config.launch.split_k for choice in H100.rank(product("float32", "NN", (1, *sizes), 0))
    }


def test_few_partitions_of_k_are_considered_and_many() -> None:
    found = set().union(*(split_factors(m, m, k) for m in (64, 200, 500, 1000) for k in (300, 1000, 4000, 65536)))
    assert {1, 2, 3, 4, 8, 96} <= found <= set(SPLIT_K_FACTORS)
    assert SPLIT_K_FACTORS[0] == 1 and list(SPLIT_K_FACTORS) == sorted(set(SPLIT_K_FACTORS))


def test_a_model_takes_what_it_chooses_from() -> None:
    variants = {row.variant for row in H100.rates.rows}
    decomposing = {each for each in variants if find_variant(each).decomposes}
    for each in variants:
        assert H100.takes(each)
        assert H100_IEEE.takes(each) is (each not in decomposing)
    assert (
        decomposing
        and not H100.takes("naive")
        and not Model(H100.gpu, H100.rates.only(lambda name: name == "tiled")).takes("wgmma")
    )


@pytest.mark.parametrize("sizes", [(40, 60_000, 4096), (60_000, 40, 4096), (33, 200_000, 2048)])
def test_every_part_of_c_has_rows_and_columns(sizes: tuple[int, int, int]) -> None:
    for choice in H100.rank(product("float32", "NN", (1, *sizes), 0)):
        covered = 0
        for part in choice.parts:
            problem: Any = part.product.problem
            assert problem.m > 0 and problem.n > 0
            covered += problem.m * problem.n
        assert covered == sizes[0] * sizes[1]
