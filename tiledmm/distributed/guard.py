"""A rank's work on a GPU, in a thread of its own: the thread of its task watches it, and leaves it behind if it hangs.

A call of CUDA that waits for the device, such as allocating memory or loading a kernel, may wait for a kernel of NCCL
that waits for a rank which has died. Nothing interrupts it but the end of that kernel: so another thread has to abort
the communicator, and must not wait forever itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from tiledmm.distributed.rings import TICK, CollectiveError

# Seconds that work gets to end by itself once what it waits for has been aborted: a kernel may be compiling.
_GRACE = 8.0


def guarded(work: Callable[[], Any], check: Callable[[], None], free: Callable[[], None]) -> Any:
    """Return what ``work`` returns, and raise what it raises.

    Args:
        work: What to do. It may hang.
        check: Called now and then meanwhile; raises if the work waits in vain.
        free: Called once after that: ends what the work may be waiting for. It returns within seconds.

    Raises:
        HangingError: If the work has not ended some seconds after ``free``. Its thread is left behind.
    """
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    # A daemon: it may never end, and the worker must be able to.
    threading.Thread(target=run, name="tiledmm-rank", daemon=True).start()
    while wait([done], TICK).not_done:
        try:
            check()
        except CollectiveError as error:
            free()
            if wait([done], _GRACE).not_done:
                raise HangingError(f"{error}; a call of CUDA has not returned for {_GRACE:g} s after that") from error
            break
    return done.result()


class HangingError(CollectiveError):
    """Work was left behind in a call of CUDA that does not return."""
