"""Options and fixtures that all pytest benchmarks share, and the comparison tables printed at the end."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from benchmarks.support.results import FOLDER, save_report
from tiledmm.bench.comparison_tables import comparison_table
from tiledmm.bench.results import BASELINE, Comparison, ComparisonReport
from tiledmm.bench.sizes import parse_size
from tiledmm.bench.variant_tiles import VariantTile, expand
from tiledmm.cli import missing_gpu

HERE = Path(__file__).parent
COMPARISONS = pytest.StashKey[list[Comparison]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiledmm")
    group.addoption("--sizes", default="256,1024,4096", help="products, N or MxNxK, with commas")
    group.addoption("--dtypes", default="float32,float16", help="element types, with commas")
    group.addoption("--layouts", default="NN", help="layouts of A and B, with commas")
    group.addoption("--seconds", type=float, default=0.4, help="about how long to time each rival")
    group.addoption("--save-results", action="store_true", help="write benchmarks/results/matmul-<gpu>.json")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COMPARISONS] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize benchmarks by size, type, layout and kernel, so that those of one product run consecutively."""
    for name, option in (("size", "sizes"), ("dtype", "dtypes"), ("layout", "layouts")):
        values = metafunc.config.getoption(option).split(",")
        metafunc.parametrize(name, values, ids=[f"{name}={value}" for value in values], scope="session")
    rungs = [*expand(), VariantTile(BASELINE)]
    metafunc.parametrize("rung", rungs, ids=[rung.label.replace(" ", "-") for rung in rungs])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.is_relative_to(HERE)]
    if here and (reason := missing_gpu()):
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))


@pytest.fixture(scope="session")
def comparison(request: pytest.FixtureRequest, size: str, dtype: str, layout: str) -> Comparison:
    """Compile, check and time all kernels on one product, alternating between them."""
    from tiledmm.bench.comparison import compare

    seconds = request.config.getoption("seconds")
    found = compare(parse_size(size), dtype=dtype, layout=layout, variant_tiles=expand(), seconds=seconds)
    request.config.stash[COMPARISONS].append(found)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the alternately timed comparisons, for which pytest-benchmark's own table has no columns."""
    comparisons = config.stash[COMPARISONS]
    if not comparisons:
        return
    from rich.console import Console

    from tiledmm.bench.environment import this_machine

    report = ComparisonReport(this_machine(), tuple(comparisons))
    terminalreporter.section("rivals timed alternately, on the device")
    terminalreporter.write_line(str(report.machine))
    console = Console(file=io.StringIO(), width=150)
    with console.capture() as tables:
        for found in comparisons:
            console.print(comparison_table(found).rich())
    terminalreporter.write(tables.get())
    if config.getoption("save_results"):
        slug = re.sub(r"[^a-z0-9]+", "-", report.machine.gpu.lower()).strip("-")
        path = FOLDER / f"matmul-{slug}.json"
        save_report(path, report)
        terminalreporter.write_line(f"written: {path}")
