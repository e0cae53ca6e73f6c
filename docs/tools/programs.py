"""Run the programs and commands in the documents, and write their output below them.

    python -m docs.tools.programs            # writes the text between <!-- output --> and <!-- /output -->
    python -m docs.tools.programs --check    # writes nothing; exit status 1 if something would change

The Python blocks of a document form one program, which runs from top to bottom in a temporary folder. If a pair of
markers follows a block, the block's output, or the error that ends it, is written between them; so is a command's
output. ``<!-- output: markdown -->`` is for tables.

A block that imports CuPy at its top needs a GPU, as does one with ``<!-- gpu -->`` on the line before it;
``<!-- inspect -->`` marks one that needs the extra ``inspect``. Blocks whose needs are not met are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent

# What the extra `inspect` brings.
_NVRTC = (12, 9)

_PYTHON, _SHELL = ("python",), ("sh", "bash", "shell", "console")

_IMPORTS_CUPY = re.compile(r"^(import|from) cupy\b", re.MULTILINE)

_BLOCK = re.compile(
    r"^(?:<!-- (?P<needs>gpu|inspect) -->\n+)?(?P<indent> *)```(?P<language>\w+)\n(?P<body>.*?)^(?P=indent)```\n"
    r"(?:\n*(?P<open><!-- output(?:: (?P<form>\w+))? -->)\n(?P<shown>.*?)^<!-- /output -->\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document.

    Attributes:
        line: Line number at which its text begins.
        language: Language that the fence names.
        text: Contents of the block.
        needs: Marked requirement: ``"gpu"``, ``"inspect"`` or empty.
        place: Position of its output in the document; None if the output is not shown.
        form: Format of the output: ``"text"`` or ``"markdown"``.
    """

    line: int
    language: str
    text: str
    needs: str
    place: tuple[int, int] | None
    form: str

    @property
    def is_program(self) -> bool:
        """Whether the block is Python."""
        return self.language in _PYTHON

    @property
    def commands(self) -> list[list[str]]:
        """Shell commands of the block, split into words; of a ``console`` block only those after a prompt."""
        if self.language not in _SHELL:
            return []
        prompts = self.text.lstrip().startswith("$ ")
        lines = [line for line in self.text.replace("\\\n", " ").splitlines() if not prompts or line.startswith("$ ")]
        return [words for line in lines if (words := shlex.split(line.removeprefix("$ "), comments=True))]


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document."""
    for found in _BLOCK.finditer(text):
        place = found.span("shown") if found["open"] else None
        line = text.count("\n", 0, found.start("body")) + 1
        body, form = textwrap.dedent(found["body"]), found["form"] or "text"
        needs = found["needs"] or ("gpu" if _IMPORTS_CUPY.search(body) else "")
        yield Block(line, found["language"], body, needs, place, form)


def documents(root: Path = ROOT) -> list[Path]:
    """Return the documents whose blocks run."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("**/*.md"))]


def run(path: Path, *, gpu: bool = False) -> str:
    """Run a document's programs, and the commands whose output it shows; return the document with their output.

    Args:
        path: The document.
        gpu: Whether to run blocks that need a GPU, too.

    Raises:
        AssertionError: If a block fails whose error is not shown, or a command with shown output is not ``tiledmm``.
    """
    text = path.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    parts, position = [], 0
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for block in blocks(text):
            where = f"{path}:{block.line}"
            if (block.needs == "gpu" and not gpu) or (block.needs == "inspect" and not _can_inspect()):
                continue
            if block.is_program:
                printed = _printed_by(block, names, where)
            elif block.commands and block.place:
                printed = "".join(_printed_by_command(words, where) for words in block.commands)
            else:
                continue
            if block.place:
                begin, end = block.place
                parts += [text[position:begin], _shown(printed, block.form)]
                position = end
    return "".join([*parts, text[position:]])


@functools.cache
def _can_inspect() -> bool:
    """Return whether this compiler is the one behind the shown output, since others count other registers."""
    try:
        from cuda.bindings import nvrtc

        from tiledmm.compile.disassembly import nvdisasm

        nvdisasm()
        return tuple(nvrtc.nvrtcVersion()[1:]) == _NVRTC
    except (ImportError, RuntimeError):
        return False


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    # contextlib.chdir is Python 3.11's.
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _printed_by(block: Block, names: dict[str, Any], where: str) -> str:
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, where.rpartition(":")[0], "exec")
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    except Exception as error:
        if not block.place:
            raise
        kind = type(error)
        printed.write(f"{kind.__module__}.{kind.__qualname__}: {error}\n".removeprefix("builtins."))
    return printed.getvalue()


def _printed_by_command(words: list[str], where: str) -> str:
    assert words[0] == "tiledmm", f"{where}: only what tiledmm prints is shown; got {shlex.join(words)}"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", *words],
        env=os.environ | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "110"},  # the same anywhere
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{where}: {shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _shown(printed: str, form: str) -> str:
    text = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    return f"\n{text}\n\n" if form == "markdown" else f"```text\n{text}\n```\n"


def _without_lines(text: str) -> str:
    """Remove line numbers of kernels from a text, because a comment in a template shifts them."""
    return re.sub(r"(?<=\.cu):\d+", "", text)


def main(arguments: list[str] | None = None) -> int:
    """Write or check the documents; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    parser.add_argument("--gpu", action="store_true", help="run what is marked as for a GPU, too")
    parser.add_argument("paths", nargs="*", type=Path, help="documents; all, if none is named")
    options = parser.parse_args(arguments)
    stale = False
    for path in map(Path.resolve, options.paths or documents()):
        written = run(path, gpu=options.gpu)
        compared = _without_lines if options.check else str
        if compared(written) != compared(path.read_text(encoding="utf-8")):
            stale = True
            print(f"{path}: {'is not what its programs print' if options.check else 'written'}")
            if not options.check:
                path.write_text(written, encoding="utf-8")
    return int(options.check and stale)


if __name__ == "__main__":
    sys.exit(main())
