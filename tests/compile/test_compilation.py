"""Tests of what is compiled and loaded, how often and where, on fake devices. Needs CuPy, but no GPU."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

from tiledmm.codegen import rendering
from tiledmm.codegen.rendering import render
from tiledmm.compile import compilation
from tiledmm.errors import CompilationError, ConfigError, DeviceError, UnsupportedTypeError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import VARIANTS, kernel_spec

pytestmark = pytest.mark.cupy


class CompileError(Exception):
    """A stand-in for CuPy's exception."""


class RuntimeFailure(Exception):
    """A stand-in for CUDA's exception."""


class Device:
    """A stand-in for a ``cupy.cuda.Device``, which makes itself current in a thread."""

    def __init__(self, machine: Machine, device: int) -> None:
        self.machine, self.device = machine, device
        self.compute_capability, self.attributes = machine.capability, {"MaxSharedMemoryPerBlockOptin": machine.shared}

    def __enter__(self) -> None:
        self.machine.of_thread[threading.get_ident()] = self.device

    def __exit__(self, *raised: object) -> None:
        del self.machine.of_thread[threading.get_ident()]


class Machine:
    """A set of devices of one compute capability that records all that is done on them."""

    def __init__(self, capability: str = "90") -> None:
        self.current = 0
        self.of_thread: dict[int, int] = {threading.get_ident(): -1}
        self.capability = capability
        self.shared = 227 * 1024
        self.done: list[tuple[Any, ...]] = []
        runtime = SimpleNamespace(getDevice=self.device, CUDARuntimeError=RuntimeFailure)
        self.cupy = SimpleNamespace(
            RawKernel=self.raw_kernel,
            RawModule=self.raw_module,
            cuda=SimpleNamespace(
                nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
                compiler=SimpleNamespace(CompileException=CompileError),
                runtime=runtime,
                Device=lambda device=0: Device(self, device),
            ),
        )

    def device(self) -> int:
        """Return the device of this thread, 0 in a new one, as in CUDA."""
        own = self.of_thread.get(threading.get_ident(), 0)
        return self.current if own < 0 else own

    def raw_kernel(self, source: str, symbol: str, options: tuple[str, ...]) -> Any:
        def compile_it() -> None:
            time.sleep(0.01)
            self.done.append(("compiled", symbol, options, self.device()))

        return SimpleNamespace(compile=compile_it)

    def raw_module(self, *, path: str) -> Any:
        def get_function(symbol: str) -> Any:
            time.sleep(0.01)
            assert Path(path).is_file()
            self.done.append(("loaded", symbol, path, self.device()))
            return SimpleNamespace()

        return SimpleNamespace(get_function=get_function)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine()

    @contextlib.contextmanager
    def cubin_file(source: str, symbol: str, options: tuple[str, ...]) -> Iterator[Path]:
        made.done.append(("machine code", symbol, options, made.device()))
        path = tmp_path / f"{symbol}.cubin"
        path.write_text(source)
        yield path
        path.unlink()

    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    monkeypatch.setattr(compilation, "cupy", made.cupy)
    monkeypatch.setattr(compilation, "cubin_file", cubin_file)
    monkeypatch.setattr(compilation, "_raw_kernels", {})
    return made


FOR_ONE = [name for name, row in VARIANTS.items() if row.hopper.arch]


@pytest.mark.parametrize("variant", FOR_ONE)
def test_a_kernel_for_one_architecture_is_loaded_from_a_file(machine: Machine, variant: str) -> None:
    spec = kernel_spec(variant).kernel
    raw = compilation.raw_kernel(spec)
    code, loaded = machine.done
    assert code == ("machine code", spec.symbol, ("-std=c++17", f"-arch={spec.variant.hopper.arch}"), 0)
    assert loaded[:2] == ("loaded", spec.symbol)
    assert raw.max_dynamic_shared_size_bytes == spec.dynamic_shared_bytes > 0


def test_other_kernels_are_cupys(machine: Machine) -> None:
    spec = kernel_spec("tiled").kernel
    raw = compilation.raw_kernel(spec)
    assert machine.done == [("compiled", spec.symbol, ("-std=c++17",), 0)]
    assert not hasattr(raw, "max_dynamic_shared_size_bytes"), "its shared memory is static"


@pytest.mark.parametrize("variant", ["tiled", *FOR_ONE])
def test_once_a_device(machine: Machine, variant: str) -> None:
    spec = kernel_spec(variant).kernel
    kernels = []
    for device in (0, 1, 0, 1):
        machine.current = device
        kernels.append(compilation.raw_kernel(spec))
    assert kernels[0] is kernels[2]
    assert kernels[1] is kernels[3]
    assert kernels[0] is not kernels[1]
    assert [each[-1] for each in machine.done if each[0] != "machine code"] == [0, 1]


def test_kernels_are_bounded_and_the_oldest_goes_first(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "MAX_KERNELS", 2)
    kernels = [kernel_spec("tiled", tile=tile).kernel for tile in (8, 16, 32)]
    raws = [compilation.raw_kernel(each) for each in kernels]
    assert [compilation.raw_kernel(each) for each in kernels[1:]] == raws[1:]
    assert compilation.raw_kernel(kernels[0]) is not raws[0]
    assert len(compilation._raw_kernels) == 2


@pytest.mark.parametrize("variant", ["tiled", *FOR_ONE])
def test_once_whatever_the_threads(machine: Machine, variant: str) -> None:
    spec = kernel_spec(variant).kernel
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(compilation.raw_kernel(spec))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(each is found[0] for each in found)
    assert len([each for each in machine.done if each[0] != "machine code"]) == 1


def test_several_are_compiled_at_the_same_time_on_the_current_device(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.current = 1
    specs = [kernel_spec("tiled", tile=tile).kernel for tile in (8, 16, 8, 32)]
    all_there = threading.Barrier(3, timeout=10)
    compile_one = machine.raw_kernel

    def waiting(source: str, symbol: str, options: tuple[str, ...]) -> Any:
        all_there.wait()
        return compile_one(source, symbol, options)

    monkeypatch.setattr(machine.cupy, "RawKernel", waiting)
    monkeypatch.setattr(compilation.os, "cpu_count", lambda: 3)
    ready: list[compilation.Ready] = []
    kernels = compilation.raw_kernels(specs, ready.append)
    assert [each.symbol for each in ready] == [specs[i].symbol for i in (0, 1, 3)]
    assert all(each.seconds is not None and each.seconds >= 0.01 for each in ready)
    assert kernels[0] is kernels[2] and len({*map(id, kernels)}) == 3
    assert sorted(machine.done) == sorted(("compiled", each.symbol, ("-std=c++17",), 1) for each in {*specs})
    ready.clear()
    assert compilation.raw_kernels(specs, ready.append) == kernels, "and once"
    assert [each.seconds for each in ready] == [None] * 3
    assert [compilation.raw_kernel(each) for each in specs] == kernels
    assert compilation.raw_kernels([]) == []


def test_what_an_earlier_process_compiled_is_loaded_by_one_thread(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    rendered: list[str] = []
    monkeypatch.setattr(rendering, "render", lambda spec: rendered.append(spec.symbol) or render(spec))
    threads: list[int] = []
    compile_one = machine.raw_kernel

    def seen(source: str, symbol: str, options: tuple[str, ...]) -> Any:
        threads.append(threading.get_ident())
        assert source == next(render(each) for each in specs if each.symbol == symbol)
        return compile_one(source, symbol, options)

    monkeypatch.setattr(machine.cupy, "RawKernel", seen)
    specs = [kernel_spec("tiled", tile=tile).kernel for tile in (8, 16)]

    def process() -> set[int]:
        monkeypatch.setattr(compilation, "_raw_kernels", {})
        threads.clear()
        rendered.clear()
        compilation.raw_kernels(specs)
        return {*threads}

    own = {threading.get_ident()}
    assert process().isdisjoint(own) and len(rendered) == 2
    assert process() == own and not rendered
    machine.capability = "80"
    assert process().isdisjoint(own) and len(rendered) == 2, "compiled for another device, not for this one"
    assert process() == own and not rendered


def test_a_kernel_that_does_not_compile_leaves_no_text(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    fails(machine, monkeypatch, CompileError("line 3"))
    with pytest.raises(CompilationError):
        compilation.raw_kernel(kernel_spec("tiled").kernel)
    assert not [*tmp_path.rglob("*.cu")]


def test_of_several_one_that_does_not_compile_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [kernel_spec("tiled", tile=tile).kernel for tile in (8, 16)]
    fails(machine, monkeypatch, CompileError("line 3"))
    with pytest.raises(CompilationError, match="line 3"):
        compilation.raw_kernels(specs)


@pytest.mark.parametrize("variant", FOR_ONE)
@pytest.mark.parametrize("capability", ["89", "100"])
def test_other_devices_are_told_which_it_is_for(machine: Machine, variant: str, capability: str) -> None:
    machine.capability = capability
    with pytest.raises(UnsupportedTypeError, match=r"9\.0"):
        compilation.raw_kernel(kernel_spec(variant).kernel)
    assert machine.done == []


def fails(machine: Machine, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(*arguments: Any, **keywords: Any) -> Any:
        raise error

    monkeypatch.setattr(machine.cupy, "RawKernel", failing)
    monkeypatch.setattr(compilation, "cubin_file", failing)


def test_shared_memory_that_a_device_has_not_is_an_error(machine: Machine) -> None:
    machine.shared = 99 * 1024
    kernel = kernel_spec("tensor_core", dtype="float64", config={"stages": 4})
    with pytest.raises(ConfigError, match=r"131072 bytes.*101376"):
        compilation.raw_kernel(kernel)
    machine.shared = 131071
    with pytest.raises(ConfigError):
        compilation.raw_kernel(kernel)
    assert not machine.done
    machine.shared = 131072
    compilation.raw_kernel(kernel)
    assert [each[0] for each in machine.done] == ["compiled"]


@pytest.mark.parametrize("variant", ["tiled", *FOR_ONE])
@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (CompileError("line 3"), CompilationError),
        (CompilationError("line 3"), CompilationError),
        (RuntimeFailure("line 3"), DeviceError),
    ],
)
def test_what_fails_is_said_and_not_kept(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, variant: str, raised: Exception, seen: type[Exception]
) -> None:
    spec: KernelSpec = kernel_spec(variant).kernel
    with monkeypatch.context() as patch:
        fails(machine, patch, raised)
        for _ in range(2):
            with pytest.raises(seen, match="line 3"):
                compilation.raw_kernel(spec)
    compilation.raw_kernel(spec)
    assert len(machine.done) > 0


def test_no_device_is_an_error_of_this_package(machine: Machine) -> None:
    def getting() -> int:
        raise RuntimeFailure("cudaErrorInsufficientDriver")

    machine.cupy.cuda.runtime.getDevice = getting
    with pytest.raises(DeviceError, match="InsufficientDriver"):
        compilation.raw_kernel(kernel_spec("tiled").kernel)


def test_the_source_told_is_what_was_compiled(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = kernel_spec("wgmma").kernel
    raw = SimpleNamespace(kernel=SimpleNamespace(ptr=1), num_regs=168, shared_size_bytes=8, local_size_bytes=0)
    monkeypatch.setattr(compilation, "raw_kernel", lambda asked: raw)
    occupied = SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=lambda *arguments: 1)
    monkeypatch.setattr(compilation, "driver", occupied)
    sizes = {"WarpSize": 32, "MaxThreadsPerMultiProcessor": 2048}
    machine.cupy.cuda.Device = lambda: SimpleNamespace(attributes=sizes, compute_capability="90")
    kernel = compilation.compiled(spec)
    assert kernel.source == render(spec)
    assert kernel.raw is raw
    assert kernel.shared_bytes == 8 + spec.dynamic_shared_bytes
    assert kernel.blocks_per_sm == 1
    assert kernel.occupancy == spec.threads / 2048
