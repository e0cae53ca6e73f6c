"""Description of this machine for a report: its GPU, and the versions of its software."""

from __future__ import annotations

import platform
import re
from datetime import datetime, timezone
from pathlib import Path

import cupy
import numpy as np

from tiledmm import __version__
from tiledmm.bench.results import Machine


def this_machine() -> Machine:
    """Return a description of the current device, its driver, and the versions of the software in use."""
    runtime = cupy.cuda.runtime
    device = runtime.getDevice()
    properties = runtime.getDeviceProperties(device)
    return Machine(
        gpu=properties["name"].decode(),
        compute_capability=f"{properties['major']}.{properties['minor']}",
        sms=properties["multiProcessorCount"],
        l2_bytes=properties["l2CacheSize"],
        memory_bytes=properties["totalGlobalMem"],
        # The clock is an attribute in every CUDA, but a property only up to CUDA 12.
        max_clock_mhz=runtime.deviceGetAttribute(runtime.cudaDevAttrClockRate, device) / 1e3,
        driver=_driver_version(),
        cuda_driver=_cuda_version(runtime.driverGetVersion()),
        cuda_runtime=_cuda_version(runtime.runtimeGetVersion()),
        nvrtc=".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        cublas=_cublas_version(cupy.cuda.cublas.getVersion(cupy.cuda.get_cublas_handle())),
        cupy=cupy.__version__,
        numpy=np.__version__,
        python=platform.python_version(),
        tiledmm=__version__,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _cublas_version(number: int) -> str:
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _driver_version() -> str:
    """Return the version of NVIDIA's driver, such as ``"550.54.15"``; an empty string if it is unknown.

    It is read from ``/proc``, because CUDA reports only the version of CUDA that the driver supports.
    """
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
    return match[0] if match else ""
