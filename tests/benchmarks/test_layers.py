"""Tests of the products and tables of ``benchmarks.layers``."""

from __future__ import annotations

from typing import Any

from benchmarks import layers
from benchmarks.layers import LAYER_TYPES, LAYERS, OTHER_TYPES, OTHERS, ROWS
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.selection.rates import nearest_rates
from tiledmm.tuning.cases import cases_of


def row(dtype: str, m: int, cold: dict[str, float], warm: dict[str, float]) -> dict[str, Any]:
    shape = {"m": m, "n": 5, "k": 7, "layout": "NT", "batch": 0}
    return {"name": "layer", "type": dtype, **shape, "kernel": "tiledmm_naive", "ok": True, "cold": cold, "warm": warm}


def test_every_layer_has_every_number_of_rows_and_k_major_weights() -> None:
    every = list(layers.products((*LAYER_TYPES, *OTHER_TYPES), ROWS))
    of_layers = [each for each in every if each.type in LAYER_TYPES]
    assert len(of_layers) == len(LAYER_TYPES) * len(LAYERS) * len(ROWS) and len(LAYERS) >= 10
    assert all(each.shape.layout == "NT" and each.shape.m in ROWS for each in of_layers)
    assert len(every) - len(of_layers) == len(OTHER_TYPES) * len(OTHERS)


def test_no_calibration_has_its_products() -> None:
    gpu = REFERENCE_GPUS["sm_90"]
    rows = [each for each in nearest_rates(gpu).rows if each.variant in ("wgmma", "tensor_core")]
    timed = {(case.m, case.n, case.k) for each in rows for case in cases_of(each, gpu, 1)}
    assert timed and not timed & {(m, n, k) for m in ROWS for n, k in LAYERS.values()}


def test_auto_is_compared_with_the_faster_rival() -> None:
    rows = [
        row("float16", 1, {"auto": 10.0, "cupy.matmul": 20.0, "torch.mm": 5.0}, {"auto": 10.0, "cupy.matmul": 10.0}),
        row("float16", 2, {"auto": 10.0, "cupy.matmul": 20.0}, {"auto": 10.0, "cupy.matmul": 9.5}),
        row("float32", 3, {"auto": 10.0, "cupy.matmul": 9.0}, {"auto": 10.0, "cupy.matmul": 10.0}),
    ]
    one, two, both = layers.layers_table(rows).rows
    assert one == ("float16", "1", "1", "0.500", "0.500", "1", "1", "1.00", "1.00", "0", "0")
    assert two[:5] == ("float16", "2", "1", "2.00", "2.00") and two[-4:] == ("0.950", "0.950", "1", "0")
    assert both[:5] == ("float16", "all", "2", "1.00", "0.500")
    (other,) = layers.others_table(rows).rows
    assert other[:2] == ("layer", "float32") and other[-2:] == ("0.900", "1.00")
    assert [cells[0] for cells in layers.worst_table(rows, 2).rows] == ["(1, 7) @ (7, 5)", "(3, 7) @ (7, 5)"]
