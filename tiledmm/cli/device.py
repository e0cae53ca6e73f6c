"""Whether kernels can run on a GPU here."""

from __future__ import annotations


def missing_gpu() -> str | None:
    """Why no kernel can run here, in a phrase; None if one can."""
    try:
        import cupy
    except (ImportError, OSError) as error:  # a package, or a library of one
        return f"CuPy does not import: {first_line(error)}"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "CUDA finds no device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        said = first_line(error)
    from tiledmm.hardware.driver import driver

    try:
        driver()
    except OSError:  # CUDA calls that a driver that is too old
        return "no NVIDIA driver"
    return said


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
