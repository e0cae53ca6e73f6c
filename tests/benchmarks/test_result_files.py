"""Tests of what result files record about their origin."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from benchmarks import readme
from benchmarks.support import kernels, results, runs
from tiledmm.bench.results import Comparison, ComparisonReport, Machine, Row, from_json, to_json
from tiledmm.codegen import kernel_hash, rendering
from tiledmm.kernels.variants import find_variant, kernel_spec

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
    assert results.sources(["tiled float32"])["kernels"] == kernels.hashes(["tiled float32"])


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
        report = json.loads(to_json(ComparisonReport(MACHINE, comparisons)))
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
        "Speed relative to cupy.matmul in 3 runs: 1.02 to 1.08 for warp_tiled 256, 4.00 to 4.20 for auto."
    )
    assert results.details(merged)[2] == "median of 3 runs (spread: 30.4% typical, 110% at most)"
    assert runs.extremes({}, readme.SPREAD) == runs.in_words({}) == ""


def test_of_several_runs_without_ratios_all_times_are_compared() -> None:
    found = [{"rows": [{"name": "a", "n": 512, "us": {"one": one, "other": other}}]} for one, other in
             ((1.0, 8.0), (2.0, 4.0), (4.0, 4.5))]  # fmt: skip
    merged = runs.merged(found)
    assert merged["rows"] == found[1]["rows"] and runs.merged(found[:1]) == found[0]
    assert merged["runs"]["spread"] == {"rows.0.us.one": [1.0, 4.0], "rows.0.us.other": [4.0, 8.0]}


def test_runs_of_other_sources_or_products_are_not_merged() -> None:
    with pytest.raises(ValueError, match="sources"):
        runs.merged([{"sources": {"commit": "a"}}, {"sources": {"commit": "b"}}])
    for others in ([{"m": 8}, {"m": 8}], [{"m": 9}]):
        with pytest.raises(ValueError, match="rows"):
            runs.merged([{"rows": [{"m": 8}]}, {"rows": others}])


def test_results_beside_older_ones_keep_the_hashes_of_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_commit", lambda: "another")
    before = results.measured(MACHINE, {"rows": [1]}, names=["tiled float32"])
    before["sources"]["kernels"]["tiled float32"] = "0123456789ab"
    monkeypatch.setattr(results, "_commit", lambda: "this")
    found = results.measured(MACHINE, {"rows": [1, 2]}, beside=before, names=["naive float32"])
    assert found["sources"] == {"kernels": {**before["sources"]["kernels"], **kernels.hashes(["naive float32"])}}
    assert results.changed_kernels(found) == ["tiled float32"]
    assert results.measured(MACHINE, {}, beside=found, names=[])["sources"] == found["sources"]


def test_a_line_names_each_processor_and_its_dates_once() -> None:
    found = {"machine": {"cpu": "a CPU", "compiler": "c++", "date": "2026-11-22T01:02:03"}}
    simulated = {"machine": {"simulated": "the simulator", "date": "2026-11-23"}}
    gpu = {"machine": asdict(MACHINE)}
    several = gpu | {"runs": {"count": 3, "spread": {}}}
    assert results.origins({"one": several, "two": found, "three": gpu, "four": simulated}) == (
        "Measured on a CPU: `two.json` (2026-11-22). Counted by the simulator: `four.json` (2026-11-23). "
        "Measured on gpu: `one.json` (date, median of 3 runs), `three.json` (date)."
    )
    again = {"machine": found["machine"] | {"date": "2026-11-21"}}
    assert results.origins({"one": found, "two": again}) == (
        "Measured on a CPU: `two.json` (2026-11-21), `one.json` (2026-11-22)."
    )
    assert results.details(found | {"seeds": [3, 5]})[2] == "seed 3, 5"
    assert results.details(found) == ("a CPU, c++, 2026-11-22T01:02:03", "", "")
    found["sources"] = {"commit": "4279bd0", "kernels": {}}
    assert results.details({**found, "machine": asdict(MACHINE)}) == (str(MACHINE), "4279bd0", "")


def test_links_begin_where_the_document_is(tmp_path: Path) -> None:
    for page, link in (("README.md", results.PAGE), ("docs/rungs/tiled.md", f"../../{results.PAGE}")):
        shown = readme.shown(tmp_path / page, "latencies", tmp_path)
        assert f"[Details]({link})" in shown


def test_a_page_says_once_where_its_tables_were_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    names = ("ladder", "rung-naive", "latencies")
    blocks = {name: f"<!-- table:{name} -->\n<!-- /table -->\n" for name in (*names, readme.MEASURED)}
    page.write_text("".join(map(blocks.get, names)), encoding="utf-8")
    told = [name for name in names if "Measured on" in readme.shown(page, name, tmp_path)]
    assert told == ["rung-naive", "latencies"], "below the last table of a result"
    page.write_text("".join(blocks.values()), encoding="utf-8")
    assert not any("Measured on" in readme.shown(page, name, tmp_path) for name in names)
    assert all(f"`{run}.json`" in readme.shown(page, readme.MEASURED, tmp_path) for run in ("ladder", "latencies"))


def test_older_results_are_listed_with_what_measures_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    bugs = {"machine": {"date": "2026-11-25"}, "sources": {"commit": "0123456789ab", "kernels": {}}}
    (folder / "simulator_bugs.json").write_text(json.dumps(bugs), encoding="utf-8")
    found = {"machine": asdict(MACHINE), "sources": results.sources(["tiled float32", "tiled_padded float32"])}
    path = folder / "wgmma_steps.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    assert readme.main(["--older"], tmp_path, folder) == 0
    found["sources"]["kernels"] |= {"tiled float32": "0123456789ab", "gone float32": "0123456789ab"}
    path.write_text(json.dumps(found), encoding="utf-8")
    assert readme.main(["--older"], tmp_path, folder) == 1
    assert capsys.readouterr().out == (
        "wgmma_steps.json: python -m benchmarks.studies.wgmma_steps\n    changed: tiled, gone\n"
    )
    page = tmp_path / results.PAGE
    page.write_text("<!-- table:older -->\nwhat was older then\n<!-- /table -->\n", encoding="utf-8")
    assert readme.main(["--check"], tmp_path, folder) == 0, "a change of kernels makes no document wrong"
    assert readme.main([], tmp_path, folder) == 0
    assert "| `wgmma_steps` | tiled, gone |" in page.read_text(encoding="utf-8")
    del found["sources"]
    assert results.changed_kernels(found) == ["unknown"]


def test_a_kernels_hash_is_of_its_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = rendering.render

    def hashed(change: Callable[[str], str], name: str = "tiled float32") -> str:
        kernel_hash._code.cache_clear()
        kernels._hash.cache_clear()
        monkeypatch.setattr(rendering, "render", lambda spec: change(plain(spec)))
        return kernels.hashes([name])[name]

    known = hashed(lambda text: text)
    assert hashed(lambda text: f"// a comment\n\n/* another\n*/{text}  // and one behind it\n") == known
    assert hashed(lambda text: text + 'asm("//");\n') != known
    assert hashed(lambda text: text + 'asm("//");\n') != hashed(lambda text: text + 'asm("// %0");\n'), "a string"
    changed_reduction = hashed(lambda text: text + "int changed;\n" * ("split_k_reduction" in text))
    assert changed_reduction != known, "auxiliary kernels count"
    assert hashed(lambda text: text + "int changed;\n" * ("tiled_padded" in text)) == known, "other kernels do not"
    for name in ("tiled float32", "tiled float64", "tiled_padded float32"):
        assert (hashed(lambda text: text, name) == known) == (name == "tiled float32")
    kernel_hash._code.cache_clear()
    kernels._hash.cache_clear()


def test_kernels_are_named_by_variant_and_type() -> None:
    spec = kernel_spec(find_variant("wgmma"), dtype="float16").kernel
    assert kernels.names_of(spec) == ["wgmma float16"]
    assert kernels.names_of(kernels._with_epilogue(spec)) == ["wgmma float16 gemm"]
    assert kernels.names_of(kernels._of_triangle(spec)) == ["wgmma float16 triangle"]
    for variant, dtype in (("warp_tiled", "complex64"), ("split_float64", "complex128")):
        names = [f"{variant} {dtype}{uses}" for uses in ("", " conjugates", " triangle", " triangle conjugates")]
        assert len({*kernels.hashes(names).values()}) == 4
    half = kernels._of_triangle(kernel_spec(find_variant("warp_tiled"), dtype="complex64"))
    assert kernels.names_of(kernels._with_conjugates(half)) == ["warp_tiled complex64 triangle conjugates"]
    limbs = kernel_spec(find_variant("split_float32")).kernel
    assert limbs.compute.dtype_name == "float16"
    assert kernels.names_of(limbs) == ["split_float32 float32", "split_float32 complex64"], "limbs could be of either"
    assert kernels.names_of(kernel_spec(find_variant("split_float32"), dtype="tf32").kernel) == ["split_float32 tf32"]
    packed = kernel_spec(find_variant("warp_tiled"), dtype="bool", config={"pack_elements": 1})
    assert kernels.names_of(packed.kernel) == ["warp_tiled bool"]
    found = kernels._kernels(find_variant("warp_tiled"), "bool")
    auxiliary = {each.variant.name for each in found if not kernels.names_of(each)}
    assert auxiliary == {"pack", "pack_elements", "split_k_reduction"}
    names = kernels.of_auto("float32", "int8")
    assert {"split_float32 float32", "wgmma int8"} < {*names} and "wgmma float32" not in names
    assert kernels.hashes(["wgmma float16 gemm"]) != {"wgmma float16 gemm": kernels.hashes(["wgmma float16"])}


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
