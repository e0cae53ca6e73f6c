"""Rates that a GPU reaches with the kernels from which ``auto`` chooses, in tables that ``tiledmm calibrate`` measures.

Tables of some GPUs are in the package (``measured/``); those of the user's devices are in the user's cache. For a
device without a table, the nearest GPU's table is used, and the cost model scales it by the data sheets of both GPUs.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tiledmm.elements import Element
from tiledmm.errors import TiledmmError
from tiledmm.hardware.architectures import architecture_of
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.hardware.device_rates import DeviceRates

# Tables of the former format have one hash of all kernel sources instead of one hash per kernel.
_FORMAT, _FORMER_FORMAT = 2, 1
_SHIPPED = Path(__file__).parent / "measured"


@dataclass(frozen=True, slots=True)
class KernelRates:
    """Rates that a kernel reaches with a computation type.

    Attributes:
        variant, tile: The kernel.
        type: Name of the computation type. Types whose kernels take as long share a name (see ``rate_type``).
        tflops: Full rate in TFLOP/s, with enough resident blocks on every SM.
        residents: Fractions of the full rate with 1, 2, ... resident blocks per SM; with one more, the rate is full.
        overhead_k: Cost of a block's prologue and epilogue, in steps of k.
        mn_major, k_major: Rates of reading an MN-major and a K-major operand, in TB/s.
        transposed_b: Fraction of the rate if B is K-major.
        words, elements: Fraction of the rate if an unaligned operand is read in place, word by word or element by
            element; 0 if that was not measured, or if the kernel cannot.
        writing: Rate of writing C, as a fraction of the memory's rate.
        writing_unaligned: Fraction of that rate if rows of C are not aligned to 16 bytes; 0 if that was not measured.
        overlap: Order of the norm that combines the times of arithmetic, memory and L2: 1 if they do not overlap and
            add up, infinity if only the longest counts.
        kernel: Hash of the code that was measured: that of the kernel and of those launched before and after it.
    """

    variant: str
    tile: int
    type: str
    tflops: float
    residents: tuple[float, ...]
    overhead_k: float
    mn_major: float
    k_major: float
    transposed_b: float = 1.0
    words: float = 0.0
    elements: float = 0.0
    writing: float = 1.0
    writing_unaligned: float = 0.0
    overlap: float = math.inf
    kernel: str = ""

    @property
    def name(self) -> tuple[str, int]:
        """Variant and tile of the kernel."""
        return self.variant, self.tile


@dataclass(frozen=True, slots=True)
class Rates:
    """Table of the rates of one GPU.

    Attributes:
        gpu: Data sheet of the GPU that was measured.
        device: Rates that do not depend on the kernel.
        rows: Rates of each kernel and computation type.
        date: Date of the measurement, as ``"YYYY-MM-DD"``.
        tiledmm: Version of tiledmm that measured.
        software: Versions of the driver, of CuPy and of NVRTC.
        sources: Hash of all kernel sources, in a table that was measured when it had the former format; else empty.
    """

    gpu: Gpu
    device: DeviceRates
    rows: tuple[KernelRates, ...]
    date: str = ""
    tiledmm: str = ""
    software: str = ""
    sources: str = ""

    def __str__(self) -> str:
        return f"measured on {self.gpu.name}, {self.date}"

    @property
    def kernels(self) -> dict[tuple[str, int, str], str]:
        """Hash of the code of each kernel that was measured, by variant, tile and type."""
        return {(row.variant, row.tile, row.type): row.kernel for row in self.rows}

    def has_kernels_of(self, other: Rates) -> bool:
        """Return whether this table includes all kernels of another table, with the same code."""
        if self.sources and self.sources == other.sources:
            return True
        return "" not in other.kernels.values() and other.kernels.items() <= self.kernels.items()

    def only(self, takes: Callable[[str], bool]) -> Rates:
        """Return this table with only the rows of some variants.

        Args:
            takes: Function that returns whether to keep the rows of a variant, given its name.
        """
        return replace(self, rows=tuple(row for row in self.rows if takes(row.variant)))


def read(path: Path) -> Rates:
    """Return the table of rates in a file.

    Raises:
        OSError: If the file cannot be read.
        ValueError, KeyError, TypeError: If it is not a table of a supported format.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if data["format"] not in (_FORMER_FORMAT, _FORMAT):
        raise ValueError(f"format {data['format']!r}, not {_FORMAT}")
    sources = str(data["kernels"] if data["format"] == _FORMER_FORMAT else data.get("sources", ""))
    gpu = data["gpu"]
    arch = architecture_of((int(gpu["capability"][0]), int(gpu["capability"][1])))
    measured = Gpu(gpu["name"], arch, gpu["sms"], gpu["clock"], gpu["bandwidth"], str(path), "GeForce" in gpu["name"])
    rows = (KernelRates(**{**row, "residents": tuple(row["residents"])}) for row in data["rows"])
    about = {name: str(data[name]) for name in ("date", "tiledmm", "software")}
    return Rates(measured, DeviceRates(**data["device"]), tuple(rows), **about, sources=sources)


def write(path: Path, rates: Rates) -> None:
    """Write a table of rates to a file, with one line per row. The file is replaced in one step."""
    gpu = rates.gpu
    head = {
        "format": _FORMAT,
        "gpu": {
            "name": gpu.name, "capability": gpu.arch.capability, "sms": gpu.sms, "clock": gpu.clock,
            "bandwidth": gpu.bandwidth,
        },
        "date": rates.date, "tiledmm": rates.tiledmm, "software": rates.software,
        **({"sources": rates.sources} if rates.sources else {}),
        "device": asdict(rates.device),
    }  # fmt: skip
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    rows = ",\n".join(f"  {json.dumps(asdict(row))}" for row in rates.rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["{", *lines, ' "rows": [', rows, " ]", "}", ""])
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


@functools.cache
def shipped() -> dict[str, Rates]:
    """Return the tables of rates that are part of the package, by the name of the GPU."""
    return {table.gpu.name: table for table in map(read, sorted(_SHIPPED.glob("*.json")))}


def shipped_path(stem: str) -> Path:
    """Return the path of a table of rates in the package, given the file's name without its suffix."""
    return _SHIPPED / f"{stem}.json"


def user_file(kind: str, gpu: str) -> Path:
    """Return the path of the file with a device's measurements.

    It is in ``$TILEDMM_CACHE_DIR`` or the system's folder for caches.

    Args:
        kind: Name of the folder for this sort of measurements: ``"rates"`` or ``"tuned"``.
        gpu: Name of the device.
    """
    named = os.environ.get("TILEDMM_CACHE_DIR")
    if named:
        folder = Path(named)
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("tiledmm")
    name = re.sub(r"[^A-Za-z0-9]+", "-", gpu).strip("-").lower()
    return folder / kind / f"{name}.json"


def own_path(gpu: str) -> Path:
    """Return the path of the user's table of rates for a GPU, given its name."""
    return user_file("rates", gpu)


def own_rates(gpu: Gpu) -> Rates | None:
    """Return the user's table of rates for a GPU; None if there is none.

    If the table is invalid, warn and return None.
    """
    path = own_path(gpu.name)
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, TiledmmError) as error:
        warnings.warn(f"ignoring {path}, which is not a table of rates: {error}; run 'tiledmm calibrate'", stacklevel=2)
        return None


def rates_of(gpu: Gpu) -> Rates:
    """Return the user's table of rates for a GPU, or else the package's table for the nearest GPU.

    If both are for this GPU, the user's table is returned, unless the package's was measured later and with code of
    kernels that the user's table does not include.
    """
    own, nearest = own_rates(gpu), nearest_rates(gpu)
    if own is None:
        return nearest
    is_newer = nearest.gpu.name == gpu.name and nearest.date > own.date
    return nearest if is_newer and not own.has_kernels_of(nearest) else own


def rate_type(compute: Element) -> str:
    """Return the name of the type under which a table of rates lists a computation type.

    Types whose kernels take equally long share a name: 16-bit types are listed as float16, and integers by their
    size.
    """
    if compute.dtype_name in ("float32", "tf32", "float64", "complex64", "complex128"):
        return compute.dtype_name
    return {1: "int8", 2: "float16", 4: "int32", 8: "int64"}[compute.itemsize]


def nearest_rates(gpu: Gpu) -> Rates:
    """Return the package's table of rates for a GPU, or else for the GPU that resembles it most.

    The rates of another GPU must be scaled.
    """
    tables = shipped()
    return tables.get(gpu.name) or min(tables.values(), key=lambda each: _distance(each.gpu, gpu))


def _distance(measured: Gpu, gpu: Gpu) -> tuple[bool, float]:
    """Return a sort key for how much a measured GPU differs from another.

    It orders by whether the architectures differ, then by the ratio of the GPUs' bytes of memory bandwidth per
    operation.
    """
    ratio = (measured.bandwidth / measured.peak_flops("float32")) / (gpu.bandwidth / gpu.peak_flops("float32"))
    return measured.arch is not gpu.arch, max(ratio, 1 / ratio)
