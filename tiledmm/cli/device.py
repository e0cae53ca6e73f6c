"""Whether kernels can run on a GPU here."""

from __future__ import annotations

import sys
from typing import Any


def missing_gpu() -> str | None:
    """Why no kernel can run here, in a few words; None if one can."""
    try:
        import cupy
    except (ImportError, OSError) as error:  # a package, or a library of one
        return f"CuPy does not import: {first_line(error)}"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "CUDA finds no device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        said = first_line(error)
    try:
        driver()
    except OSError:  # CUDA calls that a driver that is too old
        return "no NVIDIA driver"
    return said


def driver() -> Any:
    """NVIDIA's driver.

    Raises:
        OSError: If there is none.
    """
    import ctypes

    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def first_line(error: Exception) -> str:
    """What an error says, without what follows."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
