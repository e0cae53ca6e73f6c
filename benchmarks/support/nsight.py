"""Studies under Nsight Compute: ncu runs the study's module again, which then launches the kernels to count."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.results import ROOT, measured, save
from tiledmm.cli import missing_gpu
from tiledmm.errors import ProfilingError
from tiledmm.profile import ncu


def counts(
    module: str, metrics: Mapping[str, str], symbols: Sequence[str] | None = None, kernels: str = "^tiledmm"
) -> list[dict[str, Any]]:
    """Count the kernels that ``python -m module --launch`` launches.

    Args:
        module: Name of the study's module.
        metrics: Nsight Compute's metrics, by the names to use in the results.
        symbols: Symbols of the launched kernels, in order; None if they are not known.
        kernels: Regular expression that selects the kernels to count.

    Returns:
        One dictionary per kernel: its symbol (``"symbol"``), and its counts by the names in ``metrics``.

    Raises:
        ProfilingError: If ncu is missing, may not read the counters, saw other kernels than expected, or did not give a
            count for every metric.
    """
    program = (sys.executable, "-m", module, "--launch")
    command = ncu.Command(program, tuple(metrics.values()), options=("--kernel-name", f"regex:{kernels}"))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "counts.ncu-rep")
        ncu.profile(command, report, folder=ROOT)
        launches = ncu.raw_page(report)
    if not launches:
        raise ProfilingError("ncu profiled no kernel")
    if symbols is not None and [each.name for each in launches] != list(symbols):
        raise ProfilingError(f"ncu saw {[each.name for each in launches]}, not {list(symbols)}")
    for each in launches:
        for metric in metrics.values():
            if (found := each.values.get(metric)) is None or not found.is_integer():
                raise ProfilingError(f"ncu gave {found} for {metric} of {each.name}")
    return [{"symbol": each.name} | {n: int(each.values[m]) for n, m in metrics.items()} for each in launches]


def arguments(about: str | None, results: Path) -> argparse.ArgumentParser:
    """Create the argument parser of a study.

    Args:
        about: Description for ``--help``.
        results: Default path of the results.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=results, help="where the results go")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    return parser


def run(
    options: argparse.Namespace,
    launch_all: Callable[[], None],
    count_all: Callable[[], dict[str, Any]],
    names: Iterable[str],
) -> int:
    """Count and save the results, or launch the kernels if ncu is watching; return the exit status.

    Args:
        options: Parsed options of ``arguments``.
        launch_all: Function that launches every kernel once.
        count_all: Function that counts them, prints tables, and returns the results to save.
        names: Names of the kernels, as in ``benchmarks.support.kernels``.
    """
    if reason := missing_gpu():
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    if options.launch:
        launch_all()
        return 0
    from tiledmm.bench.environment import this_machine

    try:
        found = count_all()
    except ProfilingError as error:
        print(error, file=sys.stderr)
        return 1
    save(options.out, measured(this_machine(), found, names=names))
    return 0
