"""Launches of the kernels in ``held_out/kernels/``, in the format of the corpus's cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.simulator.hopper.case import Array, Arrays, Case, case, poison, rows_map, wide

KERNELS = Path(__file__).parent / "kernels"


def _halo_exchange(x: Arrays) -> Arrays:
    value = wide(x["in"]).reshape(2, 256)
    for _ in range(5):
        value = np.roll(value, 1, axis=1) + np.roll(value, -1, axis=1) - value
    return {"out": value.reshape(-1)}


HELD_OUT_CASES: tuple[Case, ...] = (
    case(
        "column_sums", (2,), (96,), {"m": Array("float32", (37, 320)), "out": poison("float32", 320)}, "map out 37 5",
        lambda x: {"out": wide(x["m"]).sum(0)}, maps={"map": rows_map("m", "float32", (37, 320), (64, 8))},
        folder=KERNELS,
    ),
    case(
        "cluster_scan", (8,), (128,), {"in": Array("int32", (2, 3, 512)), "out": poison("int32", 2, 3, 512)},
        "in out 3", lambda x: {"out": wide(x["in"]).cumsum(2)}, cluster=(4,), folder=KERNELS,
    ),
    case(
        "gemm_skinny", (2,), (128,),
        {
            "a": Array("float16", (100, 424), (-4, 4)), "b": Array("float16", (8, 424), (-4, 4)),
            "c": poison("float32", 100, 8),
        },
        "a_map b_map c 100 424", lambda x: {"c": wide(x["a"]) @ wide(x["b"]).T},
        maps={
            "a_map": rows_map("a", "float16", (100, 424), (64, 64), 128),
            "b_map": rows_map("b", "float16", (8, 424), (64, 8), 128),
        },
        folder=KERNELS,
    ),
    case(
        "halo_exchange", (8,), (64,), {"in": Array("int32", (512,)), "out": poison("int32", 512)}, "in out 5",
        _halo_exchange, cluster=(4,), folder=KERNELS,
    ),
)  # fmt: skip
