"""Products of NumPy arrays by the kernels of this package, run on the CPU: public as names of ``tiledmm.simulator``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

import numpy as np

from tiledmm.compile.disassembly import disassemble
from tiledmm.errors import KeywordTypeError, OperandTypeError
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.problem.epilogue import EpilogueKeywords
from tiledmm.problem.keywords import AUTO, KernelKeywords, Precision, UfuncKeywords, only_entry
from tiledmm.problem.prepared import PreparedOperand, array_of
from tiledmm.simulated.forms import HostForms
from tiledmm.simulated.product import simulate_product
from tiledmm.simulated.product_report import ProductReport
from tiledmm.simulator.execute.settings import Settings


def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: Precision = "full",
    checks: bool | str = True,
    target: str = "sm_90",
    **keywords: Any,
) -> Any:
    """Multiply two NumPy arrays with a kernel of this package, which the simulator runs on the CPU.

    Args:
        x1: Left operand, ``(..., m, k)`` or ``(k,)``, of any type and strides that ``tiledmm.matmul`` accepts.
        x2: Right operand, ``(..., k, n)`` or ``(k,)``.
        out: Array for the result; None for a new array, or for a NumPy scalar if ``x1`` and ``x2`` are vectors; ``...``
            for a new array in any case.
        variant, tile, config, precision: Keywords that choose the kernel, explained at ``tiledmm.matmul``.
        checks: Whether every access is checked. ``"full"`` runs the kernel four times, to find variables that are read
            before they are set, and accesses outside of a thread's local arrays. Without checks a kernel runs several
            times as fast, but an access out of bounds can crash the process.
        target: The target architecture, such as ``"sm_75"``, which has no cp.async.
        **keywords: ``casting``, ``order``, ``dtype``, ``axes``, ``axis``, ``keepdims`` and ``signature``, which are
            explained at ``tiledmm.matmul``.

    Returns:
        ``out``, or a new array; a NumPy scalar for the product of two vectors.

    Raises:
        SimulationError: If the simulator finds an error in the kernel. The message names source lines, blocks and
            threads.
        CompilationError: If the kernel does not compile for the CPU.
        MissingDependencyError: If there is no C++ compiler.
        TiledmmError: If ``tiledmm.matmul`` raises it for such arguments.
    """
    ufunc = UfuncKeywords.of("matmul", keywords)
    settings = Settings(checks=checks, counts=False, target=target)
    kernel = KernelKeywords(variant, tile, config, precision)
    done = simulate_product(x1, x2, _array(out), ufunc, kernel, settings, prints=True)
    done.report.check()
    return _result(done.result, out)


def gemm(
    a: Any,
    b: Any,
    /,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    bias: Any = None,
    activation: str | None = None,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    out: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: Precision = "full",
    checks: bool | str = True,
    target: str = "sm_90",
) -> Any:
    """Compute ``activation(alpha * (a @ b) + beta * c + bias)`` of NumPy arrays with a kernel that runs on the CPU.

    Args:
        a, b, c, alpha, beta, bias, activation, adjoint_a, adjoint_b, dtype, casting: Operands and keywords, explained
            at ``tiledmm.gemm``; arrays are NumPy arrays.
        out, variant, tile, config, precision, checks, target: Keywords that are explained at ``matmul``.

    Returns:
        ``out``, or a new array; a NumPy scalar if ``a`` and ``b`` are vectors.

    Raises:
        TiledmmError: If ``tiledmm.gemm`` or ``matmul`` of this module raises it for such arguments.

    Example:
        >>> hidden = gemm(x, weights, bias=bias, activation="relu")
    """
    ufunc, kernel = UfuncKeywords(casting=casting, dtype=dtype), KernelKeywords(variant, tile, config, precision)
    epilogue = EpilogueKeywords(c, alpha, beta, bias, activation, adjoint_a, adjoint_b)
    settings = Settings(checks=checks, counts=False, target=target)
    done = simulate_product(a, b, _array(out), ufunc, kernel, settings, epilogue_keywords=epilogue, prints=True)
    done.report.check()
    return _result(done.result, out)


def prepare(b: Any, /, *, check: bool = False) -> PreparedOperand:
    """Return an operand whose limbs, residues or packed copy are made once, by the first product that needs them.

    It is the counterpart of ``tiledmm.prepare`` for ``matmul``, ``gemm`` and ``run`` of this module, and for ``@``
    between it and NumPy arrays. Products launch the same kernels as on a GPU.

    Args:
        b: NumPy array, ``(..., rows, columns)`` or ``(k,)``. It must not be written as long as the operand is used.
        check: Whether each product checks that ``b`` has not changed.

    Returns:
        The operand.

    Raises:
        OperandTypeError: If ``b`` is not a NumPy array.
        PreparedOperandError: Raised by products if ``b`` is checked and has changed.

    Example:
        >>> weights = prepare(b)
        >>> hidden = gemm(x, weights, bias=bias)
    """
    array = array_of(b)
    if not isinstance(array, np.ndarray):
        raise OperandTypeError(f"b must be a numpy.ndarray for the simulator, not {type(b).__qualname__}")
    return PreparedOperand(array, HostForms(array, check), matmul)


def run(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: Precision = "full",
    epilogue: Mapping[str, Any] | None = None,
    source: str | PathLike[str] | None = None,
    checks: bool | str = True,
    counts: bool = True,
    sass: bool = False,
    threads: str = "forward",
    seed: int = 0,
    target: str = "sm_90",
    max_steps: int = 0,
    timeout: float | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    prints: bool = True,
    **keywords: Any,
) -> tuple[Any, ProductReport]:
    """Compute a product as ``matmul`` or ``gemm`` does, and return it with a report of counts and findings.

    Args:
        x1, x2, out, variant, tile, config, precision, checks, target: Operands and keywords, explained at ``matmul``.
        epilogue: Keywords of ``gemm``, any of ``c``, ``alpha``, ``beta``, ``bias``, ``activation``, ``adjoint_a`` and
            ``adjoint_b``, such as ``{"bias": bias, "activation": "relu"}``; None to compute ``matmul``.
        source: CUDA C, or the path of a file with it: an edited copy of what ``tiledmm.source`` returns. The kernels
            that it defines are run in place of this package's kernels of the same names.
        counts: Whether traffic is counted.
        sass: Whether traffic is also counted for the accesses in the machine code (SASS) of ``target``, where
            contiguous accesses are vectorized. Needs the extra ``inspect``.
        threads: The order in which threads run between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``.
        seed: Seed of the order ``"random"``.
        max_steps: Maximum number of accesses per thread; a thread that makes more ends the launch with a finding. 0 for
            no limit.
        timeout: Seconds after which a launch ends with a finding; None for no limit.
        workers: Number of CPU cores to use; None for all.
        progress: Function that is called from time to time with the number of finished blocks and the total number of
            blocks.
        prints: Whether the output of ``printf`` calls is written to ``sys.stdout`` when the kernels have ended, even if
            a finding ended one. ``report.output`` contains the text in either case.
        **keywords: Other keywords of ``matmul``, such as ``casting`` and ``order``.

    Returns:
        The result that ``matmul`` or ``gemm`` would return, and the report. Errors in the kernel do not raise an
        exception here: see ``report.ok`` and ``report.check()``.

    Raises:
        TiledmmError: If ``matmul`` raises it for such arguments, except SimulationError.

    Example:
        >>> c, report = run(a, b, variant="tiled", tile=16)
        >>> report.source.shared_load.bank_conflicts
        0
    """
    settings = Settings(
        checks=checks, counts=counts, sass=disassemble if sass else None, order=threads, seed=seed, target=target,
        workers=workers, progress=progress, max_steps=max_steps, timeout=timeout,
    )  # fmt: skip
    kernel = KernelKeywords(variant, tile, config, precision)
    ufunc, asked = UfuncKeywords.of("run", keywords), None
    if epilogue is not None:
        if unknown := set(epilogue) - set(EpilogueKeywords._fields):
            raise KeywordTypeError(
                f"epilogue has the unknown keys {', '.join(sorted(unknown))}; its keys are "
                f"{', '.join(EpilogueKeywords._fields)}"
            )
        asked = EpilogueKeywords(**epilogue)
    done = simulate_product(x1, x2, _array(out), ufunc, kernel, settings, source, asked, prints=prints)
    return _result(done.result, out), done.report


def _array(out: Any) -> Any:
    return None if out is ... else only_entry(out) if isinstance(out, tuple) else out


def _result(result: np.ndarray[Any, Any], out: Any) -> Any:
    """Return a product as NumPy returns it.

    Returns:
        A NumPy scalar if the result is new and has no dimensions, unless ``out`` is ``...``; else the array ``result``.
    """
    return result[()] if not result.ndim and out is not ... and _array(out) is None else result
