"""Calibration: measurement of the rates that the cost model of ``auto`` needs of a GPU, written as a table of rates.

Every kernel that ``auto`` may select is timed for products that fill the SMs once, twice and many times, with long and
short K, in several layouts, from memory and from L2, and for random ones. Packing, decomposition and the split-K
reduction are timed by themselves. ``fit`` finds the rates that explain these timings.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, replace
from datetime import date
from pathlib import Path
from typing import Any

from tiledmm import __version__
from tiledmm.codegen.kernel_hash import kernel_hash
from tiledmm.codegen.rendering import render
from tiledmm.elements import compute_element
from tiledmm.errors import TiledmmError, device_module
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.hardware.device_rates import DeviceRates
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import VARIANTS, find_variant, kernel_variants
from tiledmm.launch import plans
from tiledmm.selection.model import runs_on
from tiledmm.selection.rates import KernelRates, Rates, nearest_rates, own_path, rate_type, write
from tiledmm.tuning.bench import ProgressCallback
from tiledmm.tuning.cases import Case, cases_of, choice_of, type_of
from tiledmm.tuning.device_bench import DeviceBench
from tiledmm.tuning.fit import fit
from tiledmm.tuning.fit_kernel import TimedKernel, Timing


def calibrate(*, again: bool = False, progress: bool = True) -> Rates:
    """Measure the current device, so that ``auto`` can choose by the device's own rates.

    It measures the kernels in the table of the nearest GPU, and tiles that are not in that table, if they run on this
    device. Each timing is stored at once, so that an interrupted calibration can be resumed. A calibration with a later
    version measures only new kernels and products.

    Args:
        again: Whether to measure everything again.
        progress: Whether to show a progress bar.

    Returns:
        The table of rates, which is also written to the file of this GPU.

    Raises:
        DeviceError, MissingDependencyError: If there is no GPU.

    Example:
        >>> tiledmm.calibrate()
    """
    devices = device_module("launch.devices")
    gpu: Gpu = devices.device_model().gpu
    path = own_path(gpu.name)
    kept = path.with_suffix(".timings.json")
    nearest = nearest_rates(gpu)
    rows = [row for row in kernels_of(nearest) if runs_on(row, compute_element(type_of(row)), gpu)]
    auxiliary = _auxiliary_hash(rows)
    known = {} if again else _read_timings(kept, auxiliary, nearest.sources)
    bench = DeviceBench(gpu)
    if "device" not in known:
        known["device"] = asdict(nearest.device) | bench.device_rates()
        _write_timings(kept, known, auxiliary)
    with _progress(progress) as tell:
        missing = {row: cases for row in rows if (cases := _missing(row, gpu, known)) != []}
        _write_timings(kept, known, auxiliary)  # stores the hashes that replaced those of the former format
        for row, jobs in bench.compiled(missing, tell):
            found = bench.timings(row, jobs)
            measured = {Case(*numbers): time for numbers, time in found["cases"]}
            if (cases := missing[row]) is None:
                cases = cases_of(row, gpu, found["residents"])
            else:
                measured |= {Case(*numbers): time for numbers, time in known[name_of(row)]["cases"]}
            times = {**dict.fromkeys(cases), **measured}  # None if a case takes too long, or cannot be computed
            found["cases"] = [(astuple(case), time) for case, time in times.items()]
            known[name_of(row)] = found | {"text": _hash_of(row)}
            _write_timings(kept, known, auxiliary)
    rates = table(gpu, DeviceRates(**known["device"]), rows, known)
    write(path, rates)
    devices.forget_models()
    plans.forget_plans()
    return rates


def kernels_of(rates: Rates) -> list[KernelRates]:
    """Return the kernels of a table of rates, and kernels of tiles, types and variants that are newer than the table.

    A new tile of tensor cores, or for products of certain shapes, gets the rates of the nearest tile in the table, from
    which a fit begins; a tile that the table has for another type, or whose kernel is that of the nearest tile, is left
    out. A new variant, and a type that is new for a variant, get half the peak rate of the unit that multiplies. New
    CUDA-core variants for products of any shape are left out, because the table has the fastest of them.
    """
    known = {row.name for row in rates.rows}
    nearest: dict[tuple[str, int, str], KernelRates] = {}
    for row in rates.rows:
        variant = find_variant(row.variant)
        for tile in variant.tiles if variant.tensor_cores or variant.is_for_few_shapes else ():
            best = nearest.get((row.variant, tile, row.type), row)
            if (row.variant, tile) not in known and abs(row.tile - tile) <= abs(best.tile - tile):
                nearest[row.variant, tile, row.type] = row
    others, timed_types = {row.variant for row in rates.rows}, {(row.variant, row.type) for row in rates.rows}
    general = dict.fromkeys(row.type for row in rates.rows if not find_variant(row.variant).types)
    memory = rates.device.memory
    types = [
        (row, dtype)
        for row in kernel_variants() if row.tensor_cores or row.is_for_few_shapes
        for dtype in dict.fromkeys(rate_type(compute_element(name)) for name, _ in row.types) or general
        if row.name not in others or (row.types and (row.name, dtype) not in timed_types)
    ]  # fmt: skip
    new = (
        KernelRates(
            variant=row.name, tile=tile, type=dtype, residents=(), overhead_k=1000.0, mn_major=memory, k_major=memory,
            tflops=row.unit_flops(compute_element(dtype), rates.gpu) / 2e12,
        )
        for row, dtype in types for tile in row.tiles
    )  # fmt: skip
    tiles = (replace(row, tile=tile, residents=()) for (_, tile, _), row in nearest.items() if not _is_of(row, tile))
    return [*rates.rows, *tiles, *new]


def _is_of(row: KernelRates, tile: int) -> bool:
    """Return whether a kernel is also that of another tile."""
    variant, compute = find_variant(row.variant), compute_element(type_of(row))
    return variant.config(tile, compute) == variant.config(row.tile, compute)


def table(gpu: Gpu, device: DeviceRates, rows: Sequence[KernelRates], known: dict[str, Any]) -> Rates:
    """Return a table of rates of all kernels, fitted to their timings.

    Args:
        gpu: GPU that was measured.
        device: Rates of the device, from ``DeviceBench.device_rates``.
        rows: Kernels. The search for their rates begins with the rates of these rows.
        known: Timings by the kernel's name, as ``Bench.timings`` returns them. The time of a case may be None, if it
            was not timed.
    """
    rates = fit(gpu, device, timed(rows, known))
    hashed = tuple(replace(row, kernel=_hash_of(row)) for row in rates.rows)
    return replace(rates, rows=hashed, date=date.today().isoformat(), tiledmm=__version__, software=_software())


def timed(rows: Sequence[KernelRates], known: dict[str, Any]) -> list[TimedKernel]:
    """Return the kernels that have timings, each with its timings.

    Args:
        rows: Kernels.
        known: Timings by the kernel's name, as for ``table``.
    """
    kernels = []
    for row in rows:
        found, timings = known[name_of(row)], []
        for numbers, microseconds in found["cases"]:
            if microseconds is None:
                continue
            choice, packs = choice_of(row, case := Case(*numbers))
            timings.append(Timing(choice.spec.config, choice.product, packs, case.split, microseconds))
        if timings:
            kernels.append(TimedKernel(row, found["residents"], tuple(timings)))
    return kernels


def name_of(row: KernelRates) -> str:
    """Return the name under which a kernel's timings are stored: variant, tile and type."""
    return f"{row.variant} {row.tile} {row.type}"


def _missing(row: KernelRates, gpu: Gpu, known: dict[str, Any]) -> list[Case] | None:
    """Return the products with which a kernel's present code has not been timed yet.

    If ``known`` has timings of this code under a hash of the former format, replace the hash by the present one.

    Args:
        row: Kernel.
        gpu: Current GPU.
        known: Timings by the kernel's name.

    Returns:
        The products; None if the code has not been timed with any product.
    """
    found = known.get(name_of(row))
    if found is not None and found.get("text") == _former_hash(row):
        found["text"] = _hash_of(row)
    if found is None or found.get("text") != _hash_of(row):
        return None
    measured = {Case(*numbers) for numbers, _ in found["cases"]}
    return [case for case in cases_of(row, gpu, found["residents"]) if case not in measured]


def _kernels_of(row: KernelRates) -> list[KernelSpec]:
    """Return a kernel of a table of rates in each layout, and the auxiliary kernels that are launched with it."""
    found: list[KernelSpec] = []
    for layout in ("NN", "NT", "TN", "TT"):
        with contextlib.suppress(TiledmmError):  # the kernel does not support such products
            found += choice_of(row, Case(1, 1, 67, 515, layout, 2))[0].kernels
    return found


def _hash_of(row: KernelRates) -> str:
    """Return a hash of the CUDA C of a kernel in each layout, and of its auxiliary kernels."""
    return kernel_hash(_kernels_of(row))


def _auxiliary_hash(rows: Sequence[KernelRates]) -> str:
    """Return a hash of the CUDA C of all auxiliary kernels, on which the rates of the device depend."""
    kernels = dict.fromkeys(kernel for row in rows for kernel in _kernels_of(row))
    return kernel_hash(kernel for kernel in kernels if kernel.variant.name not in VARIANTS)


def _former_hash(row: KernelRates) -> str:
    """Return the hash that a file of timings before format 2 has for a kernel.

    It is a hash of the CUDA C with its comments, but without the line that names the version of this package.
    """
    found = hashlib.sha256()
    for kernel in _kernels_of(row):
        lines = _text(kernel).splitlines()
        found.update("\n".join(line for line in lines if not line.startswith("// Rendered by")).encode())
    return found.hexdigest()[:16]


_text = functools.lru_cache(maxsize=1024)(render)


def _software() -> str:
    from tiledmm.bench.environment import this_machine

    machine = this_machine()
    return f"driver {machine.driver}, CuPy {machine.cupy}, NVRTC {machine.nvrtc}"


def _read_timings(path: Path, auxiliary: str, sources: str) -> dict[str, Any]:
    """Return the timings that a file has, by the kernel's name; and under ``"device"`` the rates of the device.

    The result is empty if there is no valid file, or if its timings were made with another driver, CuPy or NVRTC. It
    has no rates of the device if auxiliary kernels have changed since.

    Args:
        path: Path of the file.
        auxiliary: Hash of the present auxiliary kernels.
        sources: Hash of all kernel sources. A file before format 2 has it if it belongs to these kernels.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(path.read_text(encoding="utf-8"))
        known = dict(data["known"])
        if (data["auxiliary"] != auxiliary) if "format" in data else (data["kernels"] != sources):
            known.pop("device", None)
        if data["software"] == _software():
            return known
    return {}


def _write_timings(path: Path, known: dict[str, Any], auxiliary: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": 2, "auxiliary": auxiliary, "software": _software(), "known": known})
    own = path.with_name(f"{path.name}.{os.getpid()}")
    own.write_text(text, encoding="utf-8")
    os.replace(own, path)


@contextlib.contextmanager
def _progress(shown: bool) -> Iterator[ProgressCallback]:
    """Return a context manager that shows a progress bar per step on stderr, if ``shown`` is True.

    Its ``with`` statement gives the function to call whenever a part of a step is done.
    """
    if not shown:
        yield lambda step, length: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(transient=True, console=Console(stderr=True)) as bars:

        def tell(step: str, length: int) -> None:
            task = tasks.get(step)
            if task is None:
                task = tasks[step] = bars.add_task(step, total=length)
            bars.advance(task)

        yield tell
