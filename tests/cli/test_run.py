"""Tests of ``tiledmm run``, which runs a program as Python does, in real processes without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from tiledmm import cli
from tiledmm.replacement import script as scripts

ROOT = Path(__file__).resolve().parents[2]

# What a program can see of how it is run.
PROGRAM = """
import sys, os
import beside
print(__name__, __file__, __spec__, __package__, __doc__, __builtins__)
print(sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals())
def f(x: int) -> None: ...
print(f.__annotations__, f.__code__.co_filename)
"""


def run(program: Path, *arguments: str, options: tuple[str, ...] = (), cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a program by tiledmm, or by Python if options has ``"python"``; return exit status, stdout and stderr."""
    by = [] if options == ("python",) else ["-m", "tiledmm", "run", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "error", *by, str(program), *arguments]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def write(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_program_finds_what_python_gives_it(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    write(folder, "", "beside.py")
    program = write(folder, '"""Its own."""' + PROGRAM)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link.py").symlink_to(program)
    path, arguments = Path("links/link.py"), ("--variant", "x", "-v", "--", "last")
    expected = run(path, *arguments, options=("python",), cwd=tmp_path)
    found = run(path, *arguments, options=("--variant", "tiled"), cwd=tmp_path)
    assert expected[0] == 0, expected[2]
    assert found[:2] == (0, expected[1])


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        pytest.param("sys.exit(7)", 7, marks=pytest.mark.slow),
        pytest.param("sys.exit('so it ends')", 1, marks=pytest.mark.slow),
        pytest.param("raise OSError(32, 'a pipe that broke')", 1, marks=pytest.mark.slow),
        pytest.param("raise ImportError('of its own')", 1, marks=pytest.mark.slow),
        ("from tiledmm import TiledmmError; raise TiledmmError('of ours')", 1),
        ("def f(:", 1),
        ("sys.excepthook = lambda kind, error, below: print('hooked', kind, below.tb_lineno); 1 / 0", 1),
    ],
)
def test_it_ends_as_with_python(tmp_path: Path, ending: str, status: int) -> None:
    program = write(
        tmp_path, f"import sys\nimport atexit\natexit.register(print, 'at its exit')\nprint('here')\n{ending}"
    )
    expected = run(program, options=("python",))
    found = run(program)
    assert found[:2] == expected[:2]
    assert found[0] == status
    assert found[2].startswith(expected[2] + "\ntiledmm: no ")


def test_an_interrupt_is_told_by_the_status(tmp_path: Path) -> None:
    status, _, errors = run(write(tmp_path, "raise KeyboardInterrupt"))
    assert status == 130
    assert errors.startswith("Traceback") and "KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--variant", "tild"), "'tiled'"),
        (("--variant", "tiled", "--tile", "17"), "17"),
        (("--variant", "tiled", "--tile", "abc"), "8, 16, 32"),
        (("--precision", "float31"), "precision"),
        (("--report", "none/x.json"), "none"),
        (("--report", ""), "cannot write"),
        (("--report", "program.py"), "program.py"),
    ],
)
def test_mistakes_are_named_before_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], names: str
) -> None:
    program = write(tmp_path, "print('runs')")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.app, ["run", *options, program.name])
    assert (result.exit_code, result.stdout) == (2, "")
    assert names in " ".join(result.stderr.replace("│", " ").split())
    assert program.read_text(encoding="utf-8") == "print('runs')"


@pytest.mark.parametrize("name", ["", ".", "none.py"])
def test_what_is_no_program_is_named(name: str) -> None:
    result = CliRunner().invoke(cli.app, ["run", name])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"'{name or '.'}'" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("option", "ending", "status"), [("--report", "sys.exit(0)", 74), ("--json", "sys.exit(3)", 3)]
)
def test_an_account_that_cannot_be_written_is_no_success(tmp_path: Path, option: str, ending: str, status: int) -> None:
    """Check the exit status if the report's folder no longer exists at the end."""
    (tmp_path / "folder").mkdir()
    program = write(tmp_path, f"import os, sys\nprint('runs')\nos.rmdir({str(tmp_path / 'folder')!r})\n{ending}")
    found, output, errors = run(program, options=(option, str(tmp_path / "folder" / "x.json")))
    assert (found, output) == (status, "runs\n")
    assert "x.json" in errors and "Traceback" not in errors


def test_an_account_is_written(tmp_path: Path) -> None:
    found = tmp_path / "x.json"
    assert run(write(tmp_path, ""), options=("--report", str(found)))[0] == 0
    assert json.loads(found.read_text())["total"] == 0


# A device that is none: see host_arrays.
DEVICE = """
from tests.host_arrays import numbers, pretend
pretend()
"""


@pytest.mark.cupy
def test_what_became_of_the_products_is_told_at_the_end(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        DEVICE
        + """
        import atexit, sys, threading, time
        from cupy import matmul

        a = numbers(6, 6)
        matmul(a, a)
        a @ a

        def late():
            threading.main_thread().join()
            a @ a

        threading.Thread(target=late).start()
        atexit.register(lambda: a.dot(a))
        sys.exit(5)
        """.replace("\n        ", "\n"),
    )
    found = tmp_path / "products.json"
    status, output, errors = run(program, options=("--variant", "tiled", "--tile", "8", "--json", str(found)))
    assert (status, output) == (5, "")
    assert errors.startswith("\ntiledmm: 4 matrix products: 4 by tiledmm (tiled 4)\n"), errors
    assert "tiledmm_tiled_f32_8x8x8_nn" in errors
    document = json.loads(found.read_text())
    assert [(line["count"], line["variants"]) for line in document["products"]] == [(4, ["tiled"])]


@pytest.mark.cupy
def test_it_is_told_after_a_traceback_too(tmp_path: Path) -> None:
    program = write(tmp_path, DEVICE + "numbers(3, 3) @ numbers(3, 3)\n1 / 0\n")
    status, _, errors = run(program)
    assert status == 1
    assert errors.startswith(f'Traceback (most recent call last):\n  File "{program}", line 5, in <module>\n')
    assert "ZeroDivisionError" in errors.partition("\ntiledmm: 1 matrix product: 1 by tiledmm")[0]


@pytest.mark.cupy
def test_without_a_gpu_it_goes_as_far_as_cupy_does(tmp_path: Path) -> None:
    program = write(tmp_path, "import cupy\nprint(cupy.dtype('f4'))\ncupy.zeros(3)\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        expected, found = run(program, options=("python",)), run(program)
    assert found[:2] == expected[:2] == (1, "float32\n")
    assert found[2].startswith(expected[2] + "\ntiledmm: no ") and "GPU" in found[2]


@pytest.mark.cupy
def test_cupy_is_imported_by_the_program_when_it_likes(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        """
        import importlib.util, sys
        assert "cupy" not in sys.modules
        assert importlib.util.find_spec("cupy"), "asking whether it is there does not import it"
        assert "cupy" not in sys.modules
        import cupy
        assert cupy.matmul.__wrapped__, "replaced from then on"
        assert cupy.__spec__.loader.get_source("cupy")
        assert not any(type(finder).__module__.startswith("tiledmm") for finder in sys.meta_path)
        """,
    )
    status, _, errors = run(program)
    assert status == 0, errors


# ---- being told of an import ----


def test_of_a_module_that_is_there_one_is_told_at_once() -> None:
    told: list[str] = []
    before = list(sys.meta_path)
    scripts.when_imported("sys", lambda: told.append("sys"))
    assert told == ["sys"]
    assert sys.meta_path == before


def test_of_an_import_that_fails_one_is_not_told_and_of_the_next_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ModuleType] = []
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    name = "tiledmm_tests_fickle"
    scripts.when_imported(name, lambda: told.append(sys.modules[name]))
    with pytest.raises(ModuleNotFoundError):
        __import__(name)
    module = write(tmp_path, "raise ImportError('not yet')", f"{name}.py")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(ImportError):
        __import__(name)
    assert not told
    module.write_text("VALUE = 'of another length'")
    found = __import__(name)
    assert told == [found] and found.VALUE
    assert sys.meta_path == before
    del sys.modules[name]
