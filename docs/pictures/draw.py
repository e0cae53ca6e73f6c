"""Draw what a kernel's threads touch: ``python -m docs.pictures.draw [--check]``, one file ``<name>.svg`` per picture.

    naive, coalesced, ...       A, B and C: what a block multiplies in an iteration, what one of its warps and one
                                thread of that warp read, what is loaded meanwhile, and who computes which part of C
    tiny                        the same for a block of many products
    architecture                the folders of the package in layers
    banks                       rows of a shared tile by bank, with paddings and swizzled
    pipelines                   when tiles are copied and multiplied, by the number of stages
    race                        the recording of README.md: a barrier is deleted, and the simulator names the race
    rasterization               which tiles of C are computed at the same time
    sm                          one SM: the memories that an instruction reads, their widths and load latencies

The pictures of threads follow the accesses that the simulator recorded, so they show what the kernels really do.
``--check`` writes nothing and exits with 1 if something would change.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from docs.pictures import (
    architecture,
    banks,
    batches,
    blocks,
    clusters,
    fragments,
    pipelines,
    rasterization,
    recording,
    sm,
)
from docs.pictures.blocks import Scene

FOLDER = Path(__file__).parent

#: Kernels with their default tiles, as their pages describe them.
SCENES = (
    Scene("naive"),
    Scene("coalesced"),
    Scene("tiled"),
    Scene("tiled_padded"),
    Scene("double_buffered"),
    Scene("register_tiled"),
    Scene("vectorized"),
    Scene("warp_tiled"),
    Scene("thin", blocks=(1, 2)),
    Scene("dot_products", layout="NT", blocks=(1, 2), steps=256, lane=5),
    Scene("block_dot_products", layout="NT", blocks=(1, 2), steps=2048, lane=5),
    Scene("axpy", blocks=(1, 2), steps=64, lane=5),
    Scene("outer_products", blocks=(1, 2), steps=4, lane=5, number=0),
    Scene("tensor_core", dtype="float16"),
    Scene("split_tensor_core", steps=256, shown=96),
)

#: Functions that draw the pictures, by file name.
PICTURES: dict[str, Callable[[], str]] = {
    **{scene.variant: partial(blocks.picture, scene) for scene in SCENES},
    "tiny": partial(batches.picture, "tiny", 8),
    # Blocks of bytes with the same tile touch the same.
    "split_float64_tensor_core": partial(blocks.picture, Scene("tensor_core", 128, dtype="int8", layout="NT")),
    "mma": partial(fragments.picture, Scene("tensor_core", 64, dtype="float16")),
    **{name: partial(clusters.picture, name) for name in ("wgmma", "split_float32", "split_integer", "split_float64")},
    "architecture": architecture.picture,
    "banks": banks.picture,
    "pipelines": pipelines.picture,
    "race": recording.picture,
    "rasterization": rasterization.picture,
    "sm": sm.picture,
}


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pictures; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args(arguments).check
    stale = 0
    for name, draw in PICTURES.items():
        path, written = FOLDER / f"{name}.svg", draw()
        if path.exists() and path.read_text(encoding="utf-8") == written:
            continue
        stale += 1
        if not check:
            path.write_text(written, encoding="utf-8")
        print(f"{path}: {'is not what its kernel does' if check else 'written'}")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
