"""Tests of the calls and copies of streaming products, on ``tests.host_device``. Needs no CuPy."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from tests.host_device import HostDevice
from tests.strategies import small_integers
from tiledmm import out_of_core
from tiledmm.distributed import streaming
from tiledmm.distributed.tiling import Matrices, Tiling, ceil_div, most_workspace, round_up


def _form(x: Any) -> tuple[Any, ...]:
    return x.shape, x.strides, x.dtype


class Device(HostDevice):
    """A stand-in device that records calls.

    Attributes:
        precisions: Precisions of workspaces and of products.
        asked: Products whose workspace was requested: arrays, and whether there is an addend.
        staging: Bytes of the staging buffers.
        pitches: Bytes between the rows in host memory that copies read and write.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.precisions: set[str] = set()
        self.asked: set[Any] = set()
        self.staging: list[int] = []
        self.pitches: set[int] = set()

    def workspace(self, a: Any, b: Any, out: Any, has_addend: bool, precision: str) -> int:
        self.precisions.add(precision)
        self.asked.add((*(_form(x) for x in (a, b, out)), has_addend))
        return super().workspace(a, b, out, has_addend, precision)

    def product(self, a: Any, b: Any, out: Any, addend: Any, precision: str, stream: Any) -> None:
        self.precisions.add(precision)
        assert (*(_form(x) for x in (a, b, out)), addend is not None) in self.asked, "its workspace is not known"
        super().product(a, b, out, addend, precision, stream)

    def page_locked(self, size: int) -> np.ndarray:
        self.staging.append(size)
        return super().page_locked(size)

    def _check_copy(self, rows: np.ndarray, host: np.ndarray) -> None:
        super()._check_copy(rows, host)
        self.pitches.add(host.strides[0])


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    found.install(monkeypatch)
    return found


def tiled(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> list[Tiling]:
    """Make products use this tiling (rows, cols, depth, slots of A and B), and return the tilings they used."""
    taken: list[Tiling] = []

    def tiling_within(matrices: Matrices, *_: Any) -> Tiling:
        taken.append(Tiling(matrices, *sizes))
        return taken[-1]

    monkeypatch.setattr(streaming, "tiling_within", tiling_within)
    return taken


def operands(m: int = 60, n: int = 50, k: int = 40, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return small_integers(rng, (m, k), dtype), small_integers(rng, (k, n), dtype)


@pytest.mark.parametrize("precision", ["full", "ieee", "tf32"])
def test_the_precision_is_that_of_every_product(
    device: Device, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiled(monkeypatch, 32, 32, 16)
    out_of_core.matmul(*operands(), precision=precision)
    assert device.precisions == {precision}


@pytest.mark.parametrize("dtype", out_of_core.TYPES)
def test_a_tiling_is_for_the_products_sizes_types_and_layouts(
    dtype: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tiled(monkeypatch, 32, 16, 24)
    a, b = operands(60, 50, 40, dtype)
    itemsize = a.itemsize
    for x, y, out, layouts in (
        (a, b, np.empty((60, 50), dtype), "NNN"), (np.asfortranarray(a), b, np.empty((60, 50), dtype), "TNN"),
        (a, np.asfortranarray(b), np.empty((60, 50), dtype), "NTN"), (a, b, np.empty((50, 60), dtype).T, "NNT"),
    ):  # fmt: skip
        np.testing.assert_array_equal(out_of_core.matmul(x, y, out), a @ b)
        assert taken.pop().matrices == Matrices(60, 50, 40, itemsize, max(itemsize, 4), layouts)


def test_without_a_limit_a_share_of_the_free_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    whole = streaming.tiling_within
    monkeypatch.setattr(
        streaming, "tiling_within", lambda each, limit, workspace: asked.append(limit) or whole(each, limit, workspace)
    )
    for free, memory, limit in (
        (1 << 30, None, int(0.8 * (1 << 30))),
        (1 << 25, None, int(0.8 * (1 << 25))),
        (9, 10**7, 10**7),
    ):
        device = Device(free=free)
        device.install(monkeypatch)
        device.most = limit
        out_of_core.matmul(*operands(), memory=memory)
        assert asked.pop() == limit and device.allocated <= limit


@pytest.mark.parametrize(
    ("view", "letter"),
    [
        (lambda x: x, "N"), (lambda x: x.T.copy().T, "T"), (lambda x: x[::-1, ::-1], "N"),
        (lambda x: x.T.copy().T[::-1, ::-1], "T"), (lambda x: x[::2, ::3], "N"),
        (lambda x: x.T.copy().T[::3, ::2], "T"),
        (lambda x: x[:, :1], "T"), (lambda x: x[:1], "N"), (lambda x: x[:1].T.copy().T, "N"),
    ],
)  # fmt: skip
def test_a_matrix_has_the_layout_that_it_is_nearer_to(
    view: Any, letter: str, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tiled(monkeypatch, 64, 64, 64)
    x = view(operands(60, 60, 50)[0])
    rows, cols = x.shape

    def ones(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    calls = [
        (x, ones(cols, 5), ones(rows, 5)), (ones(5, rows), x, ones(5, cols)), (ones(rows, 5), ones(5, cols), x),
    ]  # fmt: skip
    for operand, (a, b, out) in enumerate(calls):
        wanted = a @ b
        out_of_core.matmul(a, b, out)
        assert taken.pop().matrices.layouts[operand] == letter
        np.testing.assert_array_equal(out, wanted)


LOCKED = {
    "whole": (lambda x: x, True),
    "rows apart": (lambda x: x[::2], True),
    "columns": (lambda x: x[:, 3:-4], True),
    "one row": (lambda x: x[:1], True),
    "columns apart": (lambda x: x[:, ::2], False),
    "reversed rows": (lambda x: x[::-1], False),
    "reversed columns": (lambda x: x[:, ::-1], False),
    "one row for all": (lambda x: np.broadcast_to(x[:1], x.shape), False),
    "overlapping rows": (
        lambda x: np.lib.stride_tricks.as_strided(x, (x.shape[0], 30), (4 * x.itemsize, x.itemsize)), False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOCKED)
@pytest.mark.parametrize("transposed", [False, True])
def test_page_locked_matrices_are_copied_as_they_are_where_copies_can(
    name: str, transposed: bool, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiled(monkeypatch, 32, 16, 24, 2, 2)
    view, is_direct = LOCKED[name]
    x = view(device.lock(operands(60, 60, 50)[0]))
    x = x.T if transposed else x
    b = device.lock(operands(60, 60, x.shape[1])[1])
    out = device.lock(np.zeros((x.shape[0], 60), "f4"))
    np.testing.assert_array_equal(out_of_core.matmul(x, b, out), x @ b)
    assert bool(device.staging) is not is_direct
    device.staging.clear()
    np.testing.assert_array_equal(out_of_core.matmul(b.T, x.T, out.T), b.T @ x.T)
    assert bool(device.staging) is not is_direct
    device.staging.clear()
    if name not in ("one row for all", "overlapping rows"):
        device.lock(result := np.zeros((60, 50), "f4"))
        result = view(result).T if transposed else view(result)
        a, b = (device.lock(y) for y in operands(*result.shape, 20))
        np.testing.assert_array_equal(out_of_core.matmul(a, b, result), a @ b)
        assert bool(device.staging) is not is_direct


def test_rows_that_are_too_far_apart_for_copies_are_staged(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    tiled(monkeypatch, 32, 16, 24, 2, 2)
    a, b = (device.lock(x) for x in operands(60, 50, 100))
    out = device.lock(np.zeros((60, 50), "f4"))
    for most, pitches, staged in ((400, {400, 200}, 0), (399, {200}, 2), (199, set(), 4)):
        monkeypatch.setattr(streaming, "_MOST_PITCH", most)
        device.pitches.clear(), device.staging.clear()
        np.testing.assert_array_equal(out_of_core.matmul(a, b, out), a @ b)
        assert len(device.staging) == staged and pitches <= device.pitches
        assert staged or device.pitches == pitches


def test_staging_buffers_are_no_larger_than_a_panel(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = tiled(monkeypatch, 32, 16, 24, 2, 2)
    a, b = operands(60, 50, 100)
    for staging, into, back in ((1 << 20, 32 * 96, 32 * 64), (1000, 1000, 1000), (50, 96, 64)):
        monkeypatch.setattr(streaming, "STAGING_BYTES", staging)
        device.staging.clear()
        np.testing.assert_array_equal(out_of_core.matmul(a, b), a @ b)
        assert device.staging == [into, into, back, back]
    assert taken[0].pitch(0) == 96 and taken[0].pitch(1) == taken[0].pitch(2) == 64


@pytest.mark.parametrize("slots", [(1, 1), (2, 1), (1, 3), (4, 2), (9, 9)])
@pytest.mark.parametrize("shape", [(90, 40, 50), (40, 90, 50), (64, 64, 16)])
def test_the_least_recently_used_panel_makes_room(
    slots: tuple[int, int], shape: tuple[int, int, int], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tiled(monkeypatch, 32, 16, 16, *slots)
    a, b = operands(*shape)
    np.testing.assert_array_equal(out_of_core.matmul(a, b), a @ b)
    tiling, copied = taken[0], 0
    held: tuple[OrderedDict[Any, None], ...] = OrderedDict(), OrderedDict()
    for number in range(tiling.tiles):
        i, j = tiling.tile(number)
        for depth in tiling.depths(number):
            for panels, size, panel in zip(held, slots, ((i, depth), (depth, j)), strict=True):
                if panel not in panels:
                    rows, cols = ((32, 16), (16, 16))[panels is held[1]]
                    x = (a, b)[panels is held[1]]
                    copied += x[panel[0] * rows : (panel[0] + 1) * rows, panel[1] * cols : (panel[1] + 1) * cols].nbytes
                    if len(panels) == size:
                        panels.popitem(last=False)
                panels[panel] = None
                panels.move_to_end(panel)
    assert device.copied == copied


# ---- Arithmetic


@pytest.mark.parametrize(
    ("m", "n", "k", "by_rows"),
    [
        (1000, 1000, 500, True), (1000, 100, 500, True), (100, 1000, 500, True), (1000, 300, 500, False),
        (300, 1000, 500, True), (64, 1000, 10, True), (1000, 64, 10, False), (100, 90, 10, False), (90, 100, 10, True),
    ],
)  # fmt: skip
def test_the_operand_is_kept_that_would_be_copied_more(m: int, n: int, k: int, by_rows: bool) -> None:
    tiling = Tiling(Matrices(m, n, k, 4, 4), 64, 64, 64)
    down, across = tiling.grid
    rows_first, columns_first = m * k + down * k * n, k * n + across * m * k
    assert tiling.by_rows == (rows_first <= columns_first)
    assert tiling.kept == (0 if rows_first <= columns_first else 1)
    order = [tiling.tile(number) for number in range(tiling.tiles)]
    assert len({*order}) == down * across == tiling.tiles
    steps = [(i == p, j == q) for (i, j), (p, q) in zip(order[1:], order[:-1], strict=True)]
    assert all(a + b == 1 for a, b in steps)
    same_row = sum(row for row, _ in steps)
    assert same_row == (down * (across - 1) if tiling.by_rows else across - 1)


def test_bytes_of_panels_and_tiles() -> None:
    tiling = Tiling(Matrices(1000, 900, 800, 2, 4, "NTT"), 250, 130, 70, 3, 2)
    assert tiling.grid == (4, 7) and tiling.tiles == 28 and tiling.steps == 12 and tiling.results == 2
    assert tiling.shapes == ((250, 70), (70, 130), (250, 130))
    assert [tiling.pitch(which) for which in range(3)] == [144, 144, 512]
    assert [tiling.pitch(which, 4) for which in range(3)] == [288, 288, 1008]
    panel_a, panel_b, tile, sums = 36352, 18944, 66560, 131072
    assert [tiling.bytes(which) for which in range(3)] == [panel_a, panel_b, tile]
    assert tiling.bytes(2, 4) == sums and tiling.wide_sums
    assert tiling.buffer_bytes == 3 * panel_a + 2 * panel_b + 2 * tile + sums
    transposed = Tiling(Matrices(1000, 900, 800, 2, 4, "TNN"), 250, 130, 70)
    assert [transposed.pitch(which) for which in range(3)] == [512, 272, 272]
    for matrices, depth in ((Matrices(1000, 900, 800, 4, 4), 70), (Matrices(1000, 900, 800, 2, 4), 800)):
        narrow = Tiling(matrices, 250, 130, depth, 1, 1)
        assert not narrow.wide_sums
        assert narrow.buffer_bytes == narrow.bytes(0) + narrow.bytes(1) + 2 * narrow.bytes(2)
    one = Tiling(Matrices(10, 9, 8, 4, 4), 10, 9, 8)
    assert one.results == one.tiles == 1 and one.buffer_bytes == 512 + 512 + 512
    assert (ceil_div(10, 3), ceil_div(9, 3), round_up(10, 16), round_up(32, 16)) == (4, 3, 16, 32)


def test_the_workspace_is_that_of_the_product_that_needs_most() -> None:
    tiling = Tiling(Matrices(100, 90, 80, 2, 4), 64, 64, 32)
    for most in ((36, 26, 16), (64, 26, 32), (36, 64, 16), (64, 64, 32)):
        for kind in ((True, False), (False, False), (False, True)):
            wanted = (most, *kind)
            assert most_workspace(tiling, lambda _, *asked: 3000 if asked == wanted else 5) == 3072  # noqa: B023
