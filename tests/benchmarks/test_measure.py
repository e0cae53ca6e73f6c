"""Tests of ``benchmarks.measure``: which results are measured again, and by which commands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measure, readme


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Record the commands that run for three results: one without a GPU, one from another GPU, one missing."""
    commands: list[list[str]] = []

    def run(command: list[str], **keywords: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(measure.subprocess, "run", run)
    monkeypatch.setattr(measure, "FOLDER", tmp_path)
    monkeypatch.setattr(measure, "older", lambda: {"simulator": [], "choices-nvidia-h200": [], "ladder": []})
    monkeypatch.setattr(measure, "commands", lambda: [("counts", "python -m benchmarks.counts", "")])
    (tmp_path / "simulator.json").write_text(json.dumps({"machine": {"cpu": "a CPU"}}), encoding="utf-8")
    (tmp_path / "choices-nvidia-h200.json").write_text('{"machine": {"gpu": "NVIDIA H200"}}', encoding="utf-8")
    return commands


def test_what_can_be_measured_here_is(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "missing_gpu", lambda: "there is none")
    assert measure.main([]) == 0
    assert ran == [["-m", "benchmarks.simulator"], ["-m", "benchmarks.counts"]]
    said = capsys.readouterr().out
    assert "ladder: needs a GPU" in said and "choices-nvidia-h200: needs a GPU" in said
    assert re.search("simulator: .*python -m benchmarks.simulator", said)


def test_names_and_time_choose(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "missing_gpu", lambda: "there is none")
    assert measure.main(["count*"]) == 0
    assert ran == [["-m", "benchmarks.counts"]]
    assert measure.main(["--seconds", "1"]) == 0
    assert len(ran) == 1, "no time left"


def test_several_runs_are_one_result(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([3.0, 1.0, 2.0])

    def run(command: list[str], **keywords: Any) -> subprocess.CompletedProcess[str]:
        rows = {"machine": {"cpu": "a CPU"}, "rows": [{"seconds": next(seconds)}]}
        (tmp_path / "simulator.json").write_text(json.dumps(rows), encoding="utf-8")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(measure, "missing_gpu", lambda: "there is none")
    monkeypatch.setattr(measure.subprocess, "run", run)
    assert measure.main(["simulator", "--runs", "3"]) == 0
    assert "simulator: measured, 3 runs" in capsys.readouterr().out
    found = json.loads((tmp_path / "simulator.json").read_text(encoding="utf-8"))
    assert found["rows"] == [{"seconds": 2.0}]
    assert found["runs"] == {"count": 3, "spread": {"rows.0.seconds": [1.0, 3.0]}}


def test_runs_made_elsewhere_are_one_result(
    ran: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    for folder, seconds in zip(folders, (3.0, 1.0, 2.0), strict=True):
        folder.mkdir()
        text = json.dumps({"sources": {"kernels": "abc"}, "rows": [{"seconds": seconds}]})
        (folder / "selection.json").write_text(text, encoding="utf-8")
    (folders[0] / "ladder.json").write_text("{}", encoding="utf-8")
    assert measure.main(["--merge", *map(str, folders)]) == 0 and ran == []
    assert capsys.readouterr().out == "selection: 3 runs\n"
    assert json.loads((tmp_path / "selection.json").read_text(encoding="utf-8"))["rows"] == [{"seconds": 2.0}]
    (folders[2] / "selection.json").write_text('{"sources": {"kernels": "other"}}', encoding="utf-8")
    assert measure.main(["--merge", *map(str, folders)]) == 1
    assert "selection: " in capsys.readouterr().out
    for folder, gpu in zip(folders, ("NVIDIA H100", "NVIDIA H200", "NVIDIA H100"), strict=True):
        (folder / "shapes.json").write_text(json.dumps({"machine": {"gpu": gpu}, "rows": []}), encoding="utf-8")
    assert measure.main(["shapes", "--merge", *map(str, folders)]) == 1
    assert measure.main(["shapes", "--merge", *map(str, folders[::2])]) == 0
    assert measure.main(["shapes", "--merge", str(folders[1])]) == 1
    assert measure.main(["shapes", "--merge", str(tmp_path), str(folders[0])]) == 1
    assert capsys.readouterr().out == (
        "shapes: the runs are of different processors\nshapes: 2 runs\nshapes: is of another GPU, NVIDIA H100\n"
        "shapes: one is of several runs already\n"
    )
    assert measure.main(["ladder", "--merge", *map(str, folders)]) == 1
    assert capsys.readouterr().out


def test_current_results_are_measured_again_where_that_is_wanted(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure, "missing_gpu", lambda: "there is none")
    (tmp_path / "counts.json").write_text("{}", encoding="utf-8")
    assert measure.main(["counts"]) == 0 and ran == []
    assert measure.main(["counts", "--again"]) == 0
    (tmp_path / "counts.json").unlink()
    assert measure.main(["counts", "--again"]) == 0, "those that are not there, too"
    assert ran == [["-m", "benchmarks.counts"]] * 2


def test_a_name_without_a_result(ran: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert measure.main(["counts", "nosuchname"]) == 1 and ran == []
    assert "nosuchname" in capsys.readouterr().out


def test_runs_that_differ_leave_the_others_to_be_measured(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = iter([1, 2])

    def run(command: list[str], **keywords: Any) -> subprocess.CompletedProcess[str]:
        if "benchmarks.simulator" in command:
            (tmp_path / "simulator.json").write_text(json.dumps({"rows": [{"size": next(sizes)}]}), encoding="utf-8")
        else:
            (tmp_path / "counts.json").write_text('{"rows": []}', encoding="utf-8")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(measure, "missing_gpu", lambda: "there is none")
    monkeypatch.setattr(measure.subprocess, "run", run)
    assert measure.main(["simulator", "counts", "--runs", "2"]) == 1
    said = capsys.readouterr().out
    assert "simulator: failed" in said and "counts: measured, 2 runs" in said


def test_a_failure_is_told(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(command: list[str], timeout: float | None, **keywords: Any) -> subprocess.CompletedProcess[str]:
        if timeout is not None:
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(measure, "missing_gpu", lambda: "there is none")
    monkeypatch.setattr(measure.subprocess, "run", fails)
    assert measure.main(["simulator"]) == 1
    assert "simulator: failed (exit status 3)" in capsys.readouterr().out
    assert measure.main(["simulator", "--seconds", "50"]) == 1
    assert "simulator: cut off" in capsys.readouterr().out


def test_the_command_of_a_gpus_result_writes_it() -> None:
    command, _ = measure.command_of("multi_gpu-nvidia-h200")
    assert command == "python -m benchmarks.multi_gpu --out benchmarks/results/multi_gpu-nvidia-h200.json"


def test_every_result_that_is_shown_has_a_command() -> None:
    for run in readme.all_results():
        command, _ = measure.command_of(run)
        assert measure._runnable(command).startswith(("python -m ", "pytest ")) and "<" not in measure._runnable(
            command
        )
