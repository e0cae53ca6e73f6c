"""Configuration of all tests: the tiers ``--slow`` and ``--full``, skips without CuPy or a GPU, site and browser."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer.testing

# Before anything imports NumPy: the threads of BLAS wait actively for each other, and those of all workers share cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Typer would create all commands again for each call of one, which takes longer than most of the tests that call them.
typer.testing._get_command = functools.cache(typer.testing._get_command)

ROOT = Path(__file__).resolve().parent.parent
GPU_TESTS = Path(__file__).parent / "gpu"


@functools.cache
def missing_gpu() -> str | None:
    """Return why no kernel can run here, or None if one can."""
    try:
        import cupy
    except ImportError:
        return "no GPU tests: CuPy is not installed (pip install '.[cuda12]')"
    try:
        cupy.zeros(1).get()
    except Exception as error:  # a missing driver, device or library: each has an exception of its own
        return f"no GPU tests: no CUDA device works ({type(error).__name__}: {error})"
    return None


@functools.cache
def missing_simulator() -> str | None:
    """Return why no kernel can be simulated here, or None if one can."""
    from tiledmm.errors import MissingDependencyError
    from tiledmm.simulator.build.toolchain import compiler

    try:
        compiler()
    except MissingDependencyError as error:
        return f"no simulator tests: {error}"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")
    parser.addoption("--full", action="store_true", help="run those, and the tests marked full")


def pytest_configure(config: pytest.Config) -> None:
    for name in ("leaks_references", "parallel_threads", "thread_unsafe", "valgrind_error"):
        config.addinivalue_line("markers", f"{name}: of NumPy's own tests (test_numpys_tests.py); changes nothing here")


def _left_out(config: pytest.Config) -> set[str]:
    """Return the markers of tests that are not run."""
    full = config.getoption("full")
    return set() if full else {"full"} if config.getoption("slow") else {"full", "slow"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Limit the workers to four if they share a device's memory; otherwise leave the choice to xdist: one per core."""
    return None if missing_gpu() else min(4, os.cpu_count() or 1)


class _NeedsGpu(pytest.Item):
    """Skipped placeholder for a module of GPU tests, which may not even be importable without CuPy."""

    def runtest(self) -> None:
        raise AssertionError("a test that needs a GPU was not skipped")

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


class _SkippedModule(pytest.Module):
    def collect(self) -> Iterator[pytest.Item]:
        yield _NeedsGpu.from_parent(self, name="needs_gpu")


def full_unless(chosen: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a parametrized case, so that one that was not chosen runs with ``--full`` only."""
    return [] if chosen else [pytest.mark.full]


def slow_unless(chosen: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a parametrized case, so that one that was not chosen runs with ``--slow`` only."""
    return [] if chosen else [pytest.mark.slow]


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Create no items of a test that is left out, since those marked full would be ten times as many as all others."""
    marks = {mark.name for mark in getattr(obj, "pytestmark", [])} if name.startswith("test") else set()
    return [] if marks & _left_out(collector.config) else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if module_path.is_relative_to(GPU_TESTS) and missing_gpu():
        return _SkippedModule.from_parent(parent, path=module_path)
    return None


@functools.cache  # all tests of a file ask for the same folder
def _folder(path: Path) -> str:
    """Return the folder of these tests that contains a file; the name of a file in none, "" for one elsewhere."""
    own = Path(__file__).parent
    return path.relative_to(own).parts[0] if path.is_relative_to(own) else ""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected out of garbage collection: half a million objects, which live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m selects by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        folder = _folder(item.path)
        if folder == "gpu":
            item.add_marker("gpu")
        if folder == "simulator" and (reason := missing_simulator()):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("cupy") and not find_spec("cupy"):
            item.add_marker(pytest.mark.skip(reason="needs CuPy, which needs no GPU to be imported"))
        if item.get_closest_marker("gpu") and (reason := missing_gpu()):
            item.add_marker(pytest.mark.skip(reason=reason))
    # By a mark of a case, or of a module.
    left_out = [item for item in items if any(map(item.get_closest_marker, _left_out(config)))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a headless browser. Request it before ``site``, so that no site is built if there is no browser."""
    from docs.tools.browser import Browser, find_browser

    command = find_browser()
    if command is None:
        pytest.skip("there is no chromium, chromium-browser or google-chrome on PATH")
    started = Browser(command)
    yield started
    started.close()


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the documentation, built as a site."""
    folder: Path = request.getfixturevalue("built_site")  # not before other fixtures, as one of a session would be
    return folder


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once; a warning fails the tests."""
    for module in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder
