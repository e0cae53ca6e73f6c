"""The Dask graphs of a product: a task for each chunk of C, or one collective task a worker."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import dask
from dask.array.core import Array
from dask.base import tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client

from tiledmm.distributed import ranks
from tiledmm.distributed.gang import GangPlugin
from tiledmm.distributed.grid import Layout, choose_layout
from tiledmm.distributed.local import kind, sum_of_products
from tiledmm.distributed.placement import SUMMA
from tiledmm.distributed.redistribution import spreads

#: Seconds that a rank may be silent, unless Dask's configuration has ``tiledmm.deadline``.
DEADLINE = 300.0

#: Libraries whose chunks the ranks redistribute. Dask rechunks NumPy's: it moves them from host to host, too.
REDISTRIBUTED = ("cupy",)

_told: weakref.WeakSet[Client] = weakref.WeakSet()


def product_of(x: Array, y: Array, precision: str) -> Array:
    """The product of two arrays whose shapes and types fit."""
    client = _client()
    if client is not None:
        (m, k), n = x.shape, y.shape[1]
        layout = choose_layout(m, n, k, len(client.nthreads()), x.chunks, y.chunks)
        if layout is not None:
            if client not in _told:
                client.register_plugin(GangPlugin())
                _told.add(client)
            return collective(client, x, y, layout, precision, float(dask.config.get("tiledmm.deadline", DEADLINE)))
    return plain(x, y, precision)


def _client() -> Client | None:
    """The client whose workers multiply; None if there is none, or calls of it must be awaited."""
    try:
        client: Client = Client.current()
    except ValueError:
        return None
    return None if client.asynchronous else client


def plain(x: Array, y: Array, precision: str) -> Array:
    """A task for each chunk of C: it adds the products along k in place. No partial products are kept."""
    if x.chunks[1] != y.chunks[0]:
        # The smaller one is moved.
        if x.nbytes < y.nbytes:
            x = x.rechunk({1: y.chunks[0]})
        else:
            y = y.rechunk({0: x.chunks[1]})
    name = f"tiledmm-matmul-{tokenize(x, y, precision)}"
    steps = range(len(x.chunks[1]))
    tasks = {
        (name, i, j): (
            sum_of_products,
            [(x.name, i, step) for step in steps],
            [(y.name, step, j) for step in steps],
            precision,
        )
        for i in range(len(x.chunks[0]))
        for j in range(len(y.chunks[1]))
    }
    return _array(name, tasks, x, y, (x.chunks[0], y.chunks[1]))


def collective(client: Client, x: Array, y: Array, layout: Layout, precision: str, deadline: float) -> Array:
    """One task a rank.

    summa     a rank's block of C; all ranks run at once, when all have their chunks of A and B
    finished  that it is there
    done      that all are
    C         a rank's block; it needs ``done``, so that all ranks run even where only some of C is wanted

    Dask makes one task of tasks in a line. None of these are, even where only some of C is wanted: each depends on two
    or more, or is needed by two or more. So the scheduler finds them by their names.
    """
    operands, held = [x, y], dict[Any, Sequence[str]]()
    if kind(x._meta) in REDISTRIBUTED:
        # Not client.who_has, which takes the whole graphs of what is not computed yet.
        held = client.sync(client.scheduler.who_has, keys=[key for each in operands for key in _keys(each)])
    else:
        # Dask's own exchange between workers goes over disks, and knows NumPy's arrays only.
        x, y = operands = [
            each.rechunk(blocks, method="tasks") for each, blocks in zip(operands, layout.block_sizes, strict=True)
        ]
    a_spread, b_spread = spreads(
        [
            (each.chunks, blocks, [held.get(key, ()) for key in _keys(each)])
            for each, blocks in zip(operands, layout.block_sizes, strict=True)
        ]
    )
    token = tokenize(x, y, layout, a_spread, b_spread, precision, deadline)
    product = ranks.Collective(token, layout, (a_spread, b_spread), kind(x._meta), x.dtype, precision, deadline)
    done, name, nothing = f"tiledmm-done-{token}", f"tiledmm-matmul-{token}", f"tiledmm-nothing-{token}"
    tasks: dict[Any, Any] = {
        done: (ranks.all_finished, [(f"tiledmm-finished-{token}", rank) for rank in range(layout.size)])
    }
    keys_of = _keys(x), _keys(y)
    for rank in range(layout.size):
        a, b = (
            [keys[number] for number in spread.of(rank)] for keys, spread in zip(keys_of, product.operands, strict=True)
        )
        c = SUMMA + token, rank
        tasks[c] = (ranks.run_rank, a, b, product, rank)
        tasks[f"tiledmm-finished-{token}", rank] = (ranks.finished, c, next(iter([*a, *b]), nothing))
        if not (a or b):
            tasks[nothing] = (ranks.all_finished, [])
        i, j = layout.place(rank)
        tasks[name, i, j] = (ranks.take, c, done)
    return _array(name, tasks, x, y, (layout.rows, layout.columns))


def _keys(array: Array) -> list[Any]:
    """The keys of an array's chunks, row by row."""
    return list(flatten(array.__dask_keys__()))


def _array(name: str, tasks: dict[Any, Any], x: Array, y: Array, chunks: Any) -> Array:
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[x, y])
    return Array(graph, name, chunks, dtype=x.dtype, meta=x._meta)
