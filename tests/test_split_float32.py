"""What is launched for a product whose operands are split into pieces. No GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tiledmm
from tiledmm.codegen import render, specialize
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.geometry import FINDINGS, SHORTEST_SPLIT, Schedule, schedule, splitting, unsplit
from tiledmm.model import H100, H100_UNSPLIT
from tiledmm.operands import describe, resolve
from tiledmm.selection import AUTO, select
from tiledmm.tuned import Entry, describe_product


def matrix(rows: int, cols: int, letter: str = "N", batch: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
    """A matrix that lies as a letter of a layout says, without memory of that size."""
    step = {"N": (cols, 1), "T": (1, rows), "G": (2 * cols, 2)}[letter]
    size = rows * cols * (2 if letter == "G" else 1)
    outer = tuple(size * math.prod(batch[i + 1 :]) for i in range(len(batch)))
    strides = tuple(4 * each for each in (*outer, *step))
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (*batch, rows, cols), strides)


def planned(a: Any, b: Any, **keywords: Any) -> Schedule:
    choice = select("split_float32", keywords.pop("tile", None), resolve(describe(a), describe(b)), keywords or None)
    return schedule(choice.specialization, choice.product.problem)


def test_both_operands_are_split_then_multiplied_or_not_split_and_multiplied() -> None:
    launches = planned(matrix(1000, 700, "N"), matrix(700, 900, "T")).launches
    assert [each.specialization.variant.name for each in launches] == ["split", "split", "split_float32", "warp_tiled"]
    assert [each.specialization.condition for each in launches] == ["finds", "finds", "splits", "does not split"]
    assert [each.operands for each in launches] == [
        ("A", "pieces of A"), ("B", "pieces of B"), ("pieces of A", "pieces of B", "C"), ("A", "B", "C"),
    ]  # fmt: skip
    first, second, multiplying, otherwise = (each.findings for each in launches)
    assert first[0] == first[1] == 0
    assert second[0] == second[1] >= 12 + 4 * 1000, "behind what is found of A, a word a row"
    assert multiplying == otherwise == (first[0], second[0])


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "GG", "TG"])
def test_pieces_lie_as_the_operands_do(layout: str) -> None:
    for batch in ((), (3,), (2, 3)):
        plan = planned(matrix(200, 300, layout[0], batch), matrix(300, 140, layout[1]), tile=128)
        pieces_a, pieces_b, findings = plan.scratch
        of_a = (2, math.prod(batch), *((300, 200) if layout[0] == "T" else (200, 300)))
        assert pieces_a.shape == of_a
        assert pieces_b.shape == (2, 1, *((300, 140) if layout[1] == "N" else (140, 300))), "one B is split once"
        assert pieces_a.pitch % 64 == 0, "rows that the copy engine reads"
        assert pieces_a.bytes == math.prod(of_a[:3]) * pieces_a.pitch * 2
        assert (findings.name, findings.bytes % 8) == (FINDINGS, 0)
        multiplying = plan.launches[2]
        assert multiplying.specialization.layout == layout[0].replace("G", "N") + layout[1].replace("G", "T")
        for each, memory in zip(multiplying.maps, plan.scratch, strict=False):
            assert each.sizes == (*reversed(memory.shape), 1)
            assert each.strides[0] == memory.pitch * 2
            assert each.strides[2] * memory.shape[0] == memory.bytes


def test_short_sums_are_not_split() -> None:
    (only,) = planned(matrix(500, SHORTEST_SPLIT - 1), matrix(SHORTEST_SPLIT - 1, 500)).launches
    assert (only.specialization.variant.name, only.specialization.condition) == ("warp_tiled", "")
    assert only.findings == ()
    assert len(planned(matrix(500, SHORTEST_SPLIT), matrix(SHORTEST_SPLIT, 500)).launches) == 4


def test_slices_are_added_up_before_the_cuda_cores_have_their_turn() -> None:
    launches = planned(matrix(100, 5000), matrix(5000, 100), split_k=4).launches
    names = [each.specialization.variant.name for each in launches]
    assert names == ["split", "split", "split_float32", "sum_slices", "warp_tiled"], "which then write all of C"


def test_what_is_rendered_asks_only_where_it_is_asked() -> None:
    spec = specialize("split_float32", layout="TN")
    assert "splits(p) == true" in render(spec.kernel)
    assert "splits(p) == false" in render(unsplit(spec))
    assert "constexpr int PIECES = 2;" in render(splitting(spec, 0))
    assert "Findings" not in render(specialize("warp_tiled"))
    six = specialize("split_float32", tile=128, config={"products": 6, "stages": 2})
    assert "using T = bfloat16;" in render(six.kernel)
    assert "constexpr int PIECES = 3;" in render(splitting(six, 1))
    assert len({each.symbol for each in (spec.kernel, six.kernel, unsplit(spec), specialize("warp_tiled"))}) == 4


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"products": 4}, "products is 3, 6, 9"),
        ({"pack_a": 1}, "pieces are packed"),
        ({"products": 6}, "bytes of shared memory"),
        ({"stages": 1}, "stages is at least 2"),
    ],
)
def test_numbers_that_it_cannot_have(numbers: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        planned(matrix(500, 500), matrix(500, 500), **numbers)
    with pytest.raises(ConfigError, match="products is 1"):
        select(
            "wgmma", None, resolve(describe(np.zeros((9, 9), "f2")), describe(np.zeros((9, 9), "f2"))), {"products": 3}
        )


def test_it_multiplies_float32_alone() -> None:
    with pytest.raises(UnsupportedTypeError, match="multiplies float32, not float64"):
        specialize("split_float32", dtype="float64")


def test_auto_takes_it_where_it_pays_and_may() -> None:
    a, b = matrix(4096, 4096), matrix(4096, 4096)
    wanted = resolve(describe(a), describe(b))
    assert select(AUTO, None, wanted).specialization.variant.name == "split_float32"
    assert select(AUTO, None, wanted, model=H100_UNSPLIT).specialization.variant.name == "warp_tiled"
    assert "split_float32" in str(tiledmm.explain(a, b))
    assert "split_float32" not in str(tiledmm.explain(a, b, precision="ieee"))
    short = resolve(describe(matrix(4096, 200)), describe(matrix(200, 4096)))
    huge = resolve(describe(matrix(40_000, 40_000)), describe(matrix(40_000, 40_000)))  # 12 GB of pieces
    for product in (short, huge):
        assert all(each.specialization.variant.name != "split_float32" for each in H100.rank(product))
    for precision, says in (("float16", "precision is one of"), ("bf16x6", "names a kernel")):
        with pytest.raises(ConfigError, match=says):
            tiledmm.explain(a, b, precision=precision)


def test_a_tuned_entry_counts_only_where_it_may_be_used() -> None:
    wanted = resolve(describe(matrix(1000, 1000)), describe(matrix(1000, 1000)))
    name = describe_product(wanted)
    table = {name: Entry(name, "float32", "split_float32", False, {}, 1.0, 1.0, None)}
    assert select(AUTO, None, wanted, table=table).specialization.variant.name == "split_float32"
    assert select(AUTO, None, wanted, table=table, model=H100_UNSPLIT).specialization.variant.name == "warp_tiled"
