"""NVIDIA's driver library, loaded by ctypes."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any


@functools.cache
def driver() -> Any:
    """Load the driver's library, once per process, and return it.

    Raises:
        OSError: If no driver is installed.
    """
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
