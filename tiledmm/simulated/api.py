"""Products of NumPy arrays by the kernels of this package, run on the CPU: public as names of ``tiledmm.simulator``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.compile.disassembly import disassemble
from tiledmm.errors import KeywordTypeError
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.problem.epilogue import EpilogueKeywords
from tiledmm.problem.keywords import AUTO, KernelKeywords, Precision, UfuncKeywords, only_entry
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
    """Multiply two NumPy arrays by a kernel of this package, run on the CPU.

    Args:
        x1: Left operand, ``(..., m, k)`` or ``(k,)``, of any type and strides that ``tiledmm.matmul`` takes.
        x2: Right operand, ``(..., k, n)`` or ``(k,)``.
        out: Array for the result; ``...`` for a new array even where the result has no dimensions.
        variant, tile, config, precision: As for ``tiledmm.matmul``.
        checks: Whether every access is checked. ``"full"`` runs the kernel four times, to find variables that are read
            before they are set, and accesses beside a thread's own arrays. Without checks a kernel runs several times
            as fast, and a wrong one can end the process.
        target: The target architecture, such as ``"sm_75"``, which has no cp.async.
        **keywords: ``casting``, ``order``, ``dtype``, ``axes``, ``axis``, ``keepdims`` and ``signature``, as for
            ``tiledmm.matmul``.

    Returns:
        ``out``, or a new array; a NumPy scalar for the product of two vectors.

    Raises:
        SimulationError: If the kernel is wrong: the message names source lines, blocks and threads.
        CompilationError: If the kernel does not compile for the CPU.
        MissingDependencyError: If there is no C++ compiler.
        TiledmmError: As ``tiledmm.matmul``, for the same mistakes.
    """
    ufunc = UfuncKeywords.of("matmul", keywords)
    settings = Settings(checks=checks, counts=False, target=target)
    done = simulate_product(x1, x2, _array(out), ufunc, KernelKeywords(variant, tile, config, precision), settings)
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
    """Compute ``activation(alpha * (a @ b) + beta * c + bias)`` of NumPy arrays, by a kernel run on the CPU.

    Args:
        a, b, c, alpha, beta, bias, activation, dtype, casting: As for ``tiledmm.gemm``, on NumPy arrays.
        out, variant, tile, config, precision, checks, target: As for ``matmul``.

    Returns:
        As ``matmul``.

    Raises:
        TiledmmError: As ``tiledmm.gemm``, and as ``matmul``.

    Example:
        >>> hidden = gemm(x, weights, bias=bias, activation="relu")
    """
    ufunc, kernel = UfuncKeywords(casting=casting, dtype=dtype), KernelKeywords(variant, tile, config, precision)
    epilogue = EpilogueKeywords(c, alpha, beta, bias, activation)
    settings = Settings(checks=checks, counts=False, target=target)
    done = simulate_product(a, b, _array(out), ufunc, kernel, settings, epilogue_keywords=epilogue)
    done.report.check()
    return _result(done.result, out)


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
    **keywords: Any,
) -> tuple[Any, ProductReport]:
    """Run ``matmul``, or ``gemm``, and report counts and findings.

    Args:
        x1, x2, out, variant, tile, config, precision, checks, target: As for ``matmul``.
        epilogue: For ``gemm`` its keywords ``c``, ``alpha``, ``beta``, ``bias`` and ``activation``, as far as they are
            needed: ``{"bias": bias, "activation": "relu"}``.
        source: A file with CUDA C to run instead of the kernel, an edited copy of what ``tiledmm.source`` gives. Of a
            product with several launches, it replaces the kernels that it defines.
        counts: Whether traffic is counted.
        sass: Whether traffic is also counted as in the machine code (SASS) of ``target``, where contiguous accesses are
            vectorized. Needs the extra ``inspect``.
        threads: The order in which threads run between two barriers: ``"forward"``, ``"reverse"`` or ``"random"``.
        seed: Seed of the order ``"random"``.
        max_steps: Accesses after which a thread counts as running away; 0 for no limit.
        timeout: Seconds after which a launch ends with a finding; None for no limit.
        workers: Cores to use; None for all.
        progress: Called from time to time with the number of finished blocks and the number of all blocks.
        **keywords: ``casting``, ``order`` and the others of ``matmul``.

    Returns:
        The result, as from ``matmul``, and the report. A wrong kernel raises nothing: see ``report.ok`` and
        ``report.check()``.

    Raises:
        TiledmmError: As ``matmul``, except SimulationError.

    Example:
        >>> c, report = run(a, b, variant="tiled", tile=16)
        >>> report.source.shared_load.bank_conflicts
        0
    """
    settings = Settings(
        checks=checks, counts=counts, sass=disassemble if sass else None, order=threads, seed=seed, target=target,
        workers=workers, progress=progress, max_steps=max_steps, timeout=timeout,
    )  # fmt: skip
    path = None if source is None else Path(source)
    kernel = KernelKeywords(variant, tile, config, precision)
    ufunc, asked = UfuncKeywords.of("run", keywords), None
    if epilogue is not None:
        if unknown := set(epilogue) - set(EpilogueKeywords._fields):
            raise KeywordTypeError(
                f"epilogue has {', '.join(EpilogueKeywords._fields)}; got {', '.join(sorted(unknown))}"
            )
        asked = EpilogueKeywords(**epilogue)
    done = simulate_product(x1, x2, _array(out), ufunc, kernel, settings, path, asked)
    return _result(done.result, out), done.report


def _array(out: Any) -> Any:
    return None if out is ... else only_entry(out) if isinstance(out, tuple) else out


def _result(result: np.ndarray[Any, Any], out: Any) -> Any:
    """Return what NumPy returns: a scalar where a new result has no dimensions, unless ``...`` asks for an array."""
    return result[()] if not result.ndim and out is not ... and _array(out) is None else result
