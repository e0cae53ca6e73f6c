"""Tests of machine code in files: complete, compiled once, rejected if damaged. Needs CuPy and NVRTC, but no GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cupy", reason="needs CuPy, which needs no GPU to be imported")

from elftools.elf.elffile import ELFFile

from tiledmm.compile import cubins
from tiledmm.compile.cubins import cubin_file
from tiledmm.errors import CompilationError

pytestmark = pytest.mark.cupy

try:
    VERSION = cubins.nvrtc.getVersion()
except Exception as error:  # what CuPy raises where there is none differs
    pytest.skip(f"needs NVRTC ({error})", allow_module_level=True)

SOURCE = 'extern "C" __global__ void fill(float* p) { p[threadIdx.x] = 1e-39f * p[0]; }'
OPTIONS = ("-std=c++17", "-arch=sm_90a")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the cache to a folder of this test."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    return tmp_path / "cache" / "tiledmm"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of compiled kernels."""
    names: list[str] = []
    compile_anew = cubins._machine_code

    def counting(source: str, symbol: str, options: tuple[str, ...]) -> bytes:
        names.append(symbol)
        return compile_anew(source, symbol, options)

    monkeypatch.setattr(cubins, "_machine_code", counting)
    return names


def cubin(source: str = SOURCE, symbol: str = "fill", options: tuple[str, ...] = OPTIONS) -> tuple[str, bytes]:
    """Return the name and contents of a kernel's file."""
    with cubin_file(source, symbol, options) as path:
        return path.name, path.read_bytes()


def test_machine_code_is_whole(folder: Path) -> None:
    with cubin_file(SOURCE, "fill", OPTIONS) as path, path.open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] == "EM_CUDA"
        end = elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"]
        assert path.stat().st_size == end, "the table of segments stands last"
        last = elf.get_segment(elf["e_phnum"] - 1)
        assert last["p_align"] in (4, 8, 16), "and the last byte of it is a zero"


@pytest.mark.parametrize("missing", [0, 1])
def test_the_byte_that_cupy_leaves_out(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    whole = b"\x7fELF" + bytes(59) + b"\1" + b"\x08" + bytes(7)
    monkeypatch.setattr(cubins.nvrtc, "getCUBIN", lambda program: whole[: len(whole) - missing])
    assert cubin()[1] == whole


def test_it_is_what_inspection_compiles() -> None:
    pytest.importorskip("cuda.core", reason="needs the extra 'inspect' (cuda-core and NVRTC)")
    from tiledmm.compile.inspection import compile_for

    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    if nvrtc.nvrtcVersion()[1:] != VERSION or VERSION < (12, 9):
        pytest.skip("there are two NVRTCs, or one that inspection does not take")
    assert compile_for(SOURCE, "fill", "sm_90a").cubin == cubin()[1]


def test_it_is_compiled_once(folder: Path, compiled: list[str]) -> None:
    assert cubin() == cubin()
    assert compiled == ["fill"]
    (path,) = folder.glob("[!.]*")
    assert path.name.startswith("fill-")
    assert path.suffix == ".cubin"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data + b"\0",
    ],
    ids=["empty", "a byte short", "half of it", "a bit flipped", "a byte long"],
)
def test_a_damaged_file_is_replaced(folder: Path, compiled: list[str], damage: Callable[[bytes], bytes]) -> None:
    before = cubin()
    path = folder / before[0]
    path.write_bytes(damage(path.read_bytes()))
    assert cubin() == before
    assert compiled == ["fill", "fill"]
    assert cubin() == before
    assert compiled == ["fill", "fill"], "it was not replaced for good"


def test_a_file_that_cannot_be_read_is_none(folder: Path, compiled: list[str]) -> None:
    name, before = cubin()
    (folder / name).unlink()
    unreadable = f"{name.rpartition('-')[0]}-{'0' * 32}.cubin"
    (folder / unreadable).mkdir()
    assert cubin() == (name, before)
    assert compiled == ["fill", "fill"]


def test_what_else_is_compiled_has_another_file(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        cubin()[0],
        cubin(source=SOURCE + "\n")[0],
        cubin(options=(*OPTIONS, "-lineinfo"))[0],
        cubin(options=("-std=c++17", "-arch=sm_90"))[0],
    ]
    monkeypatch.setattr(cubins, "_compiler", lambda: b"another build")
    names.append(cubin()[0])
    assert len(set(names)) == len(compiled) == 5


def test_the_compiler_is_named_to_its_build() -> None:
    assert "release {}.{}, V".format(*VERSION).encode() in cubins._compiler()


def test_options_are_those_that_cupy_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, ...]] = []
    compile_program = cubins.nvrtc.compileProgram

    def noting(program: int, options: tuple[str, ...]) -> None:
        given.append(options)
        compile_program(program, options)

    cubins._compiler()
    monkeypatch.setattr(cubins.nvrtc, "compileProgram", noting)
    cubin()
    assert given == [(*OPTIONS, "-ftz=true", "--device-as-default-execution-space")]


def test_in_memory_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    with cubin_file(SOURCE, "fill", OPTIONS) as path:
        assert path.is_file()
    assert not path.parent.exists()
    assert not folder.exists()


def test_many_at_once_and_no_scraps(folder: Path) -> None:
    found: list[tuple[str, bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(cubin())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in folder.glob("[!.]*")] == [found[0][0]]


def test_an_error_where_it_is_loaded_is_passed_on() -> None:
    with pytest.raises(OSError, match="driver"), cubin_file(SOURCE, "fill", OPTIONS):
        raise OSError("the driver's own")


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("__global__ void fill() { int nonsense = ; }", "sm_90a", r"fill.*kernel\.cu\(1\)"),
        (SOURCE, "sm_90z", r"-arch=sm_90z.*NVRTC \d+\.\d+"),
    ],
)
def test_what_nvrtc_rejects(folder: Path, source: str, target: str, says: str) -> None:
    with pytest.raises(CompilationError, match=f"(?s){says}"), cubin_file(source, "fill", (f"-arch={target}",)):
        pass
    assert not list(folder.glob("[!.]*"))


def test_by_default_it_is_where_cupy_keeps_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for value in (None, ""):
        monkeypatch.setenv("CUPY_CACHE_DIR", "")
        if value is None:
            monkeypatch.delenv("CUPY_CACHE_DIR")
        with cubin_file(SOURCE, "fill", OPTIONS) as path:
            assert path.parent == tmp_path / ".cupy" / "kernel_cache" / "tiledmm"
