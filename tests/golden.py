"""Render one golden kernel per variant and tile, so that a change to a template shows as a diff of CUDA C.

The kernel with a variant's default tile is stored completely. Those with other tiles are stored as a unified diff to it
without context or line numbers, so that a change of a line that both share changes only the complete rendering.
``python -m tests.golden`` rewrites them.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from tiledmm.codegen.rendering import render
from tiledmm.elements import TF32
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec, kernel_variants

FOLDER = Path(__file__).parent / "golden"

LAYOUTS = ("NN", "NT", "TN", "TT")


def renderings() -> dict[str, tuple[KernelSpec, KernelSpec | None]]:
    """Return, by file name, the kernel to render and the kernel it is compared with, None for a complete rendering.

    Kernels are in float32 or the variant's first type. The default tile is NN, the others alternate between layouts.
    Limbs that emulate tf32 have one more kernel.
    """
    files: dict[str, tuple[KernelSpec, KernelSpec | None]] = {}
    for variant in kernel_variants():
        whole = kernel_spec(variant)
        files[f"{variant.name}.cu"] = whole, None
        others = [tile for tile in variant.tiles if tile != variant.default_tile]
        for i, tile in enumerate(others, 1):
            spec = kernel_spec(variant, tile=tile, layout=LAYOUTS[i % len(LAYOUTS)])
            files[f"{variant.name}_{tile}.diff"] = spec, whole
        for scheme in variant.operands.schemes_of(TF32):
            files[f"{variant.name}_{scheme}.diff"] = kernel_spec(variant, dtype=TF32.dtype_name), whole
    return files


def golden(spec: KernelSpec, whole: KernelSpec | None) -> str:
    """Return the contents of a golden file: a kernel's text, or its differences from a complete one."""
    text = render(spec.kernel)
    if whole is None:
        return text
    lines = (render(whole.kernel).splitlines(), text.splitlines())
    names = whole.kernel.symbol, spec.kernel.symbol
    found = difflib.unified_diff(*lines, *names, n=0, lineterm="")
    return "".join("@@\n" if line.startswith("@@ ") else f"{line}\n" for line in found)


def main() -> None:
    """Write every rendering, and remove other files."""
    files = renderings()
    FOLDER.mkdir(exist_ok=True)
    for stale in set(path.name for path in FOLDER.iterdir()) - set(files):
        (FOLDER / stale).unlink()
    for name, pair in files.items():
        (FOLDER / name).write_text(golden(*pair), encoding="utf-8")


if __name__ == "__main__":
    main()
