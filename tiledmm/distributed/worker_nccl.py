"""NCCL of a Dask worker: its thread for NCCL calls, and the communicators that it keeps for later products.

A worker keeps the communicators that it used last, because creating one takes longer than most products; it keeps only
a few, because each takes device memory. The ranks connect over TCP first, with a deadline, because NCCL itself would
wait forever for a missing rank. Over TCP they agree on a communicator, and detect a failed rank during every wait.
"""

from __future__ import annotations

import json
import socket
import threading
import uuid
from typing import Any

from tiledmm.distributed.communicators import TcpCommunicator
from tiledmm.distributed.grid import Layout
from tiledmm.distributed.local import kind
from tiledmm.distributed.nccl import NcclCommunicator, NcclThread
from tiledmm.distributed.rings import CollectiveError

# Communicators that a worker keeps: enough for both grids of two GPUs, with the ranks in either order.
_MOST_KEPT = 4


def nccl_communicator(
    worker: Any,
    tcp: TcpCommunicator,
    like: Any,
    layout: Layout,
    rank: int,
    deadline: float,
) -> NcclCommunicator | None:
    """Return an NCCL communicator for all ranks, created now or kept from an earlier product.

    All ranks call this at the same time, and either all get a communicator or none does.

    Args:
        worker: Dask worker that runs the rank.
        tcp: Connection to the other ranks over TCP.
        like: Array on the rank's device.
        layout: Process grid and the sizes of its blocks.
        rank: Number of this rank.
        deadline: Seconds that one operation may take.

    Returns:
        The communicator. None if two ranks share a GPU, or if any rank has NumPy arrays, has no NCCL, or must be
        restarted before it can use NCCL.

    Raises:
        CollectiveError: If another rank failed or was silent past the deadline, or if NCCL is stuck.
    """
    device = "" if is_stuck(worker) else _device_of(like)
    devices = tuple(each.decode() for each in tcp.exchange(device.encode()))
    if not all(devices) or len(set(devices)) < len(devices):
        return None
    thread, key = _thread_of(worker), (layout.grid, *devices)
    kept = thread.communicators.get(key)
    generations = {each.decode() for each in tcp.exchange((kept.generation if kept else "").encode())}
    if kept is None or len(generations) > 1:
        if kept is not None:
            kept.close()
            if thread.is_stuck:  # the other ranks notice that this one gives up
                raise CollectiveError("NCCL does not return from aborting a communicator whose ranks have gone")
        from cupy.cuda import nccl

        # The first rank of each grid row and column of several ranks creates its identifier, and rank 0 the generation.
        (row, column), (p_r, p_c) = layout.place(rank), layout.grid
        made = [
            uuid.uuid4().hex if rank == 0 else "",
            _text(nccl.get_unique_id()) if column == 0 and p_c > 1 else None,
            _text(nccl.get_unique_id()) if row == 0 and p_r > 1 else None,
        ]
        known = [json.loads(each) for each in tcp.exchange(json.dumps(made).encode())]
        ids = _identifier(known[layout.rank(row, 0)][1]), _identifier(known[layout.rank(0, column)][2])
        for unused in list(thread.communicators.values())[: 1 - _MOST_KEPT]:
            unused.close()  # unused, because a worker runs one product at a time
        kept = NcclCommunicator(thread, layout, rank, ids, known[0][0], like.device, deadline, tcp.check)
    thread.communicators.pop(key, None)
    thread.communicators[key] = kept
    kept.check, kept.deadline = tcp.check, deadline
    return kept


def _text(identifier: Any) -> list[Any]:
    """Convert an NCCL identifier to JSON values: the name of its type, and the list of its elements.

    The type is bytes, or in CuPy before 14 a tuple of integers.
    """
    return [type(identifier).__name__, list(identifier)]


def _identifier(text: list[Any] | None) -> Any:
    return text and {"bytes": bytes, "tuple": tuple}[text[0]](text[1])


def _device_of(like: Any) -> str:
    """Return a unique name of the GPU that holds an array; an empty string for a NumPy array or without NCCL."""
    if kind(like) == "numpy":
        return ""
    import cupy
    from cupy.cuda import nccl

    # The UUID alone is not enough: CuPy cuts it off at its first zero byte.
    unique = bytes(cupy.cuda.runtime.getDeviceProperties(like.device.id)["uuid"]).hex()
    return f"{socket.gethostname()} {like.device.pci_bus_id} {unique}" if nccl.available else ""


def is_stuck(worker: Any) -> bool:
    """Return whether an NCCL call of a worker has not returned, so that the worker cannot use NCCL until a restart."""
    thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
    return thread is not None and thread.is_stuck


def hangs(worker: Any) -> bool:
    """Return whether a worker's device may hang: an abort of NCCL or a CUDA call has not returned.

    The worker must then be restarted, and data on the device are lost.
    """
    thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
    return thread is not None and thread.hangs


def mark_hanging(worker: Any) -> None:
    """Record that a CUDA call has not returned on a worker, so that its device may hang and NCCL cannot be used."""
    thread = _thread_of(worker)
    thread.is_stuck = thread.hangs = True


_lock = threading.Lock()


def _thread_of(worker: Any) -> NcclThread:
    """Return the thread that makes a worker's NCCL calls. Create it at first use."""
    with _lock:
        thread: NcclThread | None = getattr(worker, "_tiledmm_nccl", None)
        if thread is None:
            thread = worker._tiledmm_nccl = NcclThread()
        return thread
