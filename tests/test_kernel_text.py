"""The text of kernels on disk: rendered once, and anew when anything that it is made of has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tiledmm
from tiledmm.codegen import rendering, template_files
from tiledmm.codegen.rendering import render
from tiledmm.codegen.specialization import Specialization, specialize
from tiledmm.compile import kernel_text as module
from tiledmm.compile.kernel_text import kernel_text
from tiledmm.registry.variants import find_variant


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are kept in this test."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    return tmp_path / "tiledmm"


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was rendered, by name."""
    names: list[str] = []

    def counting(specialization: Specialization) -> str:
        names.append(specialization.symbol)
        return render(specialization)

    monkeypatch.setattr(rendering, "render", counting)
    return names


SPEC = specialize("tiled").kernel


def test_a_kernel_is_rendered_once(folder: Path, rendered: list[str]) -> None:
    assert [kernel_text(SPEC) for _ in range(3)] == [render(SPEC)] * 3
    assert rendered == [SPEC.symbol]
    (file,) = folder.glob("*.cu")
    assert file.read_text(encoding="utf-8") == render(SPEC)


def test_each_part_of_a_specialization_tells_texts_apart(folder: Path) -> None:
    double = specialize("tiled", dtype="float64").kernel
    specs = [
        SPEC, double, specialize("tiled", tile=8).kernel, specialize("tiled", layout="NT").kernel,
        specialize("tiled", a_dtype="int8").kernel, specialize("tiled", b_dtype="int8").kernel,
        specialize("tiled", out_dtype="float64").kernel, specialize("tiled", config={"unroll": 1}).kernel,
        specialize("naive").kernel, replace(specialize("warp_tiled").kernel, condition="unless decomposed"),
        specialize("warp_tiled").kernel,
    ]  # fmt: skip
    for _ in range(2):
        assert [kernel_text(each) for each in specs] == [render(each) for each in specs]
    assert len([*folder.glob("*.cu")]) == len(specs)


@pytest.mark.parametrize(
    "damage", [lambda text: text[:100], lambda text: text.replace("float", "double"), lambda _: ""]
)
def test_a_damaged_file_is_rendered_anew(folder: Path, damage: Callable[[str], str]) -> None:
    text = kernel_text(SPEC)
    (file,) = folder.glob("*.cu")
    file.write_text(damage(text), encoding="utf-8")
    assert kernel_text(SPEC) == text == file.read_text(encoding="utf-8")


def test_a_changed_file_of_the_package_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tiledmm"
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


def test_another_fingerprint_renders_anew(folder: Path, rendered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_text(SPEC)
    monkeypatch.setattr(module, "fingerprint", lambda: "another")
    kernel_text(SPEC)
    assert rendered == [SPEC.symbol] * 2


def test_nothing_is_written_where_cupy_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    assert kernel_text(SPEC) == render(SPEC)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path, rendered: list[str]) -> None:
    folder.write_text("a file", encoding="utf-8")
    assert kernel_text(SPEC) == kernel_text(SPEC) == render(SPEC)
    assert len(rendered) == 2


def test_registered_templates_are_rendered_each_time(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text("// first\n", encoding="utf-8")
    template = tmp_path / "mine.cu.j2"
    tiled = (template_files.template_folder() / "tiled.cu.j2").read_text(encoding="utf-8")
    template.write_text(tiled + '{% include "part.cuh" %}\n', encoding="utf-8")
    tiledmm.register(template, like="tiled")
    try:
        spec = specialize(find_variant("mine")).kernel
        assert "// first" in kernel_text(spec)
        (tmp_path / "part.cuh").write_text("// second\n", encoding="utf-8")
        rendering._environment.cache_clear()
        assert "// second" in kernel_text(spec)
        assert not [*folder.glob("*.cu")]
    finally:
        tiledmm.unregister("mine")
