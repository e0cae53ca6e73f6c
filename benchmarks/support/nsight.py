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
from tiledmm.report.tables import Table


def counts(
    module: str, metrics: Mapping[str, str], symbols: Sequence[str] | None = None, kernels: str = "^tiledmm"
) -> list[dict[str, Any]]:
    """Counts of the kernels that ``python -m module --launch`` launches.

    Args:
        module: A study's module.
        metrics: Nsight Compute's names of metrics, by ours.
        symbols: The kernels that it launches, in order; None if their names are not known.
        kernels: A regular expression that the names of counted kernels match.

    Returns:
        For each kernel its name (``"symbol"``), and its counts by the names of ``metrics``.

    Raises:
        ProfilingError: If ncu is missing, may not read the counters, saw other kernels than were expected, or did not
            give a count for every metric.
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
    """The command line of a benchmark.

    Args:
        about: Its description, for ``--help``.
        results: Where the results go, if not elsewhere.
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
    """Counts, and writes the results and the machine; or launches, where ncu watches. Returns the exit status.

    Args:
        options: What ``arguments`` found.
        launch_all: Launches every kernel once.
        count_all: Counts them, shows tables, and returns the results to write.
        names: The kernels, as ``benchmarks.support.kernels`` names them.
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


def show(table: Table, width: int = 160) -> None:
    """Prints a table, ``width`` columns wide where no terminal has a width."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else width).print(table.rich())
