"""Checks of what products on a GPU need: the driver, CuPy, devices and CUDA's libraries, each with its version."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import re
from typing import Any

from tiledmm.hardware.device import driver


class NotThere(Exception):
    """Error for something that is not installed, as opposed to something that does not work."""


class NotKnown(Exception):
    """Error for something that cannot be checked because something else is missing."""


def driver_version() -> int:
    """Return the newest CUDA version that the driver supports, as an integer: 12040 for CUDA 12.4.

    Raises:
        NotThere: If there is no driver.
        RuntimeError: If the driver does not return its version.
    """
    try:
        library = driver()
    except OSError as error:
        raise NotThere("not installed: there is no libcuda") from error
    version = ctypes.c_int()
    if status := library.cuDriverGetVersion(ctypes.byref(version)):
        raise RuntimeError(f"cuDriverGetVersion returns {status}")
    return version.value


def driver_support() -> str:
    """Return the newest CUDA version that the driver supports, as text: ``"for CUDA up to 12.4"``."""
    return f"for CUDA up to {cuda_version(driver_version())}"


def cuda_version(number: int) -> str:
    """Return as text a version that CUDA states as an integer: ``"12.4"`` for 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def cuda_extra() -> str:
    """Return the name of this package's extra that installs CuPy for this machine's driver.

    It is ``cuda13`` if the driver supports CUDA 13, else ``cuda12``, also without a driver.
    """
    try:
        return "cuda13" if driver_version() >= 13000 else "cuda12"
    except Exception:
        return "cuda12"


def cupy_version() -> str:
    """Return CuPy's version and the name of the package that installed it: ``"13.6.0 (cupy-cuda12x)"``.

    Raises:
        NotThere: If CuPy is not installed.
        RuntimeError: If several packages have installed it.
    """
    names = {str(each.metadata["Name"]).lower() for each in importlib.metadata.distributions()}
    installed = sorted(name for name in names if re.fullmatch(r"cupy|cupy-(cuda|rocm).*", name))
    if len(installed) > 1:
        raise RuntimeError(
            f"{' and '.join(installed)} overwrite each other: pip uninstall all but one, then reinstall that"
        )
    if not installed and importlib.util.find_spec("cupy") is None:
        raise NotThere("not installed")
    import cupy

    return f"{cupy.__version__}" + (f" ({installed[0]})" if installed else "")


def present_cupy() -> Any:
    """Return the module ``cupy``.

    Raises:
        NotKnown: If CuPy cannot be imported.
    """
    try:
        import cupy
    except Exception as error:
        raise NotKnown("needs CuPy") from error
    return cupy


def device_cupy() -> Any:
    """Return the module ``cupy``, after checking that there is a device.

    Raises:
        NotKnown: If there is no device, or CuPy cannot be imported.
    """
    try:
        devices()
    except Exception as error:
        raise NotKnown("needs a device") from error
    return present_cupy()


def devices() -> str:
    """Return the name, compute capability and memory of each device as text.

    Raises:
        NotThere: If CUDA finds no device.
        NotKnown: If there is no driver, or CuPy cannot be imported.
    """
    try:
        driver_support()
    except NotThere as error:
        raise NotKnown("needs a driver") from error
    runtime = present_cupy().cuda.runtime
    found = []
    for device in range(runtime.getDeviceCount()):
        each = runtime.getDeviceProperties(device)
        memory = each["totalGlobalMem"] / 2**30
        found.append(f"{each['name'].decode()}, compute capability {each['major']}.{each['minor']}, {memory:.0f} GiB")
    if not found:
        raise NotThere("CUDA finds no device")
    return "; ".join(found)


def runtime_version() -> str:
    """Return the version of the CUDA runtime that CuPy uses."""
    return cuda_version(present_cupy().cuda.runtime.runtimeGetVersion())


def nvrtc_version() -> str:
    """Return the version of NVRTC that CuPy uses."""
    present_cupy()
    from cupy.cuda import nvrtc

    return ".".join(map(str, nvrtc.getVersion()))


def cublas_version() -> str:
    """Return the version of cuBLAS that CuPy uses."""
    device_cupy()
    from cupy.cuda import cublas, device

    number = cublas.getVersion(device.get_cublas_handle())
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
