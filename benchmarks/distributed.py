"""Products on several GPUs of one machine, through Dask: ``python -m benchmarks.distributed --sizes 16384 32768``.

A Dask worker for each GPU, in a process of its own. float32 squares, in seconds: one GPU alone, the collective alone
(the ranks have their blocks and begin together), ``tiledmm.dask.matmul`` from persisted chunks to a persisted result,
and Dask's own ``x @ y`` of the same chunks. Exit status 1 if a result is wrong. ``--numpy 4`` tries it out with four
workers and NumPy's chunks, and saves nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.results import FOLDER, measured, save
from tiledmm.cli import missing_gpu
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "distributed.json"

_ROUNDS, _DEADLINE, _TOLERANCE = 3, 120.0, 1e-4

# Chunks along each axis, as Dask's users have them: more than workers.
_CHUNKS = 4


def cluster_of(workers: int, *, on_gpus: bool) -> Any:
    """A local cluster with a process for each GPU, which sees that GPU only."""
    import logging

    from distributed import Nanny, Scheduler, SpecCluster

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(i) for i in range(workers)]
    quiet = {"silence_logs": logging.WARNING}
    environments = [{"CUDA_VISIBLE_DEVICES": devices[i]} if on_gpus else {} for i in range(workers)]
    options = [{"nthreads": 1, "env": environment, **quiet} for environment in environments]
    return SpecCluster(
        workers={i: {"cls": Nanny, "options": each} for i, each in enumerate(options)},
        scheduler={"cls": Scheduler, "options": {"dashboard_address": ":0"}},
        **quiet,
    )


def random_matrix(shape: tuple[int, int], *, on_gpu: bool) -> Any:
    """Standard normal float32."""
    if not on_gpu:
        return np.random.default_rng().standard_normal(shape, dtype=np.float32)
    import cupy

    return cupy.random.default_rng().standard_normal(shape, dtype=cupy.float32)


def median_seconds(call: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> float:
    """Time for the caller, after a first call that does not count; nor does what is done after each."""
    seconds = []
    for _ in range(_ROUNDS + 1):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
        after()
    return statistics.median(seconds[1:])


def _synchronize(on_gpu: bool) -> None:
    if on_gpu:
        import cupy

        cupy.cuda.Device().synchronize()


def one_worker(size: int, on_gpu: bool) -> float:
    """Runs on a worker: the seconds of the whole product there."""
    from tiledmm.distributed.local import allocate_sums, multiply_add

    a, b = (random_matrix((size, size), on_gpu=on_gpu) for _ in range(2))
    c = allocate_sums((size, size), a)

    def call() -> None:
        multiply_add(a, b, c, "full", first=True)
        _synchronize(on_gpu)

    return median_seconds(call)


def open_listener(dask_worker: Any) -> tuple[str, int]:
    """Runs on a worker: the address that other ranks connect to."""
    from tiledmm.distributed.rings import listen

    dask_worker.benchmark_listener = listen("127.0.0.1")
    host, port = dask_worker.benchmark_listener.getsockname()[:2]
    return host, port


def collective_alone(layout: Any, rank: int, addresses: list[tuple[str, int]], on_gpu: bool) -> tuple[float, str]:
    """Runs on each worker at once: the seconds of a rank's part, from a barrier to a barrier, and its communicator."""
    from distributed import get_worker

    from tiledmm.distributed.communicators import TcpCommunicator
    from tiledmm.distributed.nccl import nccl_communicator
    from tiledmm.distributed.summa import summa

    worker = get_worker()
    a, b = (random_matrix(shape, on_gpu=on_gpu) for shape in layout.shapes(rank)[:2])
    with worker.benchmark_listener as listener:
        tcp = TcpCommunicator(layout, rank, listener, addresses, bytes(16), _DEADLINE)
    try:
        communicator = nccl_communicator(worker, tcp, a, layout, rank, _DEADLINE) or tcp

        def call() -> None:
            tcp.exchange()
            summa(a, b, layout, rank, communicator)
            _synchronize(on_gpu)
            tcp.exchange()

        return median_seconds(call), type(communicator).__name__
    finally:
        tcp.close()


def through_dask(client: Any, size: int, *, on_gpu: bool) -> tuple[bool, dict[str, float]]:
    """Whether the result is Dask's own, and the seconds from persisted chunks to persisted chunks."""
    import dask.array as da
    from distributed import wait

    import tiledmm.dask

    def matrix() -> Any:
        chunk = -(-size // _CHUNKS)
        tasks = da.empty((size, size), chunks=chunk, dtype="float32")
        meta = random_matrix((0, 0), on_gpu=on_gpu)
        made = tasks.map_blocks(lambda block: random_matrix(block.shape, on_gpu=on_gpu), dtype="float32", meta=meta)
        return made.persist()

    def seconds_of(product: Callable[[], Any]) -> float:
        made: list[Any] = []

        def call() -> None:
            made.append(product().persist())
            wait(made)
            client.run(_synchronize, on_gpu)  # tasks on a GPU end when their kernels are launched

        def forget() -> None:
            client.cancel(made.pop())
            time.sleep(1)  # or the next call finds its result

        return median_seconds(call, forget)

    x, y = matrix(), matrix()
    wait([x, y])
    ours, dasks = tiledmm.dask.matmul(x, y), x @ y
    found, wanted = (np.asarray(client.compute(_to_host(z[:1])).result()) for z in (ours, dasks))
    ok = bool(abs(found - wanted).max() <= _TOLERANCE * abs(wanted).max())
    ways = {"end to end": lambda: tiledmm.dask.matmul(x, y), "plain Dask": lambda: x @ y}
    return ok, {way: seconds_of(product) for way, product in ways.items()}


def measure(client: Any, size: int, *, on_gpu: bool) -> dict[str, Any]:
    """One row: seconds, and whether the result is right."""
    from tiledmm.distributed.grid import choose_layout

    ok, seconds = through_dask(client, size, on_gpu=on_gpu)
    workers = sorted(client.nthreads())
    seconds["one GPU"] = client.submit(one_worker, size, on_gpu, workers=workers[:1], pure=False).result()
    row: dict[str, Any] = {"size": size, "workers": len(workers), "ok": ok, "seconds": seconds}
    layout = choose_layout(size, size, size, len(workers), ((size,), (size,)), ((size,), (size,)))
    if layout is not None:
        by_worker = client.run(open_listener)
        addresses = [by_worker[worker] for worker in workers]
        futures = [
            client.submit(collective_alone, layout, rank, addresses, on_gpu, workers=[worker], pure=False)
            for rank, worker in enumerate(workers)
        ]
        ranks = client.gather(futures)
        seconds["collective"] = max(each for each, _ in ranks)
        row |= {"grid": list(layout.grid), "communicator": ranks[0][1], "bytes": layout.traffic(4)}
    return row


def _to_host(z: Any) -> Any:
    from tiledmm.distributed.local import to_host

    return z.map_blocks(to_host, dtype=z.dtype, meta=np.empty((0, 0), z.dtype))


def distributed_table(rows: list[dict[str, Any]]) -> Table:
    """A row a size: TFLOP/s of each way."""
    ways = ("one GPU", "collective", "end to end", "plain Dask")
    cells = []
    for row in rows:
        flops = 2 * row["size"] ** 3
        rates = [significant(flops / row["seconds"][way] / 1e12) if way in row["seconds"] else "-" for way in ways]
        cells.append((f"{row['size']}", f"{row['workers']}", "x".join(map(str, row.get("grid", [1, 1]))), *rates))
    columns = ("m = n = k", "workers", "grid", *(f"{way} (TFLOP/s)" for way in ways))
    return Table("float32 products on several GPUs", columns, tuple(cells))


def main() -> int:
    """Measures, prints the table, writes the results; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16384, 32768], help="m = n = k")
    parser.add_argument("--numpy", type=int, metavar="WORKERS", help="NumPy's chunks on so many workers")
    options = parser.parse_args()
    on_gpu = options.numpy is None
    if on_gpu and (reason := missing_gpu()):
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from distributed import Client
    from rich.console import Console

    workers = options.numpy
    if on_gpu:
        import cupy

        workers = cupy.cuda.runtime.getDeviceCount()
    rows: list[dict[str, Any]] = []
    with cluster_of(workers, on_gpus=on_gpu) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers, _DEADLINE)
        for size in options.sizes:
            rows.append(measure(client, size, on_gpu=on_gpu))
            if on_gpu:
                from tiledmm.bench.environment import this_machine

                save(options.out, measured(this_machine(), {"rows": rows}))
    Console(width=None if sys.stdout.isatty() else 200).print(distributed_table(rows).rich())
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
