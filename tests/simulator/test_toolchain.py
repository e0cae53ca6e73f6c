"""Tests of the compilation of libraries: done once, stored privately, with helpful errors."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import tiledmm
from tests.conftest import missing_simulator
from tiledmm import errors, simulator
from tiledmm.codegen.template_files import template_folder
from tiledmm.hardware.architectures import TARGETS
from tiledmm.simulator.build import built_libraries, cxx, shared_folder, toolchain
from tiledmm.simulator.execute.interface import runtime

SOURCE = 'extern "C" __global__ void kernel(int* out) { out[threadIdx.x] = %d; }'

#: Flags that compile the runtime with little optimization, in half the time.
QUICK = tuple("-Og" if flag.startswith("-O") else flag for flag in toolchain._RUNTIME_FLAGS)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    return tmp_path / "simulator"


@pytest.fixture
def no_runtime(monkeypatch, tmp_path_factory):
    """Replace the runtime by an empty text that compiles at once; kernels are linked with it but do not run."""
    empty = tmp_path_factory.mktemp("native") / "runtime.cpp"
    empty.write_text("")
    monkeypatch.setattr(toolchain, "_RUNTIME", (empty,))


def build(number: int, **options) -> object:
    return toolchain.build_kernel(SOURCE % number, "kernel", **{"target": TARGETS["sm_90"], "build": "bare", **options})


def test_the_cache_is_private_and_by_content(cache, no_runtime):
    first = build(1)
    assert first.parent == cache
    assert cache.stat().st_mode & 0o077 == 0
    stamp = first.stat().st_ino
    assert build(1) == first and first.stat().st_ino == stamp
    assert len({first, build(2), build(1, build="checked"), build(1, target=TARGETS["sm_75"])}) == 4
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".so")] == [".lock"]


def test_the_cache_does_not_grow_beyond_its_bound(cache, no_runtime, monkeypatch):
    monkeypatch.setattr(shared_folder, "BETWEEN_BOUNDS", 0)
    first, second = build(1), build(2)
    runtime = toolchain.build_runtime()
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    assert build(1) == first  # used again
    monkeypatch.setattr(toolchain, "MAX_BYTES", runtime.stat().st_size + first.stat().st_size * 5 // 2)
    third = build(3)
    assert {path for path in cache.iterdir() if path.suffix == ".so"} == {first, third, runtime}


@pytest.mark.slow
def test_a_cache_that_is_cleared_meanwhile_loses_nobody_a_kernel(cache, quick_runtime):
    """Check that kernels and the runtime load while another thread clears the cache as often as it can."""
    ended, removed = threading.Event(), []

    def clear() -> None:
        while not ended.wait(0.05):
            removed.append(shared_folder.clear(cache).files)

    clearing = threading.Thread(target=clear)
    clearing.start()
    try:
        for number in range(2):
            with toolchain.kernel_library(SOURCE % number, "kernel", target=TARGETS["sm_90"], build="bare") as path:
                loaded = ctypes.CDLL(str(path))
                assert loaded.tiledmm_run_thread
            runtime()
    finally:
        ended.set()
        clearing.join()
    assert sum(removed) > 0


def test_headers_include_what_they_say_and_no_cycle():
    includes = {}
    for path in filter(Path.is_file, toolchain.NATIVE.iterdir()):
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


def test_two_that_build_at_once_get_the_same(cache, no_runtime):
    toolchain.build_runtime()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(build(3))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


@pytest.fixture
def quick_runtime(monkeypatch):
    """Compile the runtime with little optimization."""
    monkeypatch.setattr(toolchain, "_RUNTIME_FLAGS", QUICK)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_by_one_byte(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zero_the_end(path: Path) -> None:
    """Simulate what a power failure leaves on some file systems: a new file of the same size that ends in zeros."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1000].ljust(len(data), b"\0"))


@pytest.mark.parametrize(
    "damage",
    [cut_by_one_byte, zero_the_end, *(pytest.param(each, marks=pytest.mark.slow) for each in (cut_in_half, empty))],
)
def test_a_damaged_library_is_compiled_again(cache, no_runtime, damage):
    path = build(1)
    whole = path.read_bytes()
    damage(path)
    assert not built_libraries.is_whole(path)
    assert build(1) == path
    assert built_libraries.is_whole(path) and len(path.read_bytes()) == len(whole)


@pytest.mark.slow
def test_a_damaged_runtime_is_compiled_again(cache, quick_runtime):
    path = toolchain.build_runtime()
    cut_in_half(path)
    assert toolchain.build_runtime() == path
    assert built_libraries.is_whole(path)
    assert ctypes.CDLL(str(build(1))).tiledmm_run_thread


def in_new_process(script: str, **environment: str) -> subprocess.Popen[str]:
    root = str(Path(tiledmm.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": root, **environment},
    )  # fmt: skip


BUILD = f"""
import sys
from tiledmm import errors
from tiledmm.hardware.architectures import TARGETS
from tiledmm.simulator.build import cxx, toolchain
toolchain._RUNTIME_FLAGS = {QUICK!r}
try:
    for number in map(int, sys.argv[1:] or ["1"]):
        print(toolchain.build_kernel({SOURCE!r} % number, "kernel", target=TARGETS["sm_90"], build="bare").name)
except errors.TiledmmError as error:
    print(type(error).__name__ + ":", error)
"""


@pytest.mark.slow
def test_of_several_processes_one_compiles(tmp_path):
    log, wrapper = tmp_path / "log", tmp_path / "logged-c++"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(log))}\nexec {shlex.join(cxx.compiler())} "$@"\n')
    wrapper.chmod(0o700)
    cache = tmp_path / "cache"
    processes = [in_new_process(BUILD, CXX=str(wrapper), TILEDMM_CACHE_DIR=str(cache)) for _ in range(4)]
    outputs = {process.communicate()[0] for process in processes}
    assert len(outputs) == 1 and all(process.returncode == 0 for process in processes), outputs
    compilations = [line for line in log.read_text().splitlines() if line != "--version"]
    assert len(compilations) == 5  # the two units of the runtime, and their linking; the kernel, and its linking
    assert {path.suffix for path in (cache / "simulator").iterdir()} == {"", ".so"}  # no locks but the folder's


@pytest.mark.slow
def test_the_cache_may_have_any_path(tmp_path):
    folder = tmp_path / "a,b c:d"
    multiply = "import numpy as np; from tiledmm.simulator import matmul; print(matmul(np.eye(3), np.eye(3)))"
    output = in_new_process(multiply, TILEDMM_CACHE_DIR=str(folder)).communicate()[0]
    assert output.strip() == str(np.eye(3))
    assert len(list(folder.glob("simulator/*.so"))) == 2


def in_namespace(*commands: str) -> str:
    """Run shell commands in a private mount namespace and return their output."""
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    done = subprocess.run([*own, "sh", "-ec", "\n".join(commands)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def building(folder: Path, *numbers: int) -> str:
    """Return the command that builds kernels with a cache in a folder."""
    root = Path(tiledmm.__file__).parents[1]
    variables = [f"PYTHONPATH={root}", f"TILEDMM_CACHE_DIR={folder}"]
    return shlex.join(["env", *variables, sys.executable, "-c", BUILD, *map(str, numbers)])


@pytest.mark.slow
def test_a_full_disk_is_named(tmp_path):
    for size in ("64k", "400k"):  # not even the folder; less than the runtime
        output = in_namespace(f"mount -t tmpfs -o size={size} none {tmp_path}", building(tmp_path, 1))
        assert output.startswith("TiledmmError: no disk space"), output
        assert str(tmp_path) in output and "TILEDMM_CACHE_DIR" in output and len(output.splitlines()) == 1


def test_a_cache_that_is_read_only_serves_what_is_in_it(tmp_path, no_runtime, quick_runtime, monkeypatch):
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path))
    kept = build(1).name
    output = in_namespace(
        f"mount --bind {tmp_path} {tmp_path}", f"mount -o remount,bind,ro {tmp_path}", building(tmp_path, 1, 2)
    )
    first, second = output.splitlines()
    assert first == kept
    assert second.startswith("TiledmmError: ")
    assert str(tmp_path) in second and "TILEDMM_CACHE_DIR" in second


def test_a_cache_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(errors.TiledmmError, match=r"file/simulator .*TILEDMM_CACHE_DIR"):
        build(1)


@pytest.mark.parametrize(
    ("code", "named"),
    [(errno.ENOSPC, "disk"), (errno.EDQUOT, "disk"), (errno.EROFS, "write"), (errno.EACCES, "write")],
)
def test_what_the_system_refuses_names_the_folder(tmp_path, code, named):
    def refuse(folder: Path) -> Path:
        raise OSError(code, os.strerror(code))

    with pytest.raises(errors.TiledmmError, match=named) as caught:
        built_libraries.ensure(tmp_path / "kernel.so", refuse)
    assert str(tmp_path) in str(caught.value) and "TILEDMM_CACHE_DIR" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_of_the_system_stay_what_they_are(tmp_path):
    def refuse(folder: Path) -> Path:
        raise OSError(errno.ENOMEM, "no memory")

    with pytest.raises(OSError, match="no memory"):
        built_libraries.ensure(tmp_path / "kernel.so", refuse)


def test_a_compiler_that_finds_the_disk_full_is_not_blamed(tmp_path):
    def fail(folder: Path) -> Path:
        raise errors.CompilationError("the kernel does not compile:\nld: final link failed: No space left on device")

    with pytest.raises(errors.TiledmmError, match="disk"):
        built_libraries.ensure(tmp_path / "kernel.so", fail)


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(cxx.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.MissingDependencyError, match=r"\.\[simulate\]"):
        cxx.compiler()


def test_the_compiler_can_be_named(monkeypatch):
    (name, *_) = cxx.compiler()
    monkeypatch.setenv("CXX", f"{name} -DNOTHING")
    assert cxx.compiler() == (name, "-DNOTHING")
    monkeypatch.setenv("CXX", " ")
    assert cxx.compiler()
    folder, base = os.path.split(shutil.which(name))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CXX", f"./{base}")
    assert cxx.compiler() == (os.path.join(folder, base),)  # it is run elsewhere


@pytest.mark.parametrize(
    ("command", "said"),
    [("no-such-compiler", "does not exist"), ("/", "is a directory"), ("/etc/passwd", "is not executable"),
     ("c++ 'unfinished", "No closing quotation")],
)  # fmt: skip
def test_a_name_that_is_no_command(monkeypatch, command, said):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(errors.MissingDependencyError, match=said) as caught:
        cxx.compiler()
    assert "CXX" in str(caught.value)


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


AT_VERSION = '#!/bin/sh\nif [ "$1" = --version ]; then echo {version}; exit; fi\n'
OLD = (
    AT_VERSION.format(version="'g++ (GCC) 4.8.5'")
    + "echo \"g++: error: unrecognized option '-std=c++17'\" >&2; exit 1\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [("#!/bin/sh\nexit 3\n", "exit status 3"),
     ("#!/bin/sh\n", "no output"),
     ("not a program", "Exec format error"),
     (AT_VERSION.format(version="tool 1.0"), "wrote no library"),
     (OLD, r"unrecognized option '-std=c\+\+17'.*C\+\+17, such as GCC 12")],
    ids=["fails", "says-nothing", "no-program", "writes-nothing", "too-old"],
)  # fmt: skip
def test_a_command_that_is_no_compiler(cache, monkeypatch, tmp_path, text, said):
    command = script(tmp_path / "cxx", text)
    monkeypatch.setenv("CXX", command)
    with pytest.raises(errors.MissingDependencyError, match=said) as caught:
        build(1)
    assert str(caught.value).startswith(command) and "CXX" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_c_compiler_is_told_apart(cache, quick_runtime, monkeypatch, name):
    if not shutil.which(name):
        pytest.skip(f"{name} is not here")
    monkeypatch.setenv("CXX", name)
    with pytest.raises(errors.MissingDependencyError, match=r"g\+\+ for gcc"):
        build(1)


def test_the_wheel_serves_where_there_is_no_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(cxx.importlib.util, "find_spec", lambda name: object())
    assert cxx.compiler() == (sys.executable, "-m", "ziglang", "c++")


def test_a_users_file_must_hold_the_kernel_of_the_call(tmp_path):
    a = np.zeros((4, 4), np.float32)
    path = tmp_path / "mine.cu"
    with pytest.raises(errors.ConfigError, match=r"mine\.cu"):
        simulator.run(a, a, variant="tiled", tile=16, source=path)
    path.write_text(tiledmm.source("tiled", tile=32))
    text = tiledmm.source("tiled", tile=16)
    for other in (
        tiledmm.source("tiled", tile=32),
        text.replace("KERNEL(", "mine("),
        text.replace("#define KERNEL tiled", "#define KERNEL my_tiled"),
    ):
        path.write_text(other)
        with pytest.raises(errors.ConfigError, match=r"tiledmm_tiled_f32_16x16x16_nn"):
            simulator.run(a, a, variant="tiled", tile=16, source=path)


def test_what_does_not_compile_is_named_by_the_users_file_and_line(tmp_path):
    if reason := missing_simulator():
        pytest.skip(reason)
    a = np.zeros((4, 4), np.float32)

    def line_of(path):
        """Plant an error in a file and return the expected message with its line."""
        before, after = path.read_text().split("Sum acc = {};")
        path.write_text(f"{before}Summ acc = {{}};{after}")
        return f"{path.name}:{before.count(chr(10)) + 1}: Summ is undefined"

    (path := tmp_path / "mine.cu").write_text(tiledmm.source("tiled", tile=16))
    with pytest.raises(errors.CompilationError, match=re.escape(line_of(path))):
        simulator.run(a, a, variant="tiled", tile=16, source=path)
    (path := tmp_path / "mine.cu.j2").write_text((template_folder() / "tiled.cu.j2").read_text())
    expected = line_of(path)
    tiledmm.register(path)
    try:
        with pytest.raises(errors.CompilationError, match=re.escape(expected)):
            simulator.matmul(a, a, variant="mine", tile=16)
    finally:
        tiledmm.unregister("mine")


def test_what_a_header_before_a_kernel_does_is_no_part_of_its_lines(tmp_path):
    if reason := missing_simulator():
        pytest.skip(reason)
    (tmp_path / "half.h").write_text("\n__device__ float half_of(float x) { return x / divisor; }\n")
    code = '#include "half.h"\nextern "C" __global__ void k(float* x) { x[0] = half_of(x[0]); }\n'
    kernel = simulator.RawKernel(code, "k", options=("-DN=4", f"-I{tmp_path}"))
    with pytest.raises(errors.CompilationError, match=r"half\.h:2: .*divisor"):
        kernel((1,), (1,), (np.zeros(1, np.float32),))


@pytest.mark.cupy
def test_numpy_arrays_are_sent_to_the_simulator_by_name():
    with pytest.raises(TypeError, match=r"tiledmm\.simulator\.matmul"):
        tiledmm.matmul(np.zeros((2, 2)), np.zeros((2, 2)))
