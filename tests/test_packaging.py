"""Tests of the built wheel in a clean environment, and of other installations, used from another folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import tiledmm
from tests.conftest import missing_simulator

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("cuda_src/*") if path.is_file()}
# A tiledmm among the borrowed packages neither counts as installed nor is touched.
NO_INDEX = ["--quiet", "--no-index", "--no-deps", "--ignore-installed"]

RENDER_EVERY_VARIANT = """
import sys
import tiledmm
rendered = 0
for variant in tiledmm.variants():
    name = getattr(variant, "name", variant)
    if name != "cublas":
        assert f"tiledmm_{name}_" in tiledmm.source(name), name
        rendered += 1
assert rendered >= 5, rendered
assert "cupy" not in sys.modules
print(tiledmm.__file__)
"""


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Run a command that must succeed, without this interpreter's environment, and return its output."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=inherited | environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def path_with(folder: Path) -> str:
    """Return a PYTHONPATH that begins with a folder."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def build(source: Path, out: Path, kind: str) -> Path:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source, cwd=source)
    (archive,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return archive


def environment(folder: Path, *, borrow: bool) -> Path:
    """Create an environment, empty or with this interpreter's packages, and return its interpreter."""
    venv.create(folder, with_pip=not (borrow and importlib.util.find_spec("pip")))
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if borrow:
        site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
        # Plain path lines: the .pth files in those folders, an editable tiledmm's among them, are not read.
        borrowed = [path for path in sys.path if os.path.isdir(path) and Path(path).resolve() != ROOT]
        Path(site, "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    return python


def test_citation_and_changelog_have_the_version() -> None:
    version = tiledmm.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


def test_wheel_holds_the_package_its_types_and_its_sources(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("tiledmm/**/*.py")}
    assert SOURCES
    page = {f"tiledmm/own_kernels/trace_page/page.{kind}" for kind in ("css", "html", "js")}
    assert {f"tiledmm/{name}" for name in SOURCES} | modules | page | {"tiledmm/py.typed"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tiledmm"}, "nothing outside the package"


@pytest.mark.slow
def test_sdist_holds_the_checkout_and_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        kwargs = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **kwargs)
    (source,) = tmp_path.iterdir()
    names = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert SOURCES | {"LICENSE", "Makefile", "README.md", "pyproject.toml", "tests/conftest.py"} <= names
    again = build(source, tmp_path / "again", "wheel")
    assert again.read_bytes() == wheel.read_bytes()


SIMULATE = """
import numpy as np
from tiledmm import simulator
a = np.arange(35, dtype=np.float32).reshape(5, 7)
assert (simulator.matmul(a, a.T, variant="double_buffered", tile=8) == a @ a.T).all()
"""


@pytest.mark.slow
@pytest.mark.network
def test_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "clean", borrow=False)
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    place = run(python, "-W", "error", "-c", RENDER_EVERY_VARIANT, cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(tmp_path)
    command = python.parent / ("tiledmm.exe" if os.name == "nt" else "tiledmm")
    assert "compare" in run(command, "--help", cwd=tmp_path)
    assert "compare" in run(python, "-m", "tiledmm", "--help", cwd=tmp_path)
    run(python, "-m", "pip", "check", cwd=tmp_path)
    if not missing_simulator():
        run(python, "-W", "error", "-c", SIMULATE, cwd=tmp_path, TILEDMM_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.slow
def test_wheel_works_without_an_index(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", borrow=True)
    run(python, "-m", "pip", "install", *NO_INDEX, wheel, cwd=tmp_path)
    place = run(python, "-c", RENDER_EVERY_VARIANT, cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(tmp_path)


@pytest.mark.slow
def test_editable_install_reads_the_checkout(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    python = environment(tmp_path / "environment", borrow=True)
    run(python, "-m", "pip", "install", *NO_INDEX, "--no-build-isolation", "--editable", ROOT, cwd=tmp_path)
    place = run(python, "-c", RENDER_EVERY_VARIANT, cwd=tmp_path)
    assert Path(place.strip()) == ROOT / "tiledmm" / "__init__.py"
    assert not list(tmp_path.rglob("*.cu.j2")), "a copy of cuda_src/ would hide the checkout's"


@pytest.mark.slow
def test_bare_source_tree_works_through_pythonpath(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in ("tiledmm", "cuda_src"):
        shutil.copytree(ROOT / folder, tree / folder)
    place = run(sys.executable, "-c", RENDER_EVERY_VARIANT, cwd=tmp_path, PYTHONPATH=path_with(tree))
    assert Path(place.strip()) == tree / "tiledmm" / "__init__.py"
