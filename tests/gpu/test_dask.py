"""Tests of Dask arrays of CuPy chunks, with a worker per GPU or two workers that share one."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
import pytest

from tests.strategies import small_integers
from tiledmm.errors import OperandTypeError

distributed: Any = pytest.importorskip("distributed")
da: Any = pytest.importorskip("dask.array")

import dask  # noqa: E402

from benchmarks.distributed import check_transfer, cluster_of  # noqa: E402
from tests.dask_clusters import (  # noqa: E402
    KILLS,
    MOST_AFTER_KILL,
    PATIENT,
    outcome_of_kill,
    wait_for_processes,
)
from tiledmm import dask as ours  # noqa: E402
from tiledmm.distributed import nccl, ranks  # noqa: E402
from tiledmm.distributed.rings import CollectiveError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sending large graph")

GPUS = cupy.cuda.runtime.getDeviceCount()
WORKERS = max(2, GPUS)

# Seconds after which a product hangs. The first one compiles kernels on each worker.
LIMIT = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with cluster_of(WORKERS, GPUS) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        client.wait_for_workers(WORKERS, LIMIT)
        yield client
        until = time.monotonic() + 20
        while left := [each for each in client.run(memory_in_use).values() if any(each)]:
            assert time.monotonic() < until, f"something is left: {left}"
            time.sleep(0.1)


def memory_in_use(dask_worker: Any) -> tuple[int, int]:
    """Return the bytes in use from CuPy's pool, and the number of Dask's keys."""
    gc.collect()  # tracebacks of errors that tests want
    return cupy.get_default_memory_pool().used_bytes(), len(dask_worker.data)


def communicators(dask_worker: Any) -> int:
    thread = getattr(dask_worker, "_tiledmm_nccl", None)
    return len(thread.communicators) if thread else 0


def on_gpus(x: np.ndarray, chunks: Any) -> Any:
    return da.from_array(x, chunks=chunks).map_blocks(cupy.asarray, dtype=x.dtype, meta=cupy.empty((0, 0), x.dtype))


def result_of(client: Any, z: Any, limit: float = LIMIT) -> np.ndarray:
    host = z.map_blocks(cupy.asnumpy, dtype=z.dtype, meta=np.empty((0, 0), z.dtype))
    return np.asarray(client.compute(host).result(limit))


def operands(m: int, n: int, k: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, m, n, k])
    return small_integers(rng, (m, k), dtype), small_integers(rng, (k, n), dtype)


def test_arrays_are_sent_and_nccl_is_there(client: Any) -> None:
    assert not any(client.run(check_transfer).values())


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "complex64", "complex128", "int8", "int64", "bool"])
@pytest.mark.parametrize("chunks", [(200, 150), (1000, 1000), ((400, 301), (1, 499))], ids=str)
def test_products(client: Any, dtype: str, chunks: Any) -> None:
    left, right = operands(701, 930, 500, dtype)
    x, y = on_gpus(left, chunks), on_gpus(right, 333)
    found = result_of(client, ours.matmul(x, y))
    assert found.dtype == left.dtype
    np.testing.assert_array_equal(found, np.matmul(left, right))


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128", "int8", "bool"])
def test_products_of_chunks_anywhere(client: Any, dtype: str) -> None:
    left, right = operands(701, 930, 500, dtype)
    x, y = on_gpus(left, (100, 150)).persist(), on_gpus(right, (70, 1000)).persist()
    distributed.wait([x, y], LIMIT)
    z = ours.matmul(x, y)
    assert not any("rechunk" in str(key) for key in z.__dask_graph__())
    np.testing.assert_array_equal(result_of(client, z), np.matmul(left, right))
    np.testing.assert_array_equal(result_of(client, ours.matmul(y.T, x.T)), np.matmul(left, right).T)


def test_chunks_of_one_worker(client: Any) -> None:
    left, right = operands(300, 210, 400, "float32")
    with dask.annotate(workers=[sorted(client.nthreads())[-1]]):
        x, y = on_gpus(left, 100).persist(optimize_graph=False), on_gpus(right, 90).persist(optimize_graph=False)
    distributed.wait([x, y], LIMIT)
    np.testing.assert_array_equal(result_of(client, ours.matmul(x, y)), left @ right)


def test_panels_go_by_nccl_where_each_worker_has_a_gpu(client: Any) -> None:
    left, right = operands(900, 300, 4100, "float32")
    x, y = on_gpus(left, 1000), on_gpus(right, 1000)
    for _ in range(2):
        np.testing.assert_array_equal(result_of(client, ours.matmul(x, y)), left @ right)
        np.testing.assert_array_equal(result_of(client, ours.matmul(y.T, x.T)), (left @ right).T)  # on another grid
    kept = set(client.run(communicators).values())
    assert kept <= set(range(1, nccl._MOST_KEPT + 1)) if GPUS > 1 else kept == {0}


def test_two_products_at_once(client: Any) -> None:
    left, right = operands(640, 510, 700, "float32")
    products = [ours.matmul(on_gpus(left + i, 200), on_gpus(right, 200)) for i in range(6)]
    hosts = [z.map_blocks(cupy.asnumpy, dtype=z.dtype, meta=np.empty((0, 0), z.dtype)) for z in products]
    for i, future in enumerate(client.compute(hosts)):
        np.testing.assert_array_equal(future.result(LIMIT), (left + i) @ right)


def test_chunks_of_two_libraries(client: Any) -> None:
    left, right = operands(64, 64, 64, "float32")
    x, y = on_gpus(left, 16), on_gpus(right, 16)
    wrong = y.map_blocks(cupy.asnumpy, dtype=y.dtype, meta=cupy.empty((0, 0), y.dtype))
    with pytest.raises(OperandTypeError, match=r"cupy.*numpy"):
        client.compute(ours.matmul(x, wrong)).result(LIMIT)
    time.sleep(1)  # the other ranks' errors


def exit_in_step_1(worker: Any, rank: int, step: int) -> None:
    if step == 1:
        os._exit(1)


def plant_exit() -> None:
    ranks.before_step = exit_in_step_1


def wait_in_step_1(worker: Any, rank: int, step: int) -> None:
    if step == 1:
        time.sleep(1)


def plant_wait() -> None:
    ranks.before_step = wait_in_step_1


def remove_planted() -> None:
    ranks.before_step = lambda worker, rank, step: None


def test_cancelled_products_leave_nothing(client: Any) -> None:
    left, right = operands(300, 210, 4100, "float32")
    client.run(plant_wait)
    z = ours.matmul(on_gpus(left, 1000), on_gpus(right, 1000)).persist()
    time.sleep(1)
    client.cancel(z)
    del z
    client.run(remove_planted)
    np.testing.assert_array_equal(
        result_of(client, ours.matmul(on_gpus(left, 1000), on_gpus(right, 1000))), left @ right
    )


def test_a_worker_that_dies(client: Any) -> None:
    left, right = operands(300, 210, 4100, "float32")
    z = ours.matmul(on_gpus(left, 1000), on_gpus(right, 1000))
    worker = sorted(client.nthreads())[0]
    client.run(plant_exit, workers=[worker])
    np.testing.assert_array_equal(result_of(client, z), left @ right)
    client.wait_for_workers(WORKERS, LIMIT)
    assert worker not in client.nthreads()
    np.testing.assert_array_equal(result_of(client, ours.matmul(on_gpus(left, 999), on_gpus(right, 999))), left @ right)


# Clusters that are killed in at once, each with a worker for each GPU: in one, the others' workers start again.
CLUSTERS = 4

# One after the other: Dask's import of its dashboard is not safe in several threads.
STARTING = threading.Lock()


def warm_up() -> None:
    """Load the kernels of a rank's product, so that workers are killed during the product and not before it."""
    from tiledmm.distributed.local import multiply_add

    a, b = cupy.ones((500, 2050), np.float32), cupy.ones((2050, 900), np.float32)
    c = cupy.empty((500, 900), np.float32)
    for first in (True, False):
        multiply_add(a, b, c, "full", first=first)
    cupy.cuda.Device().synchronize()


def kill_at(times: list[tuple[float, bool]], number: int) -> list[str]:
    """Kill a worker at each of these times, during a first or a second product, in a separate cluster.

    Returns:
        Descriptions of what was wrong.
    """
    wrong = []
    with contextlib.ExitStack() as stack:
        with STARTING:
            cluster = stack.enter_context(cluster_of(WORKERS, GPUS))
        client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        stack.enter_context(client.as_current())
        for trial, (seconds, is_second) in enumerate(times):
            wait_for_processes(cluster, client, WORKERS)
            client.run(warm_up)
            left, right = operands(1000, 900, 4100, "float32", seed=100 * number + trial)
            x, y = on_gpus(left, 1000).persist(), on_gpus(right, 1000).persist()
            distributed.wait([x, y], LIMIT)
            before = ours.matmul(x, y).persist() if is_second else None
            distributed.wait(before, LIMIT)
            what = f"{'second' if is_second else 'first'} product, {1000 * seconds:g} ms"
            try:
                found = outcome_of_kill(
                    cluster,
                    ours.matmul(x + 1, y),
                    seconds,
                    trial,
                    lambda z: result_of(client, z, MOST_AFTER_KILL),
                )
            except AssertionError as error:
                wrong.append(f"{what}: {error}")
                client.restart()
                continue
            if isinstance(found, Exception):
                if not isinstance(found, CollectiveError):
                    wrong.append(f"{what}: {found!r}")
            elif not np.array_equal(found, (left + 1) @ right):
                wrong.append(f"{what}: a wrong result")
            del before, x, y
    return wrong


@pytest.mark.skipif(GPUS < 2, reason="NCCL needs a GPU for each worker")
def test_a_worker_that_is_killed_at_every_time() -> None:
    """Kill workers in the handshake, while connecting and among panels; a first product has no communicator yet."""
    times = [(seconds, is_second) for is_second in (False, True) for seconds in KILLS]
    with dask.config.set(PATIENT), ThreadPoolExecutor(CLUSTERS) as threads:
        wrong = list(threads.map(kill_at, [times[i::CLUSTERS] for i in range(CLUSTERS)], range(CLUSTERS)))
    assert not any(wrong), wrong
