"""Detection of a GPU that kernels can run on."""

from __future__ import annotations


def missing_gpu() -> str | None:
    """Return the reason why kernels cannot run on a GPU of this machine, such as ``"no NVIDIA driver"``.

    Return None if they can.
    """
    try:
        import cupy
    except (ImportError, OSError) as error:  # a package is missing, or one of its shared libraries
        return f"CuPy cannot be imported: {first_line(error)}"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "CUDA finds no device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        said = first_line(error)
    from tiledmm.hardware.device import driver

    try:
        driver()
    except OSError:  # CUDA's own message would be that the driver is too old
        return "no NVIDIA driver"
    return said


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if there is no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
