"""Tests of the disk cache: a second process compiles nothing, many start at once, damaged files are rewritten."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys, time
import cupy, numpy, tiledmm
a = cupy.asarray(numpy.arange(35, dtype="f4").reshape(5, 7))
cupy.cuda.runtime.deviceSynchronize()
from tiledmm.kernels.variants import general_variants
for variant in general_variants():
    start = time.perf_counter()
    c = tiledmm.matmul(a, a.T, variant=variant.name)
    cupy.cuda.runtime.deviceSynchronize()
    print(f"{variant.name} {time.perf_counter() - start:.3f} s")
    assert (c.get() == a.get() @ a.get().T).all()
small = a.get() % 3
for device in range(cupy.cuda.runtime.getDeviceCount()):
    with cupy.cuda.Device(device) as this:
        if this.compute_capability == "90":  # compiled past CuPy, and loaded from a file
            half = cupy.asarray(small, "f2")
            start = time.perf_counter()
            c = tiledmm.matmul(half, half.T, variant="wgmma")
            cupy.cuda.runtime.deviceSynchronize()
            print(f"wgmma {time.perf_counter() - start:.3f} s")
            assert (c.get() == small @ small.T).all()
            assert tiledmm.kernel("wgmma", dtype="float16").local_bytes == 0
"""


def start(folder: Path, in_memory: int = 0) -> subprocess.Popen[str]:
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {
        **os.environ, "CUPY_CACHE_DIR": str(folder), "PYTHONPATH": paths, "CUPY_CACHE_IN_MEMORY": str(in_memory),
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=200)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, output
    return output


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_second_process_finds_every_kernel_and_many_may_begin_at_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    at_once = [start(many) for _ in range(4)]
    outputs = [finish(process) for process in at_once]
    record_property("first process", finish(start(one)))
    compiled = files(one)
    assert len(compiled) >= 5, "a kernel a variant"
    record_property("second process", finish(start(one)))
    assert files(one) == compiled, "the second process compiled or wrote something"
    assert files(many).keys() == compiled.keys(), outputs


def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    finish(start(tmp_path))
    kept = {path: path.read_bytes() for path in (tmp_path / "tiledmm").glob("[!.]*")}
    assert {path.suffix for path in kept} >= {".cu"}
    for path, data in kept.items():
        path.write_bytes(data[: len(data) // 2])
    finish(start(tmp_path))
    assert {path: path.read_bytes() for path in (tmp_path / "tiledmm").glob("[!.]*")} == kept


def test_in_memory_nothing_is_written(tmp_path: Path) -> None:
    finish(start(tmp_path, in_memory=1))
    assert files(tmp_path) == {}
