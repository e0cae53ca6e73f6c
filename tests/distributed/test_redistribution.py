"""Tests of redistribution: which rank receives which chunks, how they become blocks, and whole clusters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

distributed: Any = pytest.importorskip("distributed")
da: Any = pytest.importorskip("dask.array")

import dask  # noqa: E402

import tiledmm.dask as ours  # noqa: E402
from tests.dask_clusters import LIMIT, client_of, kill, threads_of  # noqa: E402
from tests.strategies import small_integers  # noqa: E402
from tiledmm.distributed import graph, redistribution  # noqa: E402
from tiledmm.distributed.communicators import COLUMN, ROW, TcpCommunicator  # noqa: E402
from tiledmm.distributed.grid import Layout, choose_layout  # noqa: E402
from tiledmm.distributed.redistribution import (  # noqa: E402
    Move,
    Piece,
    Sizes,
    Spread,
    batches,
    block_of,
    pieces,
    spreads,
)
from tiledmm.distributed.rings import listen  # noqa: E402
from tiledmm.errors import UnsupportedTypeError  # noqa: E402

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(tuple)


def slices(each: Sequence[int], number: int) -> slice:
    return slice(sum(each[:number]), sum(each[: number + 1]))


def cut(x: Any, both: Sizes) -> list[Any]:
    """Return a matrix's chunks or blocks, row by row."""
    return [x[slices(both[0], i), slices(both[1], j)] for i in range(len(both[0])) for j in range(len(both[1]))]


# ---- Arithmetic


@given(sizes, sizes, st.data())
@settings(max_examples=50)
def test_parts_are_what_chunks_and_blocks_have_in_common(rows: Any, columns: Any, data: Any) -> None:
    def others(extent: int) -> tuple[int, ...]:
        ends = sorted({0, extent, *data.draw(st.lists(st.integers(0, extent), max_size=4))})
        return tuple(np.diff(ends).tolist())

    chunks, blocks = (rows, columns), (others(sum(rows)), others(sum(columns)))
    x = np.arange(sum(rows) * sum(columns)).reshape(sum(rows), sum(columns))
    there = [np.full_like(block, -1) for block in cut(x, blocks)] if all(blocks) else []
    for piece in pieces(chunks, blocks):
        found = cut(x, chunks)[piece.chunk][piece.in_chunk]
        assert found.shape == piece.shape and piece.size == found.size > 0
        assert (there[piece.rank][piece.in_block] == -1).all(), "once"
        there[piece.rank][piece.in_block] = found
    for found, block in zip(there, cut(x, blocks) if there else [], strict=True):
        np.testing.assert_array_equal(found, block)


def owners(chunks: Sizes, blocks: Sizes, holders: Sequence[Sequence[str]]) -> tuple[int, ...]:
    return spreads([(chunks, blocks, holders)])[0].owners


def test_chunks_stay_where_they_are() -> None:
    halves, quarters, whole = (8, 8), (4, 4, 4, 4), (16,)
    in_turn = [("a",), ("b",), ("a",), ("b",)]
    assert owners((quarters, whole), (halves, whole), in_turn) == (0, 1, 0, 1)
    assert owners((quarters, whole), (halves, whole), [("b",), ("b",), ("b",), ("a",)]) == (0, 0, 0, 1), "b is rank 0"
    assert owners((quarters, whole), (halves, whole), [()] * 4) == (0, 0, 1, 1), "unknown: where they are needed"
    everywhere = [("a",), ("a", "b"), ("b", "a"), ("b",)]
    assert owners((quarters, whole), (halves, whole), everywhere) == (0, 0, 1, 1), "several: where they are needed"
    of_three = [("a",), ("b",), ("c",), ("b",)]
    assert owners((quarters, whole), (halves, whole), of_three) == (0, 1, 1, 1), "a worker without a rank"
    alike = [("a",), ("a",), ("a",), ("b",)]
    assert owners((quarters, whole), ((12, 4), whole), alike) == (0, 0, 0, 1)
    assert owners((quarters, whole), ((15, 1), whole), alike) == (0, 0, 0, 1), "each worker has a rank"
    assert owners(((4, 0, 12), whole), (halves, whole), [("a",), ("b",), ("b",)]) == (0, 1, 1), "an empty chunk"


def test_ranks_are_chosen_by_both_operands() -> None:
    halves, whole = (8, 8), (16,)
    small, large = (
        ((halves, (2,)), (halves, (2,)), [("a",), ("b",)]),
        ((halves, whole), (halves, whole), [("b",), ("a",)]),
    )
    assert [each.owners for each in spreads([small, large])] == [(1, 0), (0, 1)]


# ---- Blocks


def blocks_of(x: Any, spread: Spread, blocks: Sizes, layout: Layout) -> list[Any]:
    """Return the block that each rank receives."""
    listeners = [listen("127.0.0.1") for _ in range(layout.size)]
    addresses = [each.getsockname() for each in listeners]

    def run(rank: int) -> Any:
        with listeners[rank] as listener:
            tcp = TcpCommunicator(layout, rank, listener, addresses, bytes(16), 5)
            try:
                held = [cut(x, spread.chunks)[number] for number in spread.of(rank)]
                block = block_of(held, spread, blocks, layout, rank, tcp, x[:0])
                tcp.finish()  # no rank leaves before all have their blocks
                return block
            finally:
                tcp.close()

    with ThreadPoolExecutor(layout.size) as threads:
        return list(threads.map(run, range(layout.size)))


@given(sizes, sizes, st.integers(2, 6), st.sampled_from([16, 200, 1 << 20]), st.integers(0, 1 << 30))
@settings(max_examples=20, deadline=None)
def test_blocks_of_chunks_anywhere(rows: Any, columns: Any, size: int, most: int, seed: int) -> None:
    m, k, rng = sum(rows), sum(columns), np.random.default_rng(seed)
    layout = choose_layout(m, 40, k, size, (rows, columns), ((k,), (40,)))
    if layout is None:
        return
    spread = Spread((rows, columns), tuple(rng.integers(0, layout.size, len(rows) * len(columns)).tolist()))
    x = rng.standard_normal((m, k))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redistribution, "_PIECE_BYTES", most)
        patch.setattr(redistribution, "_BATCH_BYTES", 2 * most)
        found = blocks_of(x, spread, layout.block_sizes[0], layout)
    for each, block in zip(found, cut(x, layout.block_sizes[0]), strict=True):
        np.testing.assert_array_equal(each, block)


@given(sizes, sizes, st.integers(2, 12), st.integers(1, 40), st.integers(0, 1 << 30))
def test_little_is_on_its_way_at_once(rows: Any, columns: Any, size: int, most: int, seed: int) -> None:
    m, k, rng = sum(rows), sum(columns), np.random.default_rng(seed)
    layout = choose_layout(m, 40, k, size, (rows, columns), ((k,), (40,)))
    if layout is None:
        return
    places = [layout.place(rank) for rank in range(layout.size)]
    owners = rng.integers(0, layout.size, len(rows) * len(columns)).tolist()
    moves = [
        Move(moved, places[owners[piece.chunk]], places[piece.rank])
        for piece in pieces((rows, columns), layout.block_sizes[0])
        for moved in piece.split(most)
    ]
    assert sum(move.piece.size for move in moves) == m * k
    made = list(batches(moves, most))
    assert sorted(map(id, itertools.chain(*made))) == sorted(map(id, moves))
    for batch in made:
        for axis, extent in zip((ROW, COLUMN), layout.grid, strict=True):
            for place in range(extent):
                on_it = [move.piece.size for move in batch if (axis, place) in move.ways()]
                assert sum(on_it) <= most or len(on_it) == 1


def test_ranks_send_by_turns() -> None:
    piece = Piece(0, 0, (1, 1), (slice(0, 1), slice(0, 1)), (slice(0, 1), slice(0, 1)))
    moves = [Move(piece, (source, 0), (1 - source, 0)) for source in (0, 0, 0, 1, 1, 1)]
    assert [[move.source[0] for move in batch] for batch in batches(moves, 4)] == [[0, 1, 0, 1], [0, 1]]


def test_a_block_is_handed_over_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that blocks are complete when they are handed to the threads that broadcast them."""
    handed: list[Any] = []
    monkeypatch.setattr(redistribution, "hand_over", lambda block: handed.append((block, block.copy())))
    layout = Layout((4, 4), (6,), (5,), (2, 3))
    x = np.arange(40.0).reshape(8, 5)
    for chunks, owners in ((((4, 4), (5,)), (0, 1)), (((3, 5), (2, 3)), (1, 0, 0, 1)), (((8,), (5,)), (1,))):
        handed.clear()
        found = blocks_of(x, Spread(chunks, owners), layout.block_sizes[0], layout)
        assert {id(block) for block, _ in handed} == {*map(id, found)}
        for block, then in handed:
            np.testing.assert_array_equal(block, then)


@pytest.mark.parametrize("dtype", ["int8", "float64", "complex128"])
def test_parts_are_limited_in_bytes(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redistribution, "_PIECE_BYTES", 160)
    monkeypatch.setattr(redistribution, "_BATCH_BYTES", 320)
    sent: list[int] = []
    exchange = redistribution._exchange

    def told(batch: Any, own: Any, here: Any, communicator: Any, like: Any) -> Any:
        sizes = [move.piece.size * like.itemsize for move in batch]
        sent.extend(sizes)
        assert max(sizes) <= max(160, 10 * like.itemsize) and sum(sizes) <= max(320, 10 * like.itemsize)
        return exchange(batch, own, here, communicator, like)

    monkeypatch.setattr(redistribution, "_exchange", told)
    layout = Layout((10, 10), (6,), (10,), (5, 5))
    x = np.arange(200).reshape(20, 10).astype(dtype)
    found = blocks_of(x, Spread(((10, 10), (10,)), (1, 0)), layout.block_sizes[0], layout)
    np.testing.assert_array_equal(np.vstack(found), x)
    assert sum(sent) == 2 * x.nbytes, "told by both ranks"


def test_a_chunk_that_is_the_block_is_not_copied() -> None:
    layout = Layout((4, 4), (6,), (5,), (2, 3))
    x = np.arange(40.0).reshape(8, 5)
    found = blocks_of(x, Spread(((4, 4), (5,)), (0, 1)), layout.block_sizes[0], layout)
    assert all(np.shares_memory(each, x) for each in found)
    found = blocks_of(x, Spread(((4, 4), (5,)), (1, 0)), layout.block_sizes[0], layout)
    assert all(np.array_equal(each, block) for each, block in zip(found, cut(x, ((4, 4), (5,))), strict=True))


# ---- Clusters


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with threads_of(4) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(graph, "REDISTRIBUTED", ("numpy",))
    with client_of(cluster) as client:
        yield client


def scattered(client: Any, x: Any, chunks: Sizes, place: Any) -> Any:
    """Return a Dask array whose chunks are placed on workers by number."""
    workers = sorted(client.scheduler_info()["workers"])
    futures = iter(
        [client.scatter(each, workers=[workers[place(i)]], hash=False) for i, each in enumerate(cut(x, chunks))]
    )
    made = [
        [da.from_delayed(next(futures), (height, width), x.dtype, meta=x[:0]) for width in chunks[1]]
        for height in chunks[0]
    ]
    found = da.block(made).persist()
    distributed.wait(found, LIMIT)
    return found


def keys(*arrays: Any) -> set[Any]:
    return {key for each in arrays for row in each.__dask_keys__() for key in row}


def moved(cluster: Any) -> set[Any]:
    """Return the keys of what Dask has moved between workers."""
    return {key for worker in cluster.workers.values() for log in worker.transfer_incoming_log for key in log["keys"]}


PLACES = {"in turn": lambda i: i % 4, "backward": lambda i: 3 - i % 4, "on one worker": lambda i: 2}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "dtype", ["float16", *(pytest.param(each, marks=pytest.mark.slow) for each in ("bool", "float64", "complex64"))]
)
def test_products_of_chunks_anywhere(client: Any, cluster: Any, place: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    a, b = small_integers(rng, (60, 50), dtype), small_integers(rng, (50, 70), dtype)
    x = scattered(client, a, ((13, 20, 27), (25, 25)), PLACES[place])
    y = scattered(client, b, ((10, 40), (35, 35)), PLACES[place])
    z = ours.matmul(x, y)
    assert not any("rechunk" in str(key) for key in z.__dask_graph__())
    z = z.persist()
    distributed.wait(z, LIMIT)
    assert not moved(cluster) & keys(x, y)
    if place == "on one worker":  # three ranks have no chunk, and some of C is all that is wanted of theirs
        for part in (np.s_[:10], np.s_[40:, 50:], np.s_[:, 3])[:: 1 if dtype == "float64" else 2]:
            assert np.array_equal(
                client.compute(ours.matmul(x, y.map_blocks(np.array, dtype=dtype))[part]).result(LIMIT), (a @ b)[part]
            )
            assert np.array_equal(client.compute(ours.matmul(y.T, x.T)[part]).result(LIMIT), (a @ b).T[part])
            assert np.array_equal(client.compute(z[part]).result(LIMIT), (a @ b)[part])
            again = ours.matmul(x, y, precision="ieee")  # another product: none of its ranks has run
            assert np.array_equal(client.compute(again[part]).result(LIMIT), (a @ b)[part])
    found = client.compute(z).result(LIMIT)
    assert found.dtype == a.dtype and np.array_equal(found, a @ b)


def test_blocks_on_other_workers(client: Any, cluster: Any) -> None:
    """Check chunks that equal blocks, where a rank's blocks of A and of B are on different workers."""
    rng = np.random.default_rng(4)
    a, b = small_integers(rng, (60, 60), "int64"), small_integers(rng, (60, 60), "int64")
    halves = (30, 30), (30, 30)
    x, y = scattered(client, a, halves, PLACES["in turn"]), scattered(client, b, halves, PLACES["backward"])
    z = ours.matmul(x, y).persist()
    distributed.wait(z, LIMIT)
    assert not moved(cluster) & keys(x, y)
    assert np.array_equal(client.compute(z).result(LIMIT), a @ b)


def test_one_operand_that_is_not_computed_yet(client: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = small_integers(rng, (64, 48), "int64"), small_integers(rng, (48, 80), "int64")
    x, y = scattered(client, a, ((16,) * 4, (48,)), PLACES["backward"]), da.from_array(b, chunks=13)
    for left, right, result in ((x, y, a @ b), (y.T, x.T, (a @ b).T), (x, x.T, a @ a.T), (x + 1, y, (a + 1) @ b)):
        assert np.array_equal(client.compute(ours.matmul(left, right)).result(LIMIT), result)


@pytest.mark.parametrize("chunks", [30, 13, (60, 20)])
def test_chunks_are_computed_where_their_ranks_are(client: Any, cluster: Any, chunks: Any) -> None:
    """Check that Dask moves no chunks that are not computed yet, since only the ranks need them."""

    def ramp(block: Any, block_info: Any = None) -> Any:
        (top, _), (left, _) = block_info[0]["array-location"]
        return block + np.arange(top, top + block.shape[0])[:, None] % 5 + left % 3

    x, y = (da.full((60, 60), value, chunks=chunks).map_blocks(ramp, dtype=float) for value in (1.0, 2.0))
    before = moved(cluster)
    z = ours.matmul(x, y).persist()
    distributed.wait(z, LIMIT)
    assert not {key for key in moved(cluster) - before if not str(key).count("tiledmm")}
    wanted = x.compute(scheduler="sync") @ y.compute(scheduler="sync")
    assert np.array_equal(client.compute(z).result(LIMIT), wanted)


def test_chunks_that_others_need_too(client: Any) -> None:
    x = da.ones((60, 60), chunks=13) * 3
    total, z = dask.persist(x.sum(), ours.matmul(x, x + 1))
    assert client.compute(total).result(LIMIT) == 3 * 60 * 60
    assert np.array_equal(client.compute(z).result(LIMIT), np.full((60, 60), 12.0 * 60))


def test_chunks_that_have_moved_since(client: Any) -> None:
    rng = np.random.default_rng(3)
    a = small_integers(rng, (64, 64), "int64")
    x = scattered(client, a, ((16,) * 4, (64,)), PLACES["in turn"])
    z = ours.matmul(x, x)
    client.replicate(x, n=4)
    assert np.array_equal(client.compute(z).result(LIMIT), a @ a)
    assert np.array_equal(client.compute(ours.matmul(x, x)).result(LIMIT), a @ a)


def test_a_chunk_of_another_type(client: Any) -> None:
    x = scattered(client, np.ones((64, 64)), ((16,) * 4, (64,)), PLACES["in turn"])
    wrong = x.map_blocks(lambda chunk: chunk.astype("float32"), dtype=x.dtype, meta=x._meta).persist()
    distributed.wait(wrong, LIMIT)
    with pytest.raises(UnsupportedTypeError, match=r"A .*float32.*float64"):
        client.compute(ours.matmul(wrong, x)).result(LIMIT)


@pytest.mark.slow
def test_a_worker_that_dies_with_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "REDISTRIBUTED", ("numpy",))
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        x = (da.ones((90, 90), chunks=20) * 2).persist()
        distributed.wait(x, LIMIT)
        z = ours.matmul(x, x)
        assert not any("rechunk" in str(key) for key in z.__dask_graph__())
        kill(client, sorted(client.nthreads())[0])
        assert np.array_equal(client.compute(z).result(LIMIT), np.full((90, 90), 360.0))
