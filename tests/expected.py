"""What ``auto`` takes for a spread of products on several GPUs, and how long the model expects it to take.

``python -m tests.expected`` rewrites it after an intended change of the model: the diff shows what changed.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from tiledmm.elements import ELEMENTS, TF32, element
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.problem.operands import Array, Product, resolve
from tiledmm.selection.model import Model, candidates

PATH = Path(__file__).parent / "expected.json"

# Sizes of a batch, m, n, k; and layouts: where the next one begins moves on from type to type.
_SIZES = (
    (1, 1, 4096, 4096), (1, 4096, 1, 4096), (1, 2, 8192, 8192), (1, 16, 8192, 8192), (1, 8192, 40, 2048),
    (1, 64, 64, 65536), (1, 128, 128, 128), (1, 257, 511, 8192), (1, 777, 777, 777), (1, 1000, 1024, 1000),
    (1, 1536, 1536, 1536), (1, 2049, 2047, 2048), (1, 4096, 4096, 16), (1, 4096, 4096, 4096), (1, 8000, 130, 500),
    (4096, 16, 16, 16), (1024, 8, 8, 8), (1025, 16, 1, 16), (3000, 24, 40, 56), (256, 256, 256, 256),
    (3, 640, 640, 65536),
)  # fmt: skip
_LAYOUTS = ("NN", "NT", "TN", "TT", "GN", "NG")
_TARGETS = ("sm_90", "sm_75", "sm_80", "sm_120")


def product(dtype: str, layout: str, sizes: tuple[int, int, int, int], gap: int, symmetric: bool = False) -> Product:
    """A product of matrices that lie so, with gaps of so many elements; ``symmetric`` if B is A transposed."""
    batch, m, n, k = sizes
    kind = TF32.dtype if dtype == TF32.dtype_name else element(dtype).dtype

    def matrix(rows: int, cols: int, letter: str) -> Array:
        step = 2 if letter == "G" else 1
        wide = (rows if letter == "T" else cols) * step + gap
        strides = (step, wide) if letter == "T" else (wide, step)
        size = wide * (cols if letter == "T" else rows)
        return Array((batch, rows, cols), tuple(kind.itemsize * each for each in (size, *strides)), kind)

    made = resolve(matrix(m, k, layout[0]), matrix(k, n, layout[1]), same_memory=symmetric)
    return made.computed_in(TF32) if dtype == TF32.dtype_name else made


def expected() -> dict[str, list[str]]:
    """For each target, a line a product: the product, the kernels, and microseconds."""
    found: dict[str, list[str]] = {}
    layouts = itertools.cycle(_LAYOUTS)
    for target in _TARGETS:
        model, lines = Model(REFERENCE_GPUS[target], candidates(decomposes=target != "sm_80")), []
        for number, (dtype, sizes) in enumerate(itertools.product((*ELEMENTS, TF32.dtype_name), _SIZES)):
            layout, gap = next(layouts), (0, 0, 3)[number % 3]
            choice = model.best(product(dtype, layout, sizes, gap))
            lines.append(f"{dtype} {layout} {sizes} +{gap}: {choice}: {choice.microseconds:.4g} us")
        for dtype, m in itertools.product(("float32", "float16", "int64", "complex128"), (130, 700, 2000)):
            choice = model.best(product(dtype, "NT", (3, m, m, 200), 0, symmetric=True))
            lines.append(f"{dtype} {m} symmetric: {choice}: {choice.microseconds:.4g} us")
        found[target] = lines
    return found


if __name__ == "__main__":
    PATH.write_text(json.dumps(expected(), indent=0) + "\n", "utf-8")
