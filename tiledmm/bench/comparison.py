"""Kernels and ``cupy.matmul`` on the same random operands: every result is checked, then all are timed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import cupy
import numpy as np
from cupy._core import _routines_linalg

from tiledmm.api import matmul
from tiledmm.bench import cpu, timing
from tiledmm.bench import reference as expected
from tiledmm.bench.peers import CPU
from tiledmm.bench.peers import calls as peer_calls
from tiledmm.bench.results import BASELINE, Comparison, Row
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, expand, multiplying
from tiledmm.compile.compilation import LoadedKernel, compiled
from tiledmm.elements import TF32, Element, compute_element
from tiledmm.errors import TiledmmError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.launch.devices import device_model
from tiledmm.problem.arrays import describe
from tiledmm.problem.call import dtype_of, precision_of, resolve_call
from tiledmm.problem.keywords import AUTO, KernelKeywords, UfuncKeywords
from tiledmm.report.roofline import roofline
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import choose

# Products for which more copies would be needed are so small that memory does not matter.
_MAX_SETS = 64

# Errors of a product that is refused. PyTorch says so by a plain RuntimeError. Elsewhere that is CUDA's, and
# nothing can be said of what comes after.
_REFUSALS = (TiledmmError, TypeError, ValueError, NotImplementedError)
_PEERS_REFUSALS = (*_REFUSALS, RuntimeError)

_SEED = 20_240_229
_NOT_PURE = "host time is included, for the call makes the host wait"


class Operands(NamedTuple):
    """A (M, K), B (K, N) and an output C (M, N) on the device."""

    a: Any
    b: Any
    c: Any


def compare(
    size: Size,
    *,
    dtype: str = "float32",
    layout: str = "NN",
    variant_tiles: Iterable[VariantTile] | None = None,
    seconds: float = 0.4,
    peers: Iterable[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Compares kernels with each other and with ``cupy.matmul`` on one product, on the current device.

    Args:
        size: m, n, k.
        dtype: Type of the operands and the result, by NumPy's name; or ``"tf32"``: they are float32, and CuPy is told
            to take products in tf32, too; or one with wide results, ``"int8_int32"``: CuPy converts the operands first.
        layout: How A and B lie in memory, see ``tiledmm.source``.
        variant_tiles: Kernels to compare; None for every variant with its default tile.
        seconds: About how long to time each.
        peers: Other rivals, out of ``tiledmm.bench.peers.PEERS``: libraries that are installed, and the CPU.
        progress: Called with what is being done.

    Returns:
        A row for each kernel, then one for ``cupy.matmul``, then those of peers; all are checked. A wrong result is not
        timed.

    Raises:
        UnsupportedTypeError, ShapeError: If there is no such type or layout.
    """
    report = progress or (lambda doing: None)
    with cupy_takes(compute_element(dtype)):
        return _compared(
            size,
            dtype,
            layout,
            expand() if variant_tiles is None else list(variant_tiles),
            seconds,
            tuple(peers),
            report,
        )


def _compared(
    size: Size,
    dtype: str,
    layout: str,
    variant_tiles: list[VariantTile],
    seconds: float,
    peers: tuple[str, ...],
    report: Callable[[str], None],
) -> Comparison:
    report("preparing operands")
    sets = operand_sets(size, dtype, layout)
    kind = compute_element(dtype)
    right = expected.reference(sets[0].a, sets[0].b, kind)

    rows: list[Row] = []
    rivals: dict[str, timing.TimedCall] = {}
    ceilings: dict[str, float] = {}
    for variant_tile in multiplying(variant_tiles, dtype):
        report(f"checking {variant_tile.label}")
        call = functools.partial(_run_variant, sets, variant_tile, kind)
        row, ceilings[variant_tile.label] = _described(variant_tile, sets[0], kind, size)
        row = _verified(row, call, sets[0], right)
        rows.append(row)
        if row.ok:
            rivals[row.label] = call
    report(f"checking {BASELINE}")
    baseline = functools.partial(run_cupy, sets)
    rows.append(_verified(Row(BASELINE), baseline, sets[0], right))
    if not rows[-1].note:
        rivals[BASELINE] = baseline
    ceilings[BASELINE] = _ceiling(_plain(kind), size)
    for name, library in peer_calls((each for each in peers if each != CPU), sets, kind).items():
        report(f"checking {name}")
        row, ceilings[name] = Row(name, peer=True), ceilings[BASELINE]
        if isinstance(library, str):
            rows.append(replace(row, note=library))
            continue
        rows.append(_verified(row, library, sets[0], right))
        if rows[-1].ok:
            rivals[name] = library

    report(f"timing {len(rivals)} rivals in turn")
    samples = timing.measure(rivals, _device_clock(cupy.cuda.runtime.getDevice()), seconds=seconds)
    work = _Work.of(size, kind)
    timed = [_timed(row, samples, work, ceilings.get(row.label)) for row in rows]
    if CPU in peers:
        timed += _on_cpu(sets[0], right, samples, work, seconds, report)
    return Comparison(*size, kind.dtype_name, layout, right.tolerance, len(sets), tuple(timed))


def _on_cpu(
    operands: Operands,
    right: expected.Reference,
    samples: dict[str, timing.Sample],
    work: _Work,
    seconds: float,
    report: Callable[[str], None],
) -> list[Row]:
    """The CPU's rows: its times are the host's, taken after the device's, and compared by their medians."""
    a, b = (cupy.asnumpy(x).astype(operands.c.dtype, copy=False) for x in operands[:2])
    rows = []
    for name, call in cpu.calls(a, b).items():
        report(f"timing {name}")
        row = Row(name, peer=True)
        if isinstance(call, str):
            rows.append(replace(row, note=call))
            continue
        sample = timing.measure({name: call}, timing.HostClock(lambda: None), seconds=seconds)[name]
        row = _verified(row, lambda i, call=call: cupy.asarray(call(i)), operands, right)  # type: ignore[misc]
        row = _timed(row, {name: sample}, work)
        over = {each: samples[each].seconds / sample.seconds for each in (BASELINE, "naive") if each in samples}
        rows.append(replace(row, to_cupy=over.get(BASELINE), to_naive=over.get("naive")))
    return rows


def _plain(kind: Element) -> KernelSpec:
    """A kernel that multiplies with the units that a library would: tensor cores, where they have the type itself."""
    model = device_model()
    variant = find_variant("tensor_core")
    own = variant.computes_in(kind)
    has = own == kind and variant.multiplies(kind) and variant.runs_on(model.gpu.arch.capability, kind)
    return kernel_spec(variant if has else "naive", dtype=kind.dtype_name)


def _ceiling(spec: KernelSpec, size: Size) -> float:
    """The lower of the ceilings of a kernel's units and of memory, in FLOP/s where a multiply-add counts two."""
    bounds = roofline(spec, device_model().gpu, *size)
    return min(bounds.fma_bound, bounds.memory_bound)


def operand_sets(size: Size, dtype: str, layout: str) -> list[Operands]:
    """Copies of random operands in several places: as many as fill the L2 cache twice (64 at most).

    Raises:
        UnsupportedTypeError, ShapeError: If there is no such type or layout.
    """
    kernel_spec("naive", layout=layout)  # raises if it is none
    compute = compute_element(dtype)
    kind, result = compute.dtype, compute.result.dtype
    rng = np.random.default_rng(_SEED)
    set_bytes = (size.m + size.n) * size.k * kind.itemsize + size.m * size.n * result.itemsize
    cache = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["l2CacheSize"]
    count = max(1, min(_MAX_SETS, -(-2 * cache // set_bytes)))
    new_a = _drawn(rng, size.m, size.k, kind, size.k, layout[0])
    new_b = _drawn(rng, size.k, size.n, kind, size.k, layout[1])
    return [Operands(new_a(), new_b(), cupy.empty((size.m, size.n), result)) for _ in range(count)]


def _drawn(
    rng: np.random.Generator, rows: int, cols: int, kind: np.dtype[Any], k: int, order: str
) -> Callable[[], Any]:
    """Copies a random matrix to new device memory: rows contiguous (N), columns contiguous (T), or neither (G)."""
    if order == "T":
        columns = expected.random_matrix(rng, cols, rows, kind, k)
        return lambda: cupy.asarray(columns).T
    if order == "G":
        wide = expected.random_matrix(rng, rows, 2 * cols, kind, k)
        return lambda: cupy.asarray(wide)[:, ::2]
    host = expected.random_matrix(rng, rows, cols, kind, k)
    return lambda: cupy.asarray(host)


def _run_variant(sets: list[Operands], variant_tile: VariantTile, kind: Element, i: int) -> None:
    a, b, c = sets[i % len(sets)]
    matmul(
        a, b, out=c, dtype=dtype_of(kind), variant=variant_tile.variant, tile=variant_tile.tile,
        precision=precision_of(kind),
    )  # fmt: skip


@contextlib.contextmanager
def cupy_takes(kind: Element) -> Iterator[None]:
    """Makes CuPy compute float32 products in tf32, if that is the type, as ``CUPY_TF32=1`` does for a whole process."""
    if kind != TF32:
        yield
        return
    before = _routines_linalg.get_compute_type(kind.dtype)
    _routines_linalg.set_compute_type(kind.dtype, _routines_linalg.COMPUTE_TYPE_TF32)
    try:
        yield
    finally:
        _routines_linalg.set_compute_type(kind.dtype, before)


def run_cupy(sets: list[Operands], i: int) -> None:
    """The baseline's call number ``i``. Operands narrower than C are converted: CuPy would compute in their type."""
    a, b, c = sets[i % len(sets)]
    if a.dtype != c.dtype:
        a, b = a.astype(c.dtype), b.astype(c.dtype)
    cupy.matmul(a, b, out=c)


def _described(variant_tile: VariantTile, operands: Operands, kind: Element, size: Size) -> tuple[Row, float]:
    """A variant's row with its compiled kernel's resources, or with the reason why there is none; and its ceiling."""
    row = Row(variant_tile.variant, variant_tile.tile)
    try:
        choice = choice_of(variant_tile.variant, variant_tile.tile, operands, precision_of(kind), dtype_of(kind))
        kernel = compiled(choice.spec.kernel)
    except TiledmmError as error:
        return replace(row, note=f"{type(error).__name__}: {error}"), 0.0
    described = replace(
        row,
        registers=kernel.registers,
        shared_bytes=kernel.shared_bytes,
        local_bytes=kernel.local_bytes,
        occupancy=kernel.occupancy,
        note=_remark(variant_tile, kernel, choice),
    )
    return described, _ceiling(choice.spec, size)


def choice_of(
    variant: str, tile: int | None, operands: Sequence[Any], precision: str, dtype: str | None = None
) -> Choice:
    """The kernels that multiply arrays on the current device; a third array is the output."""
    kernel = KernelKeywords(variant, tile, None, precision)
    described = [describe(x) for x in operands]
    out = described[2] if len(described) > 2 else None
    ufunc = UfuncKeywords(dtype=dtype)
    return choose(resolve_call(described[0], described[1], out, ufunc, precision), kernel, device_model)


def _remark(variant_tile: VariantTile, kernel: LoadedKernel, choice: Choice) -> str:
    remarks = [f"runs {choice}"] if variant_tile.variant == AUTO or str(choice) != kernel.symbol else []
    if kernel.local_bytes:
        remarks.append(f"a thread has {kernel.local_bytes} bytes in local memory")
    return ", ".join(remarks)


def _verified(row: Row, call: timing.TimedCall, operands: Operands, right: expected.Reference) -> Row:
    """The row with its error. A call that raises is a row too: the others are still worth seeing."""
    if row.ours and row.registers is None:
        return row
    expected.poison(operands.c, right)
    refusals = _PEERS_REFUSALS if row.peer else _REFUSALS
    try:
        returned = call(0)
    except refusals as error:
        return replace(row, note=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    verdict = expected.judge(operands.c if returned is None else returned, right)
    return replace(row, ok=verdict.ok, error=verdict.error)


class _Work(NamedTuple):
    """The work of a product: multiply-adds of elements, those of real numbers, and compulsory bytes."""

    multiply_adds: int
    real_multiply_adds: int
    bytes: int

    @classmethod
    def of(cls, size: Size, kind: Element) -> _Work:
        operands, results = size.m * size.k + size.k * size.n, size.m * size.n
        multiply_adds = results * size.k
        moved = operands * kind.itemsize + results * kind.result.itemsize
        return cls(multiply_adds, multiply_adds * kind.multiplies, moved)


def _timed(row: Row, samples: dict[str, timing.Sample], work: _Work, ceiling: float | None = None) -> Row:
    sample = samples.get(row.label)
    if sample is None:
        return row
    baseline, naive = samples.get(BASELINE), samples.get("naive")
    last = max(max(each.rounds) for each in samples.values())
    micro = {i: seconds * 1e6 for i, seconds in sample.rounds.items()}
    return replace(
        row,
        microseconds=sample.seconds * 1e6,
        tflops=2 * work.real_multiply_adds / sample.seconds / 1e12,
        gbps=work.bytes / sample.seconds / 1e9,
        of_roofline=2 * work.multiply_adds / sample.seconds / ceiling if ceiling else None,
        to_cupy=None if baseline is None else sample.speed_over(baseline),
        to_naive=None if naive is None else naive.seconds / sample.seconds,
        rounds=tuple(micro.get(i) for i in range(last + 1)),
        note=", ".join(filter(None, (row.note, "" if sample.pure else _NOT_PURE))),
    )


@functools.lru_cache
def _device_clock(device: int) -> timing.DeviceClock:
    return timing.DeviceClock()
