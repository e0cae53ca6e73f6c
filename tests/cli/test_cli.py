"""Tests of the command line, without a GPU and with a made-up one."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import benchmarks.help
import tiledmm
from tests.conftest import missing_simulator
from tiledmm import __version__, cli
from tiledmm.bench import kernel_resources, resource_tables, simulable, simulated, validation
from tiledmm.bench.peers import PEERS
from tiledmm.bench.results import Comparison, Machine, Row, from_json
from tiledmm.bench.simulated import Simulated
from tiledmm.bench.sizes import Size, parse_size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.cli import compare, device, output
from tiledmm.cli.arguments import SIMULATED_SIZES
from tiledmm.cli.exit_status import report_errors
from tiledmm.cli.output import ALL_RIGHT, Progress, _Lines
from tiledmm.codegen.template_files import template_folder
from tiledmm.compile import inspection
from tiledmm.compile.inspection import Resources
from tiledmm.errors import INSTALL, CompilationError, ConfigError, MissingDependencyError
from tiledmm.hardware import device as hardware_device
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.variants import VARIANTS
from tiledmm.own_kernels import registration
from tiledmm.profile import application

ROOT = Path(__file__).resolve().parents[2]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["compare", *arguments])


def fake_compile(monkeypatch: pytest.MonkeyPatch, only: str = "", **changes: int) -> None:
    """Replace the compiler by one with fixed results, changed for kernels with ``only`` in their symbol."""
    figures = {
        "registers": 32, "shared_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0,
    }  # fmt: skip

    def compile_for(source: str, symbol: str, target: str) -> Resources:
        known = figures | changes if only in symbol else figures
        return Resources(target=target, constant_bytes=None, cubin=b"", log="", **known)

    monkeypatch.setattr(kernel_resources, "compile_for", compile_for)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")
    monkeypatch.setattr(simulated, "_can_disassemble", lambda: False)  # a second per kernel


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0",), "MxNxK"),
        (("2147483648",), "2^31 - 1"),
        (("--variants", "tilde"), "'tiled'"),
        (("--tiles", "24"), "24"),
        (("--tiles", "x"), "'x'"),
        (("--dtypes", "float33"), "float33"),
        (("--dtypes", ","), "nothing"),
        (("--layouts", "NX"), "NX"),
        (("--target", "sm_1"), "sm_1"),
        (("--seconds", "-1"), "seconds"),
        (("--variants", "cublas"), "GPU only"),
        (("--variant", "tiled", "--variants", "naive"), "twice"),
        (("--variants", "tensor_core"), "only float16"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str, no_gpu: None) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_flags_may_be_repeated() -> None:
    """Check that flags may be repeated, unlike options with values, of which only the last would count."""
    result = CliRunner().invoke(cli.app, ["variants", "--json", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ok"]


def test_without_a_gpu_kernels_are_compiled(no_gpu: None) -> None:
    pytest.importorskip("cuda.core")
    try:
        inspection.compile_for('extern "C" __global__ void f() {}', "f", "sm_90")
    except MissingDependencyError as error:
        pytest.skip(str(error))
    result = invoke("--full", "8", "10x7x5", "--variants", "naive", "--layout", "NN")
    assert result.exit_code == 0, result.output
    for text in ("none in this test", "sm_90", "sm_75", "8 x 8 x 8", "10 x 7 x 5"):
        assert text in result.output
    assert "FAILED" not in result.output


def test_by_default_a_table_fits_a_terminal(no_gpu: None) -> None:
    """Check the short table: one per product, in 90 columns, with what to see in it."""
    result = invoke("64", "--variant", "naive,coalesced,tiled,tiled_padded", "--tile", "32")
    assert result.exit_code == 0, result.output
    row = re.search(r" tiled 32 +right +[\d.]+ +([\d.]+) / ([\d.]+) +([\d.]+) ", result.output)
    assert row and float(row[2]) - float(row[1]) == pytest.approx(float(row[3]), rel=0.01), "NT adds conflicts"
    assert max(map(len, map(str.rstrip, result.output.splitlines()))) <= 90
    for said in ("Coalescing: naive", "Reuse: tiled", "NT: padding removes "):
        assert said in result.output, said
    assert "registers" not in result.output and "Bounds" not in result.output


@pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))
def test_a_kernel_that_is_wrong_at_the_second_size_alone_is_shown(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate_all(variant_tiles: list[VariantTile], size: Size, **_: Any) -> list[Simulated]:
        return [Simulated(each, None, None, "it is broken" if size.m == 61 else "") for each in variant_tiles]

    monkeypatch.setattr(simulated, "simulate_all", simulate_all)
    result = invoke("--variant", "naive")
    assert result.exit_code == 1
    assert "Simulated  61 x 83 x 47" in result.output and "naive: it is broken" in result.output


def test_help_names_the_sizes_without_a_gpu() -> None:
    sizes = [Size(*each) for each in map(parse_size, SIMULATED_SIZES)]
    assert tuple(sizes) == simulable.SIZES
    text = " ".join(CliRunner().invoke(cli.app, ["compare", "--help"]).output.replace("│", " ").split())
    assert "256 1024 4096; without a GPU 128 61x83x47" in text


def test_spills_fail(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch, spill_load_bytes=4)
    monkeypatch.setattr(simulated, "simulate_all", lambda *_, **__: [Simulated(VariantTile("tiled", 8), None, None)])
    result = invoke(
        "--full", "64", "--variants", "tiled", "--tiles", "all", "--dtypes", "int8,complex64", "--layouts", "nt"
    )
    assert result.exit_code == 1
    assert "4 B" in result.output
    assert "FAILED" in result.output
    for text in ("int8  NT", "complex64  NT", " 8 ", " 64 "):
        assert text in result.output


@pytest.mark.parametrize("only", ["_naive_f32", "_coalesced_f64", "no kernel"])
def test_one_kernel_of_many_that_spills_fails(no_gpu: None, monkeypatch: pytest.MonkeyPatch, only: str) -> None:
    fake_compile(monkeypatch, only, spill_store_bytes=4)
    monkeypatch.setattr(simulated, "simulate_all", lambda *_, **__: [Simulated(VariantTile("naive"), None, None)])
    result = invoke("--full", "8", "--variants", "naive,coalesced", "--dtypes", "float32,float64")
    assert result.exit_code == (only != "no kernel"), result.output
    assert ("FAILED" in result.output) is (only != "no kernel")


@pytest.fixture(scope="module")
def right_rows() -> dict[str, list[Simulated]]:
    """Keep the rows of simulated products by their size, for all cases of a test."""
    return {}


@pytest.mark.parametrize(
    ("wrong", "compiler"),
    [
        ((1, 0, 0, 0), True), ((0, 0, 0, 1), True), ((0, 0, 0, 0), True), ((0, 1, 0, 0), False), ((0, 0, 0, 0), False),
    ],
)  # fmt: skip
def test_one_wrong_result_of_many_fails(
    no_gpu: None,
    monkeypatch: pytest.MonkeyPatch,
    right_rows: dict[str, list[Simulated]],
    wrong: tuple[int, ...],
    compiler: bool,
) -> None:
    """Check the exit status if one of four simulated products (two sizes, two kernels) is wrong."""
    fake_compile(monkeypatch)
    left, simulate_right = list(wrong), simulated.simulate_all

    def simulate_all(variant_tiles: list[VariantTile], size: Size, **keywords: Any) -> list[Simulated]:
        if str(size) not in right_rows:
            right_rows[str(size)] = simulate_right(variant_tiles, size, **keywords)
        rows = right_rows[str(size)]
        return [Simulated(row.variant_tile, None, None, "it is broken") if left.pop(0) else row for row in rows]

    def missing(*_: Any) -> Any:
        raise MissingDependencyError("there is none")

    monkeypatch.setattr(simulated, "simulate_all", simulate_all)
    if not compiler:
        monkeypatch.setattr(kernel_resources, "compile_for", missing)
    result = invoke("8", "9", "--variants", "naive,coalesced", "--layouts", "NN")
    assert not left
    assert result.exit_code == any(wrong), result.output
    assert ("FAILED" in result.output) is any(wrong)
    last = result.output.rstrip().splitlines()[-1]
    assert last.startswith("FAILED") if any(wrong) else last == ALL_RIGHT


@pytest.mark.parametrize("wrong", ["NN", "NT", ""])
def test_a_result_that_is_wrong_in_the_layout_beside_fails(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Check that the first product is also simulated in layout NT if no layout is named, and that its errors count."""
    fake_compile(monkeypatch)
    asked = []

    def simulate_all(variant_tiles: list[VariantTile], size: Size, *, layout: str, **_: Any) -> list[Simulated]:
        asked.append((str(size), layout))
        return [Simulated(each, None, None, "it is broken" if layout == wrong else "") for each in variant_tiles]

    monkeypatch.setattr(simulated, "simulate_all", simulate_all)
    result = invoke("8", "9", "--variants", "naive")
    assert asked == [("8 x 8 x 8", "NN"), ("8 x 8 x 8", "NT"), ("9 x 9 x 9", "NN")]
    assert result.exit_code == bool(wrong), result.output
    assert ("naive: it is broken" in result.output) is bool(wrong)


@pytest.mark.parametrize(
    ("layouts", "tables"),
    [
        ((), ["8 x 8 x 8  float32  NN", "8 x 8 x 8  float32", "9 x 9 x 9  float32  NN"]),
        (("--layouts", "NT"), ["8 x 8 x 8  float32  NT", "9 x 9 x 9  float32  NT"]),
        (("--layouts", "NT,NN"), [f"{n} x {n} x {n}  float32{of}" for n in (8, 9) for of in ("  NT", "  NN", "")]),
    ],
)
def test_each_layout_that_is_asked_for_has_a_table(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, layouts: tuple[str, ...], tables: list[str]
) -> None:
    """Check tables of layouts and, if there are several, tables that show them side by side."""
    fake_compile(monkeypatch)
    monkeypatch.setattr(simulated, "simulate_all", lambda *_, **__: [Simulated(VariantTile("naive"), None, None)])
    result = invoke("8", "9", "--variants", "naive", *layouts, "--json")
    titles = [each["title"] for each in json.loads(result.stdout)["tables"]]
    assert [title.partition("imulated  ")[2] for title in titles if "imulated  " in title] == tables


def test_without_a_gpu_the_simulated_products_are_those_asked_for_or_it_is_said_why_not(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compile(monkeypatch)
    asked: list[str] = []

    def simulate_all(variant_tiles: Any, size: Size, **_: Any) -> list[Simulated]:
        asked.append(str(size))
        return [Simulated(each, None, None) for each in variant_tiles]

    monkeypatch.setattr(simulated, "simulate_all", simulate_all)
    monkeypatch.setattr(simulable, "_rates", lambda *_: [((32, 32), 1e-6)])
    for sizes, simulates, said in (
        (("300",), ["300 x 300 x 300"], ""),
        (("300", "1000000"), ["300 x 300 x 300"], "1000000 x 1000000 x 1000000 is"),
        (("400",), ["128 x 128 x 128", "61 x 83 x 47"], "400 x 400 x 400 is"),
        ((), ["128 x 128 x 128", "61 x 83 x 47"], "128 x 128 x 128"),
    ):
        asked.clear()
        result = invoke(*sizes, "--variants", "naive", "--layouts", "NN")
        assert result.exit_code == 0, result.output
        assert asked == simulates
        assert said in " ".join(result.output.split())
        assert ("not simulated" in result.output) is said.endswith("is")


def test_variants_that_are_left_out_are_named_with_the_reason(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch)
    monkeypatch.setattr(simulated, "simulate_all", lambda each, *_, **__: [Simulated(i, None, None) for i in each])
    result = invoke("8", "--dtypes", "int8")
    assert result.exit_code == 0, result.output
    others, said = "split_float64, split_float64_tensor_core", " ".join(result.output.split())
    assert f"(not available for int8): split_float32, split_tensor_core, split_integer, {others}." in said
    assert "Left out" not in invoke("8", "--variants", "naive").output


def test_variants_that_are_left_out_on_a_gpu_are_named(gpu: SimpleNamespace) -> None:
    assert "(not available for float32): wgmma." in invoke("64", "--variants", "naive,wgmma").output


def test_markdown(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch)
    result = invoke("--full", "8", "--markdown", "--target", "sm_75", "--variants", "naive")
    assert result.exit_code == 0
    assert re.search(r"^\| naive \| - \| \d+ \| 32 \| 0 \| 0 \| \d+ \| \d+% \|", result.output, re.MULTILINE)
    assert "\n|---|---:|" in result.output


def test_without_a_compiler_bounds_are_left(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise MissingDependencyError(f"cuda-core is missing; {INSTALL}")

    monkeypatch.setattr(inspection, "_cuda_core", missing)
    result = invoke("--full", "64", "--variants", "naive")
    assert result.exit_code == 0
    assert INSTALL in " ".join(result.output.split())
    assert "Compiled for" not in result.output
    assert "Bounds on H100" in result.output


def test_without_a_cpp_compiler_nothing_is_simulated_and_the_rest_is_shown(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*arguments: Any, **options: Any) -> Any:
        raise MissingDependencyError("no C++ compiler in this test")

    fake_compile(monkeypatch)
    monkeypatch.setattr(simulated, "simulate_all", missing)
    result = invoke("--full", "64", "--variants", "naive")
    assert result.exit_code == 0, result.output
    assert "no C++ compiler in this test" in result.output
    assert "Bounds on H100" in result.output


def test_one_form_at_a_time(no_gpu: None) -> None:
    result = invoke("64", "--json", "--csv")
    assert result.exit_code == 2
    assert "--json" in result.output and "--csv" in result.output


def test_what_is_known_without_a_gpu_as_json_and_csv(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch)
    command = ("4x5x6", "--variants", "naive,tiled", "--target", "sm_75")
    result = invoke(*command, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["ok"] and "No GPU" in result.stderr
    (bounds,) = (each["rows"] for each in found["tables"] if each["title"].startswith("Bounds"))
    assert [row["tile"] for row in bounds] == [None, 32]
    assert {**bounds[0], "target": "sm_75", "m": 4, "n": 5, "k": 6, "dtype": "float32", "shared (B)": 0} == bounds[0]
    assert bounds[0]["FLOP/byte"] == pytest.approx(2 * 4 * 5 * 6 / (4 * (2 * 4 * 5 * 6 + 4 * 5)))

    result = invoke(*command, "--csv")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    compiled = [row for row in rows if row["table"].startswith("Compiled for")]
    assert {row["target"] for row in compiled} == set(TARGETS)
    assert all(row["registers"] == "32" and row["TFLOP/s bound"] == "" for row in compiled)


def test_missing_gpu_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "CuPy" in str(device.missing_gpu())

    class CUDARuntimeError(RuntimeError):
        pass

    def failing() -> int:
        raise CUDARuntimeError("no driver\nat all")

    runtime = SimpleNamespace(getDeviceCount=failing, CUDARuntimeError=CUDARuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    monkeypatch.setattr(hardware_device, "driver", lambda: None)
    assert device.missing_gpu() == "no driver"

    def absent() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(hardware_device, "driver", absent)
    assert "driver" in str(device.missing_gpu())
    runtime.getDeviceCount = lambda: 0
    assert device.missing_gpu()
    runtime.getDeviceCount = lambda: 2
    assert device.missing_gpu() is None


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Make up a machine on which every comparison has one row, and record the requests."""
    state = SimpleNamespace(asked=[], peers=[], ok=True, wrong=[])

    def compare(
        size: Any, *, dtype: str, layout: str, variant_tiles: Any, seconds: float, peers: bool, progress: Any
    ) -> Comparison:
        progress("checking")
        state.asked.append((tuple(size), dtype, layout, [each.label for each in variant_tiles], seconds))
        state.peers.append(peers)
        ok = not state.wrong.pop(0) if state.wrong else state.ok
        rows = (Row("naive", ok=ok, error=1e-7, microseconds=1.0, rounds=(1.0,)),)
        return Comparison(*size, dtype, layout, 1e-5, 1, rows)

    strings = {name: name for name in Machine.__annotations__}
    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setattr(simulated, "_can_disassemble", lambda: False)
    monkeypatch.setitem(sys.modules, "tiledmm.bench.comparison", SimpleNamespace(compare=compare))  # type: ignore[misc]
    monkeypatch.setitem(
        sys.modules, "tiledmm.bench.environment", SimpleNamespace(this_machine=lambda: Machine(**strings))
    )
    return state


def test_with_a_gpu_every_product_is_compared(gpu: SimpleNamespace) -> None:
    result = invoke(
        "64", "8x9x10", "--dtypes", "float32,int8", "--layouts", "NN,TT", "--variants", "naive,tiled",
        "--tiles", "8,16", "--seconds", "0.1", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    labels = ["naive", "tiled 8", "tiled 16"]
    assert gpu.asked == [
        (size, dtype, layout, labels, 0.1)
        for dtype in ("float32", "int8")
        for layout in ("NN", "TT")
        for size in ((64, 64, 64), (8, 9, 10))
    ]
    assert len(from_json(result.stdout).comparisons) == 8
    tables = json.loads(result.stdout)["tables"]
    assert tables[-1]["title"] == "8 x 9 x 10  int8  TT"
    assert {"m": 8, "n": 9, "k": 10, "variant": "naive", "time (us)": 1.0}.items() <= tables[-1]["rows"][0].items()
    assert "gpu, driver" in result.stderr, "the machine, for people"


def test_the_last_line_is_the_verdict(gpu: SimpleNamespace) -> None:
    assert invoke("64").output.rstrip().splitlines()[-1] == ALL_RIGHT
    gpu.ok = False
    assert ALL_RIGHT not in invoke("64").output


def test_default_sizes(gpu: SimpleNamespace) -> None:
    assert invoke().exit_code == 0
    assert [size[0] for size, *_ in gpu.asked] == [int(size) for size in compare.DEFAULT_SIZES]
    assert all("auto" in labels and "tiled 32" in labels for *_, labels, _ in gpu.asked)


def test_peers_can_be_left_out(gpu: SimpleNamespace) -> None:
    for options in ((), ("--no-peers",)):
        assert compare._METHOD in " ".join(invoke("64", *options).output.split())
    assert gpu.peers == [PEERS, ()]


def test_a_mismatch_fails(gpu: SimpleNamespace) -> None:
    gpu.ok = False
    result = invoke("64")
    assert result.exit_code == 1
    assert "MISMATCH" in result.output
    assert "WRONG" in result.output


@pytest.mark.parametrize("wrong", [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]])
def test_one_mismatch_of_many_fails(gpu: SimpleNamespace, wrong: list[int]) -> None:
    gpu.wrong = list(wrong)
    assert invoke("64", "65", "66").exit_code == any(wrong)
    assert len(gpu.asked) == 3


@pytest.mark.parametrize("error", [ImportError("libcublas"), MemoryError("too large")])
def test_what_stops_a_comparison_is_named(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    compare = sys.modules["tiledmm.bench.comparison"].compare

    def fail_at_65(size: Size, **options: Any) -> Comparison:
        if size.m == 65:
            raise error
        return compare(size, **options)

    monkeypatch.setattr(sys.modules["tiledmm.bench.comparison"], "compare", fail_at_65)
    result = invoke("64", "65", "66")
    assert result.exit_code == 1
    assert str(error) in result.output and ALL_RIGHT not in result.output
    assert [size[0] for size, *_ in gpu.asked] == [64] and "64 x 64 x 64" in result.output


def test_no_gpu_can_be_asked_for(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch)
    result = invoke("--full", "8", "--no-gpu", "--variants", "naive")
    assert result.exit_code == 0
    assert not gpu.asked
    assert "Bounds on" in result.output
    assert " ".join(resource_tables.BOUNDS_NOTE.split()) in " ".join(result.output.split())


def modules_after(*programs: tuple[str, tuple[str, ...]]) -> list[set[str]]:
    """Return the modules that one process has imported after each program, which shows the help of commands."""
    code = f"""
import sys
for program, commands in {programs!r}:
    exec(program)
    for command in commands:
        sys.argv = ["x", *filter(None, [command]), "--help"]
        try:
            main()
        except SystemExit as done:
            assert not done.code
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == sum(len(commands) for _, commands in programs)
    return [set(line.split()) for line in done.stderr.splitlines()]


COMMANDS = benchmarks.help.commands()


def test_help_imports_nothing_but_typer() -> None:
    """Check that help imports only what an empty typer application does, so that it is as fast."""
    empty_application, found = modules_after(
        (benchmarks.help.EMPTY, ("",)), ("from tiledmm.cli import main", ("", *COMMANDS))
    )
    others = {name for name in found - empty_application if name.split(".")[0] != "tiledmm"}
    assert not others
    ours = {name for name in found if name.split(".")[0] == "tiledmm" and not name.startswith("tiledmm.cli")}
    assert ours == {"tiledmm"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str) -> None:
    help_text = CliRunner().invoke(cli.app, [command, "--help"]).output
    assert f"\n     tiledmm {command}" in help_text, "an example"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("that there is not"), 2),
        (MissingDependencyError("that there is not"), 1),
        (CompilationError("that there is not"), 1),
        (MemoryError("that there is not"), 1),
        (FileNotFoundError(2, "that there is not"), 1),
    ],
)
def test_errors_are_told_in_a_sentence(error: Exception, status: int) -> None:
    app = typer.Typer()

    def fail() -> None:
        raise error

    app.command()(report_errors(fail))
    result = CliRunner().invoke(app, [])
    assert result.exit_code == status
    assert "that there is not" in result.stderr and "Traceback" not in result.stderr


def started(*words: str, stdout: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from tiledmm.cli import main; main()", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("words", [pytest.param(("source", "warp_tiled"), marks=pytest.mark.slow), ("--help",)])
def test_who_reads_on_no_more_is_told_nothing(words: tuple[str, ...]) -> None:
    """Check that a closed pipe, as by ``| head``, gives no message and an exit status of its own."""
    with started(*words, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("--help",), pytest.param(("variants", "--json"), marks=pytest.mark.slow)])
def test_a_full_disk_is_told_in_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full, started(*words, stdout=full) as process:
        assert process.stderr
        said = process.stderr.read().splitlines()
        assert len(said) == 1 and said[0].startswith(b"tiledmm: stdout ")
    assert process.returncode == 74


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirection")
def test_without_stdout_a_command_runs() -> None:
    code = "from tiledmm.cli import main; main()"
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} variants >&-"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_is_silent_while_a_command_imports_modules(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "tiledmm", "source", "tiled"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_an_interrupt_before_a_command_is_found_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    monkeypatch.setattr(cli, "guard_stdout", lambda: None)
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:
        cli.main()
    assert isinstance(ended.value, SystemExit) and ended.value.code == 130


TILES = ", ".join(map(str, VARIANTS["tiled"].tiles))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("source", "tiled", "--tile", "abc"), f"'abc' is not available for variant 'tiled': its tiles are {TILES}"),
        (("inspect", "tiled", "--tile", "1.5"), f"'1.5' is not available for variant 'tiled': its tiles are {TILES}"),
        (("compare", "--tile", "abc"), "1, 2,"),
        (("source", "naive", "--tile", "8"), "naive"),
        (("source", "tiled", "--tile", "8,16"), "--tile"),
        (("compare", "--dtype", "float99"), "float32, float64"),
        (("source", "tiled", "--dtype", "float99"), "float32, float64"),
        (("tune",), "product"),
        (("tune", "1x2"), "MxNxK"),
        (("inspect", "tiled", "--size", "4,5"), "--size"),
    ],
)
def test_what_would_do_is_said(words: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 2
    assert says in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    "command", ["compare", "explain", "inspect", "precompile", "profile", "tiles", "tune", "validate"]
)
def test_options_are_spelled_alike_and_their_plurals_work(command: str) -> None:
    """Check that every command spells these options in the singular and accepts their plurals."""
    taken = typer.main.get_command(cli.app).commands[command]  # type: ignore[attr-defined]
    spellings = {name for parameter in taken.params for name in parameter.opts if name.startswith("--")}
    assert "--size" in spellings
    assert not spellings & {"--sizes", "--tiles", "--dtypes", "--layouts", "--variants"}
    group = typer.main.get_command(cli.app)
    values = {"--size": "5", "--tile": "8", "--dtype": "int8", "--layout": "NT", "--variant": "tiled"}
    with group.make_context("tiledmm", [command]) as context:
        for name, value in values.items():
            if name in spellings:
                found = [
                    taken.make_context(command, ["tiled", each, value], parent=context).params
                    for each in (name, f"{name}s")
                ]
                assert found[0] == found[1] and value in map(str, found[0].values())


def test_flags_are_off_unless_they_are_given() -> None:
    """Check the defaults of flags, of which only ``--peers`` is on, and of the seconds that a measurement takes."""
    on = []
    for name, command in typer.main.get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        on += [(name, each.name) for each in command.params if each.default is True]
        assert all(0 < each.default < 1 for each in command.params if each.name == "seconds")
    assert on == [("compare", "peers")]


def test_sizes_may_be_an_option(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch)
    monkeypatch.setattr(simulated, "simulate_all", lambda *_, **__: [Simulated(VariantTile("naive"), None, None)])
    result = invoke("--full", "8", "--size", "9,3x4x5", "--variant", "naive")
    assert result.exit_code == 0, result.output
    for size in ("8 x 8 x 8", "9 x 9 x 9", "3 x 4 x 5"):
        assert f"Bounds on H100 SXM 80 GB  {size}" in result.output


@pytest.fixture
def own_kernel(tmp_path: Path) -> Iterator[Path]:
    """Write a file that registers the variant ``own_kernel``; unregister it afterwards."""
    template, file = tmp_path / "own_kernel.cu.j2", tmp_path / "own.py"
    template.write_text((template_folder() / "tiled.cu.j2").read_text())
    file.write_text(f"import tiledmm\ntiledmm.register({str(template)!r})\n")
    yield file
    registration.IMPORTED.clear()
    if "own_kernel" in VARIANTS:
        tiledmm.unregister("own_kernel")


def test_a_file_registers_variants_for_a_command_and_what_it_starts(own_kernel: Path, no_gpu: None) -> None:
    for words in (
        ["source", "own_kernel", "--tile", "16"],
        ["source", "tiled", "--diff", "own_kernel"],
        ["profile", "own_kernel", "--size", "64", "--print-command"],
    ):
        result = CliRunner().invoke(cli.app, [*words, "--import", str(own_kernel)])
        assert result.exit_code == 0, result.output
        assert "own_kernel" in result.output
    _, _, words = result.output.partition("tiledmm.profile.application ")
    assert shlex.split(words) == ["64x64x64", "float32", "NN", "own_kernel:32", "--import", str(own_kernel)]
    tiledmm.unregister("own_kernel")
    assert application.imported(shlex.split(words)[3:]) == ["own_kernel:32"]
    assert "own_kernel" in VARIANTS


def test_a_file_that_registers_nothing_is_told(own_kernel: Path) -> None:
    own_kernel.with_name("own_kernel.cu.j2").write_text("{{ bm() }}")
    for file, says in (
        ("nowhere.py", "nowhere.py"),
        (str(own_kernel), "own_kernel.cu.j2:1: TypeError"),
        ("", "--import"),
    ):
        result = CliRunner().invoke(cli.app, ["source", "own_kernel", *(["--import", file] if file else [])])
        assert result.exit_code == 2
        assert says in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("tiledmm sou", 1, ["source"]),
        ("tiledmm source tiled_", 2, ["tiled_padded"]),
        ("tiledmm compare --variant tin", 3, ["tiny"]),
        ("tiledmm compare --variant tiled,tin", 3, ["tiled,tiny"]),
        ("tiledmm run --variant na", 3, ["naive", "narrow_outer_products"]),
        ("tiledmm source tiled --diff na", 4, ["naive", "narrow_outer_products"]),
        ("tiledmm validate --dtype float32,bf", 3, ["float32,bfloat16"]),
        ("tiledmm compare --layout NN,T", 3, ["NN,TN", "NN,TT", "NN,TG"]),
        ("tiledmm run --precision ie", 3, ["ieee"]),
        ("tiledmm explain --target sm_80,sm_9", 3, ["sm_80,sm_90"]),
        ("tiledmm source --import FILE own_", 4, ["own_kernel"]),
    ],
)
def test_a_shell_completes(line: str, word: int, expected: list[str], own_kernel: Path) -> None:
    line = line.replace("FILE", str(own_kernel))
    environment = {"_TILEDMM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(word)}
    done = CliRunner().invoke(cli.app, [], prog_name="tiledmm", env=environment)
    assert (done.exit_code, done.stdout.split(), done.stderr) == (0, expected, "")


def test_a_shell_completes_by_the_module() -> None:
    environment = os.environ | {
        "_TILEDMM_COMPLETE": "complete_bash", "COMP_WORDS": "tiledmm sou", "COMP_CWORD": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "tiledmm"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["source"], "")


def test_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"tiledmm {__version__}\n")


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-W", "error", "-m", "tiledmm", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage: tiledmm" in done.stdout
    assert "\x1b[" not in done.stdout, "no colours where nobody looks"


def test_tune_needs_a_gpu(no_gpu: None) -> None:
    result = CliRunner().invoke(cli.app, ["tune", "64"])
    assert result.exit_code == 1
    assert "none in this test" in result.output
    assert CliRunner().invoke(cli.app, ["tune", "64", "--layouts", "NX"]).exit_code == 2


def test_tune_tells_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiledmm.selection.tuned import Entry
    from tiledmm.tuning import tune as tuning

    asked: list[Any] = []

    def search(shapes: Any, **keywords: Any) -> list[Entry]:
        asked.append((shapes, keywords))
        return [Entry("a product", "float32", "warp_tiled", False, {"split_k": 4}, 50.0, 100.0)]

    monkeypatch.setattr(device, "missing_gpu", lambda: None)
    monkeypatch.setattr(tuning, "tune", search)
    result = CliRunner().invoke(cli.app, ["tune", "64", "1x2x3", "--layouts", "nt,NN", "--trials", "5"])
    assert result.exit_code == 0, result.output
    assert re.search(r"a product +warp_tiled +split_k=4 +50.00 +2.00 *\n", result.output)
    ((shapes, keywords),) = asked
    assert [tuple(shape) for shape in shapes] == [(64, 64, 64), (1, 2, 3)]
    assert keywords == {"dtypes": ["float32"], "layouts": ["NT", "NN"], "trials": 5, "seconds": 0.03, "again": False}


def test_one_bar_is_for_all_parts() -> None:
    seen: list[float | None] = []
    tell = Progress(2, lambda doing, part: seen.append(part))
    tell("first", 0, 0)
    for i in range(2):
        step = tell.portion(i, 2)
        step("first", 1, 4)
        step("first", 4, 4)
    tell.next_job()
    tell("second", 1, 2)
    tell("second", 5, 2)
    tell.next_job()
    assert seen == [0, 1 / 16, 1 / 4, 5 / 16, 1 / 2, 3 / 4, 1]
    Progress(1, lambda doing, part: seen.append(part))("alone", 3, 0)
    assert seen[-1] is None, "nobody knows"


@pytest.mark.parametrize(
    ("command", "jobs"),
    [
        ("compare 8 --variant naive", 2 * 2),  # types and layouts
        ("compare 8 --variant naive --no-gpu", 2 * (1 + 2)),  # each type has one simulation, and one kernel per layout
        ("validate naive --size 8", 2),
    ],
)
def test_progress_goes_from_0_to_the_last_job(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, command: str, jobs: int
) -> None:
    def simulate_all(*_: Any, progress: Any, **__: Any) -> list[Simulated]:
        progress("naive", 1, 1)
        return [Simulated(VariantTile("naive"), None, None)]

    def on_gpu(*_: Any, progress: Any, **__: Any) -> validation.Validation:
        progress("naive", 1, 1)
        return validation.Validation("a GPU", Size(8, 8, 8), "int8", "NN", (0.0, "Exact."), 0.0, ())

    seen: list[float] = []
    fake_compile(monkeypatch)
    monkeypatch.setattr(simulated, "simulate_all", simulate_all)
    monkeypatch.setattr(validation, "on_gpu", on_gpu)
    monkeypatch.setattr(output, "_Lines", lambda screen: lambda doing, part: seen.append(part))
    result = CliRunner().invoke(cli.app, [*command.split(), "--dtype", "int8,float32", "--layout", "NN,NT"])
    assert result.exit_code == 0, result.output
    assert seen == sorted(seen) and seen[0] < 1 / jobs and (jobs - 1) / jobs <= seen[-1] <= 1


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = _Lines(SimpleNamespace(print=lambda text, **_: said.append(text)))  # type: ignore[arg-type]
    for seconds in range(25):
        now[0] = seconds
        lines(f"kernel {seconds}", None if seconds > 15 else seconds / 25)
    assert said == ["40%: kernel 10", "kernel 20"]


@pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))
def test_nt_stands_beside_nn_and_it_is_said_where_padding_pays(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_compile(monkeypatch)
    result = invoke("32", "--variants", "tiled,tiled_padded", "--tiles", "16", "--json")
    assert result.exit_code == 0, result.output
    (beside,) = (each for each in json.loads(result.stdout)["tables"] if "side by side" in each["title"])
    plain, padded = beside["rows"]
    assert plain["NT conflicts"] > padded["NT conflicts"]
    assert plain["NN wavefronts"] < padded["NN wavefronts"] and plain["NT wavefronts"] > padded["NT wavefronts"]
    assert plain["NT total conflicts"] == pytest.approx(plain["NT conflicts"] * 32**3 / 32)
    removed = plain["NT total conflicts"] - padded["NT total conflicts"]
    effects = [note.split(".")[0] for note in beside["notes"]]
    assert effects == ["NN: padding costs wavefronts", f"NT: padding removes {removed:,} bank conflicts"]


@pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))
def test_how_long_a_simulation_takes_is_measured() -> None:
    small = simulable.simulable([Size(8, 8, 8)], [VariantTile("naive")], "float32", "sm_90")
    assert (small.sizes, small.asked, str(small)) == ((Size(8, 8, 8),), True, "")
    kernels = [VariantTile("naive"), VariantTile("wgmma", 64)]
    large = simulable.simulable([Size(10**6, 10**6, 10**6), Size(140, 130, 120)], kernels, "float32", "sm_90")
    assert large.sizes == (Size(140, 130, 120),) and large.asked
    ((size, seconds),) = large.too_long
    assert size.m == 10**6 and 1e8 < seconds < 1e15
    none = simulable.simulable([size], kernels, "float32", "sm_90")
    assert (none.sizes, none.asked) == (simulable.SIZES, False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3, "3 seconds"),
        (60, "60 seconds"),
        (150, "2 minutes"),
        (9000, "2 hours"),
        (2e5, "2 days"),
        (1e15, "31,688,088 years"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert simulable.duration(seconds) == text


@pytest.mark.skipif(bool(missing_simulator()), reason=str(missing_simulator()))
def test_products_that_are_asked_for_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing_gpu", lambda: "none in this test")
    fake_compile(monkeypatch)
    result = invoke("8", "--variants", "naive", "--layouts", "NN")
    assert result.exit_code == 0 and "Simulated  8 x 8 x 8" in result.output, result.output
