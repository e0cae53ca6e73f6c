"""Tests of the documents: programs run, outputs match, commands and links exist, the site builds."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from docs.tools import notebook, plain, programs
from tests.conftest import missing_simulator, slow_unless
from tiledmm.course.exercise import exercises

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): list(programs.blocks(path.read_text(encoding="utf-8")))
    for path in programs.documents()
    if path.exists()
}


def run(*command: str, cwd: Path = ROOT) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# Programs


WITH_PROGRAMS = [
    path
    for path, blocks in DOCUMENTS.items()
    if any(each.is_program or (each.commands and each.place) for each in blocks if each.needs != "gpu")
]

#: Documents whose programs run each day: what readers meet first.
EVERYDAY = ("README.md", "docs/index.md")


@pytest.mark.skipif(bool(reason := missing_simulator()), reason=str(reason))
@pytest.mark.parametrize("path", [pytest.param(each, marks=slow_unless(each in EVERYDAY)) for each in WITH_PROGRAMS])
def test_programs_run_and_print_what_is_shown(path: str) -> None:
    run(sys.executable, "-W", "error", "-m", "docs.tools.programs", "--check", path)


def test_a_program_that_fails_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        programs.run(page)


def test_what_is_printed_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shows = "\n\n<!-- output -->\nold\n<!-- /output -->\n\n"
    text = f"```python\nprint(1)\n```{shows}```python\n1 / 0\n```{shows}"
    page.write_text(text, encoding="utf-8")
    assert programs.main(["--check", str(page)]) == 1
    assert page.read_text(encoding="utf-8") == text
    assert programs.main([str(page)]) == 0
    shown = [block for block in programs.blocks(page.read_text(encoding="utf-8")) if block.language == "text"]
    assert "```text\n1\n```" in page.read_text(encoding="utf-8")
    assert "ZeroDivisionError: division by zero" in page.read_text(encoding="utf-8")
    assert not shown, "an output is no block of its own"
    assert programs.main(["--check", str(page)]) == 0


def test_every_page_of_a_rung_is_of_a_variant() -> None:
    assert {path.stem for path in plain.RUNGS.glob("*.md")} == set(plain.rungs())


# The notebook

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
EXECUTE = """
import sys
import nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=600).execute()
print("\\n".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])))
"""


@pytest.mark.skipif(bool(reason := missing_simulator()), reason=str(reason))
@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom() -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    printed = run(sys.executable, "-c", EXECUTE, str(NOTEBOOK))
    assert "race on shared memory" in printed


@pytest.mark.skipif(bool(reason), reason=str(reason))
@pytest.mark.slow
def test_the_courses_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """Check that each exercise is written and checked; the cell that installs the package is left out."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    text = json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))
    text["cells"] = [cell for cell in text["cells"] if not "".join(cell["source"]).startswith("%pip")]
    (tmp_path / "lessons.ipynb").write_text(json.dumps(text).replace("!tiledmm", f"!{sys.executable} -m tiledmm"))
    printed = run(sys.executable, "-c", EXECUTE, str(tmp_path / "lessons.ipynb"), cwd=tmp_path)
    asked = [each for each in exercises().values() if each.lesson in notebook.LESSONS]
    assert printed.count("Not yet.") == len(asked)


def test_the_courses_notebook_is_of_todays_lessons() -> None:
    assert notebook.main(["--check"]) == 0, "python -m docs.tools.notebook"


def test_the_notebook_has_no_outputs() -> None:
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None


# Commands


def commands() -> Iterator[object]:
    for path, blocks in DOCUMENTS.items():
        for block in blocks:
            for words in block.commands:
                yield pytest.param(words, id=f"{path}:{block.line}-{shlex.join(words)}")


def check_install(arguments: list[str]) -> None:
    """Check that every requirement of tiledmm names existing extras."""
    words = iter(arguments)
    for word in words:
        if word == "-e":
            continue
        match = re.fullmatch(r"(?:tiledmm|\.)(?:\[(?P<extras>[\w,-]+)\])?", word)
        assert match or word.startswith("-"), f"pip install {word}: not this project"
        if match and match["extras"]:
            assert set(match["extras"].split(",")) <= set(PROJECT["optional-dependencies"])


def check_make(arguments: list[str]) -> None:
    """Check that the targets exist, without running them."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    run("make", "--dry-run", *arguments)


def check_command_line(arguments: list[str]) -> None:
    """Check that the command exists and accepts these arguments, without running it."""
    import typer.main

    from tiledmm.cli import app

    for option in ("--import", "--kernel"):  # it reads a file, which only a page's own programs have written
        while option in arguments:
            at = arguments.index(option)
            arguments = arguments[:at] + arguments[at + 2 :]
    group = typer.main.get_command(app)
    with group.make_context("tiledmm", arguments, resilient_parsing=False) as context:
        name, command, rest = group.resolve_command(context, context._protected_args + context.args)
        command.make_context(name, rest, parent=context)


def check_module(arguments: list[str]) -> None:
    """Check that ``python -m`` names a module of the repository, and ``python`` a file."""
    match arguments:
        case ["-m", name, *_]:
            assert find_spec(name), name
        case [path, *_]:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("words", list(commands()))
def test_command(words: list[str]) -> None:
    while re.fullmatch(r"\w+=\S*", words[0]):
        words = words[1:]
    if "|" in words:
        words = words[: words.index("|")]
    if ">" in words:
        words = words[: words.index(">")]
    match words:
        case ["make", *arguments]:
            check_make(arguments)
        case ["pip", "install", *arguments] | ["python", "-m", "pip", "install", *arguments]:
            check_install(arguments)
        case ["tiledmm", *arguments]:
            check_command_line(arguments)
        case ["python", *arguments]:
            check_module(arguments)
        case ["pytest", *arguments]:
            assert all((ROOT / each).exists() for each in arguments if not each.startswith("-"))
        case ["git", "clone", *_] | ["cd", _]:
            pass
        case _:
            pytest.fail(f"no way is known to check {shlex.join(words)!r}: teach this test one")


def test_console_script_is_the_module() -> None:
    assert PROJECT["scripts"] == {"tiledmm": "tiledmm.cli:main"}
    for entry in importlib.metadata.entry_points(group="console_scripts", name="tiledmm"):
        assert entry.value == PROJECT["scripts"]["tiledmm"]


def test_the_readme_is_short_and_its_code_is_not_clipped() -> None:
    """Check that the README has at most 110 lines, and its code at most 90 columns, as a repository's page shows."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    code = [line for block in re.findall(r"```\w+\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert code and max(map(len, code)) <= 90


def test_links_between_documents_lead_to_files() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    links = {(page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))}
    local = [(page, link) for page, link in links if "." in link and ":" not in link]
    assert len(local) > 100
    assert not [f"{page}: {link}" for page, link in local if not (page.parent / link).exists()]


def test_no_system_is_named_that_was_not_tried() -> None:
    assert not [each for each in PROJECT["classifiers"] if "Windows" in each]


# The site


def navigation() -> list[str]:
    """Return the pages of the site in the order of "Next"."""
    pytest.importorskip("mkdocs")
    from mkdocs.utils.yaml import yaml_load

    from docs.tools import hooks

    def flat(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [page for each in (part.values() if isinstance(part, dict) else part) for page in flat(each)]

    with open(ROOT / "mkdocs.yml", encoding="utf-8") as file:
        return flat(hooks.with_rungs(yaml_load(file)["nav"]))


def test_next_goes_through_the_lessons_and_up_the_ladder() -> None:
    pages = navigation()
    assert len(set(pages)) == len(pages)
    assert {page for page in pages if page.startswith("rungs/")} == {f"rungs/{name}.md" for name in plain.rungs()}
    lessons = [page for page in pages if re.match(r"course/\d", page)]
    assert lessons == sorted(lessons, key=lambda page: int(re.findall(r"\d+", page)[0]))
    begin, ladder = pages.index(lessons[0]), pages.index("rungs/naive.md")
    assert pages[begin : begin + len(lessons)] == lessons
    assert pages[pages.index("rungs/warp_tiled.md") + 1] == "rungs/tensor_core.md"
    assert pages[ladder - 1] == "ladder.md"


def test_a_group_of_variants_that_does_not_exist_is_an_error() -> None:
    pytest.importorskip("mkdocs")
    from docs.tools import hooks

    with pytest.raises(ValueError, match="rungs/few"):
        hooks.with_rungs([{"Ladder": ["ladder.md", "rungs/few"]}])


def test_a_marker_that_nothing_is_known_of_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("mkdocs")
    from docs.tools import hooks

    marker = hooks._MARKER.search("<!-- drawing: tiled -->")
    assert marker and hooks._expanded(marker, "page.md") == marker[0]
    assert "<!-- drawing: tiled -->" in caplog.text
