"""Tests of kernel texts on disk, which are reused until anything that they depend on changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tiledmm
from tiledmm.codegen import template_files
from tiledmm.codegen.rendering import render
from tiledmm.compile import disk_cache
from tiledmm.compile.disk_cache import find_text, keep_text
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.epilogue import ACTIVATIONS, Epilogue, EpilogueOperand
from tiledmm.schedule.schedule import fallbacks, required_kernels


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the cache to a folder of this test."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    return tmp_path / "tiledmm"


SPEC = kernel_spec("tiled").kernel


def test_what_is_kept_is_found_for_its_target() -> None:
    assert find_text(SPEC, "sm_90") is None
    keep_text(SPEC, "sm_90", render(SPEC))
    assert find_text(SPEC, "sm_90") == render(SPEC)
    assert find_text(SPEC, "sm_80") is None


def test_a_folder_that_is_not_there_yet_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "some" / "where"))
    for _ in range(2):
        keep_text(SPEC, "", render(SPEC))
    assert find_text(SPEC, "") == render(SPEC)


def test_each_part_of_a_specialization_tells_texts_apart(folder: Path) -> None:
    unsplit = kernel_spec("warp_tiled").kernel
    specs = [
        SPEC, kernel_spec("tiled", dtype="float64").kernel, kernel_spec("tiled", tile=8).kernel,
        kernel_spec("tiled", layout="NT").kernel, kernel_spec("tiled", a_dtype="int8").kernel,
        kernel_spec("tiled", b_dtype="int8").kernel, kernel_spec("tiled", out_dtype="float64").kernel,
        kernel_spec("tiled", config={"unroll": 1}).kernel, kernel_spec("naive").kernel, unsplit,
        replace(unsplit, condition="unless decomposed"),
    ]  # fmt: skip
    for each in specs:
        assert find_text(each, "") is None
        keep_text(each, "", render(each))
    assert [find_text(each, "") for each in specs] == [render(each) for each in specs]


def with_epilogues(spec: KernelSpec) -> list[KernelSpec]:
    """Return a kernel without an epilogue, and with epilogues that differ in one property each."""
    bias, f4, f2 = "bias", ELEMENTS["float32"], ELEMENTS["float16"]
    arrays = [
        (), (EpilogueOperand(bias, f4),), (EpilogueOperand(bias, f2),), (EpilogueOperand("addend", f4),),
        (EpilogueOperand(bias, f4, (0, 1)),), (EpilogueOperand(bias, f4, (1, 0)),),
        (EpilogueOperand(bias, f4, (None, 1)),), (EpilogueOperand("addend", f4), EpilogueOperand(bias, f4)),
    ]  # fmt: skip
    found = [Epilogue(each, scalars) for each in arrays for scalars in ((), ("alpha",), ("beta",), ("alpha", "beta"))]
    found += [Epilogue((), (), name) for name in ACTIVATIONS]
    return [replace(spec, epilogue=each if each != Epilogue() else None) for each in found]


def test_no_two_kernels_of_products_share_a_file(folder: Path) -> None:
    """Check that files are distinct even for split-K reductions that differ only in a condition not in their names."""
    decomposing = kernel_spec("split_tensor_core", config={"split_k": 2})
    specs = [*with_epilogues(SPEC)]
    for spec in (decomposing, replace(decomposing, epilogue=Epilogue((), (), "relu")), kernel_spec("split_float64")):
        specs += required_kernels(spec, (2,))
        for other in (each for form in fallbacks(spec) for each in (form.spec, replace(form.spec, condition=""))):
            specs += required_kernels(other, (2,))
    texts = {each: render(each) for each in dict.fromkeys(specs)}
    for each, text in texts.items():
        keep_text(each, "", text)
    assert [each.symbol for each, text in texts.items() if find_text(each, "") != text] == []
    assert len({path.stem.rpartition("-")[0] for path in folder.glob("*.cu")}) == len(set(texts.values()))


@pytest.mark.parametrize(
    "damage", [lambda text: text[:100], lambda text: text.replace("float", "double"), lambda text: ""]
)
def test_a_damaged_file_is_none(folder: Path, damage: Callable[[str], str]) -> None:
    text = render(SPEC)
    keep_text(SPEC, "", text)
    (file,) = folder.glob("*.cu")
    file.write_text(damage(text), encoding="utf-8")
    assert find_text(SPEC, "") is None
    keep_text(SPEC, "", text)
    assert find_text(SPEC, "") == text == file.read_text(encoding="utf-8")


def test_a_changed_file_of_the_package_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for name in ("codegen/rendering.py", "cuda_src/tiled.cu.j2", "cuda_src/hopper.cuh", "py.typed"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1", encoding="utf-8")
    monkeypatch.setattr(template_files, "_PACKAGE", package)
    fingerprint = template_files.fingerprint.__wrapped__
    seen = {fingerprint()}
    (package / "py.typed").write_text("12", encoding="utf-8")
    assert seen == {fingerprint()}, "no kernel is made of it"
    for name in ("codegen/rendering.py", "cuda_src/tiled.cu.j2", "cuda_src/hopper.cuh"):
        (package / name).write_text("12", encoding="utf-8")
        seen.add(fingerprint())
    monkeypatch.setattr(template_files, "__version__", "0")
    seen.add(fingerprint())
    assert len(seen) == 5


def test_another_fingerprint_is_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_text(SPEC, "", render(SPEC))
    monkeypatch.setattr(disk_cache, "fingerprint", lambda: "another")
    assert find_text(SPEC, "") is None


def test_nothing_is_written_where_cupy_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    keep_text(SPEC, "", render(SPEC))
    assert find_text(SPEC, "") is None
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file", encoding="utf-8")
    keep_text(SPEC, "", render(SPEC))
    assert find_text(SPEC, "") is None


def test_registered_templates_are_not_kept(folder: Path, tmp_path: Path) -> None:
    template = tmp_path / "mine.cu.j2"
    template.write_bytes((template_files.template_folder() / "tiled.cu.j2").read_bytes())
    tiledmm.register(template, like="tiled")
    try:
        spec = kernel_spec("mine").kernel
        keep_text(spec, "", render(spec))
        assert find_text(spec, "") is None
        assert not folder.exists()
    finally:
        tiledmm.unregister("mine")
