"""The Dask graphs of a product: one task per chunk of C, or one collective task per worker."""

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

#: Seconds that a rank may be silent, unless Dask's configuration sets ``tiledmm.deadline``.
DEADLINE = 300.0

#: Libraries whose chunks the ranks redistribute. Dask rechunks NumPy arrays: it, too, moves them from host to host.
REDISTRIBUTED = ("cupy",)

_told: weakref.WeakSet[Client] = weakref.WeakSet()


def product_of(x: Array, y: Array, precision: str) -> Array:
    """Return a Dask array that is the product of two Dask arrays. Nothing is computed yet.

    The workers of the current client compute it together, if there are at least two and they can share the work.
    Otherwise each chunk of C is one task.

    Args:
        x, y: Matrices whose shapes and types fit, as ``tiledmm.dask`` checks.
        precision: Precision, as for ``tiledmm.matmul``.
    """
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
    """Return Dask's current client; None if there is no client, or if it is asynchronous."""
    try:
        client: Client = Client.current()
    except ValueError:
        return None
    return None if client.asynchronous else client


def plain(x: Array, y: Array, precision: str) -> Array:
    """Return the product of two Dask arrays as a Dask array with one task per chunk.

    A task adds the products of chunks along k in place, without storing partial products.
    """
    if x.chunks[1] != y.chunks[0]:
        # Rechunk the smaller operand.
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
    """Return the product of two Dask arrays as a Dask array that the workers of a client compute together.

    The graph has four kinds of tasks:

    summa     computes a rank's block of C; all ranks run at once, when all have their chunks of A and B
    finished  does nothing; it runs when a rank has computed its block
    done      does nothing; it runs when all ranks have computed their blocks
    C         returns a rank's block; it needs ``done``, so that all ranks run even if only some chunks of C are wanted

    Dask fuses a chain of tasks into one task. None of these tasks is fused, even if only some chunks of C are wanted:
    each depends on two or more tasks, or two or more depend on it. So the scheduler finds them by their names.

    Args:
        client: Client whose workers compute the product.
        x, y: Matrices A and B, whose shapes and types fit.
        layout: Process grid and the sizes of its blocks.
        precision: Precision, as for ``tiledmm.matmul``.
        deadline: Seconds that a rank may be silent before the product fails.
    """
    operands, held = [x, y], dict[Any, Sequence[str]]()
    if kind(x._meta) in REDISTRIBUTED:
        # ``client.who_has`` would need the whole graphs of what is not computed yet.
        held = client.sync(client.scheduler.who_has, keys=[key for each in operands for key in _keys(each)])
    else:
        # Dask's peer-to-peer rechunking goes through disks, and supports only NumPy arrays.
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
    """Return the keys of an array's chunks, row by row."""
    return list(flatten(array.__dask_keys__()))


def _array(name: str, tasks: dict[Any, Any], x: Array, y: Array, chunks: Any) -> Array:
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[x, y])
    return Array(graph, name, chunks, dtype=x.dtype, meta=x._meta)
