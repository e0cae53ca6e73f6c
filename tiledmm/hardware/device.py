"""The library of this machine's driver, and conversion of a device's properties to a ``Gpu``."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping
from typing import Any

from tiledmm.hardware.architectures import architecture_of
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu


@functools.cache
def driver() -> Any:
    """Load the library of the CUDA driver, once per process, and return it.

    Raises:
        OSError: If no driver is installed.
    """
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def has_driver() -> bool:
    """Return whether a CUDA driver is installed."""
    try:
        driver()
    except OSError:
        return False
    return True


def gpu_of(properties: Mapping[str, Any], attributes: Mapping[str, int]) -> Gpu:
    """Return the ``Gpu`` of a device, given its properties.

    Rates that CUDA does not report are those of the target's reference GPU.

    Args:
        properties: The device's ``cudaDeviceProp``.
        attributes: The device's attributes, by their names without ``cudaDevAttr``. They include the clock rates, which
            CUDA 13 removed from the properties.

    Raises:
        DeviceError: If the device is older than every architecture in ``TARGETS``.
    """
    reference = REFERENCE_GPUS[architecture_of((properties["major"], properties["minor"])).name]
    # The clock is in kilohertz and the width in bits; memory makes two transfers per cycle.
    bandwidth = 2e3 * attributes.get("MemoryClockRate", 0) * attributes.get("GlobalMemoryBusWidth", 0) / 8
    name = properties["name"].decode()
    return Gpu(
        name,
        reference.arch,
        properties["multiProcessorCount"],
        1e3 * attributes.get("ClockRate", 0) or reference.clock,
        bandwidth or reference.bandwidth,
        "CUDA's device attributes",
        "GeForce" in name,
        reference.nvlink,
    )
