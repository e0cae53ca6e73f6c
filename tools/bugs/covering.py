"""Pytest plugin for ``tools.bugs.host_mutants`` that records the lines that each test runs, or runs only listed tests.

Environment variables choose: TILEDMM_RECORD names a folder for records, TILEDMM_SELECT a file with one test per line.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# The static context of processes that a test starts, which coverage records as well.
_TEST = "TILEDMM_RECORDED_TEST"
_SETTINGS = f"""
[run]
core = ctrace
source = tiledmm
parallel = true
data_file = {{folder}}/lines
context = ${{{{{_TEST}-}}}}
disable_warnings = no-data-collected, module-not-imported
"""


class Recorder:
    """A recorder that writes two files per process: covered lines by test, and the seconds of each test."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self._folder = folder
        self._seconds: dict[str, float] = defaultdict(float)
        self._modules = 0
        self._caches: list[functools._lru_cache_wrapper[object]] = []
        settings = folder / f"{os.getpid()}.cfg"
        settings.write_text(_SETTINGS.format(folder=folder), "utf-8")
        os.environ[_TEST] = ""
        os.environ["COVERAGE_PROCESS_START"] = str(settings)
        self._coverage = coverage.Coverage(config_file=str(settings))
        self._coverage.start()

    def _clear_caches(self) -> None:
        """Clear all caches, because otherwise only the first test that calls a cached function would run its lines."""
        if self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            self._caches = [
                found
                for found in gc.get_objects()
                if isinstance(found, functools._lru_cache_wrapper) and found.__module__.startswith("tiledmm")
            ]
        for cache in self._caches:
            cache.cache_clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._clear_caches()
        os.environ[_TEST] = item.nodeid
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            os.environ[_TEST] = ""
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.skipped:
            self._seconds[report.nodeid] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        (self._folder / f"{os.getpid()}.json").write_text(json.dumps(self._seconds), "utf-8")


def spread(names: list[str], most: int) -> set[str]:
    """Select at most ``most`` cases of each test function, evenly spaced."""
    cases = defaultdict(list)
    for name in names:
        cases[name.partition("[")[0]].append(name)
    return {each[i * len(each) // min(most, len(each))] for each in cases.values() for i in range(min(most, len(each)))}


class Selector:
    """A filter that runs only the named tests and ignores missing ones, since a mutant may rename cases."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        # One counterexample is enough: it is not shrunk.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", hypothesis.settings(phases=phases))
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._names]


class Thinned:
    """A filter that runs at most ``most`` cases of each test function."""

    def __init__(self, most: int) -> None:
        self._most = most

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        names = spread([item.nodeid for item in items], self._most)
        items[:] = [item for item in items if item.nodeid in names]


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin that the environment selects."""
    if folder := os.environ.get("TILEDMM_RECORD"):
        if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
            return  # pytest-xdist's workers run the tests
        config.pluginmanager.register(Recorder(Path(folder)))
        config.pluginmanager.register(Thinned(int(os.environ["TILEDMM_CASES"])))
    elif path := os.environ.get("TILEDMM_SELECT"):
        config.pluginmanager.register(Selector(set(Path(path).read_text("utf-8").splitlines())))
