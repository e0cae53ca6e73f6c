"""NVIDIA's driver, as a library that Python calls."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

from tiledmm.errors import DeviceError


@functools.cache
def driver() -> Any:
    """The driver's library, loaded once.

    Raises:
        OSError: If no driver is installed.
    """
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def stream_id(stream: int) -> int:
    """The number of a stream, which no other stream of the process ever has, unlike its address.

    Each device's default stream has one, and so has each thread's per-thread default stream.

    Args:
        stream: Address of a ``CUstream``, or 0, 1 or 2 for a default stream.

    Raises:
        DeviceError: If it is no stream of the current context.
    """
    number = ctypes.c_ulonglong()
    status = driver().cuStreamGetId(ctypes.c_void_p(stream), ctypes.byref(number))
    if status:
        raise DeviceError(f"the driver knows no stream {stream:#x} here (cuStreamGetId: error {status})")
    return number.value
