"""Golden renderings: one a variant and tile, so that a change to a template shows as a diff of CUDA C.

``python -m tests.golden`` writes them anew.
"""

from __future__ import annotations

from pathlib import Path

from tiledmm.codegen import Specialization, render, specialize
from tiledmm.ladder import kernel_variants

FOLDER = Path(__file__).parent / "golden"


def renderings() -> dict[str, Specialization]:
    """The file name of each golden rendering and what it renders: float32, or its first type, the layouts in turn."""
    layouts = ("NN", "NT", "TN", "TT")
    files = {}
    for variant in kernel_variants():
        for i, tile in enumerate(variant.tiles or (None,)):
            name = variant.name if tile is None else f"{variant.name}_{tile}"
            files[f"{name}.cu"] = specialize(variant, tile=tile, layout=layouts[i % len(layouts)])
    return files


def main() -> None:
    """Writes every rendering, and removes files that are none."""
    files = renderings()
    FOLDER.mkdir(exist_ok=True)
    for stale in set(path.name for path in FOLDER.iterdir()) - set(files):
        (FOLDER / stale).unlink()
    for name, specialization in files.items():
        (FOLDER / name).write_text(render(specialization.kernel), encoding="utf-8")


if __name__ == "__main__":
    main()
