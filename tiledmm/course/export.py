"""Export of exercises for students: without solutions and hints, with the licence."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tiledmm.course.exercise import exercises
from tiledmm.course.grading.rubric import read_rubric, rubric_path
from tiledmm.course.student_file import write_start
from tiledmm.errors import ConfigError

_README = """\
Exercises in CUDA C that check themselves without a GPU:

    pip install "tiledmm[simulate]"
    tiledmm exercise check NAME.cu

They are part of tiledmm, and have its licence: see LICENSE.
"""


def export(folder: Path, lesson: int | None = None, lab: str | None = None) -> list[Path]:
    """Write exercises' files, a README and the licence into a folder, and return the paths of the exercises.

    Args:
        folder: The folder, which must be new or empty.
        lesson: Number of a lesson; None for all.
        lab: Rubric, as for ``read_rubric``: only its exercises are written, and the rubric with them; None for all.

    Raises:
        ConfigError: If there is no such lesson or lab, or if the folder has files.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty, and is left as it is: name a new folder")
    own = [each.exercise.name for each in read_rubric(lab).tasks] if lab is not None else list(exercises())
    wanted = [each for each in exercises().values() if lesson in (None, each.lesson) and each.name in own]
    if not wanted:
        known = sorted({each.lesson for each in exercises().values() if each.name in own})
        raise ConfigError(f"lesson {lesson} has no exercises; lessons with exercises: {', '.join(map(str, known))}")
    written = [write_start(each, folder) for each in wanted]
    (folder / "README.txt").write_text(_README, encoding="utf-8")
    (folder / "LICENSE").write_text(_licence(), encoding="utf-8")
    if lab is not None:
        (folder / "lab.toml").write_bytes(rubric_path(lab).read_bytes())
    return written


def _licence() -> str:
    """Return the package's licence, from the installed package or the source tree."""
    try:
        files = distribution("tiledmm").files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "LICENSE":
            return Path(str(file.locate())).read_text(encoding="utf-8")
    return (Path(__file__).resolve().parents[2] / "LICENSE").read_text(encoding="utf-8")
