"""Launches of the kernels in ``kernels/``: arrays, tensor maps, arguments, and what NumPy expects in the outputs.

Inputs are small integers, so that sums are exact in any order and outputs can be compared for equality. Nothing here
needs a GPU or the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.simulator.hopper.case import (
    Array,
    Arrays,
    Case,
    TensorMap,
    case,
    poison,
    round_to_tf32,
    rows_map,
    swizzled,
    truncate_to_tf32,
    wide,
)  # fmt: skip

# ---- mbarriers and bulk copies ----


def _phases(x: Arrays) -> Arrays:
    value = wide(x["in"])
    for _ in range(5):
        value = value + 3 * np.roll(value, -1, axis=1)
    return {"out": value}


def _tokens(x: Arrays) -> Arrays:
    value = wide(x["in"])
    sums = value**2 + sum(np.roll(value, -32 * i) for i in range(4))
    return {"sums": sums, "total": sums.sum(keepdims=True)}


def _remote_expect_tx(x: Arrays) -> Arrays:
    sent = np.arange(64) < 4 * x["counts"][:, None]
    return {"out": np.where(sent, 2 * x["in"], 0) + x["counts"][:, None]}


def _horner(rows: Sequence[np.ndarray[Any, Any]], factor: int) -> np.ndarray[Any, Any]:
    """Return ``(rows[0] * factor + rows[1]) * factor + ...``."""
    total = np.zeros_like(rows[0])
    for row in rows:
        total = total * factor + row
    return total


_MBARRIERS = (
    case(
        "mbarrier_phases", (2,), (96,), {"in": Array("int32", (2, 96)), "out": poison("int32", 2, 96)}, "in out 5",
        _phases,
    ),
    case(
        "mbarrier_tokens", (1,), (128,),
        {"in": Array("int32", (128,)), "sums": poison("int32", 128), "total": poison("int32", 1)},
        "in sums total", _tokens,
    ),
    case(
        "mbarrier_ring", (1,), (128,),
        {"in": Array("int32", (10, 32), (-(2**20), 2**20)), "out": poison("int32", 3, 10)}, "in out 10",
        lambda x: {"out": np.stack([x["in"].sum(1), x["in"].min(1), np.bitwise_or.reduce(x["in"], axis=1)])},
    ),
    case(
        "mbarrier_expect_tx", (1,), (64,), {"in": Array("float32", (4, 80)), "out": poison("float32", 64)},
        "in out 80", lambda x: {"out": _horner(wide(x["in"])[:, :64], 2)}, kernels="mbarrier_expect_tx_rows",
    ),
    case(
        "mbarrier_drop", (2,), (128,), {"in": Array("int32", (2, 128)), "out": poison("int32", 2)}, "in out",
        lambda x: {"out": wide(x["in"]).sum(1)},
    ),
    case(
        "mbarrier_complete_tx", (1,), (64,),
        {"in": Array("int32", (64,)), "out": poison("int32", 64), "early": poison("int32", 1)}, "in out early",
        lambda x: {"out": x["in"][::-1], "early": np.zeros(1, np.int32)}, kernels="mbarrier_complete_tx_bytes",
    ),
    case(
        "remote_arrive", (2,), (64,), {"in": Array("int32", (6, 64)), "out": poison("int32", 64)}, "in out 6",
        lambda x: {"out": _horner([row[::-1] + i for i, row in enumerate(wide(x["in"]))], 3)}, cluster=(2,),
    ),
    case(
        "remote_expect_tx", (4,), (32,),
        {"in": Array("int32", (4, 64)), "counts": Array("int32", (4,), (0, 16)), "out": poison("int32", 4, 64)},
        "in counts out", _remote_expect_tx, cluster=(4,),
    ),
    *(
        case(
            f"bulk_scale_{chunks}", (1,), (256,),
            {"x": Array("float32", (chunks * 256,)), "y": poison("float32", chunks * 256)}, f"x y {chunks}",
            lambda x: {"y": 2 * wide(x["x"]) + 1}, file="bulk_scale", kernels="bulk_scale",
        )
        for chunks in (1, 5)
    ),
    case(
        "bulk_between_blocks", (4,), (32,), {"in": Array("int32", (4, 32)), "out": poison("int32", 4, 32)}, "in out",
        lambda x: {"out": _horner([np.roll(wide(x["in"]), i, axis=0) for i in range(4)], 2)}, cluster=(4,),
    ),
    case(
        "bulk_multicast", (4,), (128,), {"in": Array("float32", (128,)), "out": poison("float32", 4, 128)}, "in out",
        lambda x: {"out": np.outer(np.arange(1, 5), wide(x["in"]))}, cluster=(4,),
    ),
    case(
        "bulk_prefetch", (1,), (128,),
        {"in": Array("float32", (12, 128)), "order": Array("int32", (7,), (0, 11)), "out": poison("float32", 128)},
        "in order out 7", lambda x: {"out": _horner(wide(x["in"])[x["order"]], 2)}, kernels="bulk_prefetch_rows",
    ),
    case(
        "bulk_read_back", (2,), (128,),
        {"in": Array("int32", (2, 128)), "squares": poison("int32", 2, 128), "sums": poison("int32", 2, 128)},
        "in squares sums",
        lambda x: {"squares": x["in"] ** 2, "sums": x["in"] ** 2 + np.roll(x["in"], -1, axis=1) ** 2},
    ),
)  # fmt: skip


# ---- TMA ----


def tma_1d(name: str, size: int, stored: int) -> Case:
    def expect(x: Arrays) -> Arrays:
        loaded = np.where(np.arange(192) < size, wide(x["x"]), 0)
        return {"loaded": loaded, "y": np.where(np.arange(192) < stored, 3 * loaded - 1, x["y"])}

    return case(
        name, (3,), (64,),
        {"x": Array("float32", (192,)), "y": poison("float32", 192), "loaded": poison("float32", 192)},
        "x_map y_map loaded", expect, file="tma_1d", kernels="tma_1d",
        maps={f"{array}_map": TensorMap(array, "float32", (size,), (), (64,)) for array in "xy"},
    )  # fmt: skip


def _tma_2d_box(fill: str) -> Case:
    boxes = TensorMap("m", "float32", (30, 20), (128,), (16, 8), fill=fill)

    def expect(x: Arrays) -> Arrays:
        return {"out": np.stack([[boxes.box_at(x, (i * 16 - 8, j * 8 - 4)) for i in range(4)] for j in range(4)])}

    return case(
        f"tma_2d_box_{fill}", (4, 4), (128,), {"m": Array("float32", (20, 32)), "out": poison("float32", 4, 4, 8, 16)},
        "map out", expect, maps={"map": boxes}, file="tma_2d_box", kernels="tma_2d_box",
    )  # fmt: skip


def tma_2d_at(name: str, dtype: str, array: Array) -> Case:
    boxes = TensorMap("m", dtype, (45, 37), (192,), (20, 18))

    def expect(x: Arrays) -> Arrays:
        found = np.stack([[boxes.box_at(x, (i * 12 - 4, j * 17 - 5)) for i in range(4)] for j in range(3)])
        return {"out": found if dtype != "tf32" else round_to_tf32(found)}

    return case(
        name, (4, 3), (64,), {"m": array, "out": poison(array.dtype, 3, 4, 18, 20)}, "map out 360 -4 -5 12 17", expect,
        maps={"map": boxes}, file="tma_2d_at", kernels="tma_2d_at",
    )  # fmt: skip


_VOLUME = TensorMap("volume", "int32", (24, 10, 5), (96, 960), (16, 4, 8))

_IMAGES = TensorMap(
    "images", "int16", (8, 13, 17, 2), (16, 16 * 13, 16 * 13 * 17), (8, 8, 9, 1), element_strides=(1, 2, 3, 1)
)


def _tma_4d_strides(x: Arrays) -> Arrays:
    boxes = [[[_IMAGES.box_at(x, (0, i * 8, j * 9, n)) for i in range(2)] for j in range(2)] for n in range(2)]
    return {"out": np.array(boxes).reshape(2, 2, 2, 96)}


_BOX_5D = (8, 3, 2, 2, 1)
_SIZES_5D = (20, 5, 4, 2, 3)


def _tma_swizzle(row_bytes: int) -> Case:
    columns = row_bytes // 4
    boxes = rows_map("m", "int32", (32, columns), (columns, 16), row_bytes)

    def expect(x: Arrays) -> Arrays:
        each = [boxes.box_at(x, (0, i * 16)) for i in range(2)]
        return {"raw": np.stack([swizzled(box, row_bytes) for box in each]), "found": np.stack(each).reshape(2, -1)}

    return case(
        f"tma_swizzle_{row_bytes}", (2,), (64,),
        {
            "m": Array("int32", (32, columns), (-(2**30), 2**30)),
            "raw": poison("int32", 2, 16 * columns), "found": poison("int32", 2, 16 * columns),
        },
        "map raw found", expect, maps={"map": boxes}, file="tma_swizzle",
    )  # fmt: skip


def _tma_multicast(x: Arrays) -> Arrays:
    tiles = wide(x["m"]).reshape(5, 256)
    factors = np.arange(5) + np.arange(1, 3)[:, None]
    return {"out": factors @ tiles}


def _tma_store(x: Arrays) -> Arrays:
    written = wide(x["m"])
    written[:20] = np.arange(20 * 100).reshape(20, 100)
    return {"m": written}


def _own_writes(x: Arrays) -> Arrays:
    return {"scratch": 2 * x["in"], "out": 2 * x["in"].reshape(3, 128)[:, ::-1].reshape(12, 32)}


def _transposed(x: Arrays) -> Arrays:
    result = wide(x["to"])
    result[:, :72] = x["from"].T
    return {"to": result}


def _stencil(x: Arrays) -> Arrays:
    m = np.pad(wide(x["m"])[:, :45], 1)
    return {"out": m[:-2, 1:-1] + m[2:, 1:-1] + m[1:-1, :-2] + m[1:-1, 2:] - 4 * m[1:-1, 1:-1]}


_TMA = (
    tma_1d("tma_1d", 152, 152),
    _tma_2d_box("zeros"),
    _tma_2d_box("nan"),
    tma_2d_at("tma_2d_at", "int32", Array("int32", (37, 48), (-(2**30), 2**30))),
    case(
        "tma_3d", (2, 3), (64,), {"volume": Array("int32", (5, 10, 24)), "sums": poison("int32", 10, 24)},
        "volume_map sums_map", lambda x: {"sums": np.einsum("zyx,z->yx", wide(x["volume"]), np.arange(1, 6))},
        maps={"volume_map": _VOLUME, "sums_map": rows_map("sums", "int32", (10, 24), (16, 4))},
    ),
    case(
        "tma_4d_strides", (2, 2, 2), (96,),
        {"images": Array("int16", (2, 17, 13, 8), (-30000, 30000)), "out": poison("int16", 2, 2, 2, 96)}, "map out",
        _tma_4d_strides, maps={"map": _IMAGES},
    ),
    case(
        "tma_5d", (3, 4, 3), (32,),
        {"from": Array("int32", (3, 2, 4, 5, 20), (-(2**30), 2**30)), "to": poison("int32", 3, 5, 4, 2, 20)},
        "from_map to_map", lambda x: {"to": x["from"].transpose(0, 3, 2, 1, 4)},
        maps={
            "from_map": TensorMap("from", "int32", _SIZES_5D, (80, 80 * 5, 80 * 5 * 4, 80 * 5 * 4 * 2), _BOX_5D),
            "to_map": TensorMap("to", "int32", _SIZES_5D, (80 * 2 * 4, 80 * 2, 80, 80 * 2 * 4 * 5), _BOX_5D),
        },
    ),
    *map(_tma_swizzle, (32, 64, 128)),
    case(
        "tma_multicast", (2,), (256,), {"m": Array("float32", (40, 32)), "out": poison("float32", 2, 256)},
        "map out 5", _tma_multicast, maps={"map": rows_map("m", "float32", (40, 32), (32, 4))}, cluster=(2,),
    ),
    case(
        "tma_store", (3,), (256,), {"m": poison("int32", 24, 100)}, "map 100 4", _tma_store,
        maps={"map": rows_map("m", "int32", (20, 100), (32, 8))},
    ),
    case(
        "tma_prefetch", (2,), (64,), {"m": Array("float32", (18, 128)), "sums": poison("float32", 128)}, "map sums 18",
        lambda x: {"sums": wide(x["m"]).sum(0)}, maps={"map": rows_map("m", "float32", (18, 128), (64, 4))},
    ),
    case(
        "tma_cache_hint", (2, 2, 2), (32,),
        {"from": Array("float32", (4, 6, 24)), "to": poison("float32", 4, 6, 24)}, "from_map to_map",
        lambda x: {"to": np.concatenate([x["to"][:1], x["from"][:3]])},
        maps={
            name: TensorMap(array, "float32", (24, 6, 4), (96, 576), (16, 4, 2))
            for name, array in (("from_map", "from"), ("to_map", "to"))
        },
    ),
    case(
        "tma_own_writes", (3,), (128,),
        {"in": Array("float32", (12, 32)), "scratch": poison("float32", 12, 32), "out": poison("float32", 12, 32)},
        "in scratch map out", _own_writes, maps={"map": rows_map("scratch", "float32", (12, 32), (32, 4))},
    ),
    case(
        "transpose_tma", (2, 3), (128,), {"from": Array("float32", (72, 48)), "to": poison("float32", 48, 76)},
        "from_map to_map", _transposed,
        maps={
            "from_map": rows_map("from", "float32", (72, 48), (32, 32), 128),
            "to_map": TensorMap("to", "float32", (72, 48), (304,), (32, 32), 128),
        },
    ),
    case(
        "stencil_tma", (3, 3), (16, 16), {"m": Array("float32", (37, 48)), "out": poison("float32", 37, 45)},
        "map out 37 45", _stencil, maps={"map": TensorMap("m", "float32", (45, 37), (192,), (24, 18))},
    ),
)  # fmt: skip


# ---- clusters ----


def _cluster_registers(x: Arrays) -> Arrays:
    out = np.empty((6, 4, 13), np.int64)
    for y in range(6):
        for x_ in range(4):
            rank = x_ % 2 + y % 3 * 2
            out[y, x_] = [x_ % 2, y % 3, 2, 3, rank, 6, x_ // 2, y // 3, 2, 2, 0, 1, rank ^ 1]
    return {"out": out}


def _cluster_sum(x: Arrays) -> Arrays:
    parts = wide(x["in"]).reshape(2, 4, 128)
    return {"out": (parts.sum((1, 2), keepdims=True) - parts + np.arange(4)[:, None]).reshape(-1)}


def _split_barrier(x: Arrays) -> Arrays:
    parts = np.pad(wide(x["in"]).reshape(2, 256), ((0, 0), (1, 1)))
    return {"out": (parts[:, 1:-1] + 2 * parts[:, :-2] + 3 * parts[:, 2:]).reshape(-1)}


def _divergent_barrier(x: Arrays) -> Arrays:
    other = wide(x["in"]).reshape(2, 2, 64)[:, ::-1]
    return {"out": (other + 10 * np.repeat(other[:, :, 1::2] ** 2, 2, axis=2)).reshape(-1)}


def _st_async(x: Arrays) -> Arrays:
    sender = np.roll(wide(x["in"]).reshape(2, 4, 64), 1, axis=1)
    other = np.roll(sender, -1, axis=2)
    return {"out": (sender[:, :, ::-1] + 30 * other - 12 * other**2).reshape(-1)}


def _red_async(x: Arrays) -> Arrays:
    first, second = wide(x["in"]).sum(1)
    return {"out": first + np.roll(second, 1)}


def _softmax(x: Arrays) -> Arrays:
    rows = wide(x["in"])
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return {"out": powers / powers.sum(1, keepdims=True)}


_CLUSTERS = (
    case(
        "cluster_registers", (4, 6), (32,), {"out": poison("int32", 6, 4, 13)}, "out", _cluster_registers,
        cluster=(2, 3),
    ),
    case(
        "cluster_sum", (8,), (128,), {"in": Array("int32", (1024,)), "out": poison("int32", 1024)}, "in out",
        _cluster_sum, cluster=(4,),
    ),
    case(
        "cluster_histogram", (8,), (96,),
        {"in": Array("int32", (1000,), (0, 255)), "out": Array("int32", (256,), "zeros")},
        "in 1000 out", lambda x: {"out": np.bincount(x["in"], minlength=256)}, cluster=(4,),
    ),
    case(
        "cluster_split_barrier", (8,), (64,), {"in": Array("int32", (512,)), "out": poison("int32", 512)}, "in out",
        _split_barrier, cluster=(4,),
    ),
    case(
        "cluster_divergent_barrier", (4,), (64,), {"in": Array("int32", (256,)), "out": poison("int32", 256)},
        "in out", _divergent_barrier, cluster=(2,),
    ),
    case(
        "st_async", (8,), (64,), {"in": Array("int32", (512,)), "out": poison("int32", 512)}, "in out", _st_async,
        kernels="st_async_ring", cluster=(4,),
    ),
    case(
        "red_async", (4,), (64,), {"in": Array("int32", (2, 4, 64)), "out": poison("int32", 64)}, "in out", _red_async,
        cluster=(4,),
    ),
    case(
        "cluster_softmax", (8,), (64,), {"in": Array("float32", (2, 512), "normal"), "out": poison("float32", 2, 512)},
        "in out", _softmax, cluster=(4,), tolerance=4e-6,
    ),
)  # fmt: skip


# ---- instructions of warps and warpgroups ----


def _elect(x: Arrays) -> Arrays:
    parts = x["in"].reshape(4, 64)
    return {"out": parts[:, ::-1].reshape(-1), "elected_lanes": np.ones(4)}


def _stmatrix(x: Arrays) -> Arrays:
    tile = 100 * np.arange(16)[:, None] + np.arange(16)
    return {"out": tile, "transposed": tile[:8].T}


def _redux(x: Arrays) -> Arrays:
    halves, warps = x["in"].reshape(4, 16), x["in"].reshape(2, 32)
    unsigned = halves.view(np.uint32)
    rows = [halves.sum(1, dtype=np.int32), halves.min(1), halves.max(1)]
    rows += [unsigned.min(1).view(np.int32), unsigned.max(1).view(np.int32)]
    rows = [np.repeat(row, 16) for row in rows]
    rows += [np.repeat(each.reduce(warps, axis=1), 32) for each in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    return {"out": np.stack(rows)}


def _dependent(x: Arrays) -> Arrays:
    squares = wide(x["in"]) ** 2
    return {"squares": squares, "out": x["weights"] * squares + squares[::-1]}


def _setmaxnreg(x: Arrays) -> Arrays:
    return {"out": _horner([np.stack([np.roll(row, -8 * i) for i in range(32)]) for row in wide(x["in"])], 3)}


_WARPS = (
    case(
        "elect_sync", (1,), (128,),
        {"in": Array("float32", (256,)), "out": poison("float32", 256), "elected_lanes": poison("int32", 4)},
        "in out elected_lanes", _elect, kernels="elect_sync_copies",
    ),
    case(
        "stmatrix", (1,), (32,), {"out": poison("int16", 16, 16), "transposed": poison("int16", 16, 8)},
        "out transposed", _stmatrix,
    ),
    case(
        "redux_sync", (1,), (64,), {"in": Array("int32", (64,), (-(2**31), 2**31 - 1)), "out": poison("int32", 8, 64)},
        "in out", _redux,
    ),
    case(
        "griddepcontrol", (4,), (64,),
        {
            "in": Array("int32", (256,)), "weights": Array("int32", (256,)), "squares": poison("int32", 256),
            "out": poison("int32", 256),
        },
        "in weights squares out", _dependent, kernels="write_squares sum_squares", dependent=True,
    ),
    case(
        "setmaxnreg", (1,), (384,), {"in": Array("int32", (6, 128)), "out": poison("int32", 32, 128)}, "in out 6",
        _setmaxnreg,
    ),
)  # fmt: skip


# ---- wgmma ----


def _product(x: Arrays) -> Arrays:
    """Return D = A @ B for A (M, K) and B (N, K)."""
    return {"d": wide(x["a"]) @ wide(x["b"]).T}


def _operands(
    m: int,
    n: int,
    k: int,
    a: str,
    b: str,
    d: str,
    a_values: tuple[int, int] = (-4, 4),
    b_values: tuple[int, int] = (-4, 4),
) -> dict[str, Array]:  # fmt: skip
    """Return A (M, K), B (N, K) and D (M, N) of these types."""
    return {"a": Array(a, (m, k), a_values), "b": Array(b, (n, k), b_values), "d": poison(d, m, n)}


def _mapped(a: str, b: str, k: int, n: int, swizzle: int = 128, m: int = 64) -> dict[str, TensorMap]:
    """Return tensor maps of A (M, K) and B (N, K) whose box is the whole matrix."""
    return {"a_map": rows_map("a", a, (m, k), (k, m), swizzle), "b_map": rows_map("b", b, (n, k), (k, n), swizzle)}


_START = 2**31 - 400_000  # so that some sums overflow


def _integers(name: str, a: tuple[int, int], b: tuple[int, int], saturates: bool = False) -> Case:
    def expect(x: Arrays) -> Arrays:
        sums = wide(x["a"]) @ wide(x["b"]).T + _START
        return {"d": np.minimum(sums, 2**31 - 1) if saturates else (sums + 2**31) % 2**32 - 2**31}

    types = ["int8" if low < 0 or high < 128 else "uint8" for low, high in (a, b)]
    return case(
        f"wgmma_int8_{name}", (1,), (128,), _operands(64, 8, 64, *types, "int32", a, b), f"a b d {_START}", expect,
        file="wgmma_int8",
    )  # fmt: skip


def _transposed_operands(x: Arrays) -> Arrays:
    return {"d": wide(x["a"]).T @ wide(x["b"])}


def _truncated(x: Arrays) -> Arrays:
    """Return the product of A's elements without their lower 13 bits."""
    return {"d": wide(truncate_to_tf32(x["a"])) @ wide(x["b"]).T}


def _rounded(x: Arrays) -> Arrays:
    """Return the product of A's elements rounded to tf32."""
    return {"d": wide(round_to_tf32(x["a"])) @ wide(x["b"]).T}


def _tf32(name: str, dtype: str, expect: Callable[[Arrays], Arrays], scale: float) -> Case:
    arrays = _operands(64, 16, 32, "float32", "float32", "float32")
    return case(
        f"wgmma_tf32_{name}", (1,), (128,), {**arrays, "a": Array("float32", (64, 32), (-8, 8), scale)},
        "a_map b_map d", expect, maps=_mapped(dtype, dtype, 32, 16), file="wgmma_tf32", kernels="wgmma_tf32_tile",
    )  # fmt: skip


def _tf32_registers(x: Arrays) -> Arrays:
    return _rounded({"a": np.ascontiguousarray(x["a"].T), "b": x["b"]})


def _windows(x: Arrays) -> Arrays:
    b = wide(x["b"])
    return {"d": np.stack([wide(x["a"]) @ b[i : i + 8].T for i in range(9)])}


def _complex(x: Arrays) -> Arrays:
    ar, ai = wide(x["a"]).reshape(2, 64, 32)
    br, bi = wide(x["b"]).reshape(2, 8, 32)
    return {"re": ar @ br.T - ai @ bi.T, "im": ar @ bi.T + ai @ br.T}


def _in_flight(x: Arrays) -> Arrays:
    return {"d": np.stack([wide(x["a"]) @ b.T for b in wide(x["b"]).reshape(3, 8, 64)])}


def _chain(x: Arrays) -> Arrays:
    return {"d": wide(x["a"]) @ wide(x["b"]).T @ wide(x["c"]).T}


_FLOATS = ("float16", "float16", "float32")

_WGMMA = (
    case("wgmma_no_swizzle", (1,), (128,), _operands(64, 8, 64, *_FLOATS), "a b d", _product),
    *(
        case(
            f"wgmma_swizzle_{row_bytes}", (1,), (128,), _operands(64, 8, row_bytes, *_FLOATS), "a b d", _product,
            file="wgmma_swizzle",
        )
        for row_bytes in (32, 64, 128)
    ),
    *(
        case(
            f"wgmma_transposed_{suffix}", (1,), (128,),
            {"a": Array("float16", (32, 64)), "b": Array("float16", (32, 64)), "d": poison("float32", 64, 64)},
            "a b d", _transposed_operands, file=f"wgmma_transposed{'_no_swizzle' * (suffix == 'no_swizzle')}",
        )
        for suffix in ("32", "64", "128", "no_swizzle")
    ),
    case(
        "wgmma_registers_a", (1,), (128,), _operands(64, 8, 32, "bfloat16", "bfloat16", "float32"), "a b_map d",
        _product, maps={"b_map": rows_map("b", "bfloat16", (8, 32), (32, 8), 64)},
    ),
    case(
        "wgmma_wide", (1,), (128,), _operands(64, 256, 16, "bfloat16", "bfloat16", "float32"), "a_map b_map d",
        _product, maps=_mapped("bfloat16", "bfloat16", 16, 256, 32),
    ),
    case(
        "wgmma_windows", (1,), (128,),
        {"a": Array("float16", (64, 64)), "b": Array("float16", (24, 64)), "d": poison("float32", 9, 64, 8)}, "a b d",
        _windows, file="wgmma_base_offset",
    ),
    case(
        "wgmma_shifted", (1,), (128,), _operands(64, 8, 64, *_FLOATS), "a b d", _product, file="wgmma_base_offset"
    ),
    _tf32("integers", "float32", _product, 1),
    _tf32("truncated", "float32", _truncated, 1 - 2.0**-13),
    _tf32("rounded", "tf32", _rounded, 1 - 2.0**-13),
    case(
        "wgmma_tf32_registers", (1,), (128,),
        {
            "a": Array("float32", (32, 64), (-8, 8), 1 - 2.0**-13), "b": Array("float32", (8, 32), (-4, 4)),
            "d": poison("float32", 64, 8),
        },
        "a b d", _tf32_registers,
    ),
    _integers("signed", (-128, 127), (-128, 127)),
    _integers("unsigned", (0, 255), (0, 255)),
    _integers("saturating", (0, 255), (0, 127), saturates=True),
    case(
        "wgmma_fp8", (1,), (128,), _operands(64, 24, 128, "e4m3", "e5m2", "float32", (-8, 8)), "a_map b_map d",
        _product, maps=_mapped("e4m3", "e5m2", 128, 24),
    ),
    case("wgmma_fp8_registers", (1,), (128,), _operands(64, 8, 32, "e5m2", "e4m3", "float32"), "a b d", _product),
    case(
        "wgmma_half_sums", (1,), (128,), _operands(64, 16, 64, "float16", "float16", "float16"), "a_map b_map d",
        _product, maps=_mapped("float16", "float16", 64, 16),
    ),
    case(
        "wgmma_complex", (1,), (128,),
        {
            "a": Array("float16", (128, 32), (-4, 4)), "b": Array("float16", (16, 32), (-4, 4)),
            "re": poison("float32", 64, 8), "im": poison("float32", 64, 8),
        },
        "a_map b_map re im", _complex,
        maps={
            "a_map": rows_map("a", "float16", (128, 32), (32, 64), 64),
            "b_map": rows_map("b", "float16", (16, 32), (32, 8), 64),
        },
    ),
    case(
        "wgmma_in_flight", (1,), (128,),
        {"a": Array("float16", (64, 64)), "b": Array("float16", (24, 64)), "d": poison("float32", 3, 64, 8)},
        "a_map b_map d", _in_flight,
        maps={
            "a_map": rows_map("a", "float16", (64, 64), (64, 64), 128),
            "b_map": rows_map("b", "float16", (24, 64), (64, 8), 128),
        },
    ),
    case(
        "wgmma_chain", (1,), (128,),
        {
            "a": Array("float16", (64, 64), (-2, 2)), "b": Array("float16", (64, 64), (-2, 2)),
            "c": Array("float16", (8, 64), (-2, 2)), "d": poison("float32", 64, 8),
        },
        "a_map b_map c_map d", _chain,
        maps={**_mapped("float16", "float16", 64, 64), "c_map": rows_map("c", "float16", (8, 64), (64, 8), 128)},
    ),
)  # fmt: skip


# ---- whole products: A (M, K), B (N, K), boxes of 64 times 64 elements ----


def _gemm(
    name: str,
    m: int,
    n: int,
    k: int,
    grid: Sequence[int],
    threads: int,
    *,
    b_rows: int = 64,
    arguments: str = "",
    expect: Callable[[Arrays], Arrays] | None = None,
    file: str = "",
    **rest: Any,
) -> Case:
    """Return the case of a product in float16 with sums in float32."""
    arrays = {
        "a": Array("float16", (m, k), (-4, 4)),
        "b": Array("float16", (n, k), (-4, 4)),
        "c": poison("float32", m, n),
    }
    maps = {
        "a_map": rows_map("a", "float16", (m, k), (64, 64), 128),
        "b_map": rows_map("b", "float16", (n, k), (64, b_rows), 128),
    }
    return case(
        name, grid, (threads,), {**arrays, **rest.pop("arrays", {})}, arguments or f"a_map b_map c {m} {n} {k}",
        expect or (lambda x: {"c": wide(x["a"]) @ wide(x["b"]).T}), maps={**maps, **rest.pop("maps", {})},
        file=file or name, kernels=file or name, **rest,
    )  # fmt: skip


def _fp8_promoted(x: Arrays) -> Arrays:
    a, b = (np.moveaxis(wide(x[name]).reshape(-1, 3, 128), 1, 0) for name in "ab")
    return {"c": np.einsum("smk,snk,s->mn", a, b, wide(x["scales"]))}


def _attention(x: Arrays) -> Arrays:
    q, k, v = (wide(x[name]) for name in "qkv")
    weights = np.exp(q @ k.T / 8)
    return {"out": weights @ v / weights.sum(1, keepdims=True)}


_GEMMS = (
    _gemm("gemm_ring", 100, 72, 200, (2, 2), 128, shared=49184),
    _gemm("gemm_ring_short", 64, 64, 40, (1, 1), 128, shared=49184, file="gemm_ring"),   # fewer steps than stages
    _gemm(
        "gemm_warp_specialized", 200, 136, 152, (2,), 384, shared=73776,
        arrays={"b": Array("float16", (152, 136), (-4, 4))},
        maps={
            "a_map": rows_map("a", "float16", (200, 152), (64, 128), 128),
            "b_map": rows_map("b", "float16", (152, 136), (64, 64), 128),
        },
        expect=lambda x: {"c": wide(x["a"]) @ wide(x["b"])},
    ),
    _gemm("gemm_multicast", 120, 72, 328, (2, 2), 160, b_rows=32, cluster=(1, 2)),
    _gemm(
        "gemm_cluster_2x2", 200, 136, 200, (4, 4), 160, b_rows=32, cluster=(2, 2),
        maps={"a_map": rows_map("a", "float16", (200, 200), (64, 32), 128)},
    ),
    _gemm(
        "gemm_tma_store", 90, 72, 200, (2, 2), 128, arrays={"c": poison("float16", 90, 72)},
        maps={"c_map": rows_map("c", "float16", (90, 72), (64, 64), 128)}, arguments="a_map b_map c_map 200",
    ),
    _gemm("gemm_split_k_cluster", 70, 64, 600, (1, 2, 4), 128, cluster=(1, 1, 4)),
    _gemm("gemm_split_k_cluster_short", 64, 40, 104, (1, 1, 4), 128, cluster=(1, 1, 4), file="gemm_split_k_cluster"),
    _gemm(
        "gemm_relu_a", 72, 64, 136, (1, 2), 128, expect=lambda x: {"c": np.maximum(wide(x["a"]), 0) @ wide(x["b"]).T}
    ),
    _gemm("gemm_pingpong", 150, 136, 136, (1,), 384),
    case(
        "gemm_fp8_promoted", (2, 2), (128,),
        {
            "a": Array("e4m3", (128, 384)), "b": Array("e4m3", (32, 384)),
            "scales": Array("float32", (3,), (1, 8), 0.25), "c": poison("float32", 128, 32),
        },
        "a_map b_map scales c 32 384", _fp8_promoted,
        maps={
            "a_map": rows_map("a", "e4m3", (128, 384), (128, 64), 128),
            "b_map": rows_map("b", "e4m3", (32, 384), (128, 16), 128),
        },
    ),
    case(
        "attention", (2,), (128,),
        {
            "q": Array("float16", (128, 64), (-2, 2)), "k": Array("float16", (192, 64), (-2, 2)),
            "v": Array("float16", (192, 64), (1, 9)), "out": poison("float32", 128, 64),
        },
        "q_map k_map v_map out 192", _attention, tolerance=2e-3,
        maps={
            "q_map": rows_map("q", "float16", (128, 64), (64, 64), 128),
            "k_map": rows_map("k", "float16", (192, 64), (64, 64), 128),
            "v_map": rows_map("v", "float16", (192, 64), (64, 64), 128),
        },
    ),
)  # fmt: skip

#: All cases, simple ones first.
CASES: tuple[Case, ...] = (*_MBARRIERS, *_TMA, *_CLUSTERS, *_WARPS, *_WGMMA, *_GEMMS)
