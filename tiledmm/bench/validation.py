"""Validation of kernels' results against float64 and against NumPy, on the GPU or on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.bench import simulated
from tiledmm.bench.comparison_tables import product_about
from tiledmm.bench.reference import SAFETY, Reference, Verdict, judge, poison, reference
from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile, multiplying
from tiledmm.elements import TF32, Element, compute_element
from tiledmm.errors import DeviceError, TiledmmError, UnsupportedTypeError
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.report.cells import NONE, Figure, count, error_figure, percent
from tiledmm.report.tables import Table, sentence
from tiledmm.simulator import Finding

Matrix = np.ndarray[Any, Any]

#: Type of functions that run a kernel and return its result on the host, and the simulator's findings on the kernel.
Multiply = Callable[[VariantTile], tuple[Matrix, tuple[Finding, ...]]]


@dataclass(frozen=True, slots=True)
class Validated:
    """Validation of one kernel.

    Attributes:
        variant_tile: Variant and tile of the kernel.
        verdict: Error against the reference; None if there is no result.
        from_numpy: Largest difference from NumPy's result, in the same unit as the error; None if there is no result.
        note: Remark, such as the reason why there is no result.
        left_out: True if the kernel does not run on this device.
        findings: The simulator's findings on the kernel.
    """

    variant_tile: VariantTile
    verdict: Verdict | None = None
    from_numpy: float | None = None
    note: str = ""
    left_out: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the result is right and there are no findings, or the kernel does not run on this device."""
        return self.left_out or bool(self.verdict and self.verdict.ok and not (self.note or self.findings))


@dataclass(frozen=True, slots=True)
class Validation:
    """Validation of kernels on one product.

    Attributes:
        where: Name of the device or simulator on which the kernels ran.
        size, dtype, layout: Sizes, computation type and layout of the product.
        tolerance: Largest error that counts as right, and a sentence with the reason.
        numpy_error: Error of NumPy's result against the reference; None if it has a NaN or an infinity.
        rows: Validated kernels, in ladder order.
    """

    where: str
    size: Size
    dtype: str
    layout: str
    tolerance: tuple[float, str]
    numpy_error: float | None
    rows: tuple[Validated, ...]

    @property
    def ok(self) -> bool:
        """Whether no kernel failed its validation."""
        return all(row.ok for row in self.rows)


def on_gpu(
    variant_tiles: Iterable[VariantTile],
    size: Size,
    *,
    dtype: str,
    layout: str,
    progress: Callable[[str, int, int], None],
) -> Validation:
    """Compare the results of kernels on the current device with float64 and with NumPy, for random operands.

    The array for the result is first filled with wrong values, so that an element that is not written is found.

    Args:
        variant_tiles: Variants and tiles of the kernels. Those that do not multiply the type are left out.
        size: Sizes of the product.
        dtype, layout: Computation type, and layout of A and B.
        progress: Function that is called with the current activity, the number of finished kernels and the number of
            all kernels.

    Raises:
        UnsupportedTypeError: If there are no products of the type, or none of the kernels multiplies it.
        ShapeError: If there is no such layout.
    """
    import cupy

    from tiledmm.api import matmul
    from tiledmm.bench.operand_sets import operand_sets

    kind = compute_element(dtype)
    a, b, c = operand_sets(size, dtype, layout)[0]
    host_a, host_b = cupy.asnumpy(a), cupy.asnumpy(b)
    right = reference(host_a, host_b, kind)
    poisoned = np.empty(c.shape, c.dtype)
    poison(poisoned, right)

    keywords: dict[str, Any] = {"dtype": dtype_of(kind), "precision": precision_of(kind)}

    def multiply(variant_tile: VariantTile) -> tuple[Matrix, tuple[Finding, ...]]:
        c.set(poisoned)
        matmul(a, b, out=c, variant=variant_tile.variant, tile=variant_tile.tile, **keywords)
        return cupy.asnumpy(c), ()

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    where = properties["name"].decode()
    return _validation(where, variant_tiles, size, kind, layout, (host_a, host_b, right), multiply, progress)


def on_simulator(
    variant_tiles: Iterable[VariantTile],
    size: Size,
    *,
    dtype: str,
    layout: str,
    target: str,
    progress: Callable[[str, int, int], None],
) -> Validation:
    """Compare the results of kernels on the simulator with float64 and with NumPy, for random operands.

    A kernel also fails if the simulator finds a race, an access out of bounds or a similar error.

    Args:
        variant_tiles: Variants and tiles of the kernels. Those that do not multiply the type are left out.
        size: Sizes of the product.
        dtype, layout: Computation type, and layout of A and B.
        target: Target architecture.
        progress: Function that is called with the current activity, the number of finished kernels and the number of
            all kernels.

    Raises:
        MissingDependencyError: If there is no C++ compiler.
    """
    from tiledmm.simulator import run

    kind = compute_element(dtype)
    a, b = simulated.operands(size, kind, layout)
    right = reference(a, b, kind)
    poisoned = np.empty((size.m, size.n), kind.result.dtype)
    poison(poisoned, right)

    def multiply(variant_tile: VariantTile) -> tuple[Matrix, tuple[Finding, ...]]:
        c, report = run(
            a, b, out=poisoned.copy(), variant=variant_tile.variant, tile=variant_tile.tile,
            dtype=dtype_of(kind), precision=precision_of(kind), target=target, counts=False, prints=False,
        )  # fmt: skip
        return c, tuple(report.findings)

    where = f"the simulator, as {target}"
    return _validation(where, variant_tiles, size, kind, layout, (a, b, right), multiply, progress)


def _validation(
    where: str,
    variant_tiles: Iterable[VariantTile],
    size: Size,
    kind: Element,
    layout: str,
    known: tuple[Matrix, Matrix, Reference],
    multiply: Multiply,
    progress: Callable[[str, int, int], None],
) -> Validation:
    a, b, right = known
    numpys = np.matmul(a, b, dtype=dtype_of(kind)).astype(kind.result.dtype)
    chosen = multiplying(variant_tiles, kind.dtype_name, size)
    rows = []
    for i, variant_tile in enumerate(chosen):
        progress(f"{size} {kind.dtype_name} {layout}: {variant_tile.label}", i, len(chosen))
        try:
            found, findings = multiply(variant_tile)
        except (UnsupportedTypeError, DeviceError) as error:
            rows.append(Validated(variant_tile, note=str(error), left_out=True))
        except (TiledmmError, TypeError, ValueError, NotImplementedError) as error:
            if isinstance(error, ImportError):
                raise
            rows.append(Validated(variant_tile, note=f"{type(error).__name__}: {error}"))
        else:
            distance = _distance(found, numpys, right)
            differs = "its result is not NumPy's" if right.scale is None and distance else ""
            rows.append(Validated(variant_tile, judge(found, right), distance, differs, findings=findings))
    numpy_error = judge(numpys, right).error
    reason = explain_tolerance(kind, size.k, right.tolerance)
    return Validation(where, size, kind.dtype_name, layout, (right.tolerance, reason), numpy_error, tuple(rows))


def _distance(found: Matrix, numpys: Matrix, right: Reference) -> float | None:
    return judge(found, Reference(_exact(numpys, right), right.scale, right.tolerance)).error


def _exact(matrix: Matrix, right: Reference) -> Matrix:
    """Convert a matrix to the type of the correct result."""
    wide: Matrix = matrix.astype(right.values.dtype)
    return wide


def explain_tolerance(kind: Element, k: int, tolerance: float) -> str:
    """Return a sentence that explains the tolerance of results.

    Args:
        kind: Computation type.
        k: Inner size of the product.
        tolerance: Allowed error, in units of |A| |B|.
    """
    dtype = kind.dtype
    if dtype.kind == "b":
        return "Exact: an element is true if any of its products is true."
    if dtype.kind in "iu":
        width = "the width of the result" if kind.result_name else "their own width"
        return f"Exact: integers wrap at {width}, as in NumPy."
    double = dtype.name in ("float64", "complex128")
    text = f"Rounding explains an error of up to {tolerance:.1e} |A| |B|: {SAFETY} sqrt(K) u for K = {k} additions in"
    text += " float64 (u = 2^-53) and as many in the reference" if double else " float32 (u = 2^-24)"
    if dtype.kind == "c":
        text += ", twice for the two parts of a complex number"
    if dtype.itemsize < 4:
        text += f", and rounding once to {dtype.name}"
    if kind == TF32:
        text += ", and rounding of A and B to tf32 (2^-11)"
    return f"{text}. The factor {SAFETY} holds for independent roundings (Higham and Mary, 2019)."


def validation_table(found: Validation) -> Table:
    """Return a table of a validation, with one row per kernel: its error, the tolerance, and NumPy's error."""
    tolerance, reason = found.tolerance
    exact = tolerance == 0
    figure = percent if exact else error_figure
    error = "wrong elements" if exact else "max error"

    def cells(row: Validated) -> tuple[str, ...]:
        head = (row.variant_tile.variant, count(row.variant_tile.tile))
        if row.verdict is None:
            return (*head, NONE, NONE, NONE, NONE, "left out" if row.left_out else "FAILED")
        check = "exact" if exact else "ok"
        return (
            *head,
            error_figure(None) if row.verdict.error is None else figure(row.verdict.error),
            Figure("0" if exact else f"{tolerance:.1e}", tolerance),
            NONE if found.numpy_error is None else figure(found.numpy_error),
            error_figure(None) if row.from_numpy is None else figure(row.from_numpy),
            check if row.ok else "WRONG" if not row.verdict.ok else "FINDINGS",
        )

    return Table(
        title=f"{found.size}  {found.dtype}  {found.layout}  on {found.where}",
        columns=("<variant", "tile", error, "allowed", "NumPy's error", "difference from NumPy", "<check"),
        rows=tuple(map(cells, found.rows)),
        notes=(reason, *(sentence(f"{row.variant_tile.label}: {row.note}") for row in found.rows if row.note)),
        bad=frozenset(i for i, row in enumerate(found.rows) if not row.ok),
        about={"where": found.where, **product_about(found.size, found.dtype, found.layout)},
        findings=tuple(each for row in found.rows for each in row.findings),
    )
