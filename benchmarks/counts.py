"""Count the memory accesses of each variant on the simulator: ``python -m benchmarks.counts``. Needs no GPU.

Covers every variant that can be simulated, in its default type: the default tile in all four layouts, the other tiles
in two. Counts the accesses of the machine code, in which adjacent ones are merged. The counts are the same on every
machine with the same compiler.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import tiledmm
from benchmarks.support.results import FOLDER, measured, save
from tiledmm import simulator
from tiledmm.elements import ELEMENTS
from tiledmm.kernels.variants import find_variant, kernel_spec, kernel_variants
from tiledmm.report.cells import NONE, count, significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "counts.json"

LAYOUTS = ("NN", "NT", "TN", "TT")
TARGET = "sm_90"
WARP = 32

#: Number of products, m, n and k: usually, and for variants of few shapes.
USUAL = (1, 128, 256, 128)
PRODUCTS = {
    "thin": (1, 192, 512, 128),
    "dot_products": (1, 16, 256, 512),
    "block_dot_products": (1, 4, 256, 2048),
    "axpy": (1, 4, 256, 512),
    "outer_products": (1, 128, 256, 2),
    "narrow_outer_products": (1, 2048, 16, 2),
    "tiny": (64, 16, 16, 16),
    "split_tensor_core": (1, 128, 256, 256),
    "split_float32": (1, 128, 256, 256),
}

#: Variants to count.
COUNTED = tuple(row.name for row in kernel_variants() if row.simulated)


def operands(product: tuple[int, int, int, int], dtype: str, layout: str) -> list[np.ndarray[Any, Any]]:
    """Return A and B with small integers, as stacks if the product is a batch."""
    products, m, n, k = product
    found = []
    for letter, (rows, cols) in zip(layout, ((m, k), (k, n)), strict=True):
        shape = (products, cols, rows) if letter == "T" else (products, rows, cols)
        values = (np.arange(np.prod(shape)) % 3).astype(dtype).reshape(shape)
        values = values.swapaxes(1, 2) if letter == "T" else values
        found.append(values if products > 1 else values[0])
    return found


def counted(variant: str, tile: int | None, layout: str) -> dict[str, Any]:
    """Simulate one kernel on its product and return its counts per multiply-add of a warp (32 lanes)."""
    product, dtype = PRODUCTS.get(variant, USUAL), find_variant(variant).default_type
    _, report = simulator.run(
        *operands(product, dtype, layout), variant=variant, tile=tile, checks=False, sass=True, target=TARGET
    )
    report.check()
    traffic = report.sass or report.source
    asked = traffic.global_load + traffic.copy_load + traffic.bulk_load
    shared = traffic.shared_load + traffic.wgmma
    stored = traffic.shared_store + traffic.copy_store + traffic.bulk_shared
    every = shared + stored
    of_a_warp = report.multiply_adds / WARP
    return {
        "variant": variant,
        "tile": tile,
        "layout": layout,
        "product": list(product),
        "symbol": report.symbol,
        "intensity": report.intensity,
        # Elements of wide loads counted one by one; one that is decomposed is as many bytes in its limbs.
        "reuse": 2 * report.multiply_adds * ELEMENTS[dtype].itemsize / asked.bytes,
        "global loads": asked.requests / of_a_warp,
        "sectors": asked.sectors_per_request,
        "shared loads": shared.requests / of_a_warp,
        "load wavefronts": shared.wavefronts / of_a_warp,
        "wavefronts": every.wavefronts / of_a_warp,
        "times ideal": every.wavefronts / every.ideal_wavefronts if every.ideal_wavefronts else None,
        "barriers": report.barriers,
        **({"phases": report.phases} if report.phases else {}),
    }


def kernels() -> Iterator[tuple[str, int | None, str]]:
    """Yield the kernels that are counted, each as variant, tile and layout."""
    for variant in COUNTED:
        row = find_variant(variant)
        for tile in row.tiles or (None,):
            for layout in LAYOUTS if tile in (None, row.default_tile) else LAYOUTS[:2]:
                yield variant, tile, layout


def counts() -> dict[str, Any]:
    """Count all kernels, one per core at a time, and return the results with the machine that counted them."""
    found = []
    with ProcessPoolExecutor() as pool:
        for row in pool.map(counted, *zip(*kernels(), strict=True)):
            print(row["symbol"], file=sys.stderr)
            found.append(row)
    machine = {"simulated": f"the simulator, compiling for {TARGET}", "tiledmm": f"tiledmm {tiledmm.__version__}"}
    names = [f"{name} {find_variant(name).default_type}" for name in COUNTED]
    return measured(machine | {"date": date.today().isoformat()}, {"kernels": found}, names=names)


def _barriers(row: dict[str, Any]) -> str:
    """Format how many barriers each block passes, or a dash if blocks differ."""
    products, m, n, _ = row["product"]
    config = kernel_spec(row["variant"], tile=row["tile"], layout=row["layout"]).kernel.config
    tiles = products * -(-m // config.bm) * -(-n // config.bn)
    each, rest = divmod(row["barriers"], -(-tiles // config.tiles_per_block))
    return NONE if rest else f"{each:,}"


def counts_table(results: dict[str, Any], variant: str) -> Table:
    """Format the counts of one variant, one row per tile and layout."""
    kernels = [row for row in results["kernels"] if row["variant"] == variant]
    tiles = any(row["tile"] for row in kernels)
    staged = any(row["shared loads"] for row in kernels)
    phased = any(row.get("phases") for row in kernels)
    products, m, n, k = kernels[0]["product"] if kernels else USUAL
    size = f"{m} x {n} x {k} (M x N x K)" + (f", a batch of {products}" if products > 1 else "")
    columns = ("tile",) * tiles + ("<layout", "FLOP/byte", "reuse", "global loads", "sectors/request")
    columns += ("shared loads", "wavefronts", "x ideal", "barriers") * staged + ("phases",) * phased
    figures = ("intensity", "reuse", "global loads", "sectors")
    figures += ("shared loads", "wavefronts", "times ideal") * staged
    rows = tuple(
        (
            *(count(row["tile"]),) * tiles,
            row["layout"],
            *(significant(row[name]) for name in figures),
            *(_barriers(row),) * staged,
            *(count(row.get("phases", 0)),) * phased,
        )
        for row in kernels
    )
    note = f"{find_variant(variant).default_type}, {size}."
    if phased:
        note += " Global loads are TMA copies, and shared loads wgmma. Phases are those of the mbarriers of all blocks."
    return Table(variant, columns, rows, notes=(note,))


def main() -> int:
    """Count all kernels and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options = parser.parse_args()
    save(options.out, counts())
    return 0


if __name__ == "__main__":
    sys.exit(main())
