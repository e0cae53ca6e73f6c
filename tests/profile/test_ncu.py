"""Tests of Nsight Compute's command line, messages and pages, with a made-up ncu."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profile.fake_ncu import FakeNcu, install, raw_page, source_page, table
from tiledmm.errors import ProfilingError
from tiledmm.profile import ncu

COMMAND = ncu.Command(("program", "argument"), ("a.sum", "b.avg"), ("SourceCounters",), ("--clock-control", "none"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeNcu:
    return install(monkeypatch, tmp_path)


def test_the_command_line() -> None:
    assert COMMAND.line("/bin/ncu", "x.ncu-rep") == [
        "/bin/ncu", "--target-processes", "all", "--clock-control", "none", "--section", "SourceCounters",
        "--metrics", "a.sum,b.avg", "--force-overwrite", "--export", "x.ncu-rep", "program", "argument",
    ]  # fmt: skip


def test_a_run_is_read_back_from_its_report(fake: FakeNcu, tmp_path: Path) -> None:
    rows = [("LDS R1, [R2] ;", {"# Samples": 3}), ("EXIT ;", {"# Samples": "1,000"})]
    fake.answer(raw=raw_page(("tiledmm_x", {"a.sum": "4,194,304"})), source=source_page(("tiledmm_x", rows)))
    report = tmp_path / "x.ncu-rep"
    assert ncu.profile(COMMAND, report) == COMMAND
    assert ncu.raw_page(report)[0].values["a.sum"] == 4_194_304
    (counted,) = ncu.source_page(report)
    assert counted.rows == ((0, "LDS R1, [R2] ;", {"# Samples": 3}), (16, "EXIT ;", {"# Samples": 1000}))
    assert fake.calls[0] == COMMAND.line("ncu", str(report))[1:]
    assert fake.calls[1][:3] == ["--import", str(report), "--csv"]


def test_unknown_metrics_are_left_out(fake: FakeNcu, tmp_path: Path) -> None:
    fake.answer(unknown=["b.avg"])
    assert ncu.profile(COMMAND, tmp_path / "x.ncu-rep").metrics == ("a.sum",)
    assert len(fake.calls) == 2


def test_a_metric_may_be_named_without_what_is_made_of_it(fake: FakeNcu, tmp_path: Path) -> None:
    fake.answer(output="==ERROR== Failed to find metric b.", status=9, writes=False)
    with pytest.raises(ProfilingError, match="9"):
        ncu.profile(COMMAND, tmp_path / "x.ncu-rep")
    assert [line[line.index("--metrics") + 1] for line in fake.calls] == ["a.sum,b.avg", "a.sum"]


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(
    ("output", "names"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            "SYS_ADMIN.*RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "program"),
        ("==ERROR== Profiling is not supported on device 0.", "GPU"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "library"),
        ("==WARNING== No kernels were profiled.", "kernel"),
        ("Traceback: something else\n==ERROR== The application returned an error code (1).", "something else"),
    ],
)
def test_what_went_wrong_is_said(fake: FakeNcu, tmp_path: Path, output: str, names: str, status: int) -> None:
    fake.answer(output=output, status=status, writes=False)
    with pytest.raises(ProfilingError, match=f"(?s){names}"):
        ncu.profile(COMMAND, tmp_path / "x.ncu-rep")


def test_a_remark_of_the_program_is_no_complaint(fake: FakeNcu, tmp_path: Path) -> None:
    fake.answer(output="a program says ERR_NVGPUCTRPERM is not supported", status=3, writes=False)
    with pytest.raises(ProfilingError, match="3"):
        ncu.profile(COMMAND, tmp_path / "x.ncu-rep")


def test_a_report_that_cannot_be_read(fake: FakeNcu, tmp_path: Path) -> None:
    fake.answer(import_status=1)
    with pytest.raises(ProfilingError, match=r"x\.ncu-rep"):
        ncu.raw_page(tmp_path / "x.ncu-rep")


def test_it_is_looked_for_where_cuda_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(ncu, "_FOLDERS", (f"{tmp_path}/cuda-*/bin",))
    assert ncu.find_ncu() is None
    with pytest.raises(ProfilingError, match="PATH"):
        ncu.profile(COMMAND, tmp_path / "x.ncu-rep")
    for version in ("12.9", "13.0", "9.2"):
        FakeNcu(tmp_path / f"cuda-{version}" / "bin")
    assert ncu.find_ncu() == str(tmp_path / "cuda-13.0" / "bin" / "ncu")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda-9.2"))
    assert ncu.find_ncu() == str(tmp_path / "cuda-9.2" / "bin" / "ncu")


def test_the_raw_page() -> None:
    text = raw_page(
        ("tiledmm_x(float const *)", {"a.sum": "1,024", "b.avg": "1.5"}), ("void gemm<(int)1>(int)", {"a.sum": 2})
    )
    launches = ncu.parse_raw(f"==PROF== Connected\n{text}==WARNING== a remark\n")
    assert [each.name for each in launches] == ["tiledmm_x(float const *)", "void gemm<(int)1>(int)"]
    assert [each.code_name for each in launches] == ["tiledmm_x", "gemm"]
    assert [{name: each.values.get(name) for name in ("a.sum", "b.avg")} for each in launches] == [
        {"a.sum": 1024, "b.avg": 1.5}, {"a.sum": 2, "b.avg": None}
    ]  # fmt: skip
    assert ncu.parse_raw("==ERROR== nothing\n") == []


def test_the_source_page() -> None:
    """Check that each launch has its own headings, and that addresses count from the start of its kernel."""
    text = source_page(
        ("tiledmm_x", [("MOV R1, R2 ;", {"stall_wait": 1})]), ("other", [("EXIT ;", {"# Samples": "-"})])
    )
    found = ncu.parse_source(f"==PROF== x\n{text}" + table(["Kernel Name", "empty"]))
    assert [(each.name, each.rows) for each in found] == [
        ("tiledmm_x", ((0, "MOV R1, R2 ;", {"stall_wait": 1}),)), ("other", ((0, "EXIT ;", {}),)), ("empty", ())
    ]  # fmt: skip
    assert ncu.parse_source("nothing\n") == []


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1,024", 1024),
        ("0.25", 0.25),
        ("1e3", 1000),
        ("-3", -3),
        ("n/a", None),
        ("", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_numbers(cell: str, number: float | None) -> None:
    assert ncu.number(cell) == number
