"""Tests of ``tiledmm doctor`` on machines that are broken in many ways."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tiledmm
from tiledmm import cli, simulator
from tiledmm.cli import checks, gpu_checks, output
from tiledmm.cli.checks import BROKEN, MISSING, UNKNOWN, WORKS, Check


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["doctor", *arguments])


def raising(error: Exception) -> Callable[[], str]:
    def look() -> str:
        raise error

    return look


def works() -> str:
    return "1.2.3"


@pytest.mark.parametrize(
    ("look", "state", "found"),
    [
        (works, WORKS, "1.2.3"),
        (raising(checks.NotThere("not installed")), MISSING, "not installed"),
        (raising(checks.NotKnown("not known without it")), UNKNOWN, "not known without it"),
        (raising(ImportError("libx.so\nand more")), BROKEN, "ImportError: libx.so"),
        (raising(OSError()), BROKEN, "OSError: OSError"),
        (raising(type("CUDARuntimeError", (RuntimeError,), {})("no driver")), BROKEN, "CUDARuntimeError: no driver"),
    ],
)
def test_a_check_never_raises(look: Callable[[], str], state: str, found: str) -> None:
    check = checks.carry_out("GPU", "it", look, "mend it")
    assert check == Check("GPU", "it", state, found, "mend it" if state in (MISSING, BROKEN) else "")


NOT_WORKING = [checks.NotThere("x"), checks.NotKnown("x"), OSError("x")]


@pytest.mark.parametrize(
    ("gpu", "cpu", "status", "verdict"),
    [
        (works, works, 0, "on the GPU and the simulator."),
        (raising(OSError("x")), works, 0, "on the simulator."),
        (works, raising(checks.NotThere("x")), 0, "on the GPU."),
        (raising(OSError("x")), raising(OSError("y")), 1, "Not ready"),
        *((raising(x), raising(y), 1, "Not ready") for x in NOT_WORKING for y in NOT_WORKING),
    ],
)
def test_a_product_that_runs_anywhere_will_do(
    gpu: Callable[[], str], cpu: Callable[[], str], status: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [("GPU", checks.ON_GPU, gpu, "see above"), ("simulator", checks.ON_CPU, cpu, "pip install x")]
    monkeypatch.setattr(checks, "jobs", lambda: iter(jobs))
    result = invoke()
    assert result.exit_code == status
    assert verdict in result.output
    advised = checks.carry_out(*jobs[1]).state in (MISSING, BROKEN)
    assert ("pip install x" in result.output) == advised


def test_what_is_broken_stands_out_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        ("GPU", checks.ON_GPU, works, ""), ("GPU", "absent", raising(checks.NotThere("a")), ""),
        ("GPU", "unclear", raising(checks.NotKnown("b")), ""), ("GPU", "wrecked", raising(OSError("c")), ""),
        ("GPU", "fine", works, ""),
    ]  # fmt: skip
    monkeypatch.setattr(checks, "jobs", lambda: iter(jobs))
    shown: list[Any] = []
    monkeypatch.setattr(output.Output, "table", lambda self, table: shown.append(table))
    assert invoke().exit_code == 0
    (table,) = shown
    assert [table.rows[i][1] for i in table.bad] == ["wrecked"]


def test_other_things_that_work_multiply_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "jobs", lambda: iter([("GPU", "CuPy", works, ""), ("peers", "torch", works, "")]))
    result = invoke()
    assert result.exit_code == 1


def test_programs_get_the_advice_too(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        ("GPU", "a", works, "x"),
        ("GPU", checks.ON_CPU, works, "x"),
        ("profile", "b", raising(OSError("no")), "mend"),
    ]
    monkeypatch.setattr(checks, "jobs", lambda: iter(jobs))
    rows = list(csv.DictReader(io.StringIO(invoke("--csv").stdout)))
    assert [(row["for"], row["what"], row["state"]) for row in rows] == [
        ("GPU", "a", WORKS), ("GPU", checks.ON_CPU, WORKS), ("profile", "b", BROKEN),
    ]  # fmt: skip
    assert rows[2]["what to do"] == "mend"
    assert json.loads(invoke("--json").stdout)["ok"] is True


@pytest.mark.parametrize("broken", ["absent", "library", "driver"])
def test_it_survives_a_broken_cupy(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that all real checks complete, however CuPy is broken."""

    class CUDARuntimeError(RuntimeError):
        pass

    class Broken(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            raise OSError("libcudart.so: cannot open shared object file")

    def failing() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver")

    cupy: Any = {
        "absent": None,
        "library": Broken(),
        "driver": SimpleNamespace(
            __version__="14", cuda=SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=failing))
        ),
    }[broken]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(gpu_checks, "driver_version", lambda: 13000)
    monkeypatch.setattr(checks, "_simulator_product", works)
    monkeypatch.setattr(checks, "_cuda_core", works)
    result = invoke("--json")
    assert result.exit_code == 0, result.output
    (table,) = json.loads(result.stdout)["tables"]
    states = {row["what"]: row["state"] for row in table["rows"]}
    assert states["NVIDIA driver"] == WORKS
    assert states["devices"] != WORKS
    assert states[checks.ON_GPU] == UNKNOWN
    advice = {row["what"]: row["what to do"] for row in table["rows"]}
    assert broken == "driver" or advice["CuPy"] == 'in a checkout of tiledmm: pip install ".[cuda13]"'


def test_two_cupys_are_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [SimpleNamespace(metadata={"Name": name}) for name in ("cupy-cuda12x", "cupy_cuda13x", "cupy-cuda13x")]
    monkeypatch.setattr(checks.importlib.metadata, "distributions", lambda: names)
    with pytest.raises(RuntimeError, match=r"cupy-cuda12x.*cupy-cuda13x"):
        gpu_checks.cupy_version()


def test_without_a_driver_the_advice_is_for_cuda_12(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks.ctypes, "CDLL", lambda name: raising(OSError(name))())
    with pytest.raises(checks.NotThere):
        gpu_checks.driver_support()
    assert gpu_checks.cuda_extra() == "cuda12"


@pytest.mark.parametrize(
    ("version", "extra"),
    [(11080, "cuda12"), (12000, "cuda12"), (12090, "cuda12"), (13000, "cuda13"), (13010, "cuda13"), (14000, "cuda13")],
)
def test_the_advice_is_for_a_cuda_that_the_driver_runs(
    version: int, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(target: Any) -> int:
        target._obj.value = version
        return 0

    monkeypatch.setattr(gpu_checks, "driver", lambda: SimpleNamespace(cuDriverGetVersion=tell))
    advice = {name: advice for _, name, _, advice in checks.jobs()}
    for name in ("CuPy", "devices", "CUDA runtime", "NVRTC", "cuBLAS"):
        assert f"[{extra}]" in advice[name]
    assert gpu_checks.driver_support() == f"for CUDA up to {version // 1000}.{version % 1000 // 10}"


def test_a_driver_that_does_not_answer_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "driver", lambda: SimpleNamespace(cuDriverGetVersion=lambda target: 100))
    check = checks.carry_out("GPU", "NVIDIA driver", gpu_checks.driver_support, "mend it")
    assert check.state == BROKEN and "100" in check.found
    assert gpu_checks.cuda_extra() == "cuda12"


def one_element_off(a: Any, b: Any, **_: Any) -> Any:
    c = np.matmul(a, b)
    c[-1, -1] += 1
    return c


@pytest.mark.parametrize(
    ("multiply", "state"),
    [
        (lambda a, b, **_: np.matmul(a, b), WORKS),
        (one_element_off, BROKEN),
        (lambda a, b, **_: np.full((19, 29), np.nan, np.float32), BROKEN),
        (lambda a, b, **_: np.zeros((19, 29), np.float32), BROKEN),
    ],
)
def test_a_product_has_to_be_right_everywhere(
    multiply: Callable[..., Any], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"totalGlobalMem": 80 << 30, "name": b"a GPU", "major": 9, "minor": 0}
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, getDeviceProperties=lambda device: properties)
    cupy = SimpleNamespace(asarray=np.array, asnumpy=np.array, cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[misc]
    monkeypatch.setattr(gpu_checks, "driver_version", lambda: 13000)
    monkeypatch.setattr(tiledmm, "matmul", multiply)
    monkeypatch.setattr(simulator, "matmul", multiply)
    assert gpu_checks.devices() == "a GPU, compute capability 9.0, 80 GiB"
    for look in (checks._gpu_product, checks._simulator_product):
        assert checks.carry_out("", "", look, "").state == state


@pytest.mark.skipif(sys.platform != "linux", reason="the simulator runs on Linux")
@pytest.mark.parametrize("rest", ["exit 0", "echo 'error: not for me' >&2; exit 1"])
def test_a_compiler_that_only_tells_its_version_is_broken(
    rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a program that passes for a compiler, such as ``CXX=true``, where ``true --version`` succeeds."""
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "c++ 1.0" && exit 0\n{rest}\n', encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path / "cache"))
    check = checks.carry_out("simulator", "C++ compiler", checks._compiler, "mend it")
    assert check.state == BROKEN
    assert str(compiler) in check.found
    assert "CXX" in check.found


def test_every_check_has_its_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_checks, "driver_version", lambda: 12040)
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cupys"))
    advice = {(part, name): text for part, name, _, text in checks.jobs()}
    parts = ["tiledmm", *["GPU"] * 7, *["simulator"] * 2, *["inspect"] * 2, *["profile"] * 2, "charts"]
    assert [part for part, _ in advice] == [*parts, *["caches"] * 3, *["peers"] * 3]
    assert {checks.ON_GPU, checks.ON_CPU} == {name for _, name in advice if "product" in name}
    assert ("GPU", checks.ON_GPU) in advice and ("simulator", checks.ON_CPU) in advice
    for key, extra in {
        ("GPU", "CuPy"): "cuda12", ("GPU", "devices"): "cuda12", ("GPU", "CUDA runtime"): "cuda12",
        ("GPU", "NVRTC"): "cuda12", ("GPU", "cuBLAS"): "cuda12", ("simulator", "C++ compiler"): "simulate",
        ("inspect", "NVRTC without a GPU"): "inspect", ("inspect", "disassembler"): "inspect",
        ("charts", "matplotlib"): "charts",
    }.items():  # fmt: skip
        assert f"[{extra}]" in advice[key]
    assert "drivers" in advice["GPU", "NVIDIA driver"] and "cuda-downloads" in advice["profile", "ncu"]
    caches = {text.split()[1] for (part, _), text in advice.items() if part == "caches"}
    assert caches == {"CUPY_CACHE_DIR", "TILEDMM_CACHE_DIR"}
    assert {text for (part, _), text in advice.items() if part == "peers"} == {
        f"pip install {name}" for name in ("torch", "jax", "triton")
    }
    folders = {name: folder for name, folder, _ in checks._caches()}
    assert folders == {
        "compiled kernels": tmp_path / "cupys", "simulated kernels": tmp_path / "own" / "simulator",
        "tuned tables": tmp_path / "own" / "tuned",
    }  # fmt: skip


@pytest.mark.parametrize("known", [None, "cupy-cuda12x", "cupy"])
def test_a_cupy_is_found_with_its_package(known: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["numpy", "cupyx-other", "my-cupy-cuda12x", *([known] if known else [])]
    found = [SimpleNamespace(metadata={"Name": name}) for name in names]
    monkeypatch.setattr(checks.importlib.metadata, "distributions", lambda: found)
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="14.1"))  # type: ignore[misc]
    if known is None:
        with pytest.raises(checks.NotThere):
            gpu_checks.cupy_version()
        monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: name)
    assert gpu_checks.cupy_version() == ("14.1" if known is None else f"14.1 ({known})")


def test_devices_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        {"totalGlobalMem": 80 << 30, "name": b"one", "major": 9, "minor": 0},
        {"totalGlobalMem": 24 << 30, "name": b"other", "major": 8, "minor": 6},
    ]
    runtime = SimpleNamespace(
        getDeviceCount=lambda: len(found), getDeviceProperties=found.__getitem__, runtimeGetVersion=lambda: 12090
    )
    nvrtc = SimpleNamespace(getVersion=lambda: (12, 9))
    cublas, device = SimpleNamespace(getVersion=lambda handle: 120_904), SimpleNamespace(get_cublas_handle=lambda: 1)
    cuda = SimpleNamespace(runtime=runtime, nvrtc=nvrtc, cublas=cublas, device=device)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)  # type: ignore[misc]
    monkeypatch.setattr(gpu_checks, "driver_version", lambda: 13000)
    assert gpu_checks.devices() == "one, compute capability 9.0, 80 GiB; other, compute capability 8.6, 24 GiB"
    assert (gpu_checks.runtime_version(), gpu_checks.nvrtc_version(), gpu_checks.cublas_version()) == (
        "12.9",
        "12.9",
        "12.9.4",
    )
    assert gpu_checks.cuda_version(13010) == "13.1" and gpu_checks.driver_support() == "for CUDA up to 13.0"
    found.clear()
    states = [
        checks.carry_out("", "", look, "").state
        for look in (gpu_checks.devices, gpu_checks.cublas_version, checks._gpu_product)
    ]
    assert states == [MISSING, UNKNOWN, UNKNOWN]
    monkeypatch.setattr(gpu_checks, "driver_version", raising(checks.NotThere("no driver")))
    assert checks.carry_out("", "", gpu_checks.devices, "").state == UNKNOWN
    monkeypatch.setattr(gpu_checks, "driver_version", raising(RuntimeError("no answer")))
    assert checks.carry_out("", "", gpu_checks.devices, "").state == BROKEN


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(bytes(2**20))
    assert checks._folder(tmp_path / "there") == f"1 files, 1.0 MiB, {tmp_path / 'there'}"
    assert checks._folder(tmp_path / "not" / "yet") == f"empty, {tmp_path / 'not' / 'yet'}"
    with pytest.raises(OSError):
        checks._folder(tmp_path / "there" / "file" / "below")


@pytest.mark.parametrize(
    ("text", "state", "found"),
    [
        ("__version__ = '2.1'\nclass cuda:\n    is_available = lambda: False", WORKS, "2.1, without a GPU"),
        ("__version__ = '2.2'\nclass cuda:\n    is_available = lambda: True", WORKS, "2.2, with the GPU"),
        ("print('hello')\n__version__ = '2.3'\nclass cuda:\n    is_available = lambda: None", WORKS, "2.3"),
        ("raise OSError('libtorch.so')", BROKEN, "RuntimeError: OSError: libtorch.so"),
        ("import os\nos._exit(7)", BROKEN, "RuntimeError: exit status 7"),
    ],
)
def test_peers_are_imported_elsewhere(
    text: str, state: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = checks.carry_out("peers", "torch", lambda: checks._peer("torch", "m.cuda.is_available()"), "")
    assert (check.state, check.found) == (state, found)
    assert "torch" not in sys.modules


def test_tools_are_found_in_a_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(checks.NotThere):
        checks._tool("ncu-of-this-test")
    tool = tmp_path / "bin" / "ncu-of-this-test"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho Version 2025.3.1.0 of it\n", encoding="utf-8")
    tool.chmod(0o755)
    assert checks._tool("ncu-of-this-test") == f"2025.3.1.0, {tool}"
    tool.write_text("#!/bin/sh\necho nothing of interest\n", encoding="utf-8")
    assert checks._tool("ncu-of-this-test") == str(tool)
    for said in ("echo no licence", "echo no licence >&2"):
        tool.write_text(f"#!/bin/sh\n{said}\nexit 3\n", encoding="utf-8")
        with pytest.raises(RuntimeError, match="licence"):
            checks._tool("ncu-of-this-test")


def test_caches_are_cleared_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEDMM_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cupy"))
    monkeypatch.setattr(checks, "jobs", lambda: pytest.fail("nothing is to be checked"))
    own = {tmp_path / "own" / "simulator" / "k.so": 1500, tmp_path / "cupy" / "tiledmm" / "k.cubin": 2500}
    others = {tmp_path / "own" / "tuned" / "gpu.json": 10, tmp_path / "cupy" / "k.cubin": 10}
    for path, size in (own | others).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    result = invoke("--clear-caches", "--json")
    assert result.exit_code == 0, result.output
    (table,) = json.loads(result.stdout)["tables"]
    assert [list(row.values())[1:3] for row in table["rows"]] == [[1, 1500], [1, 2500]]
    assert [path.exists() for path in own] == [False, False] and [path.exists() for path in others] == [True, True]
    assert "2,500" not in invoke("--clear-caches").output, "they are gone"


def test_a_part_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [("GPU", "one", works, ""), ("GPU", "two", works, ""), ("GPU", "three", works, ""), ("CPU", "x", works, "")]
    monkeypatch.setattr(checks, "jobs", lambda: jobs)
    result = invoke()
    table, _, _ = result.output.partition("Not ready")
    assert table.count("GPU") == 1, table
