"""List the modules of this repository that are commands: ``python -m tools``. ``make help`` shows them, too."""

from __future__ import annotations

import ast
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commands() -> Iterator[tuple[str, str]]:
    """Yield the name of each module that is a command, and the first line of its docstring."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        path = Path(name)
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.parts[0] != "tiledmm" and path.stem != "__main__" and '__name__ == "__main__"' in text:
            docstring = ast.get_docstring(ast.parse(text)) or ""
            yield ".".join(path.with_suffix("").parts), docstring.partition("\n")[0]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make help | head` ends quietly
    for name, summary in commands():
        print(f"python -m {name:<36} {summary}")
