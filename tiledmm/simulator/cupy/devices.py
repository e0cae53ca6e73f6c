"""The device that scripts see: an H100 with the figures of its data sheet, whose name says that it is simulated."""

from __future__ import annotations

import os
from typing import Any

from tiledmm.errors import DeviceError
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.data_sheets import DATA_SHEETS

_GPU = DATA_SHEETS["H100 SXM 80 GB"]
_ARCH = _GPU.arch
_MEMORY = 80 * 10**9

#: What ``runtime.getDeviceProperties`` returns.
PROPERTIES: dict[str, Any] = {
    "name": b"NVIDIA H100 (simulated on the CPU)",
    "major": _ARCH.capability[0],
    "minor": _ARCH.capability[1],
    "multiProcessorCount": _GPU.sms,
    "cooperativeLaunch": 1,
    "clockRate": int(_GPU.clock / 1000),  # kHz
    "totalGlobalMem": _MEMORY,
    "totalConstMem": 64 * 1024,
    "sharedMemPerBlock": _ARCH.static_shared_bytes,
    "sharedMemPerBlockOptin": _ARCH.max_shared_bytes,
    "sharedMemPerMultiprocessor": _ARCH.shared_bytes,
    "reservedSharedMemPerBlock": _ARCH.reserved_shared_bytes,
    "regsPerBlock": _ARCH.registers,
    "regsPerMultiprocessor": _ARCH.registers,
    "warpSize": WARP_SIZE,
    "maxThreadsPerBlock": _ARCH.max_threads_per_block,
    "maxThreadsPerMultiProcessor": _ARCH.max_threads,
    "maxBlocksPerMultiProcessor": _ARCH.max_blocks,
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2**31 - 1, 65535, 65535),
}

_ATTRIBUTES = {
    "ClockRate": PROPERTIES["clockRate"],
    "ComputeCapabilityMajor": PROPERTIES["major"],
    "ComputeCapabilityMinor": PROPERTIES["minor"],
    "CooperativeLaunch": 1,
    "MaxBlockDimX": 1024,
    "MaxBlockDimY": 1024,
    "MaxBlockDimZ": 64,
    "MaxBlocksPerMultiprocessor": _ARCH.max_blocks,
    "MaxGridDimX": 2**31 - 1,
    "MaxGridDimY": 65535,
    "MaxGridDimZ": 65535,
    "MaxRegistersPerBlock": _ARCH.registers,
    "MaxRegistersPerMultiprocessor": _ARCH.registers,
    "MaxSharedMemoryPerBlock": _ARCH.static_shared_bytes,
    "MaxSharedMemoryPerBlockOptin": _ARCH.max_shared_bytes,
    "MaxSharedMemoryPerMultiprocessor": _ARCH.shared_bytes,
    "MaxThreadsPerBlock": _ARCH.max_threads_per_block,
    "MaxThreadsPerMultiProcessor": _ARCH.max_threads,
    "MultiProcessorCount": _GPU.sms,
    "TotalConstantMemory": PROPERTIES["totalConstMem"],
    "WarpSize": WARP_SIZE,
}


class Device:
    """Device 0, the only one. It is a context manager, as ``cupy.cuda.Device`` is.

    Args:
        device: Number of the device, or a device; None for device 0.

    Raises:
        DeviceError: If the number is not 0.
    """

    def __init__(self, device: int | Device | None = None) -> None:
        self.id = int(device or 0)
        if self.id:
            raise DeviceError(f"the simulator has only device 0; got {self.id}")

    @property
    def compute_capability(self) -> str:
        """Compute capability without a point: ``"90"``."""
        return "".join(map(str, _ARCH.capability))

    @property
    def attributes(self) -> dict[str, int]:
        """Limits of the device by CuPy's names for them; attributes that the simulator does not know are missing."""
        return dict(_ATTRIBUTES)

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free memory and total memory, in bytes.

        Total is the memory of an H100; free is the computer's free memory, but at most the total.
        """
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return min(free, _MEMORY), _MEMORY

    @property
    def pci_bus_id(self) -> str:
        """PCI bus identifier ``0000:00:00.0``, which no real device has."""
        return "0000:00:00.0"

    def use(self) -> None:
        """Do nothing: the only device is always the current one."""

    def synchronize(self) -> None:
        """Do nothing: a simulated launch has ended when its call returns."""

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device)

    def __hash__(self) -> int:
        return self.id

    def __int__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id} (simulated)>"
