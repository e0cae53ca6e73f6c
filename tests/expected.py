"""Record which kernels ``auto`` selects for a range of products on several GPUs, and their predicted times.

``python -m tests.expected`` rewrites the files after an intended change of the model; their diffs show what changed.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.strategies import np_dtype
from tiledmm.elements import ELEMENTS, TF32, element
from tiledmm.hardware.data_sheets import REFERENCE_GPUS
from tiledmm.problem.arrays import Array
from tiledmm.problem.product import Product, resolve
from tiledmm.selection.choice import Choice
from tiledmm.selection.model import H100, Model

PATH = Path(__file__).parent / "expected.json"
TIMES = Path(__file__).parent / "expected_times.json"

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

# Types that kernels differ for.
_FEW_TYPES = ("float32", "float16", "int8", "int64", "complex64", "bool")

# Further types that the tensor cores of some architectures multiply.
_TYPES_OF_TENSOR_CORES = ("bfloat16", "float64", TF32.dtype_name)

# Sizes at limits: rows of skinny kernels and of small products, the fewest small products, K of many partitions, the
# shortest K that is decomposed, operands too large to be decomposed, and partial sums of all of the workspace.
_LIMITS = (
    (1, 64, 512, 512), (1, 65, 512, 512), (16, 32, 32, 40), (15, 32, 32, 40), (64, 33, 33, 40), (64, 32, 33, 40),
    (1, 16, 16, 1 << 20), (1, 40, 24, 1 << 22), (1, 2, 3, 1 << 18), (1, 100, 300, 40_000), (1, 300, 300, 255),
    (1, 300, 300, 256), (1, 1 << 15, 1 << 15, 1 << 15), (1, 1 << 15, 1 << 15, (1 << 15) + 8),
    (1, 1 << 15, 1 << 15, 1 << 14), (1, 3 << 13, 1 << 13, 1 << 15), (1, 1 << 13, 3 << 13, 1 << 15),
    (1, 1 << 13, 1 << 14, 1 << 15), (1, 3 << 13, 1 << 12, 1 << 15), (1, 1 << 15, 1 << 13, 1 << 15),
    (1, 3 << 14, 1 << 14, 1 << 15), (1, 1 << 14, 3 << 14, 1 << 15), (1, 8, 1 << 31, 300), (1, 1 << 31, 8, 300),
    (1, 4096, 4096, 1), (1, 0, 300, 300), (1, 300, 0, 300), (1, 4096, 8192, 4096),
    (1, 2049, 2049, 60_000), (3, 1000, 40_000, 300), (2, 3000, 5000, 700), (1, 5, 7, 0), (0, 5, 7, 9), (7, 5, 1, 1),
)  # fmt: skip

# Batches, and the dimensions in which A and B are repeated.
_REPEATED: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((40,), (0,), ()), ((40,), (), (0,)), ((3, 5, 2), (1,), (0, 2)), ((2,) * 5, (0, 2, 4), (1, 3)),
)  # fmt: skip


def matrix(shape: tuple[int, ...], letter: str, gap: int, kind: Any, repeated: tuple[int, ...] = ()) -> Array:
    """Describe a batch of matrices with gaps of ``gap`` elements; ``repeated`` are the batch axes of stride 0."""
    *batch, rows, cols = shape
    step = 2 if letter == "G" else 1
    wide = (rows if letter == "T" else cols) * step + gap
    strides, size = [(wide, step), (step, wide)][letter == "T"], wide * (cols if letter == "T" else rows)
    for axis in reversed(range(len(batch))):
        strides = (0 if axis in repeated else size, *strides)
        size *= 1 if axis in repeated else batch[axis]
    return Array(shape, tuple(kind.itemsize * each for each in strides), kind)


def product(dtype: str, layout: str, sizes: tuple[int, int, int, int], gap: int, symmetric: bool = False) -> Product:
    """Describe a product of matrices with gaps of ``gap`` elements; ``symmetric`` if B is A transposed."""
    batch, m, n, k = sizes
    kind = TF32.dtype if dtype == TF32.dtype_name else element(dtype).dtype
    a, b = matrix((batch, m, k), layout[0], gap, kind), matrix((batch, k, n), layout[1], gap, kind)
    made = resolve(a, b, same_memory=symmetric)
    return made.computed_in(TF32) if dtype == TF32.dtype_name else made


def _spread(types: Collection[str]) -> Iterator[tuple[str, Product]]:
    layouts = itertools.cycle(_LAYOUTS)
    for number, (dtype, sizes) in enumerate(itertools.product((*ELEMENTS, TF32.dtype_name), _SIZES)):
        layout, gap = next(layouts), (0, 0, 3)[number % 3]
        if dtype in types:
            yield f"{dtype} {layout} {sizes} +{gap}", product(dtype, layout, sizes, gap)


def _at_limits() -> Iterator[tuple[str, Product]]:
    layouts = itertools.cycle(("NN", "TN", "NT", "TT"))
    for dtype, sizes in itertools.product((*_FEW_TYPES, TF32.dtype_name), _LIMITS):
        layout = next(layouts)
        yield f"{dtype} {layout} {sizes}", product(dtype, layout, sizes, 0)


def _symmetric() -> Iterator[tuple[str, Product]]:
    for dtype, m in itertools.product(("float32", "float16", "int64", "complex128"), (130, 700, 2000)):
        yield f"{dtype} {m} symmetric", product(dtype, "NT", (3, m, m, 200), 0, symmetric=True)


def _unlike() -> Iterator[tuple[str, Product]]:
    """Yield products of mixed types, of broadcast batches and of batches that cannot be one dimension."""
    for types in (("float16", "float32"), ("int8", "float16"), ("float32", "complex64"), ("int8", "int64")):
        for first, second in (types, types[::-1]):
            for letters, (m, n, k) in (("NN", (700, 900, 600)), ("TN", (40, 3000, 800)), ("NT", (2000, 2000, 333))):
                a, b = matrix((m, k), letters[0], 0, np_dtype(first)), matrix((k, n), letters[1], 0, np_dtype(second))
                yield f"{first} @ {second} {letters} {(m, n, k)}", resolve(a, b)
    for dtype in _FEW_TYPES:
        kind = np_dtype(dtype)
        for batch, once_a, once_b in _REPEATED:
            a, b = matrix((*batch, 200, 300), "N", 0, kind, once_a), matrix((*batch, 300, 100), "T", 0, kind, once_b)
            yield f"{dtype} batch {batch}, of A without {once_a}, of B without {once_b}", resolve(a, b)
        for letter, gap in (("T", 0), ("G", 0), ("N", 5)):
            a, b = matrix((1500, 900), "N", 0, kind), matrix((900, 1100), "N", 8, kind)
            out = matrix((1500, 1100), letter, gap, kind)
            yield f"{dtype} into {letter} +{gap}", resolve(a, b, out)
    for letter in "NTG":
        a, b = (matrix((1024, 1024), "N", 0, np_dtype("float32")) for _ in range(2))
        yield f"tf32 into {letter}", resolve(a, b, matrix((1024, 1024), letter, 0, a.dtype)).computed_in(TF32)


def products(target: str) -> dict[str, Product]:
    """Return the products of a target by their names: those at limits, and of all types, for the first targets only."""
    more = (_at_limits(), _unlike()) if target in _TARGETS[:2] else ()
    types = (*ELEMENTS, TF32.dtype_name) if target == _TARGETS[0] else (*_FEW_TYPES, *_TYPES_OF_TENSOR_CORES)
    return dict(itertools.chain(_spread(types), _symmetric(), *more))


def choose(target: str, wanted: Product) -> Choice:
    """Return the choice for a product by the model of a target's reference GPU."""
    return Model(REFERENCE_GPUS[target], ieee=target == "sm_80").best(wanted)


def text(choice: Choice) -> str:
    """Return the selected kernels with their split-K factors, and the time to two digits."""
    return f"{choice}: {float(f'{choice.microseconds:.2g}'):g} us".replace("tiledmm_", "")


def _decision(wanted: Product, choice: Choice) -> tuple[Any, ...]:
    """Return what a choice has in common with others that show nothing new: all but layout, sign and split-K factor."""
    kernels = (
        (part.spec.variant.name, part.spec.config.changed({"split_k": min(part.spec.config.launch.split_k, 2)}))
        for part in choice.parts
    )
    return wanted.compute.dtype_name.removeprefix("u"), *dict.fromkeys(kernels)


def expected() -> dict[str, dict[str, str]]:
    """Return the texts of all targets by product, of which each is the first of its decision."""
    found: dict[str, dict[str, str]] = {}
    for target in _TARGETS:
        first: dict[tuple[Any, ...], tuple[str, str]] = {}
        for name, wanted in products(target).items():
            choice = choose(target, wanted)
            first.setdefault(_decision(wanted, choice), (name, text(choice)))
        found[target] = dict(first.values())
    return found


def _summed(choices: Iterable[Choice]) -> dict[str, list[float]]:
    """Return the number of choices of each variant, and the sum of the expected times that are known."""
    found: dict[str, list[float]] = defaultdict(list)
    for choice in choices:
        found[choice.spec.variant.name + (" and others" if choice.others else "")].append(choice.microseconds or 0.0)
    return {
        name: [len(times), float(f"{math.fsum(filter(math.isfinite, times)):.9g}")] for name, times in found.items()
    }


def times() -> dict[str, dict[str, list[float]]]:
    """Return the sums of the expected times of each variant's kernels, for a few products of each target.

    Unlike ``expected``, they include kernels that are not selected, and so every term of the cost model.
    """
    found = {}
    for target in _TARGETS:
        model = Model(REFERENCE_GPUS[target])
        for name, wanted in [*products(target).items()][::23]:
            found[f"{target} {name}"] = _summed(model.rank(wanted))
    for dtype, layout, sizes in (
        ("float64", "NT", (1, 24_000, 30_000, 40_000)),
        ("int64", "TN", (2, 33_000, 500, 33_000)),
    ):
        found[f"{dtype} {layout} {sizes}, in parts"] = _summed(H100.rank(product(dtype, layout, sizes, 0)))
    for dtype, layout, sizes, gap in (
        ("float16", "TT", (1, 1000, 1024, 1000), 0),
        ("int8", "NG", (1, 8000, 130, 500), 3),
    ):
        found[f"{dtype} {layout} {sizes} +{gap}, every way"] = _summed(H100.every(product(dtype, layout, sizes, gap)))
    return found


if __name__ == "__main__":
    PATH.write_text(json.dumps(expected(), indent=0) + "\n", "utf-8")
    lines = (f"{json.dumps(name)}: {json.dumps(sums)}" for name, sums in times().items())
    TIMES.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
