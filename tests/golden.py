"""Golden renderings, so that a change to a template shows as a diff of CUDA C: one of each variant and tile.

That of a variant's default tile is whole. Of the other tiles there are the lines that differ from it, as a unified diff
without context and line numbers: a change of a line that both have changes the whole rendering alone.
``python -m tests.golden`` writes them anew.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from tiledmm.codegen.rendering import render
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec, kernel_variants

FOLDER = Path(__file__).parent / "golden"

LAYOUTS = ("NN", "NT", "TN", "TT")


def renderings() -> dict[str, tuple[KernelSpec, KernelSpec | None]]:
    """By file name what is rendered, and what its text is compared with, if it is no whole one.

    In float32, or the variant's first type; the default tile as NN, the others in the layouts in turn.
    """
    files: dict[str, tuple[KernelSpec, KernelSpec | None]] = {}
    for variant in kernel_variants():
        whole = kernel_spec(variant)
        files[f"{variant.name}.cu"] = whole, None
        others = [tile for tile in variant.tiles if tile != variant.default_tile]
        for i, tile in enumerate(others, 1):
            spec = kernel_spec(variant, tile=tile, layout=LAYOUTS[i % len(LAYOUTS)])
            files[f"{variant.name}_{tile}.diff"] = spec, whole
    return files


def golden(spec: KernelSpec, whole: KernelSpec | None) -> str:
    """What a golden file holds: a kernel's text, or how it differs from a whole one's."""
    text = render(spec.kernel)
    if whole is None:
        return text
    lines = (render(whole.kernel).splitlines(), text.splitlines())
    names = whole.kernel.symbol, spec.kernel.symbol
    found = difflib.unified_diff(*lines, *names, n=0, lineterm="")
    return "".join("@@\n" if line.startswith("@@ ") else f"{line}\n" for line in found)


def main() -> None:
    """Writes every rendering, and removes files that are none."""
    files = renderings()
    FOLDER.mkdir(exist_ok=True)
    for stale in set(path.name for path in FOLDER.iterdir()) - set(files):
        (FOLDER / stale).unlink()
    for name, pair in files.items():
        (FOLDER / name).write_text(golden(*pair), encoding="utf-8")


if __name__ == "__main__":
    main()
