"""A rank's work on a GPU in a thread of its own, which the thread of its task watches and abandons if it hangs.

A CUDA call that waits for the device, such as one that allocates memory or loads a kernel, may wait for an NCCL kernel
that waits for a rank which has died. The call returns only when that kernel ends. So another thread has to abort the
communicator, and must not wait forever itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from tiledmm.distributed.rings import TICK, CollectiveError

# Seconds within which the work must end after what it waits for has been aborted: it may be compiling a kernel.
_GRACE = 8.0


def guarded(work: Callable[[], Any], check: Callable[[], None], free: Callable[[], None]) -> Any:
    """Run a function in a new thread, and return its result or raise its exception.

    Args:
        work: Function to run. It may hang.
        check: Function that is called every 0.1 s meanwhile. It raises CollectiveError if the work waits in vain.
        free: Function that is called once if ``check`` raised. It ends what the work may be waiting for, and returns
            within seconds.

    Raises:
        HangingError: If the work has not ended some seconds after ``free``. Its thread is left running.
    """
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    # A daemon thread, because it may never end and must not keep the worker from exiting.
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
    """Failure of work that was abandoned because one of its CUDA calls does not return."""
