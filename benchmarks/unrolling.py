"""How many steps of k a kernel's inner loop lays out in full: ``python -m benchmarks.unrolling``, on a GPU.

float32, 4096 x 4096 x 4096, beside cupy.matmul on all four layouts. ``warp_tiled`` lays out all of a step along K, so
there the step itself is what is changed: ``benchmarks/warp_tiles.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.warp_tiles import Trial, main

RESULTS = Path(__file__).parent / "results" / "unrolling.json"

TRIALS: dict[str, Trial] = {
    f"{variant} {tile}, {unroll} of {bk}": (variant, tile, {"unroll": unroll})
    for variant, tile, bk, unrolls in (
        ("tiled", 64, 16, (1, 2, 4, 8, 16)),
        ("double_buffered", 64, 32, (1, 4, 16, 32)),
        ("register_tiled", 128, 8, (1, 2, 4, 8)),
        ("vectorized", 128, 8, (1, 2, 4, 8)),
    )
    for unroll in unrolls
}

if __name__ == "__main__":
    sys.exit(main(TRIALS, RESULTS))
