"""README's programs and commands work: each is run or, where it would install something, checked."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *)```(?P<language>\w+)\n(?P<body>.*?)^\1```", re.MULTILINE | re.DOTALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def blocks(*languages: str) -> Iterator[tuple[int, str]]:
    """The line number and text of README's fenced blocks in these languages."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    for block in FENCE.finditer(text):
        if block["language"] in languages:
            yield text.count("\n", 0, block.start()) + 2, textwrap.dedent(block["body"])


def commands() -> Iterator[object]:
    """Each shell command: of a ``console`` block only what follows a prompt, for the rest is output."""
    for first_line, body in blocks("bash", "sh", "shell", "console"):
        prompts = body.lstrip().startswith("$ ")
        for number, line in enumerate(body.replace("\\\n", "  ").splitlines(), first_line):
            if prompts and not line.startswith("$ "):
                continue
            if words := shlex.split(line.removeprefix("$ "), comments=True):
                yield pytest.param(words, id=f"line{number}-{shlex.join(words)}")


def programs() -> Iterator[object]:
    """Each Python block; one that uses CuPy needs a GPU."""
    for number, body in blocks("python"):
        marks = [pytest.mark.gpu] if "cupy" in body else []
        yield pytest.param(body, id=f"line{number}", marks=marks)


def run(*command: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"


def check_install(arguments: list[str]) -> None:
    """Every tiledmm requirement names extras that exist."""
    for word in arguments:
        match = re.fullmatch(r"(?:tiledmm|\.)(?:\[(?P<extras>[\w,-]+)\])?", word)
        assert match or word.startswith("-"), f"pip install {word}: not this project"
        if match and match["extras"]:
            assert set(match["extras"].split(",")) <= set(PROJECT["optional-dependencies"])


def check_make(arguments: list[str]) -> None:
    """The targets exist. What they do is run elsewhere, or is this very run."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    run("make", "--dry-run", *arguments)


def test_readme_has_something_to_check() -> None:
    assert list(commands())
    assert list(programs())


@pytest.mark.parametrize("words", list(commands()))
def test_command(words: list[str]) -> None:
    while re.fullmatch(r"\w+=\S*", words[0]):
        words = words[1:]
    match words:
        case ["make", *arguments]:
            check_make(arguments)
        case ["pip", "install", *arguments] | ["python", "-m", "pip", "install", *arguments]:
            check_install(arguments)
        case ["tiledmm", *arguments]:
            run(sys.executable, "-m", "tiledmm", *arguments)
        case ["python", *arguments]:
            run(sys.executable, *arguments)
        case ["pytest", *arguments]:
            run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *arguments)
        case ["git", "clone", *_] | ["cd", _]:
            pass
        case _:
            pytest.fail(f"no way is known to check {shlex.join(words)!r}: teach this test one")


@pytest.mark.parametrize("program", list(programs()))
def test_program(program: str) -> None:
    run(sys.executable, "-W", "error", "-c", program)


def test_console_script_is_the_module() -> None:
    assert PROJECT["scripts"] == {"tiledmm": "tiledmm.cli:main"}
    for entry in importlib.metadata.entry_points(group="console_scripts", name="tiledmm"):
        assert entry.value == PROJECT["scripts"]["tiledmm"]
