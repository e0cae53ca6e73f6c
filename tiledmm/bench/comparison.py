"""Comparison of kernels with ``cupy.matmul`` on the same random operands: results are checked, then calls are timed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import cupy
from cupy._core import _routines_linalg

from tiledmm.api import matmul
from tiledmm.bench import reference as expected
from tiledmm.bench import timing
from tiledmm.bench.operand_sets import Operands, operand_sets
from tiledmm.bench.peers import CPU, cpu_matmuls, matmuls_of_libraries
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

# Errors of rivals that do not support a product. PyTorch raises a plain RuntimeError. From others a RuntimeError is
# CUDA's, after which no result can be trusted, so it is not caught.
_REFUSALS = (TiledmmError, TypeError, ValueError, NotImplementedError)
_PEERS_REFUSALS = (*_REFUSALS, RuntimeError)

_NOT_PURE = "its time includes host time, because the call makes the host wait"


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
    """Compare kernels with each other and with ``cupy.matmul`` on one product, on the current device.

    Args:
        size: Sizes m, n and k of the product.
        dtype: Type of the operands and the result, by NumPy's name. With ``"tf32"`` they are float32, and CuPy computes
            in tf32, too. With a type such as ``"int8_int32"`` results are wider, and CuPy converts the operands first.
        layout: Layout of A and B, as for ``tiledmm.source``.
        variant_tiles: Kernels to compare; None for every variant with its default tile.
        seconds: Approximate time to measure each rival, in seconds.
        peers: Other rivals, from ``tiledmm.bench.peers.PEERS``: libraries, if they are installed, and the CPU.
        progress: Function that is called with the current activity.

    Returns:
        The comparison: one row per kernel, then ``cupy.matmul``, then the peers. All results are checked. Kernels of
        this package and of other libraries whose results are wrong are not timed.

    Raises:
        UnsupportedTypeError: If there are no products of the type.
        ShapeError: If there is no such layout.
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
    for variant_tile in multiplying(variant_tiles, dtype, size):
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
    for name, library in matmuls_of_libraries((each for each in peers if each != CPU), sets, kind).items():
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
    """Time products on the CPU, check their results, and return one row per product.

    Times are host times. They are measured after the rounds on the device, not in turn with them. So the speedups of a
    row are ratios of medians, not medians of ratios.
    """
    a, b = (cupy.asnumpy(x).astype(operands.c.dtype, copy=False) for x in operands[:2])
    rows = []
    for name, call in cpu_matmuls(a, b).items():
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
    """Return a kernel that uses the units which a library would use for an element type.

    They are tensor cores if those of the current device multiply the type, else CUDA cores.
    """
    model = device_model()
    variant = find_variant("tensor_core")
    own = variant.computes_in(kind)
    has = own == kind and variant.multiplies(kind) and variant.runs_on(model.gpu.arch.capability, kind)
    return kernel_spec(variant if has else "naive", dtype=kind.dtype_name)


def _ceiling(spec: KernelSpec, size: Size) -> float:
    """Return the lower of two ceilings of a kernel's speed in FLOP/s.

    The ceilings are that of its arithmetic units and that of memory bandwidth. A multiply-add counts as two operations.
    """
    bounds = roofline(spec, device_model().gpu, *size)
    return min(bounds.fma_bound, bounds.memory_bound)


def _run_variant(sets: list[Operands], variant_tile: VariantTile, kind: Element, i: int) -> None:
    a, b, c = sets[i % len(sets)]
    matmul(
        a, b, out=c, dtype=dtype_of(kind), variant=variant_tile.variant, tile=variant_tile.tile,
        precision=precision_of(kind),
    )  # fmt: skip


@contextlib.contextmanager
def cupy_takes(kind: Element) -> Iterator[None]:
    """Return a context manager that makes CuPy compute float32 products in tf32, if ``kind`` is tf32.

    For other types it does nothing. ``CUPY_TF32=1`` sets tf32 for a whole process.
    """
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
    """Compute the product of one of several sets of operands with ``cupy.matmul``.

    Operands whose type is narrower than that of C are converted first, because CuPy would compute in the narrow type.

    Args:
        sets: Sets of operands, which successive calls use in turn.
        i: Number of the call.
    """
    a, b, c = sets[i % len(sets)]
    if a.dtype != c.dtype:
        a, b = a.astype(c.dtype), b.astype(c.dtype)
    cupy.matmul(a, b, out=c)


def _described(variant_tile: VariantTile, operands: Operands, kind: Element, size: Size) -> tuple[Row, float]:
    """Compile a variant's kernel, and return a row with its resources, and the ceiling of its speed in FLOP/s.

    If the kernel is not available for the product, the row's note states the reason, and the ceiling is 0.
    """
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
    """Return the choice of kernels with which ``tiledmm.matmul`` multiplies two arrays on the current device.

    Args:
        variant: Name of a variant, or ``"auto"``.
        tile: Tile of the variant; None for its default tile, and for ``"auto"``.
        operands: A and B, and optionally the array that C is written to.
        precision, dtype: Precision and type of computation, as for ``tiledmm.matmul``.

    Raises:
        TiledmmError: If the variant does not support the product.
    """
    kernel = KernelKeywords(variant, tile, None, precision)
    described = [describe(x) for x in operands]
    out = described[2] if len(described) > 2 else None
    ufunc = UfuncKeywords(dtype=dtype)
    return choose(resolve_call(described[0], described[1], out, ufunc), kernel, device_model)


def _remark(variant_tile: VariantTile, kernel: LoadedKernel, choice: Choice) -> str:
    remarks = [f"runs {choice}"] if variant_tile.variant == AUTO or str(choice) != kernel.symbol else []
    if kernel.local_bytes:
        remarks.append(f"uses {kernel.local_bytes} bytes of local memory per thread")
    return ", ".join(remarks)


def _verified(row: Row, call: timing.TimedCall, operands: Operands, right: expected.Reference) -> Row:
    """Run a rival's call once, and return its row with the error of the result, or with a note if the call raises.

    A kernel of this package that could not be compiled is not run; its row is returned as it is.

    Args:
        row: Row of the rival.
        call: Call of the rival. It returns its result, or None if it writes C.
        operands: A, B and C. C is first filled with wrong values.
        right: Correct result.
    """
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
    """Work of a product.

    Attributes:
        multiply_adds: Multiply-adds of elements.
        real_multiply_adds: Multiply-adds of real numbers.
        bytes: Compulsory bytes: each operand read and C written once.
    """

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
