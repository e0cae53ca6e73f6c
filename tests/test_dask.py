"""Tests of products of Dask arrays: process grids, ranks over TCP, clusters of threads and of processes, faults."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

distributed: Any = pytest.importorskip("distributed")
da: Any = pytest.importorskip("dask.array")

import dask  # noqa: E402

import tiledmm.dask as ours  # noqa: E402
from tests.conftest import slow_unless  # noqa: E402
from tests.dask_clusters import (  # noqa: E402
    KILLS,
    LIMIT,
    MOST_AFTER_KILL,
    PATIENT,
    client_of,
    is_empty,
    kill,
    outcome_of_kill,
    threads_of,
    wait_for_processes,
)
from tiledmm.distributed import gang, graph, local, ranks, worker_nccl  # noqa: E402
from tiledmm.distributed.communicators import ROW, TcpCommunicator  # noqa: E402
from tiledmm.distributed.gang import GangPlugin  # noqa: E402
from tiledmm.distributed.grid import Layout, blocks, choose_layout, pair  # noqa: E402
from tiledmm.distributed.local import sum_of_products  # noqa: E402
from tiledmm.distributed.placement import SUMMA  # noqa: E402
from tiledmm.distributed.rings import CollectiveError, connect, is_closed, listen  # noqa: E402
from tiledmm.distributed.summa import summa  # noqa: E402
from tiledmm.distributed.worker_nccl import nccl_communicator  # noqa: E402
from tiledmm.errors import ConfigError, OperandTypeError, ShapeError, UnsupportedTypeError  # noqa: E402


def integers(shape: tuple[int, ...], dtype: Any = "float64", seed: int = 0) -> np.ndarray[Any, Any]:
    """Return integers so small that their products are exact in any order."""
    rng = np.random.default_rng([seed, *shape])
    found = rng.integers(0, 3, shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        found += 1j * rng.integers(-2, 3, shape)
    return found


# ---- Grids


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 200), st.integers(1, 12))
def test_the_grid_with_the_least_traffic(m: int, n: int, k: int, size: int) -> None:
    layout = choose_layout(m, n, k, size, ((m,), (k,)), ((k,), (n,)))
    p_r, p_c = layout.grid if layout else (1, 1)
    assert p_r * p_c <= size and p_r <= min(m, k) and p_c <= min(n, k)

    def traffic(p_r: int, p_c: int) -> int:
        return Layout(blocks(m, p_r), blocks(n, p_c), blocks(k, p_c), blocks(k, p_r)).traffic(1)

    for p in range(1, size + 1):
        for q in range(1, size + 1):
            if p <= min(m, k) and q <= min(n, k) and p * q <= size:
                assert p * q <= p_r * p_c
                assert p * q < p_r * p_c or traffic(p_r, p_c) <= traffic(p, q)


def test_the_grid_that_keeps_what_is_in_place() -> None:
    rows, columns, whole = (8, 8), (8, 8), (16,)
    for a_chunks, b_chunks, grid in (
        ((rows, whole), (rows, whole), (2, 1)),
        ((whole, columns), (whole, columns), (1, 2)),
        ((rows, columns), (rows, columns), (2, 1)),
    ):
        layout = choose_layout(16, 16, 16, 2, a_chunks, b_chunks)
        assert layout is not None and layout.grid == grid


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 6))
def test_blocks_cover_an_axis(chunks: list[int], parts: int) -> None:
    extent = sum(chunks)
    if extent < parts:
        return
    found = blocks(extent, parts, chunks)
    assert sum(found) == extent and len(found) == parts and min(found) > 0
    assert max(found) <= 1.25 * extent / parts + 2


def test_boundaries_of_chunks_are_kept_where_they_are_near() -> None:
    assert blocks(100, 2, (48, 52)) == (48, 52)
    assert blocks(100, 2, (30, 70)) == (50, 50)
    assert blocks(90, 3, (30, 30, 30)) == (30, 30, 30)


def test_each_axis_keeps_the_boundaries_of_its_own_chunks() -> None:
    layout = choose_layout(100, 120, 160, 4, ((48, 52), (76, 84)), ((83, 77), (58, 62)))
    assert layout == Layout((48, 52), (58, 62), (76, 84), (83, 77))
    assert layout.block_sizes == (((48, 52), (76, 84)), ((83, 77), (58, 62)))
    assert [layout.shapes(rank) for rank in range(4)] == [
        ((48, 76), (83, 58), (48, 58)), ((48, 84), (83, 62), (48, 62)),
        ((52, 76), (77, 58), (52, 58)), ((52, 84), (77, 62), (52, 62)),
    ]  # fmt: skip
    assert [layout.own(rank) for rank in range(4)] == [(0, 76), (76, 83), (83, 83), (83, 160)]
    assert [layout.place(rank) for rank in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(layout.rank(*layout.place(rank)) == rank for rank in range(layout.size))
    assert layout.traffic(4) == 4 * (100 * 160 + 160 * 120)


@pytest.mark.parametrize(
    ("sizes", "ranks", "a_chunks", "b_chunks", "grid"),
    [
        # B is moved once if its blocks are cut within chunks: 2 x 1 keeps A, and 1 x 2 moves it.
        ((16, 16, 16), 2, ((8, 8), (16,)), ((16,), (16,)), (2, 1)),
        ((16, 16, 16), 2, ((16,), (8, 8)), ((16,), (16,)), (1, 2)),
        ((16, 16, 16), 2, ((16,), (16,)), ((8, 8), (16,)), (2, 1)),
        ((16, 16, 16), 2, ((16,), (16,)), ((16,), (8, 8)), (1, 2)),
        ((16, 16, 16), 2, ((16,), (16,)), ((16,), (16,)), (2, 1)),
        ((64, 16, 16), 4, ((64,), (16,)), ((16,), (16,)), (4, 1)),
        ((16, 64, 16), 4, ((16,), (16,)), ((16,), (64,)), (1, 4)),
        ((64, 64, 64), 4, ((64,), (64,)), ((64,), (64,)), (2, 2)),
        ((64, 64, 64), 6, ((64,), (64,)), ((64,), (64,)), (3, 2)),
        ((1, 64, 64), 6, ((1,), (64,)), ((64,), (64,)), (1, 6)),
        ((64, 64, 3), 9, ((64,), (3,)), ((3,), (64,)), (3, 3)),
        ((64, 2, 64), 5, ((64,), (64,)), ((64,), (2,)), (5, 1)),
    ],
)  # fmt: skip
def test_grids(sizes: Any, ranks: int, a_chunks: Any, b_chunks: Any, grid: Any) -> None:
    layout = choose_layout(*sizes, ranks, a_chunks, b_chunks)
    assert layout is not None and layout.grid == grid


def test_nothing_is_left_for_a_second_rank() -> None:
    for sizes in ((1, 1, 9), (9, 9, 1), (5, 5, 5)):
        m, n, k = sizes
        assert choose_layout(m, n, k, 1 if sizes == (5, 5, 5) else 8, ((m,), (k,)), ((k,), (n,))) is None


def test_the_heaviest_wishes_are_granted_first() -> None:
    assert pair([(1, 0, "a"), (5, 1, "a"), (4, 0, "b"), (9, 2, "a")]) == [(2, "a"), (0, "b")]
    assert pair([(3, 1, "b"), (3, 0, "b"), (3, 1, "a"), (3, 0, "a")]) == [(0, "a"), (1, "b")]
    assert pair([]) == []


def test_panels_of_different_owners_are_broadcast_together() -> None:
    layout = Layout((4, 4), (6, 6), (10, 6), (8, 8))
    steps = [[(panel.begin, panel.end, panel.a_owner, panel.b_owner) for panel in step] for step in layout.steps(5)]
    assert steps == [[(0, 5, 0, 0), (8, 10, 0, 1)], [(10, 15, 1, 1), (5, 8, 0, 0)], [(15, 16, 1, 1)]]
    empty = Layout((4, 4), (6, 6), (0, 16), (16, 0))
    assert [(panel.a_owner, panel.b_owner) for step in empty.steps(8) for panel in step] == [(1, 0), (1, 0)]


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 90), st.integers(1, 9), st.integers(1, 40))
def test_panels_cover_k_and_belong_to_their_owners(m: int, n: int, k: int, size: int, width: int) -> None:
    layout = choose_layout(m, n, k, size, ((m,), (k,)), ((k,), (n,)))
    if layout is None:
        return
    found, received = [panel for step in layout.steps(width) for panel in step], 0
    at = 0
    for panel in sorted(found, key=lambda panel: panel.begin):
        assert panel.begin == at < panel.end <= at + width
        at = panel.end
    assert at == k
    for panel in found:
        for depths, owner in ((layout.a_depths, panel.a_owner), (layout.b_depths, panel.b_owner)):
            assert sum(depths[:owner]) <= panel.begin and panel.end <= sum(depths[: owner + 1])
        for row, column in map(layout.place, range(layout.size)):
            received += (panel.a_owner != column) * layout.rows[row] * (panel.end - panel.begin)
            received += (panel.b_owner != row) * layout.columns[column] * (panel.end - panel.begin)
    assert at == k and layout.traffic(8) == 8 * received


@pytest.mark.parametrize(
    ("size", "k", "width"),
    [
        (2, 16384, 8192),  # what each rank has of both operands: half of k
        (2, 1500, 1024),  # the narrowest
        (3, 16384, 1366),  # a third would be too much in memory, and a sixth
        (4, 16384, 2048),  # two of the ranks have no range of k of both operands
    ],
)
def test_width_of_panels(size: int, k: int, width: int) -> None:
    layout = layout_of(16384, 16384, k, size)
    assert layout.panel_width() == width


@given(st.integers(1024, 9000), st.integers(1024, 9000), st.integers(1024, 90000), st.integers(2, 12))
def test_panels_in_memory(m: int, n: int, k: int, size: int) -> None:
    layout = layout_of(m, n, k, size)
    width = layout.panel_width()
    received = [[0] * len(layout.steps(width)) for _ in range(layout.size)]
    for rank, of_rank in enumerate(received):
        row, column = layout.place(rank)
        for index, step in enumerate(layout.steps(width)):
            for panel in step:
                of_rank[index] += layout.rows[row] * (panel.end - panel.begin) * (panel.a_owner != column)
                of_rank[index] += layout.columns[column] * (panel.end - panel.begin) * (panel.b_owner != row)
    most = max(sum(of_rank[i : i + 3]) for of_rank in received for i in range(len(of_rank)))
    assert width == 1024 or most <= (m * k + k * n + m * n) / layout.size / 2


# ---- Ranks, without Dask


def run_ranks(
    layout: Layout,
    a: Any,
    b: Any,
    deadline: float = 5,
    width: int | None = 7,
    on_step: Callable[[int, int], None] = lambda rank, step: None,
    absent: int | None = None,
    ended: dict[int, float] | None = None,
) -> list[Any]:
    """Run each rank in a thread, and return what each returns or raises."""
    listeners = [listen("127.0.0.1") for _ in range(layout.size)]
    addresses = [each.getsockname() for each in listeners]

    def part(x: Any, i: int, sizes: tuple[int, ...], j: int, depths: tuple[int, ...]) -> Any:
        return x[sum(sizes[:i]) : sum(sizes[: i + 1]), sum(depths[:j]) : sum(depths[: j + 1])]

    def run(rank: int) -> Any:
        if rank == absent:
            return None
        (i, j), listener = layout.place(rank), listeners[rank]
        try:
            tcp = TcpCommunicator(layout, rank, listener, addresses, bytes(16), deadline)
            try:
                assert tcp.exchange(bytes(rank)) == [bytes(each) for each in range(layout.size)]
                blocks = part(a, i, layout.rows, j, layout.a_depths), part(b, i, layout.b_depths, j, layout.columns)
                c = summa(*blocks, layout, rank, tcp, width=width, on_step=lambda step: on_step(rank, step))
                tcp.finish()
                return c
            finally:
                tcp.close()
        except Exception as error:
            return error
        finally:
            if ended is not None:
                ended[rank] = time.monotonic()

    try:
        with ThreadPoolExecutor(layout.size) as threads:
            return list(threads.map(run, range(layout.size)))
    finally:
        for each in listeners:
            each.close()


def put_together(layout: Layout, parts: list[Any]) -> np.ndarray[Any, Any]:
    p_r, p_c = layout.grid
    return np.block([[parts[layout.rank(i, j)] for j in range(p_c)] for i in range(p_r)])


def layout_of(m: int, n: int, k: int, size: int) -> Layout:
    layout = choose_layout(m, n, k, size, ((m,), (k,)), ((k,), (n,)))
    assert layout is not None
    return layout


@pytest.mark.parametrize("size", [2, 5, 6])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool", ml_dtypes.bfloat16])
def test_ranks_multiply(size: int, dtype: Any) -> None:
    a, b = integers((23, 37), dtype), integers((37, 31), dtype)
    layout = layout_of(23, 31, 37, size)
    found = put_together(layout, run_ranks(layout, a, b))
    assert found.dtype == a.dtype and np.array_equal(found, a @ b)


def test_one_rank_needs_nobody() -> None:
    a, b = integers((5, 6)), integers((6, 4))
    assert np.array_equal(run_ranks(Layout((5,), (4,), (6,), (6,)), a, b)[0], a @ b)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(2, 6), st.integers(1, 40))
def test_any_sizes(m: int, n: int, k: int, size: int, width: int) -> None:
    layout = choose_layout(m, n, k, size, ((m,), (k,)), ((k,), (n,)))
    if layout is not None:
        a, b = integers((m, k)), integers((k, n))
        assert np.array_equal(put_together(layout, run_ranks(layout, a, b, width=width)), a @ b)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_sums_of_16_bits_are_rounded_once(dtype: Any) -> None:
    a, b = np.ones((4, 4096), dtype), np.ones((4096, 4), dtype)
    found = put_together(layout := layout_of(4, 4, 4096, 2), run_ranks(layout, a, b, width=256))
    assert found.dtype == a.dtype and (found == 4096).all()
    found = sum_of_products(np.hsplit(a, 16), np.vsplit(b, 16), "full")
    assert found.dtype == a.dtype and (found == 4096).all()


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_products_that_are_summed_are_not_rounded(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 16, shape).astype(dtype) for shape in ((30, 200), (200, 30)))
    chunks = np.hsplit(a, 4), np.vsplit(b, 4)
    first, *others = (x.astype("f4") @ y.astype("f4") for x, y in zip(*chunks, strict=True))
    wanted = (first + sum(others)).astype(dtype)
    assert np.array_equal(sum_of_products(*chunks, "full"), wanted)
    with_first = first.astype(dtype).astype("f4") + sum(others)
    with_others = first + sum(x.astype(dtype).astype("f4") for x in others)
    for rounded in (with_first, with_others):
        assert not np.array_equal(rounded.astype(dtype), wanted), "otherwise this shows nothing"


def test_delays_change_nothing() -> None:
    a, b = integers((40, 60)), integers((60, 50))
    layout = layout_of(40, 50, 60, 6)
    rng = np.random.default_rng(1)
    delays = rng.choice([0, 0, 0.03], (6, 60))
    found = run_ranks(layout, a, b, on_step=lambda rank, step: time.sleep(delays[rank, step]))
    assert np.array_equal(put_together(layout, found), a @ b)


def test_panels_larger_than_a_part() -> None:
    a, b = integers((600, 900)), integers((900, 500))
    layout = layout_of(600, 500, 900, 4)
    assert np.array_equal(put_together(layout, run_ranks(layout, a, b, width=None)), a @ b)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 6])
def test_a_silent_rank_is_an_error_within_the_deadline(size: int) -> None:
    def silent(rank: int, step: int) -> None:
        if rank == 1 and step == 2:
            time.sleep(2)

    begin, ended = time.monotonic(), dict[int, float]()
    layout = layout_of(40, 50, 60, size)
    found = run_ranks(layout, integers((40, 60)), integers((60, 50)), deadline=0.5, on_step=silent, ended=ended)
    assert all(isinstance(each, CollectiveError) for each in found)
    assert any("deadline" in str(each) for each in found)
    assert all(at - begin < 1.7 for rank, at in ended.items() if rank != 1)


@pytest.mark.slow
def test_a_rank_that_never_comes() -> None:
    begin = time.monotonic()
    found = run_ranks(layout_of(40, 50, 60, 4), integers((40, 60)), integers((60, 50)), deadline=1, absent=2)
    assert [type(each) for each in found] == [CollectiveError, CollectiveError, type(None), CollectiveError]
    assert time.monotonic() - begin < 3


def test_a_rank_that_fails_ends_the_others_at_once() -> None:
    def fail(rank: int, step: int) -> None:
        if (rank, step) == (3, 2):
            raise MemoryError("planted")

    begin = time.monotonic()
    found = run_ranks(layout_of(40, 50, 60, 6), integers((40, 60)), integers((60, 50)), deadline=20, on_step=fail)
    assert isinstance(found[3], MemoryError)
    assert all(isinstance(each, CollectiveError) for i, each in enumerate(found) if i != 3)
    assert time.monotonic() - begin < 5


def test_connecting_to_a_host_that_does_not_answer() -> None:
    """Check that connecting ends if the host is silent, as when its queue of connections is full."""
    gone = threading.Event()

    def check() -> None:
        if gone.is_set():
            raise CollectiveError("worker x left")
        gone.set()

    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            each = stack.enter_context(socket.socket())
            each.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                each.connect(silent.getsockname())
        begin = time.monotonic()
        with pytest.raises(CollectiveError, match="worker x"):
            connect(silent.getsockname(), bytes(16), ROW, 60, check)
        with pytest.raises(CollectiveError, match="deadline"):
            connect(silent.getsockname(), bytes(16), ROW, 0.3)
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize("has_sent", [False, True])
def test_a_socket_whose_other_end_has_gone(has_sent: bool) -> None:
    """Check that a closed socket is detected, with or without unread data, and without disturbing a waiting reader."""
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(7)
        there.sendall(b"x" * has_sent)
        assert not is_closed(here)
        there.close()
        assert is_closed(here) or (has_sent and not hasattr(select, "POLLRDHUP"))
        assert here.gettimeout() == 7 and here.recv(9) == b"x" * has_sent


def test_connecting_where_nobody_listens() -> None:
    with listen("127.0.0.1") as closed:
        address = closed.getsockname()
    with pytest.raises(CollectiveError, match=address[0]):
        connect(address, bytes(16), ROW, 60)


def test_an_exchange_ends_where_the_product_does() -> None:
    """Check that an exchange with a silent peer ends when the product is no longer wanted."""
    layout, ends = layout_of(40, 50, 60, 2), threading.Event()
    listeners = [listen("127.0.0.1") for _ in range(2)]
    addresses = [each.getsockname() for each in listeners]

    def check() -> None:
        if begun.is_set():
            raise CollectiveError("the product is not wanted any more")

    begun, connected = threading.Event(), threading.Event()

    def run(rank: int) -> Any:
        tcp = TcpCommunicator(layout, rank, listeners[rank], addresses, bytes(16), 60, check if rank == 0 else int)
        try:
            if rank == 1:
                connected.set()
                return ends.wait(LIMIT)
            assert connected.wait(LIMIT)
            begun.set()
            with pytest.raises(CollectiveError, match="wanted"):
                tcp.exchange()
            return ends.set()
        finally:
            tcp.close()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, range(2))) == [None, True]
    for each in listeners:
        each.close()


# ---- The scheduler's plugin, without a cluster


def attempt_of(plugin: GangPlugin) -> bytes:
    running = gang._Attempt("p", {0, 1}, {"tcp://a", "tcp://b"}, asyncio.get_running_loop().create_future())
    plugin.attempts[b"attempt"] = running
    return b"attempt"


def test_ranks_are_told_of_a_worker_that_has_left() -> None:
    async def ask() -> list[str]:
        plugin = GangPlugin()
        attempt = attempt_of(plugin)
        asked = [asyncio.create_task(plugin.lost(attempt)) for _ in range(2)]
        await asyncio.sleep(0)
        plugin.remove_worker(None, "tcp://elsewhere")
        await asyncio.sleep(0)
        assert not any(each.done() for each in asked)
        plugin.remove_worker(None, "tcp://b")
        return [*await asyncio.gather(*asked), await plugin.lost(b"another")]

    assert asyncio.run(ask()) == ["worker tcp://b left"] * 2 + [""]


def test_ranks_are_not_told_of_workers_that_leave_after_they_have_ended() -> None:
    async def ask() -> str:
        plugin = GangPlugin()
        asked = asyncio.create_task(plugin.lost(attempt_of(plugin)))
        await asyncio.sleep(0)
        for rank in range(2):
            plugin.transition((SUMMA + "p", rank), "processing", "memory")
        plugin.remove_worker(None, "tcp://b")
        return await asked

    assert asyncio.run(ask()) == ""


@pytest.mark.parametrize(
    ("hangs", "retired", "reason"),
    [
        (False, {"tcp://a": {}}, ""),
        (False, {}, "its data could not be copied to other workers"),
        (True, None, ""),  # copying does not end
        (True, {}, ""),
    ],
)
def test_a_worker_that_hangs_is_restarted_though_its_data_cannot_be_copied(
    hangs: bool, retired: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "_COPY_IF_HANGING", 0.05)
    restarted: list[str] = []

    async def retire_workers(workers: list[str], remove: bool) -> Any:
        return await asyncio.sleep(LIMIT) if retired is None else retired

    async def restart_workers(workers: list[str], **others: Any) -> None:
        restarted.extend(workers)

    async def ask() -> str:
        plugin = GangPlugin()
        workers = {"tcp://a": SimpleNamespace(nanny="tcp://nanny")}
        plugin.scheduler = SimpleNamespace(
            workers=workers, retire_workers=retire_workers, restart_workers=restart_workers
        )
        return await plugin.restart_worker("tcp://a", hangs)

    assert asyncio.run(ask()) == reason
    assert restarted == ([] if reason else ["tcp://a"])


def test_ranks_wait_for_the_restart_of_a_worker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SimpleNamespace(address="tcp://a")
    ranks._wait_for_restart(worker, lambda: None)
    worker_nccl.mark_hanging(worker)
    monkeypatch.setattr(ranks, "_RESTART", 0.2)
    with pytest.raises(CollectiveError, match="tcp://a"):
        ranks._wait_for_restart(worker, lambda: None)


# ---- Clusters


def of_chunks(x: np.ndarray[Any, Any], chunks: Any) -> Any:
    return da.from_array(x, chunks=chunks)


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    with threads_of(4) as cluster:
        yield cluster


@pytest.fixture
def client(threads: Any) -> Iterator[Any]:
    with client_of(threads) as client:
        yield client


def is_collective(z: Any) -> bool:
    return any(str(key[0]).startswith("tiledmm-summa") for key in z.__dask_graph__() if isinstance(key, tuple))


CHUNKS = [((20, 20), (20, 20)), ((17, 41), (9, 30)), (((1, 60, 2), (3, 4, 44)), ((40, 11), (1, 69)))]


@pytest.mark.parametrize(
    ("dtype", "chunks"),
    [
        *(("float64", each) for each in CHUNKS),
        *((each, CHUNKS[2]) for each in ("float16", "bool")),
        *(pytest.param(each, CHUNKS[2], marks=pytest.mark.slow) for each in ("complex64", "int32")),
    ],
)
def test_products(client: Any, dtype: str, chunks: Any) -> None:
    a, b = integers((63, 51), dtype), integers((51, 70), dtype)
    z = ours.matmul(of_chunks(a, chunks[0]), of_chunks(b, chunks[1]))
    assert is_collective(z) and z.shape == (63, 70) and z.dtype == a.dtype
    found = client.compute(z).result(LIMIT)
    assert found.dtype == a.dtype and np.array_equal(found, a @ b)


@pytest.mark.parametrize("order", ["C", "F"])
def test_any_strides(client: Any, order: Any) -> None:
    a, b = np.asarray(integers((30, 40)), order=order), integers((50, 40)).T
    z = ours.matmul(of_chunks(a, 20), of_chunks(b, 20))
    assert np.array_equal(client.compute(z).result(LIMIT), a @ b)


def test_parts_of_products_and_products_of_products(client: Any) -> None:
    a = integers((64, 64), "int64")
    x = of_chunks(a, 20)
    z = ours.matmul(x, x)
    assert np.array_equal(client.compute((z + 1)[:5, :5]).result(LIMIT), (a @ a + 1)[:5, :5])
    assert np.array_equal(client.compute(z[-3:].sum()).result(LIMIT), (a @ a)[-3:].sum())
    assert np.array_equal(client.compute(ours.matmul(z, z.T)).result(LIMIT), (a @ a) @ (a @ a).T)
    kept = z.persist()
    assert np.array_equal(client.compute(ours.matmul(kept, x)).result(LIMIT), a @ a @ a)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 20, 30), (20, 15, 2)])
def test_small_and_empty(client: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = integers((m, k)), integers((k, n))
    found = client.compute(ours.matmul(of_chunks(a, 7), of_chunks(b, 7))).result(LIMIT)
    assert found.shape == (m, n) and np.array_equal(found, a @ b)


@pytest.mark.parametrize("workers", [1, 6])
def test_other_numbers_of_workers(workers: int) -> None:
    a, b = integers((63, 51)), integers((51, 70))
    with threads_of(workers) as cluster, distributed.Client(cluster) as client:
        z = ours.matmul(of_chunks(a, 20), of_chunks(b, 30))
        assert is_collective(z) == (workers > 1) and z.npartitions == (12 if workers == 1 else workers)
        assert np.array_equal(client.compute(z).result(LIMIT), a @ b)


@pytest.mark.parametrize("chunks", CHUNKS)
def test_without_a_cluster(chunks: Any) -> None:
    a, b = integers((63, 51), "int32"), integers((51, 70), "int32")
    z = ours.matmul(of_chunks(a, chunks[0]), of_chunks(b, chunks[1]))
    assert not is_collective(z)
    assert np.array_equal(z.compute(scheduler="threads"), a @ b)


@pytest.mark.parametrize(
    ("way", "precision"),
    [
        pytest.param(way, precision, marks=slow_unless(precision == "tf32" or way == "without a cluster"))
        for way in ("matmul", "registered", "without a cluster")
        for precision in ("full", "tf32")
    ],
)
def test_all_products_of_chunks_are_of_the_precision_that_was_asked_for(
    client: Any, way: str, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    multiply_add = local.multiply_add

    def told(a: Any, b: Any, c: Any, precision: str, *, first: bool) -> None:
        asked.append(precision)
        multiply_add(a, b, c, precision, first=first)

    for module in (local, sys.modules[summa.__module__]):
        monkeypatch.setattr(module, "multiply_add", told)
    a, b = integers((63, 51)), integers((51, 70))
    x, y = of_chunks(a, 20), of_chunks(b, 20)
    if way == "matmul":
        z = ours.matmul(x, y, precision=precision)
    elif way == "registered":
        with ours.register(precision=precision, numpy=True):
            z = x @ y
    else:
        z = graph.plain(x, y, precision)
    assert is_collective(z) == (way != "without a cluster")
    found = z.compute(scheduler="threads") if way == "without a cluster" else client.compute(z).result(LIMIT)
    assert np.array_equal(found, a @ b)
    assert {*asked} == {precision}
    others = [each for each in ("full", "ieee", "tf32") if each != precision]
    for other in others:
        assert ours.matmul(x, y, precision=other).name != ours.matmul(x, y, precision=precision).name
        assert graph.plain(x, y, other).name != graph.plain(x, y, precision).name


def test_ranks_are_where_their_blocks_are(client: Any, threads: Any) -> None:
    workers = sorted(threads.scheduler.workers)
    a = integers((80, 80))
    layout = layout_of(80, 80, 80, 4)
    # Each worker has one chunk of each operand, in the reverse order.
    parts = {(i, j): client.scatter(a[40 * i : 40 * i + 40, 40 * j : 40 * j + 40], workers=[workers[3 - 2 * i - j]])
             for i in range(2) for j in range(2)}  # fmt: skip
    chunk = [[da.from_delayed(parts[i, j], (40, 40), a.dtype) for j in range(2)] for i in range(2)]
    x = da.block(chunk)
    z = ours.matmul(x, x).persist()
    distributed.wait(z, LIMIT)
    assert layout.rows == (40, 40)
    held = client.who_has(z)
    order = [next(iter(held[(z.name, *layout.place(rank))])) for rank in range(4)]
    assert order == workers[::-1]
    assert np.array_equal(client.gather(client.compute(z)), a @ a)


def test_ranks_are_in_order_where_another_one_gains_little(client: Any, threads: Any) -> None:
    workers = sorted(threads.scheduler.workers)
    a = integers((80, 80))
    # Chunks are anywhere: no worker has many more of a rank's than another one.
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(4), 25)).reshape(10, 10)
    parts = [[client.scatter(a[8 * i : 8 * i + 8, 8 * j : 8 * j + 8], workers=[workers[numbers[i, j]]])
              for j in range(10)] for i in range(10)]  # fmt: skip
    x = da.block([[da.from_delayed(part, (8, 8), a.dtype) for part in row] for row in parts])
    z = ours.matmul(x, x).persist()
    distributed.wait(z, LIMIT)
    held = client.who_has(z)
    layout = layout_of(80, 80, 80, 4)
    assert [next(iter(held[(z.name, *layout.place(rank))])) for rank in range(4)] == workers


# ---- Mistakes


def test_mistakes() -> None:
    x, y = of_chunks(integers((6, 6)), 3), of_chunks(integers((5, 6)), 3)
    with pytest.raises(ShapeError):
        ours.matmul(x, y)
    with pytest.raises(ShapeError, match=r"x\.compute_chunk_sizes\(\)"):
        ours.matmul(x[x[:, 0] > 1], x)
    with pytest.raises(ShapeError, match=r"x\[None, :\].*dask.array.matmul"):
        ours.matmul(x[0], x)
    with pytest.raises(UnsupportedTypeError, match=r"float64.*float32"):
        ours.matmul(x, x.astype("float32"))
    with pytest.raises(UnsupportedTypeError, match="object"):
        ours.matmul(x.astype(object), x.astype(object))
    with pytest.raises(OperandTypeError, match=r"numpy\.ndarray"):
        ours.matmul(integers((6, 6)), x)
    with pytest.raises(OperandTypeError, match="MaskedArray"):
        ours.matmul(da.ma.masked_equal(x, 1), x)
    with pytest.raises(ConfigError, match="precision"):
        ours.matmul(x, x, precision="half")


def wrong(block: Any) -> Any:
    return block.astype("float32")


def masked(block: Any) -> Any:
    return np.ma.masked_equal(block, 1)


@pytest.mark.parametrize(("change", "error"), [(wrong, UnsupportedTypeError), (masked, OperandTypeError)])
def test_chunks_that_are_not_what_their_array_says(client: Any, change: Any, error: Any) -> None:
    x = of_chunks(integers((40, 40)), 20)
    z = ours.matmul(x.map_blocks(change, dtype=x.dtype, meta=x._meta), x)
    assert is_collective(z)
    with pytest.raises(error):
        client.compute(z).result(LIMIT)


# ---- Registration


def test_registration_and_undoing_it() -> None:
    own = da.matmul, da.dot, da.Array.dot
    a = integers((12, 12))
    x = of_chunks(a, 5)
    with ours.register(numpy=True) as registration:
        products = [x @ x, da.matmul(x, x), da.dot(x, x), x.dot(x), np.matmul(x, x), np.dot(x, x)]
        assert all(each.name.startswith("tiledmm-") for each in products)
        for each in (*products, x[0] @ x, x @ x[0], x.astype("float32") @ x, da.matmul(x[None], x)):
            each.compute(scheduler="threads")
        assert np.array_equal((x @ a).compute(scheduler="threads"), a @ a)
        inner = ours.register()
        assert not (x @ x).name.startswith("tiledmm-"), "NumPy's chunks are Dask's"
        inner.undo()
        inner.undo()
        assert (x @ x).name.startswith("tiledmm-")
    registration.undo()
    assert (da.matmul, da.dot, da.Array.dot) == own and not (x @ x).name.startswith("tiledmm-")
    with pytest.raises(ConfigError):
        ours.register(precision="half")


# ---- Several products


def test_two_products_at_once(client: Any) -> None:
    a, b = integers((63, 51)), integers((51, 70))
    zs = [ours.matmul(of_chunks(a + i, 20), of_chunks(b, 20)) for i in range(2)]
    for i, future in enumerate(client.compute(zs)):
        assert np.array_equal(future.result(LIMIT), (a + i) @ b)


@pytest.mark.slow
def test_clients_and_sets_of_workers_that_overlap(client: Any, threads: Any) -> None:
    a, b = integers((63, 51)), integers((51, 70))

    def multiply(seed: int) -> None:
        with distributed.Client(threads, set_as_default=False) as mine:
            futures = []
            for i in range(4):
                layout = layout_of(63, 70, 51, 2 + (seed + i) % 3)
                x, y = of_chunks(a + 10 * seed + i, 20), of_chunks(b, 25)
                futures.append(mine.compute(graph.collective(mine, x, y, layout, "full", 10.0)))
            for i, future in enumerate(futures):
                assert np.array_equal(future.result(LIMIT), (a + 10 * seed + i) @ b)

    ours.matmul(of_chunks(a, 20), of_chunks(b, 20))  # registers the plugin
    with ThreadPoolExecutor(3) as pool:
        done, late = wait_for([pool.submit(multiply, seed) for seed in range(3)], LIMIT)
        assert not late and all(each.exception() is None for each in done)


@pytest.mark.slow
def test_a_busy_worker_starts_late(client: Any) -> None:
    a = integers((40, 40))
    busy = client.submit(time.sleep, 0.7, workers=[sorted(client.nthreads())[1]])
    found = client.compute(ours.matmul(of_chunks(a, 20), of_chunks(a, 20)))
    assert np.array_equal(found.result(LIMIT), a @ a)
    del busy


# ---- Faults


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[int, int], None]], None]]:
    """Return a function that plants a function of rank and step before each step of this process's workers."""

    def plant(function: Callable[[int, int], None]) -> None:
        monkeypatch.setattr(ranks, "before_step", lambda worker, rank, step: function(rank, step))

    yield plant


def test_a_rank_that_always_fails_is_an_error_that_says_why(client: Any, planted: Any) -> None:
    def fail(rank: int, step: int) -> None:
        if rank == 1:
            raise MemoryError("planted")

    planted(fail)
    x = of_chunks(integers((60, 60)), 20)
    with pytest.raises((MemoryError, CollectiveError), match="planted"):
        client.compute(ours.matmul(x, x)).result(LIMIT)


def test_every_block_ends_where_one_fails(client: Any, planted: Any) -> None:
    def fail(rank: int, step: int) -> None:
        if rank == 1:
            raise MemoryError("planted")

    planted(fail)
    x = of_chunks(integers((60, 60)), 20)
    z = ours.matmul(x, x).persist()
    done = distributed.wait(z, LIMIT)
    assert not done.not_done


def test_a_rank_that_fails_once_is_tried_again(client: Any, planted: Any) -> None:
    failed: list[int] = []

    def fail(rank: int, step: int) -> None:
        if rank == 2 and not failed:
            failed.append(rank)
            raise OSError("planted")

    planted(fail)
    a = integers((60, 60))
    assert np.array_equal(client.compute(ours.matmul(of_chunks(a, 20), of_chunks(a, 20))).result(LIMIT), a @ a)
    assert failed


@pytest.mark.slow
def test_a_rank_that_is_silent_once(client: Any, planted: Any) -> None:
    silent: list[int] = []

    def sleep(rank: int, step: int) -> None:
        if rank == 3 and step == 1 and not silent:
            silent.append(rank)
            time.sleep(1.5)

    planted(sleep)
    a = integers((60, 5000))
    with dask.config.set({"tiledmm.deadline": 0.5}):
        z = ours.matmul(of_chunks(a, 1000), of_chunks(a.T, 1000))
    assert np.array_equal(client.compute(z).result(LIMIT), a @ a.T)
    assert silent


@pytest.mark.parametrize("step", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_cancelled_products_leave_nothing(client: Any, threads: Any, planted: Any, step: int) -> None:
    begun = threading.Event()

    def slow(rank: int, at: int) -> None:
        if at == step:
            begun.set()
            time.sleep(0.3)

    planted(slow)
    a = integers((60, 5000))
    z = ours.matmul(of_chunks(a, 1000), of_chunks(a.T, 1000)).persist()
    assert begun.wait(LIMIT)
    client.cancel(z)
    del z
    until = time.monotonic() + 8
    while not is_empty(threads) or any(worker.data for worker in threads.workers.values()):
        assert time.monotonic() < until
        time.sleep(0.05)
    b = integers((63, 51))
    assert np.array_equal(client.compute(ours.matmul(of_chunks(b, 20), of_chunks(b.T, 20))).result(LIMIT), b @ b.T)


def test_a_cluster_that_another_product_was_built_for(client: Any) -> None:
    a = integers((60, 60))
    x = of_chunks(a, 20)
    z = ours.matmul(x, x)
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as other,
        distributed.Client(other, set_as_default=False) as elsewhere,
        pytest.raises(Exception, match="cluster"),
    ):
        elsewhere.compute(z).result(LIMIT)


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")
def test_a_product_of_a_cluster_without_one(client: Any) -> None:
    x = of_chunks(integers((60, 60)), 20)
    with pytest.raises(CollectiveError):
        ours.matmul(x, x).compute(scheduler="threads")


def exit_in_step_1(worker: Any, rank: int, step: int) -> None:
    if step == 1:
        os._exit(1)


def plant_exit() -> None:
    ranks.before_step = exit_in_step_1


def get_stuck(worker: Any, *others: Any) -> None:
    """Replace ``nccl_communicator`` once by a connection that gets stuck."""
    ranks.nccl_communicator = nccl_communicator
    worker_nccl._thread_of(worker).is_stuck = True
    raise CollectiveError("NCCL did not connect")


def plant_stuck() -> int:
    ranks.nccl_communicator = get_stuck  # type: ignore[assignment]
    return os.getpid()


def data_of(dask_worker: Any) -> int:
    return len(dask_worker.data) + hasattr(dask_worker, "_tiledmm_nccl")


@pytest.fixture(scope="module")
def processes() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.mark.slow
def test_a_worker_that_dies(processes: Any) -> None:
    a = integers((90, 1100))
    with distributed.Client(processes) as client:
        z = ours.matmul(of_chunks(a, 200), of_chunks(a.T, 200))
        for victim in range(2):
            worker = sorted(client.nthreads())[victim]
            client.run(plant_exit, workers=[worker])
            assert np.array_equal(client.compute(z).result(LIMIT), a @ a.T), "tried again"
            assert worker not in client.nthreads(), "it has died"
            client.wait_for_workers(3, LIMIT)
        assert np.array_equal(client.compute(ours.matmul(z, z)).result(LIMIT), a @ a.T @ (a @ a.T))
        until = time.monotonic() + 10
        while any(client.run(data_of).values()):
            assert time.monotonic() < until, "something is left"
            time.sleep(0.05)


@pytest.mark.slow
def test_a_worker_that_dies_with_its_block(processes: Any) -> None:
    a = integers((90, 80))
    with distributed.Client(processes) as client:
        client.wait_for_workers(3, LIMIT)
        z = ours.matmul(of_chunks(a, 30), of_chunks(a.T, 30)).persist()
        distributed.wait(z, LIMIT)
        kill(client, sorted(client.nthreads())[0])
        client.wait_for_workers(3, LIMIT)
        assert np.array_equal(client.compute(z).result(LIMIT), a @ a.T)


def step_slowly(worker: Any, rank: int, step: int) -> None:
    time.sleep(0.01)


def plant_slow_steps() -> None:
    ranks.before_step = step_slowly


def survive(client: Any, cluster: Any, seconds: float, trial: int, *, is_second: bool) -> None:
    """Kill a worker and check the outcome; every trial has new operands, so that something is computed."""
    a = integers((90, 5000), seed=trial)
    x, y = of_chunks(a, (50, 1000)), of_chunks(a.T, (1000, 50))
    client.run(plant_slow_steps)
    before = ours.matmul(x, y).persist() if is_second else None
    distributed.wait(before, LIMIT)
    found = outcome_of_kill(
        cluster, ours.matmul(x, y + 1), seconds, trial, lambda z: client.compute(z).result(MOST_AFTER_KILL)
    )
    assert isinstance(found, CollectiveError) or np.array_equal(found, a @ (a.T + 1)), found


@pytest.fixture(scope="module")
def killed() -> Iterator[Any]:
    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    with (
        dask.config.set(PATIENT),
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, **quiet) as cluster,
    ):
        yield cluster


@pytest.mark.slow
def test_a_worker_that_is_killed_at_any_time(killed: Any) -> None:
    """Check a sample of times at which a worker is killed, without waiting for workers to be restarted."""
    with distributed.Client(killed) as client:
        for trial, (seconds, is_second) in enumerate([(0.0, False), (0.03, False), (0.06, True)]):
            survive(client, killed, seconds, trial, is_second=is_second)


@pytest.mark.slow
@pytest.mark.parametrize("is_second", [False, True], ids=["first", "second"])
def test_a_worker_that_is_killed_at_every_time(killed: Any, is_second: bool) -> None:
    with distributed.Client(killed) as client:
        for trial, seconds in enumerate(KILLS):
            wait_for_processes(killed, client, 3)  # while another one starts
            survive(client, killed, seconds, trial + 100 * (1 + is_second), is_second=is_second)


@pytest.mark.slow
def test_workers_whose_nccl_is_stuck_are_restarted(processes: Any) -> None:
    a = integers((90, 1100))
    with distributed.Client(processes) as client:
        client.wait_for_workers(3, LIMIT)
        before = client.run(plant_stuck)
        kept = client.scatter(a)  # nothing could compute it again
        z = ours.matmul(of_chunks(a, 200), of_chunks(a.T, 200))
        assert np.array_equal(client.compute(z).result(LIMIT), a @ a.T), "tried again, by TCP"
        until = time.monotonic() + LIMIT
        while len(after := client.run(os.getpid)) < 3 or set(after.values()) & set(before.values()):
            assert time.monotonic() < until, "not all are restarted"
            time.sleep(0.2)
        assert np.array_equal(kept.result(LIMIT), a)
