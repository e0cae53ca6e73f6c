"""Compare ``auto`` with cuBLAS on products that people run: ``python -m benchmarks.layers``.

Products of layers are x @ W.T in 16 bits: x has a few rows in decoding and many in prefill, and W, of shape (columns,
k), is a layer's weights in a published model. The others are Gram matrices, products of tall factors, a covariance,
convolutions as products, and batches of small matrices. Rivals are ``cupy.matmul`` and, for two matrices, ``torch.mm``
if PyTorch is installed. Times are those on the device alone, once with cold operands (sets that exceed L2, in turn) and
once with warm ones (one set). No calibration uses these products, and no shipped table contains them. Needs a GPU; the
exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.random_shapes import Shape, is_right, operand_sets
from benchmarks.support.beside_cupy import rivals
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.bench.results import BASELINE
from tiledmm.elements import compute_element
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "layers.json"

#: Types of the products of layers, and of the others.
LAYER_TYPES, OTHER_TYPES = ("bfloat16", "float16"), ("float32", "float64")

#: Rows of x: sequences that are decoded together, or tokens of a prompt.
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048)

#: Layers of published models: columns of the product, and k.
LAYERS = {
    "Llama 2 13B, query and output": (5120, 5120),
    "Llama 3 8B, query, key and value": (6144, 4096),
    "Llama 3 8B, gate and up": (28672, 4096),
    "Llama 3 8B, down": (4096, 14336),
    "Llama 3 70B, query, key and value": (10240, 8192),
    "Llama 3 70B, gate and up": (57344, 8192),
    "Llama 3 70B, down": (8192, 28672),
    "Llama 2 7B, vocabulary": (32000, 4096),
    "Qwen 2.5 7B, gate and up": (37888, 3584),
    "Gemma 2 9B, down": (3584, 14336),
    "DeepSeek V3, gate and up of an expert": (4096, 7168),
    "DeepSeek V3, down of an expert": (7168, 2048),
}

#: Other products.
OTHERS = {
    "Gram matrix of 64 vectors": Shape(64, 64, 1_000_000, "TN", 0),
    "Gram matrix of 256 vectors": Shape(256, 256, 200_000, "TN", 0),
    "covariance of 512 variables": Shape(512, 512, 1_000_000, "NT", 0),
    "Q R, 64 columns": Shape(1_000_000, 64, 64, "NN", 0),
    "Q R, 32 columns": Shape(2_000_000, 32, 32, "NN", 0),
    "convolution, 56 x 56, 64 channels": Shape(100_352, 64, 576, "NT", 0),
    "convolution, 28 x 28, 128 channels": Shape(25_088, 128, 1152, "NT", 0),
    "convolution, 14 x 14, 256 channels": Shape(6272, 256, 2304, "NT", 0),
    "convolution, 7 x 7, 512 channels": Shape(1568, 512, 4608, "NT", 0),
    "finite elements, 24 unknowns": Shape(24, 24, 24, "NN", 20_000),
    "finite elements, 60 unknowns": Shape(60, 60, 60, "NN", 4000),
    "finite elements, 81 unknowns": Shape(81, 81, 81, "NT", 2000),
}

# Maximum number of columns of a result that are checked.
_CHECKED_COLUMNS = 256

RIVALS = (BASELINE, "torch.mm")


@dataclass(frozen=True, slots=True)
class Named:
    """A product with the name of what it computes."""

    name: str
    type: str
    shape: Shape


def products(types: Iterable[str], rows: Iterable[int]) -> Iterator[Named]:
    """Yield the products of layers with the given rows of x, and all others, as far as they have the given types."""
    for dtype in types:
        if dtype in LAYER_TYPES:
            for name, (n, k) in LAYERS.items():
                yield from (Named(name, dtype, Shape(m, n, k, "NT", 0)) for m in rows)
        else:
            yield from (Named(name, dtype, shape) for name, shape in OTHERS.items())


def calls(sets: list[Any], dtype: str) -> dict[str, Any]:
    """Return each rival's function by name; call ``i`` uses the next set of operands."""
    found: dict[str, Any] = {**rivals(sets)}
    if sets[0][2].ndim == 2:
        with contextlib.suppress(ImportError):
            from tiledmm.bench.peers.torch_ import matmuls

            found |= matmuls(sets, compute_element(dtype))
    return found


def measure(product: Named, seconds: float) -> dict[str, Any]:
    """Check a product, time all rivals with cold and with warm operands, and return a row with their microseconds."""
    import cupy

    import tiledmm
    from tiledmm.bench import timing

    cupy.get_default_memory_pool().free_all_blocks()
    sets = operand_sets(product.shape, product.type)
    row: dict[str, Any] = {"name": product.name, "type": product.type, **asdict(product.shape)}
    row["kernel"] = str(tiledmm.explain(*sets[0][:2]).choices[0])
    sets[0][2].view(cupy.uint8)[...] = 0xFF  # NaN
    tiledmm.matmul(*sets[0][:2], out=sets[0][2])
    row["ok"] = is_right(*sets[0], columns=_CHECKED_COLUMNS)
    clock = timing.DeviceClock()
    for state, used in (("cold", sets), ("warm", sets[:1])):
        samples = timing.measure(calls(used, product.type), clock, seconds=seconds)
        row[state] = {name: each.seconds * 1e6 for name, each in samples.items()}
    return row


def ratio(row: dict[str, Any], state: str) -> float:
    """Return the speed of ``auto`` relative to the faster rival's."""
    times = row[state]
    return float(min(times[name] for name in RIVALS if name in times) / times["auto"])


def _cells(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the number of products; for cold and warm operands the mean, the least, and how many are below limits."""
    cells = [f"{len(rows)}"]
    for state in ("cold", "warm"):
        ratios = [ratio(row, state) for row in rows]
        low = (f"{sum(each < limit for each in ratios)}" for limit in (0.97, 0.93))
        cells += [significant(statistics.geometric_mean(ratios)), significant(min(ratios)), *low]
    return tuple(cells)


_COLUMNS = (
    "products", "cold: x faster rival", "lowest", "below 0.97", "below 0.93",
    "warm: x faster rival", "lowest", "below 0.97", "below 0.93",
)  # fmt: skip


def layers_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per type and number of rows of x, and one per type."""
    cells = []
    for dtype in LAYER_TYPES:
        of_type = [row for row in rows if row["type"] == dtype]
        for m in dict.fromkeys(row["m"] for row in of_type):
            cells.append((dtype, f"{m}", *_cells([row for row in of_type if row["m"] == m])))
        if of_type:
            cells.append((dtype, "all", *_cells(of_type)))
    return Table("auto beside cuBLAS: layers of models", ("<type", "rows", *_COLUMNS), tuple(cells))


def others_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product that is not a layer's."""
    cells = [
        (
            row["name"],
            row["type"],
            *(significant(row["cold"].get(name)) for name in ("auto", *RIVALS)),
            *(significant(ratio(row, state)) for state in ("cold", "warm")),
        )
        for row in rows
        if row["type"] not in LAYER_TYPES
    ]
    columns = ("<product", "<type", "auto (us)", *RIVALS, "cold: x faster rival", "warm")
    return Table("auto beside cuBLAS: other products", columns, tuple(cells))


def worst_table(rows: list[dict[str, Any]], count: int = 10) -> Table:
    """Format the products on which ``auto`` is slowest, with cold operands, relative to the faster rival."""
    cells = [
        (
            str(Shape(*(row[name] for name in Shape.__dataclass_fields__))), row["type"], row["layout"],
            significant(row["cold"]["auto"]), significant(ratio(row, "cold")), significant(ratio(row, "warm")),
            row["kernel"].replace("tiledmm_", ""),
        )
        for row in sorted(rows, key=lambda row: ratio(row, "cold"))[:count]
    ]  # fmt: skip
    columns = ("<shape", "<type", "<layout", "auto (us)", "cold: x faster rival", "warm", "<runs")
    return Table("The worst", columns, tuple(cells))


def main() -> int:
    """Measure all products, print the tables and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = (*LAYER_TYPES, *OTHER_TYPES)
    parser.add_argument("--types", nargs="+", choices=every, default=every)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="rows of x in the products of layers")
    parser.add_argument("--worst", type=int, default=10, help="products to show")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.01, help="time for each rival and product")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows: list[dict[str, Any]] = []
    for product in products(options.types, options.rows):
        print(f"{product.type} {product.shape} {product.shape.layout} ...", file=sys.stderr, flush=True)
        rows.append(measure(product, options.seconds))
    save(options.out, measured(this_machine(), {"products": rows}))
    show(*(table for table in (layers_table(rows), others_table(rows), worst_table(rows, options.worst)) if table.rows))
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
