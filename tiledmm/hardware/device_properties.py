"""A device as a ``Gpu``, from its properties and attributes in CUDA's runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiledmm.hardware.architectures import architecture_of
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu


def gpu_of(properties: Mapping[str, Any], attributes: Mapping[str, int]) -> Gpu:
    """A device. Rates that CUDA does not know are those of the reference GPU.

    Args:
        properties: Its ``cudaDeviceProp``.
        attributes: Its attributes, by their names without ``cudaDevAttr``. Clock rates are here: CUDA 13 removed them
            from the properties.

    Raises:
        DeviceError: If the device is older than every architecture in ``TARGETS``.
    """
    reference = REFERENCE_GPUS[architecture_of((properties["major"], properties["minor"])).name]
    # Kilohertz and bits, and two transfers a cycle.
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
