"""Time products on several GPUs through Dask: ``python -m benchmarks.distributed --sizes 16384 32768``.

Each GPU has a Dask worker in its own process. For square products, measures the seconds of

- one GPU alone;
- the collective alone, where all ranks already hold their blocks and begin together;
- ``tiledmm.dask.matmul`` between persisted chunks: once the blocks of the grid, once smaller chunks placed by Dask;
- Dask's own ``x @ y`` of the smaller chunks.

Times the parts of the collective, too: its products and its broadcasts, with panels of two widths, from which
``benchmarks.studies.scaling`` predicts other grids. The exit status is 1 if a result is wrong or if panels did not
travel by NCCL. ``--numpy 4`` tries everything with four workers and NumPy chunks, and saves nothing.
"""

from __future__ import annotations

import argparse
import logging
import operator
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.kernels import of_auto
from benchmarks.support.large import median_seconds
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.cli import missing_gpu
from tiledmm.distributed.communicators import COLUMN, ROW, Broadcast, Communicator, TcpCommunicator
from tiledmm.distributed.grid import Layout, choose_layout
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "distributed.json"

#: Methods to compare, in the order of columns.
ONE, COLLECTIVE, BLOCKS, CHUNKS, DASK = "one GPU", "collective", "blocks", "chunks", "plain Dask"

#: Key of the time of weak scaling: the collective with as many rows of A per rank as one GPU alone has.
WEAK = "as much a GPU"

_ROUNDS, _DEADLINE = 3, 120.0

# Largest error of an element of a sum of n products, as a fraction of the largest element, by type.
_TOLERANCES = {"float32": 1e-4, "float16": 1e-2}

# Smaller chunks along each axis, as Dask's users have them: more than workers.
_CHUNKS = 4

# Numbers of workers by which the time that Dask needs for each is measured.
_FEW, _MANY = 2, 16

# Columns of A and rows of B whose product is an operand in the grid's blocks.
_RANK = 64


def cluster_of(workers: int, gpus: int) -> Any:
    """Start a local cluster with one process per worker, each with a GPU if there is one.

    With one GPU per worker it is dask-cuda's cluster, if that is installed. Memory limits are off, so that Dask does
    not spill chunks from a GPU to the host or to disk.
    """
    from distributed import Nanny, Scheduler, SpecCluster

    quiet = {"silence_logs": logging.ERROR}
    if workers == gpus:
        try:
            from dask_cuda import LocalCUDACluster
        except ImportError:
            pass
        else:
            return LocalCUDACluster(memory_limit=0, device_memory_limit=0, dashboard_address=":0", **quiet)
    environment: dict[str, str] = {}
    options: dict[int, Any] = {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(i) for i in range(gpus)]
    for i in range(workers):
        if gpus:  # its own first: so each uses that, and NCCL sees all
            own = i % len(devices)
            environment = {"CUDA_VISIBLE_DEVICES": ",".join(devices[own:] + devices[:own])}
        options[i] = {"cls": Nanny, "options": {"nthreads": 1, "memory_limit": 0, "env": environment, **quiet}}
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0"}}
    return SpecCluster(workers=options, scheduler=scheduler, **quiet)


def check_transfer() -> str:
    """Copy a small array on a worker as Dask would send it; return why that or NCCL fails, or an empty string."""
    import cupy
    from cupy.cuda import nccl
    from distributed.protocol import deserialize, serialize

    array = cupy.ones((2, 2))
    if not bool((deserialize(*serialize(array, serializers=["dask"])) == array).all()):
        return "Dask changes arrays"
    return "" if nccl.available else "CuPy has no NCCL"


# ---- On a worker


def random_matrix(shape: tuple[int, int], dtype: str, *, on_gpu: bool) -> Any:
    """Draw a matrix of standard normal numbers on the worker's GPU or CPU."""
    if not on_gpu:
        return np.random.default_rng().standard_normal(shape, dtype=np.float32).astype(dtype, copy=False)
    import cupy

    return cupy.random.default_rng().standard_normal(shape, dtype=cupy.float32).astype(dtype, copy=False)


def synchronize(on_gpu: bool) -> None:
    """Wait for the worker's GPU, if it has one."""
    if on_gpu:
        import cupy

        cupy.cuda.Device().synchronize()


def one_worker(size: int, dtype: str, on_gpu: bool) -> float:
    """Time the whole square product on one worker, in seconds."""
    from tiledmm.distributed.local import multiply_add

    a, b = (random_matrix((size, size), dtype, on_gpu=on_gpu) for _ in range(2))
    c = a.copy()
    return median_seconds(lambda: multiply_add(a, b, c, "full", first=True), _ROUNDS, wait=lambda: synchronize(on_gpu))


def open_listener(dask_worker: Any) -> tuple[str, int]:
    """Open a listening socket on a worker and return the host and port to which the other ranks connect."""
    from tiledmm.distributed.rings import listen

    dask_worker.benchmark_listener = listen("127.0.0.1")
    host, port = dask_worker.benchmark_listener.getsockname()[:2]
    return host, port


class Present(Communicator):
    """A stand-in for a communicator that delivers every panel at once, so that only a rank's products are timed."""

    def broadcast(self, wanted: Any, like: Any) -> Callable[[], list[Any]]:
        """Return local memory in place of each panel, with the panel's shape, as ``Communicator.broadcast`` would."""
        widest = max(each.shape[0] * each.shape[1] for each in wanted)
        if not hasattr(self, "memory") or self.memory.size < widest:
            self.memory = like.ravel()[:widest] if like.size >= widest else like.repeat(widest // like.size + 1)
        return lambda: [self.memory[: each.shape[0] * each.shape[1]].reshape(each.shape) for each in wanted]

    def close(self) -> None:
        """Do nothing, as no connection is open."""


def broadcasts(a: Any, b: Any, layout: Layout, rank: int, communicator: Communicator, width: int) -> None:
    """Perform all broadcasts of one product as this rank, step by step, without multiplying."""
    row, column = layout.place(rank)
    a_shape, b_shape, _ = layout.shapes(rank)
    for step in layout.steps(width):
        wanted = []
        for panel in step:
            depth = panel.end - panel.begin
            own_a = a[:, :depth] if panel.a_owner == column else None
            own_b = b[:depth] if panel.b_owner == row else None
            wanted.append(Broadcast(ROW, panel.a_owner, own_a, (a_shape[0], depth)))
            wanted.append(Broadcast(COLUMN, panel.b_owner, own_b, (depth, b_shape[1])))
        communicator.broadcast(wanted, a)()


def collective_alone(
    layout: Layout, rank: int, addresses: list[tuple[str, int]], dtype: str, on_gpu: bool, widths: Sequence[int]
) -> dict[str, Any]:
    """Time one rank's whole product between two barriers and, per panel width, its products and broadcasts alone."""
    from distributed import get_worker

    from tiledmm.distributed.summa import summa
    from tiledmm.distributed.worker_nccl import nccl_communicator

    worker = get_worker()
    a, b = (random_matrix(shape, dtype, on_gpu=on_gpu) for shape in layout.shapes(rank)[:2])
    with worker.benchmark_listener as listener:
        tcp = TcpCommunicator(layout, rank, listener, addresses, bytes(16), _DEADLINE)
    try:
        communicator = nccl_communicator(worker, tcp, a, layout, rank, _DEADLINE) or tcp

        def seconds_of(call: Callable[[], Any]) -> float:
            def wait() -> None:
                synchronize(on_gpu)
                tcp.exchange()

            return median_seconds(call, _ROUNDS, wait=wait)

        # The whole first, as it is timed beside one GPU: minutes of products make a GPU slower.
        whole = seconds_of(lambda: summa(a, b, layout, rank, communicator))
        parts = [
            {
                "width": width,
                "steps": len(layout.steps(width)),
                "products": seconds_of(lambda width=width: summa(a, b, layout, rank, Present(), width=width)),
                "broadcasts": seconds_of(lambda width=width: broadcasts(a, b, layout, rank, communicator, width)),
            }
            for width in widths
        ]
        return {"seconds": whole, "parts": parts, "communicator": type(communicator).__name__}
    finally:
        tcp.close()


# ---- The client


def through_dask(client: Any, size: int, dtype: str, *, on_gpu: bool, plain: bool) -> tuple[bool, dict[str, float]]:
    """Return whether results equal Dask's own, and the seconds of each product between persisted chunks."""
    import dask.array as da
    from distributed import wait

    import tiledmm.dask

    def matrix(shape: tuple[int, int], chunks: Any) -> Any:
        meta = random_matrix((0, 0), dtype, on_gpu=on_gpu)
        return da.empty(shape, chunks=chunks, dtype=dtype).map_blocks(
            lambda block: random_matrix(block.shape, dtype, on_gpu=on_gpu),
            name=f"random-{uuid.uuid4().hex}",  # or equal calls are one matrix to Dask
            dtype=dtype,
            meta=meta,
        )

    def persisted(*arrays: Any) -> list[Any]:
        made = [each.persist() for each in arrays]
        wait(made)
        client.run(synchronize, on_gpu)
        return made

    def in_chunks() -> list[Any]:
        return persisted(*(matrix((size, size), -(-size // _CHUNKS)) for _ in range(2)))

    def seconds_of(product: Callable[..., Any], operands: Callable[[], list[Any]]) -> float:
        given, made = list[Any](), list[Any]()

        def call() -> None:
            made.append(product(*given).persist())
            wait(made)
            client.run(synchronize, on_gpu)  # tasks on a GPU end when their kernels are launched

        def forget() -> None:
            client.cancel(made.pop())
            given.clear()
            time.sleep(1)  # or the next call finds its result

        return median_seconds(call, _ROUNDS, before=lambda: given.extend(operands()), after=forget)

    def is_right(x: Any, y: Any) -> bool:
        found, wanted = (
            np.asarray(client.compute(_to_host(z)).result()).astype("f8")
            for z in (tiledmm.dask.matmul(x, y)[:1], x[:1] @ y)
        )
        return bool(abs(found - wanted).max() <= _TOLERANCES[dtype] * abs(wanted).max())

    # Operands that are products have the grid's blocks, each where its rank is.
    long, wide = matrix((size, _RANK), (size // _CHUNKS, _RANK)), matrix((_RANK, size), (_RANK, size // _CHUNKS))
    blocks = persisted(*(tiledmm.dask.matmul(long, wide) / (_RANK + i) for i in range(2)))
    ok, seconds = is_right(*blocks), {BLOCKS: seconds_of(tiledmm.dask.matmul, lambda: blocks)}
    blocks.clear()
    # Others each time: Dask keeps copies of chunks where it has moved them.
    ok = is_right(*in_chunks()) and ok
    seconds[CHUNKS] = seconds_of(tiledmm.dask.matmul, in_chunks)
    if plain:
        seconds[DASK] = seconds_of(operator.matmul, in_chunks)
    return ok, seconds


def measure(client: Any, size: int, dtype: str, *, on_gpu: bool, plain: bool) -> dict[str, Any]:
    """Check and time one size, and return a row with the seconds of every method."""
    ok, seconds = through_dask(client, size, dtype, on_gpu=on_gpu, plain=plain)
    workers = sorted(client.nthreads())
    seconds[ONE] = client.submit(one_worker, size, dtype, on_gpu, workers=workers[:1], pure=False).result()
    row: dict[str, Any] = {"size": size, "dtype": dtype, "workers": len(workers), "ok": ok, "seconds": seconds}

    def collective(rows: int, *, parts: bool) -> tuple[Layout, list[dict[str, Any]]]:
        layout = choose_layout(rows, size, size, len(workers), ((rows,), (size,)), ((size,), (size,)))
        assert layout is not None  # as there are two workers at least
        by_worker, width = client.run(open_listener), layout.panel_width()
        given = [by_worker[worker] for worker in workers], dtype, on_gpu, (width, width // 4) if parts else ()
        futures = [
            client.submit(collective_alone, layout, rank, *given, workers=[worker], pure=False)
            for rank, worker in enumerate(workers)
        ]
        return layout, client.gather(futures)

    if len(workers) > 1:
        layout, ranks = collective(size, parts=True)
        seconds[COLLECTIVE] = max(each["seconds"] for each in ranks)
        row |= {"grid": list(layout.grid), "communicator": ranks[0]["communicator"], "parts": ranks[0]["parts"]}
        _, ranks = collective(size * len(workers), parts=False)
        seconds[WEAK] = max(each["seconds"] for each in ranks)
    return row


def dask_seconds_per_rank() -> float:
    """Measure the seconds that Dask adds to a product per further rank, on ranks with almost nothing to multiply.

    The workers are processes on this machine without GPUs.
    """
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    import tiledmm.dask

    def seconds(workers: int) -> float:
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
        )
        with cluster, Client(cluster):
            whole = ((workers,), (workers,))
            layout = choose_layout(workers, workers, workers, workers, whole, whole)
            x = da.ones((workers, workers), chunks=(layout.rows, layout.a_depths)).persist()
            y = da.ones((workers, workers), chunks=(layout.b_depths, layout.columns)).persist()
            wait([x, y])
            made: list[Any] = []

            def call() -> None:
                made.append(tiledmm.dask.matmul(x, y).persist())
                wait(made)

            return median_seconds(call, _ROUNDS, after=made.clear)

    return max(0.0, (seconds(_MANY) - seconds(_FEW)) / (_MANY - _FEW))


def _to_host(z: Any) -> Any:
    from tiledmm.distributed.local import to_host

    return z.map_blocks(to_host, dtype=z.dtype, meta=np.empty((0, 0), z.dtype))


def distributed_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per type and size: TFLOP/s of each method, and in brackets its speed-up over one GPU.

    The last column is the weak scaling: how many times the work of one GPU is done in the same time if every GPU has as
    much work as that one.
    """
    ways = (ONE, COLLECTIVE, BLOCKS, CHUNKS, DASK)
    cells = []
    for row in rows:
        seconds = row["seconds"]

        def cell(way: str, row: dict[str, Any] = row, seconds: dict[str, float] = seconds) -> str:
            if way not in seconds:
                return "-"
            rate = significant(2 * row["size"] ** 3 / seconds[way] / 1e12)
            return rate if way == ONE else f"{rate} ({seconds[ONE] / seconds[way]:.2f})"

        grid = "x".join(map(str, row.get("grid", [1, 1])))
        weak = f"{row['workers'] * seconds[ONE] / seconds[WEAK]:.2f}" if WEAK in seconds else "-"
        cells.append((row["dtype"], f"{row['size']}", grid, *map(cell, ways), weak))
    columns = ("type", "m = n = k", "grid", *(f"{way} (TFLOP/s)" for way in ways), "same work per GPU")
    return Table("Products on several GPUs through Dask", columns, tuple(cells))


def main() -> int:
    """Measure all sizes, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16384, 32768, 65536], help="m = n = k")
    parser.add_argument("--dtypes", nargs="+", choices=list(_TOLERANCES), default=["float32"])
    parser.add_argument("--plain", type=int, metavar="SIZE", default=32768, help="largest size of Dask's own products")
    parser.add_argument("--numpy", type=int, metavar="WORKERS", help="NumPy's chunks on so many workers")
    options = parser.parse_args()
    on_gpu = options.numpy is None
    if on_gpu and (reason := missing_gpu()):
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from distributed import Client

    workers, gpus = options.numpy, 0
    if on_gpu:
        import cupy

        from tiledmm.bench.environment import this_machine

        workers = gpus = cupy.cuda.runtime.getDeviceCount()
    rows: list[dict[str, Any]] = []
    dask_rank = dask_seconds_per_rank()
    print(f"Dask: {1e3 * dask_rank:.1f} ms per rank", flush=True)
    with cluster_of(workers, gpus) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers, _DEADLINE)
        print(f"{type(cluster).__name__} with {workers} workers", flush=True)
        if on_gpu and (reason := "; ".join(filter(None, set(client.run(check_transfer).values())))):
            print(reason, file=sys.stderr)
            return 1
        for dtype in options.dtypes:
            for size in options.sizes:
                rows.append(measure(client, size, dtype, on_gpu=on_gpu, plain=size <= options.plain))
                print(rows[-1], flush=True)
                if on_gpu:
                    found = {"rows": rows, "dask_rank": dask_rank}
                    save(options.out, measured(this_machine(), found, names=of_auto(*options.dtypes)))
    print(distributed_table(rows).markdown())
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    by_tcp = [row for row in rows if on_gpu and row.get("communicator") == TcpCommunicator.__name__]
    if by_tcp:
        print("panels went by TCP, not by NCCL", file=sys.stderr)
    return 1 if wrong or by_tcp else 0


if __name__ == "__main__":
    sys.exit(main())
