"""What result files say of where they come from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.support import results, runs
from tiledmm.bench import report_files
from tiledmm.bench.report_files import from_json
from tiledmm.bench.results import Comparison, ComparisonReport, Machine, Row
from tiledmm.codegen import template_files

MACHINE = Machine(**{field.name: field.name for field in fields(Machine)})
REPORT = ComparisonReport(MACHINE, ())


def test_results_say_what_they_were_made_of(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "ladder.json"
    results.save_report(path, REPORT)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["sources"] == results.sources()
    assert from_json(path.read_text(encoding="utf-8")) == REPORT, "readers need no sources, and mind none"
    assert results.measured(MACHINE, {"rows": []}) == {
        "machine": asdict(MACHINE), "sources": results.sources(), "rows": [],
    }  # fmt: skip
    assert re.fullmatch("[0-9a-f]{12}", results.sources()["kernels"])


def test_of_several_runs_the_middle_one_is_kept_of_each_product() -> None:
    def run(number: int, *ratios: tuple[float, float]) -> dict[str, Any]:
        rows = [
            [
                Row("warp_tiled", 256, ok=True, to_cupy=warp_tiled, microseconds=5.0 + number),
                Row("auto", ok=True, to_cupy=auto, rounds=(1.5 + number, 2.5)),
                Row("cupy.matmul", ok=True, to_cupy=1.0),
            ]
            for warp_tiled, auto in ratios
        ]
        comparisons = tuple(Comparison(8, 8, 8, "float32", "NN", 1e-6, 1, tuple(each)) for each in rows)
        report = json.loads(report_files.to_json(ComparisonReport(MACHINE, comparisons)))
        return {**report, "sources": results.sources()}

    found = [run(0, (1.08, 4.0), (2.0, 3.0)), run(1, (1.03, 4.2), (1.0, 3.1)), run(2, (1.02, 4.1), (2.1, 2.0))]
    merged = runs.merged(found)
    assert [merged["comparisons"][i] for i in (0, 1)] == [found[2]["comparisons"][0], found[0]["comparisons"][1]]
    assert merged["runs"]["count"] == 3 and merged["runs"]["spread"] == {
        "comparisons.0.rows.0.to_cupy": [1.02, 1.08], "comparisons.0.rows.1.to_cupy": [4.0, 4.2],
        "comparisons.1.rows.0.to_cupy": [1.0, 2.1], "comparisons.1.rows.1.to_cupy": [2.0, 3.1],
    }  # fmt: skip
    assert len(from_json(json.dumps(merged)).comparisons) == 2
    assert runs.extremes(merged, readme.SPREAD) == (
        "x cupy.matmul over 3 runs: warp_tiled 256 1.02 to 1.08, auto 4.00 to 4.20."
    )
    assert "the middle of 3 runs, which differ by 30.4% in the median, 110% at most" in results.origin(merged)
    assert runs.extremes({}, readme.SPREAD) == runs.in_words({}) == ""


def test_of_several_runs_without_ratios_all_times_are_compared() -> None:
    found = [{"rows": [{"name": "a", "n": 512, "us": {"one": one, "other": other}}]} for one, other in
             ((1.0, 8.0), (2.0, 4.0), (4.0, 4.5))]  # fmt: skip
    merged = runs.merged(found)
    assert merged["rows"] == found[1]["rows"] and runs.merged(found[:1]) == found[0]
    assert merged["runs"]["spread"] == {"rows.0.us.one": [1.0, 4.0], "rows.0.us.other": [4.0, 8.0]}


def test_runs_of_other_sources_or_products_are_not_merged() -> None:
    with pytest.raises(ValueError, match="different sources"):
        runs.merged([{"sources": {"commit": "a"}}, {"sources": {"commit": "b"}}])
    for others in ([{"m": 8}, {"m": 8}], [{"m": 9}]):
        with pytest.raises(ValueError, match="different rows"):
            runs.merged([{"rows": [{"m": 8}]}, {"rows": others}])


def test_older_results_that_stay_have_to_be_of_the_same_sources() -> None:
    ours = results.measured(MACHINE, {"rows": [1]})
    assert "sources" in results.measured(MACHINE, {"rows": [1, 2]}, beside=ours)
    for others in ({}, {"sources": {"commit": "another", "kernels": results.sources()["kernels"]}}):
        assert "sources" not in results.measured(MACHINE, {"rows": [1, 2]}, beside=others)


def test_a_line_names_machine_and_sources_where_they_are_known() -> None:
    found: dict[str, Any] = {"machine": asdict(MACHINE)}
    assert results.origin(found) == f"{MACHINE}, {results.OLDER}", "older files name no sources"
    found["sources"] = {"kernels": "0123456789ab"}
    assert results.origin(found) == f"{MACHINE}, kernel sources 0123456789ab, {results.OLDER}"
    found["sources"]["commit"] = "4279bd0"
    assert results.origin(found) == f"{MACHINE}, commit 4279bd0, {results.OLDER}"
    found["sources"]["kernels"] = template_files.kernels_hash()
    assert results.origin(found) == f"{MACHINE}, commit 4279bd0"
    found = {"machine": {"cpu": "a CPU", "date": "2026-11-22"}, "sources": found["sources"]}
    assert results.origin(found) == "a CPU, 2026-11-22, commit 4279bd0"


def test_a_page_that_shows_results_of_other_kernel_sources_says_so() -> None:
    """``python -m benchmarks.readme`` writes it; ``--older`` lists what has to be measured again."""
    for run, pages in readme.older().items():
        for page in pages:
            assert results.OLDER in page.read_text(encoding="utf-8"), f"{page}: {run}.json is of other kernel sources"


def test_older_results_are_listed_with_what_measures_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "README.md").write_text("<!-- table:wgmma-steps -->\n<!-- /table -->\n", encoding="utf-8")
    path = tmp_path / "results" / "wgmma_steps.json"
    assert readme.older(tmp_path, tmp_path / "results") == {}, "what is not there is not older"
    found = {"machine": asdict(MACHINE), "sources": {"kernels": template_files.kernels_hash()}, "rows": []}
    path.write_text(json.dumps(found), encoding="utf-8")
    assert readme.main(["--older"], tmp_path, tmp_path / "results") == 0
    path.write_text(json.dumps(found | {"sources": {"kernels": "0123456789ab"}}), encoding="utf-8")
    assert readme.main(["--older"], tmp_path, tmp_path / "results") == 1
    assert capsys.readouterr().out == (
        "wgmma_steps.json: python -m benchmarks.studies.wgmma_steps\n    shown in README.md\n"
    )


def test_the_kernels_hash_is_of_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_files, "template_folder", lambda: tmp_path)
    kernels_hash = template_files.kernels_hash.__wrapped__
    (tmp_path / "a.cuh").write_text("1", encoding="utf-8")
    found = [kernels_hash()]
    (tmp_path / "a.cuh").write_text("2", encoding="utf-8")
    found.append(kernels_hash())
    (tmp_path / "a.cuh").rename(tmp_path / "b.cuh")
    found.append(kernels_hash())
    assert len(set(found)) == 3


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEDMM_COMMIT", raising=False)

    def git(*words: str) -> str:
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert results.commit(tmp_path) == ""
    (tmp_path / "cuda_src").mkdir()
    (tmp_path / "cuda_src" / "a.cuh").write_text("1", encoding="utf-8")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "a")
    head = git("rev-parse", "HEAD")[:12]
    (tmp_path / "results.json").write_text("{}", encoding="utf-8")
    assert results.commit(tmp_path) == head, "only the code counts, no results"
    (tmp_path / "cuda_src" / "a.cuh").write_text("2", encoding="utf-8")
    assert results.commit(tmp_path) == f"{head}+changes"
    assert results.commit(tmp_path / "cuda_src") == "", "a copy inside another repository"
    monkeypatch.setenv("TILEDMM_COMMIT", "told")
    assert results.commit(tmp_path) == "told"
