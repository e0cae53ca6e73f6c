"""NVIDIA's driver, as a library that Python calls."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any


@functools.cache
def driver() -> Any:
    """The driver's library, loaded once.

    Raises:
        OSError: If no driver is installed.
    """
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
