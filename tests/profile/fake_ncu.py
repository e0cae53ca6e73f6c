"""A stand-in for ncu that prints what the real one would, for made-up launches."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

# Answers from answers.json beside it: of a run, what it prints, its exit status and the metrics it does not know; and a
# report that was written is the two pages that are read from it. Each command line goes into calls.jsonl.
_PROGRAM = """#!{python}
import json, pathlib, sys
here, words = pathlib.Path(__file__).parent, sys.argv[1:]
answers = json.loads((here / "answers.json").read_text())
with (here / "calls.jsonl").open("a") as file:
    print(json.dumps(words), file=file)
if "--import" in words:
    print(answers["pages"][words[words.index("--page") + 1]], end="")
    sys.exit(answers["import_status"])
asked = words[words.index("--metrics") + 1].split(",")
unknown = [metric for metric in answers["unknown"] if metric in asked]
if unknown:
    print(f"==ERROR== Failed to find metric {{unknown[0]}}")
    sys.exit(9)
print(answers["output"])
if answers["writes"]:
    pathlib.Path(words[words.index("--export") + 1]).write_text("a report")
sys.exit(answers["status"])
"""


class FakeNcu:
    """An executable ``ncu`` in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "ncu"
        program.write_text(_PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        self.answer()

    def answer(
        self, *, raw: str = "", source: str = "", output: str = "==PROF== Profiling", status: int = 0,
        writes: bool = True, unknown: Sequence[str] = (), import_status: int = 0,
    ) -> None:  # fmt: skip
        """Set what it prints and returns from now on."""
        answers: dict[str, Any] = {"pages": {"raw": raw, "source": source}, "output": output, "status": status}
        answers |= {"writes": writes, "unknown": list(unknown), "import_status": import_status}
        (self.folder / "answers.json").write_text(json.dumps(answers))

    @property
    def calls(self) -> list[list[str]]:
        """Command lines that it was given."""
        return [json.loads(line) for line in (self.folder / "calls.jsonl").read_text().splitlines()]


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> FakeNcu:
    """Make this the only ncu on PATH."""
    monkeypatch.setenv("PATH", str(folder / "bin"))
    return FakeNcu(folder / "bin")


def table(*rows: Sequence[object]) -> str:
    """Format CSV as ncu does."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def raw_page(*launches: tuple[str, Mapping[str, object]]) -> str:
    """Format what ``--page raw`` prints for launches, given by name and values by metric."""
    metrics = list(dict.fromkeys(name for _, values in launches for name in values))
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"]
    rows: list[list[object]] = [[*head, *metrics], ["", "", "", "", "", "", "", "", *("unit" for _ in metrics)]]
    for i, (name, values) in enumerate(launches):
        cells = (values.get(metric, "n/a") for metric in metrics)
        rows.append([i, 7, "python3", "127.0.0.1", name, 1, 7, "(32, 32, 1)", *cells])
    return table(*rows)


def source_page(*launches: tuple[str, Sequence[tuple[str, Mapping[str, object]]]]) -> str:
    """Format what ``--page source --print-source sass`` prints for launches with instructions and counts."""
    text = ""
    for name, instructions in launches:
        headings = list(dict.fromkeys(heading for _, counts in instructions for heading in counts))
        rows = [
            [f"{0x7F42_1000 + 16 * i:#x}", f"      {sass}", *(counts.get(heading, 0) for heading in headings)]
            for i, (sass, counts) in enumerate(instructions)
        ]
        text += table(["Kernel Name", name], ["Address", "Source", *headings], *rows)
    return text
