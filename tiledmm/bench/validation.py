"""Every kernel's result against float64 and against NumPy's own: on the GPU, or on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.bench import simulated
from tiledmm.bench.comparison_tables import product_about
from tiledmm.bench.records import Rung, Size, multiplying
from tiledmm.bench.reference import SAFETY, Reference, Verdict, judge, poison, reference
from tiledmm.elements import TF32, Element, compute_element
from tiledmm.errors import DeviceError, TiledmmError, UnsupportedTypeError
from tiledmm.registry.variants import find_variant
from tiledmm.report.tables import NONE, Figure, Table, count, error_figure, percent
from tiledmm.selection.select import AUTO, precision_of

Matrix = np.ndarray[Any, Any]

#: Multiplies by a kernel: its result on the host, and what else is wrong with the kernel, or nothing.
Multiply = Callable[[Rung], tuple[Matrix, str]]


@dataclass(frozen=True, slots=True)
class Validated:
    """One kernel's result.

    Attributes:
        rung: The kernel.
        verdict: How far it is off the reference; None if there is no result.
        from_numpy: How far it is off NumPy's result, in the same unit.
        note: What else is to be said, such as why there is no result.
        left_out: Whether the kernel is for other devices.
    """

    rung: Rung
    verdict: Verdict | None = None
    from_numpy: float | None = None
    note: str = ""
    left_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether the result is right, and nothing else is wrong; or the kernel is for other devices."""
        return self.left_out or bool(self.verdict and self.verdict.ok and not self.note)


@dataclass(frozen=True, slots=True)
class Validation:
    """Kernels on one product.

    Attributes:
        where: What they ran on.
        size, dtype, layout: The product.
        tolerance: Largest error that counts as right, and why, in words.
        numpy_error: How far NumPy's own result is off the reference.
        rows: In ladder order.
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
        """Whether no kernel is wrong."""
        return all(row.ok for row in self.rows)


def on_gpu(
    rungs: Iterable[Rung], size: Size, *, dtype: str, layout: str, progress: Callable[[str, int, int], None]
) -> Validation:
    """Runs kernels on the current device, on random operands; outputs are filled with what cannot be right before.

    Args:
        rungs: The kernels.
        size: The product.
        dtype, layout: Its type, and how A and B lie in memory.
        progress: Called with what is being done, how much of it is done, and how much there is.
    """
    import cupy

    from tiledmm.api import matmul
    from tiledmm.bench.comparison import operand_sets

    kind = compute_element(dtype)
    a, b, c = operand_sets(size, dtype, layout)[0]
    host_a, host_b = cupy.asnumpy(a), cupy.asnumpy(b)
    right = reference(host_a, host_b, kind)
    poisoned = np.empty(c.shape, c.dtype)
    poison(poisoned, right)

    def multiply(rung: Rung) -> tuple[Matrix, str]:
        c.set(poisoned)
        matmul(a, b, out=c, variant=rung.variant, tile=rung.tile, precision=precision_of(kind))
        return cupy.asnumpy(c), ""

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    where = properties["name"].decode()
    return _validation(where, rungs, size, kind, layout, (host_a, host_b, right), multiply, progress)


def on_simulator(
    rungs: Iterable[Rung],
    size: Size,
    *,
    dtype: str,
    layout: str,
    target: str,
    progress: Callable[[str, int, int], None],
) -> Validation:
    """The same on the simulator, which also finds races, accesses out of bounds, and the like.

    Raises:
        MissingDependencyError: If there is no C++ compiler.
    """
    from tiledmm.simulator import run

    kind = compute_element(dtype)
    a, b = simulated.operands(size, kind, layout)
    right = reference(a, b, kind)
    poisoned = np.empty((size.m, size.n), kind.dtype)
    poison(poisoned, right)

    def multiply(rung: Rung) -> tuple[Matrix, str]:
        if rung.variant != AUTO and not find_variant(rung.variant).simulated:
            raise DeviceError("on a GPU only")
        c, report = run(
            a, b, out=poisoned.copy(), variant=rung.variant, tile=rung.tile, precision=precision_of(kind),
            target=target, counts=False,
        )  # fmt: skip
        return c, "; ".join(finding.message for finding in report.findings)

    where = f"the simulator, as {target}"
    return _validation(where, rungs, size, kind, layout, (a, b, right), multiply, progress)


def _validation(
    where: str,
    rungs: Iterable[Rung],
    size: Size,
    kind: Element,
    layout: str,
    known: tuple[Matrix, Matrix, Reference],
    multiply: Multiply,
    progress: Callable[[str, int, int], None],
) -> Validation:
    a, b, right = known
    numpys = np.matmul(a, b).astype(kind.dtype)
    chosen = multiplying(rungs, kind.dtype_name)
    rows = []
    for i, rung in enumerate(chosen):
        progress(f"{size} {kind.dtype_name} {layout}: {rung.label}", i, len(chosen))
        try:
            found, wrong = multiply(rung)
        except (UnsupportedTypeError, DeviceError) as error:
            rows.append(Validated(rung, note=str(error), left_out=True))
        except (TiledmmError, TypeError, ValueError, NotImplementedError) as error:
            if isinstance(error, ImportError):
                raise
            rows.append(Validated(rung, note=f"{type(error).__name__}: {error}"))
        else:
            distance = _distance(found, numpys, right)
            differs = "its result is not NumPy's" if right.scale is None and distance else ""
            rows.append(Validated(rung, judge(found, right), distance, wrong or differs))
    numpy_error = judge(numpys, right).error
    reason = explain_tolerance(kind, size.k, right.tolerance)
    return Validation(where, size, kind.dtype_name, layout, (right.tolerance, reason), numpy_error, tuple(rows))


def _distance(found: Matrix, numpys: Matrix, right: Reference) -> float | None:
    return judge(found, Reference(_exact(numpys, right), right.scale, right.tolerance)).error


def _exact(matrix: Matrix, right: Reference) -> Matrix:
    """Numbers of the reference's own type."""
    wide: Matrix = matrix.astype(right.values.dtype)
    return wide


def explain_tolerance(kind: Element, k: int, tolerance: float) -> str:
    """Why an error up to the tolerance is no mistake, in a sentence."""
    dtype = kind.dtype
    if dtype.kind == "b":
        return "Exact: an element is true if any of its products is."
    if dtype.kind in "iu":
        return "Exact: integers wrap in their own width, here as in NumPy."
    double = dtype.name in ("float64", "complex128")
    text = f"Up to {tolerance:.1e} of |A| |B| is rounding: {SAFETY} sqrt(K) u, K = {k} sums in"
    text += " float64, u = 2^-53, and as many in the reference" if double else " float32, u = 2^-24"
    if dtype.kind == "c":
        text += ", twice for two parts of a number"
    if dtype.itemsize == 2:
        text += f", and rounded once to {dtype.name}"
    if kind == TF32:
        text += ", of numbers that were rounded to tf32, 2^-11"
    return f"{text}; the factor {SAFETY} is for independent roundings (Higham and Mary, 2019)."


def validation_table(found: Validation) -> Table:
    """A row a kernel."""
    tolerance, reason = found.tolerance
    exact = tolerance == 0
    figure = percent if exact else error_figure
    error = "wrong elements" if exact else "max error"

    def cells(row: Validated) -> tuple[str, ...]:
        head = (row.rung.variant, count(row.rung.tile))
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
        columns=("<variant", "tile", error, "allowed", "NumPy's own", "from NumPy's", "<check"),
        rows=tuple(map(cells, found.rows)),
        notes=(reason, *(f"{row.rung.label}: {row.note}." for row in found.rows if row.note)),
        bad=frozenset(i for i, row in enumerate(found.rows) if not row.ok),
        about={"where": found.where, **product_about(found.size, found.dtype, found.layout)},
    )
