"""What was measured on a device of the user's: a table that ``auto`` reads, and ``tiledmm.tune`` writes.

A file a device, in the user's cache. It is read like any other input: what is not as it should be is reported, once,
and ignored.
"""

from __future__ import annotations

import functools
import json
import os
import re
import tempfile
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tiledmm.elements import compute_element
from tiledmm.errors import TiledmmError
from tiledmm.problem.operands import Product
from tiledmm.registry.config import VECTOR_BYTES
from tiledmm.registry.variants import find_variant

_FORMAT = 1

# Marks the layout of a product of a matrix and its own transpose.
_SYMMETRIC = "="


@dataclass(frozen=True, slots=True)
class Entry:
    """The fastest kernel of one product.

    Attributes:
        product: See ``describe_product``.
        compute: The type that the product is taken in.
        variant: The kernel's.
        transposed: Whether it computes the product transposed.
        numbers: Those of ``Config`` in which it differs from the variant's default tile.
        cut: Rows and columns of the part of its C that it computes; None for all of it. The model has kernels for the
            other parts.
        microseconds, model_microseconds: What it took, and what the model's choice took in the same run.
    """

    product: str
    compute: str
    variant: str
    transposed: bool
    numbers: dict[str, Any]
    microseconds: float
    model_microseconds: float
    cut: tuple[int, int] | None = None


Table = dict[str, Entry]


def describe_product(product: Product) -> str:
    """What is the same for products that one kernel suits: types, sizes, how they lie, whether rows are aligned."""
    problem = product.problem
    types = "_".join(each.name for each in (product.a, product.b, product.compute, product.c))
    rows = (max(problem.strides[:2]) * product.a.itemsize, max(problem.strides[2:4]) * product.b.itemsize)
    aligned = "".join("a" if row % VECTOR_BYTES == 0 else "u" for row in rows)
    layout = f"{problem.layout}{_SYMMETRIC if product.symmetric else ''}"
    return f"{types} {layout} {aligned} {problem.products} x {problem.m} x {problem.n} x {problem.k}"


def path_of(gpu: str) -> Path:
    """The file of a device's table: in ``$TILEDMM_CACHE_DIR``, or the folder that the system has for caches."""
    named = os.environ.get("TILEDMM_CACHE_DIR")
    if named:
        folder = Path(named)
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("tiledmm")
    name = re.sub(r"[^A-Za-z0-9]+", "-", gpu).strip("-").lower()
    return folder / "tuned" / f"{name}.json"


def read(path: Path) -> Table:
    """A table; empty if there is no file. What is broken in it is warned of, and left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        _warn(path, f"it cannot be read: {error}")
        return {}
    try:
        data = json.loads(text)
        rows = data["entries"]
        if data["format"] != _FORMAT or not isinstance(rows, list):
            raise ValueError(f"format {data['format']!r}, not {_FORMAT}")
    except (ValueError, KeyError, TypeError) as error:
        _warn(path, f"it is not a table of this version ({error})")
        return {}
    table: Table = {}
    for row in rows:
        try:
            entry = _checked(row)
        except (TiledmmError, ValueError, KeyError, TypeError) as error:
            _warn(path, f"an entry of it is not valid and is ignored: {error}")
        else:
            table[entry.product] = entry
    return table


def _checked(row: Any) -> Entry:
    """An entry whose kernel exists."""
    entry = Entry(**row)
    if (
        not isinstance(entry.product, str)
        or not isinstance(entry.transposed, bool)
        or not isinstance(entry.numbers, dict)
    ):
        raise ValueError(f"{row!r} has members of other types")
    variant = find_variant(entry.variant)
    if variant.template is None:
        raise ValueError(f"variant {entry.variant!r} has no kernel of this package")
    config = variant.config(None, compute_element(entry.compute), entry.numbers)
    whole_or_square = entry.cut is None or len(set(entry.cut)) == 1
    if config.triangle and not (_SYMMETRIC in entry.product and whole_or_square):
        raise ValueError("triangle is for products whose C is symmetric")
    if not 0 < float(entry.microseconds) < float("inf"):
        raise ValueError(f"{entry.microseconds!r} is no time")
    return entry if entry.cut is None else replace(entry, cut=_checked_cut(entry))


def _checked_cut(entry: Entry) -> tuple[int, int]:
    """Rows and columns of a part, which the product has."""
    _, m, n, _ = entry.product.rsplit(" x ", 3)
    sizes = (int(n), int(m)) if entry.transposed else (int(m), int(n))
    rows, cols = entry.cut or sizes
    inside = all(isinstance(part, int) and 0 < part <= size for part, size in zip((rows, cols), sizes, strict=True))
    if not inside or (rows, cols) == sizes:
        raise ValueError(f"{rows} x {cols} is no part of {sizes[0]} x {sizes[1]}")
    return rows, cols


def write(path: Path, table: Table) -> None:
    """Writes a table in one step: who reads meanwhile finds the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": _FORMAT, "entries": [asdict(entry) for entry in table.values()]}, indent=1)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(file.name, path)
    table_of.cache_clear()


@functools.lru_cache
def table_of(gpu: str) -> Table:
    """A device's table, read once."""
    return read(path_of(gpu))


def _warn(path: Path, what: str) -> None:
    warnings.warn(f"tuned table {path}: {what}; tiledmm.tune writes it anew", stacklevel=3)
