"""The program that ncu profiles: ``python -m tiledmm.profile.application SIZE TYPE LAYOUT VARIANT[:TILE]...``.

The files of ``tiledmm profile --import`` follow at the end, each after ``--import``. They register variants here, too.

Each product is computed once, to compile its kernels and to allocate memory, and once more between
``cudaProfilerStart`` and ``cudaProfilerStop``: with ``--profile-from-start off`` ncu profiles only these launches.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tiledmm.bench.sizes import Size, parse_size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.own_kernels.registration import IMPORTED, import_file

#: Name of ``cupy.matmul`` among the variants.
CUBLAS = "cublas"

_IMPORT = "--import"


def arguments(size: Size, dtype: str, layout: str, variant_tiles: Sequence[VariantTile]) -> list[str]:
    """Return the arguments with which ``python -m tiledmm.profile.application`` computes a product by each variant.

    The Python files that this process has imported, which register variants, are added as ``--import`` options.
    """
    names = [
        variant_tile.variant if variant_tile.tile is None else f"{variant_tile.variant}:{variant_tile.tile}"
        for variant_tile in variant_tiles
    ]
    files = [word for file in IMPORTED for word in (_IMPORT, file)]
    return ["x".join(map(str, size)), dtype, layout, *names, *files]


def imported(words: Sequence[str]) -> list[str]:
    """Run the Python files that follow ``--import`` among the arguments, and return the arguments before them.

    The files register variants. The arguments before them name the variants to profile.
    """
    end = words.index(_IMPORT) if _IMPORT in words else len(words)
    for file in words[end + 1 :: 2]:
        import_file(file)
    return list(words[:end])


def parse_variant_tile(text: str) -> VariantTile:
    """Return the variant and tile that an argument names, such as ``"tiled:16"``, or ``"auto"`` without a tile."""
    name, _, tile = text.partition(":")
    return VariantTile(name, int(tile) if tile else None)


def main(words: Sequence[str]) -> None:
    """Compute a product by each variant, once unprofiled and once more for the profiler.

    Args:
        words: Arguments of the command line, see ``arguments``.
    """
    import cupy

    from tiledmm import matmul
    from tiledmm.bench.comparison import cupy_takes, run_cupy
    from tiledmm.bench.operand_sets import operand_sets
    from tiledmm.elements import compute_element
    from tiledmm.problem.call import dtype_of, precision_of

    size, dtype, layout, *names = words
    kind = compute_element(dtype)
    operands = operand_sets(parse_size(size), dtype, layout)[0]
    keywords: dict[str, Any] = {"dtype": dtype_of(kind), "precision": precision_of(kind)}
    runtime = cupy.cuda.runtime
    for variant_tile in map(parse_variant_tile, imported(names)):
        for watched in (False, True):
            runtime.deviceSynchronize()
            if watched:
                runtime.profilerStart()
            if variant_tile.variant == CUBLAS:
                with cupy_takes(kind):
                    run_cupy([operands], 0)
            else:
                a, b, c = operands
                matmul(a, b, out=c, variant=variant_tile.variant, tile=variant_tile.tile, **keywords)
            runtime.deviceSynchronize()
        runtime.profilerStop()


if __name__ == "__main__":
    main(sys.argv[1:])
