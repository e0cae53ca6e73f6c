"""Write the notebook of the course's first three lessons: their pages as cells, each followed by its exercises.

python -m docs.tools.notebook            # writes docs/course/lessons_1_to_3.ipynb
python -m docs.tools.notebook --check    # writes nothing; exit status 1 if something would change

after a change of one of them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tiledmm.course.exercise import exercises
from tiledmm.course.student_file import start_text

FOLDER = Path(__file__).resolve().parent.parent / "course"
NOTEBOOK = FOLDER / "lessons_1_to_3.ipynb"
LESSONS = (1, 2, 3)

_BEGIN = """\
# The course: lessons 1 to 3

<!-- Badges of Colab and Binder go here. They need the address of the repository. -->

Read a lesson, change the kernel in the cell below it, run that cell, and then the next one, which checks it. Nothing
needs a GPU. `!tiledmm exercise hint first_thread.cu` prints one more hint each time.
"""

_INSTALL = '%pip install --quiet "tiledmm[simulate,inspect]"'


def notebook() -> str:
    """Return the notebook, as its file has it."""
    cells = [_cell("markdown", _BEGIN), _cell("code", _INSTALL)]
    for lesson in LESSONS:
        (page,) = FOLDER.glob(f"{lesson}_*.md")
        for section in re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            cells.append(_cell("markdown", section))
            if section.startswith("## Exercises"):
                cells += _exercises(lesson)
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _exercises(lesson: int) -> Iterator[dict[str, Any]]:
    """Yield two cells per exercise of a lesson: one writes its file, and one checks it."""
    for each in exercises().values():
        if each.lesson == lesson:
            yield _cell("code", f"%%writefile {each.name}.cu\n{start_text(each)}")
            yield _cell("code", f"!tiledmm exercise check {each.name}.cu")


def _cell(kind: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.strip().splitlines(keepends=True)}
    return found | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def main(arguments: list[str]) -> int:
    """Write the notebook, or with ``--check`` return 1 if it would change."""
    text = notebook()
    same = NOTEBOOK.is_file() and NOTEBOOK.read_text(encoding="utf-8") == text
    if not same and "--check" not in arguments:
        NOTEBOOK.write_text(text, encoding="utf-8")
        return 0
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
