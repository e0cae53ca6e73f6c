"""Libraries are compiled once, kept where nobody else writes, and errors say what to do."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from graphlib import TopologicalSorter

import numpy as np
import pytest

import tiledmm
from tiledmm import errors, simulator
from tiledmm.compile import disk_cache
from tiledmm.simulator import execution, toolchain

SOURCE = 'extern "C" __global__ void kernel(int* out) { out[threadIdx.x] = %d; }'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    return tmp_path / "simulator"


def build(number: int, **options) -> object:
    return toolchain.build_kernel(SOURCE % number, "kernel", **{"arch": 900, "instrumented": False, **options})


def test_the_cache_is_private_and_by_content(cache):
    first = build(1)
    assert first.parent == cache
    assert cache.stat().st_mode & 0o077 == 0
    stamp = first.stat().st_ino
    assert build(1) == first and first.stat().st_ino == stamp
    assert len({first, build(2), build(1, instrumented=True), build(1, arch=750)}) == 4
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".so")] == [".lock"]


def test_the_cache_does_not_grow_beyond_its_bound(cache, monkeypatch):
    first, second = build(1), build(2)
    runtime = toolchain.build_runtime()
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    assert build(1) == first  # used again
    monkeypatch.setattr(toolchain, "MAX_BYTES", runtime.stat().st_size + first.stat().st_size * 5 // 2)
    third = build(3)
    assert {path for path in cache.iterdir() if path.suffix == ".so"} == {first, third, runtime}


def test_a_cache_that_is_cleared_meanwhile_loses_nobody_a_kernel(cache, monkeypatch):
    """Another thread clears as often as it can, while this one compiles and loads: the runtime too, each time."""
    monkeypatch.setattr(
        toolchain, "_RUNTIME_FLAGS", tuple(flag.replace("-O2", "-O0") for flag in toolchain._RUNTIME_FLAGS)
    )
    ended, removed = threading.Event(), []

    def clear() -> None:
        while not ended.wait(0.05):
            removed.append(disk_cache.clear(cache).files)

    clearing = threading.Thread(target=clear)
    clearing.start()
    try:
        for number in range(2):
            with toolchain.kernel_library(SOURCE % number, "kernel", arch=900, instrumented=False) as path:
                loaded = ctypes.CDLL(str(path))
                assert loaded.tiledmm_run_thread
            execution.runtime()
    finally:
        ended.set()
        clearing.join()
    assert sum(removed) > 0


def test_headers_include_what_they_say_and_no_cycle():
    includes = {}
    for path in toolchain.NATIVE.iterdir():
        text = path.read_text()
        includes[path.name] = set(re.findall(r'^#include "(.*)"', text, re.MULTILINE))
        (said,) = re.findall(r"^// Depends on: (.*)", text, re.MULTILINE)
        if path.name != "entry.h":  # which stands behind a kernel's text
            assert set(re.findall(r"[\w.]+\.h", said)) == includes[path.name], path.name
    assert set(TopologicalSorter(includes).static_order()) == set(includes)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_cache_that_others_can_write_is_refused(cache):
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(errors.TiledmmError, match="TILEDMM_CACHE_DIR"):
        build(1)


def test_two_that_build_at_once_get_the_same(cache):
    toolchain.build_runtime()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(build(3))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.MissingDependencyError, match=r"tiledmm\[simulate\]"):
        toolchain.compiler()


def test_the_compiler_can_be_named(monkeypatch):
    (name, *_) = toolchain.compiler()
    monkeypatch.setenv("CXX", f"{name} -DNOTHING")
    assert toolchain.compiler() == (name, "-DNOTHING")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(errors.MissingDependencyError, match="no-such-compiler"):
        toolchain.compiler()


def test_the_wheel_serves_where_there_is_no_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: object())
    assert toolchain.compiler() == (sys.executable, "-m", "ziglang", "c++")


def test_a_users_file_must_hold_the_kernel_of_the_call(tmp_path):
    a = np.zeros((4, 4), np.float32)
    path = tmp_path / "mine.cu"
    with pytest.raises(errors.ConfigError, match="cannot be read"):
        simulator.run(a, a, variant="tiled", tile=16, source=path)
    path.write_text(tiledmm.source("tiled", tile=32))
    with pytest.raises(errors.ConfigError, match="tiledmm_tiled_f32_16x16x16_nn"):
        simulator.run(a, a, variant="tiled", tile=16, source=path)


@pytest.mark.cupy
def test_numpy_arrays_are_sent_to_the_simulator_by_name():
    with pytest.raises(TypeError, match=r"tiledmm\.simulator\.matmul"):
        tiledmm.matmul(np.zeros((2, 2)), np.zeros((2, 2)))
