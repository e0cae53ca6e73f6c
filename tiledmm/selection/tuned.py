"""Tuned tables: the fastest kernels measured on the user's devices, which ``auto`` reads and ``tiledmm.tune`` writes.

Each device has a table, a file in the user's cache. Invalid content is reported and ignored. A row holds a hash of its
kernel's code without comments. The hash is compared when ``auto`` uses the row, not when the table is read: that
renders only one kernel, which must be rendered for the plan anyway.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tiledmm import __version__
from tiledmm.codegen.kernel_hash import kernel_hash
from tiledmm.elements import ELEMENTS
from tiledmm.errors import TiledmmError
from tiledmm.kernels.config import VECTOR_BYTES
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.product import Product
from tiledmm.problem.strides import TRANSPOSED
from tiledmm.selection.rates import user_file

# In a table of the former format, hashes include comments. It is converted when it is first read.
_FORMAT, _FORMER_FORMAT = 3, 2

# Suffix of the layout of a matrix times its own transpose.
_SYMMETRIC = "="

_TYPES = {element.name: element for element in ELEMENTS.values()}


@dataclass(frozen=True, slots=True)
class Entry:
    """Fastest kernel for one product.

    Attributes:
        product: Key of the product (see ``describe_product``).
        compute: Name of the computation type.
        variant: Name of the kernel's variant.
        transposed: True if the kernel computes the product transposed.
        overrides: Values of the config fields that differ from those of the variant's default tile, by name.
        microseconds: Measured time of this kernel.
        model_microseconds: Measured time of the kernel that the model chose, in the same run.
        cut: Rows and columns of the part of C that the kernel computes; None for all of C. The model chooses the
            kernels for the other parts.
        version: Version of tiledmm that measured the kernel.
        kernel: Hash of the kernel's code (see ``stamped``).
    """

    product: str
    compute: str
    variant: str
    transposed: bool
    overrides: dict[str, Any]
    microseconds: float
    model_microseconds: float
    cut: tuple[int, int] | None = None
    version: str = ""
    kernel: str = ""


TunedTable = dict[str, Entry]


def describe_product(product: Product) -> str:
    """Return the key of a product in tuned tables.

    It consists of types, layout and sizes, and of whether rows of A and B are aligned to 16 bytes.
    """
    problem = product.problem
    types = "_".join(each.name for each in (product.a, product.b, product.compute, product.c))
    rows = (max(problem.strides[:2]) * product.a.itemsize, max(problem.strides[2:4]) * product.b.itemsize)
    aligned = "".join("a" if row % VECTOR_BYTES == 0 else "u" for row in rows)
    layout = f"{problem.layout}{_SYMMETRIC if product.symmetric else ''}"
    return f"{types} {layout} {aligned} {problem.products} x {problem.m} x {problem.n} x {problem.k}"


def path_of(gpu: str) -> Path:
    """Return the path of a device's tuned table, given the device's name."""
    return user_file("tuned", gpu)


def read(path: Path) -> TunedTable:
    """Return the tuned table in a file; an empty table if there is no file or it cannot be read.

    Rows and files that are invalid are ignored with a warning. A file of the former format is rewritten in today's.
    """
    try:
        rows, is_former = _rows(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        _warn(path, f"it cannot be read: {error}")
        return {}
    except (ValueError, KeyError, TypeError) as error:
        _warn(path, f"it is not a table of this version ({error})")
        return {}
    if is_former:
        with contextlib.suppress(OSError):  # if the folder cannot be written, it is converted again next time
            _rewrite(path, lambda rows: rows)
    table: TunedTable = {}
    for row in rows:
        try:
            entry = _checked(row)
        except (TiledmmError, ValueError, KeyError, TypeError) as error:
            _warn(path, f"one of its rows is not valid and is ignored: {error}")
        else:
            table[entry.product] = entry
    return table


def _rows(path: Path) -> tuple[list[Any], bool]:
    """Return the unchecked rows of a tuned table's file, and whether the file has the former format.

    Rows of the former format are converted.

    Raises:
        OSError: If the file cannot be read.
        ValueError, KeyError, TypeError: If it does not have a supported format.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    rows, is_former = data["entries"], data["format"] == _FORMER_FORMAT
    if data["format"] not in (_FORMER_FORMAT, _FORMAT) or not isinstance(rows, list):
        raise ValueError(f"format {data['format']!r}, not {_FORMAT}")
    return [_converted(row) for row in rows] if is_former else rows, is_former


def _converted(row: Any) -> Any:
    """Convert a row of the former format, in which a kernel's hash includes its comments.

    The hash is replaced by today's if the kernel is still the one that was measured; else the row is returned
    unchanged.
    """
    from tiledmm.codegen.rendering import render

    with contextlib.suppress(TiledmmError, ValueError, KeyError, TypeError):  # ``read`` reports what is wrong
        kernel = _spec(entry := _checked(row)).kernel
        former = hashlib.sha256(render(kernel).replace(__version__, "").encode()).hexdigest()
        if former.startswith(entry.kernel):
            return row | {"kernel": kernel_hash([kernel])}
    return row


def _checked(row: Any) -> Entry:
    """Return the entry that a row of a tuned table holds, after checking that its kernel exists.

    Raises:
        TiledmmError, ValueError, KeyError, TypeError: If the row is invalid.
    """
    entry = Entry(**row)
    if (
        not isinstance(entry.product, str)
        or not isinstance(entry.transposed, bool)
        or not isinstance(entry.overrides, dict)
    ):
        raise ValueError(f"{row!r} has members of unexpected types")
    config = _spec(entry).config
    whole_or_square = entry.cut is None or len(set(entry.cut)) == 1
    if config.triangle and not (_SYMMETRIC in entry.product and whole_or_square):
        raise ValueError("triangle=1 needs a symmetric C")
    if not 0 < float(entry.microseconds) < float("inf"):
        raise ValueError(f"{entry.microseconds!r} is not a time")
    return entry if entry.cut is None else replace(entry, cut=_checked_cut(entry))


def _checked_cut(entry: Entry) -> tuple[int, int]:
    """Return the rows and columns of the part of C that an entry's kernel computes.

    Raises:
        ValueError: If the product does not have such a part.
    """
    _, m, n, _ = entry.product.rsplit(" x ", 3)
    sizes = (int(n), int(m)) if entry.transposed else (int(m), int(n))
    rows, cols = entry.cut or sizes
    inside = all(isinstance(part, int) and 0 < part <= size for part, size in zip((rows, cols), sizes, strict=True))
    if not inside or (rows, cols) == sizes:
        raise ValueError(f"{rows} x {cols} is not a part of {sizes[0]} x {sizes[1]}")
    return rows, cols


def _spec(entry: Entry) -> KernelSpec:
    """Return the specification of the kernel that an entry of a tuned table names.

    Raises:
        ValueError, TiledmmError: If the entry's types, variant or config do not exist.
    """
    types, layout, *_ = entry.product.split(" ")
    a, b, _, c = (_TYPES.get(name) for name in types.split("_"))
    if not (a and b and c):
        raise ValueError(f"{entry.product!r} does not name its types")
    layout = layout.rstrip(_SYMMETRIC)
    if entry.transposed:
        a, b, layout = b, a, layout[::-1].translate(TRANSPOSED)
    return kernel_spec(
        find_variant(entry.variant), config=entry.overrides, dtype=entry.compute, layout=layout,
        a_dtype=a.dtype_name, b_dtype=b.dtype_name, out_dtype=c.dtype_name,
    )  # fmt: skip


def stamped(entry: Entry) -> Entry:
    """Return an entry with the version of tiledmm and the hash of the kernel's code as they are now."""
    return replace(entry, version=__version__, kernel=kernel_hash([_spec(entry).kernel]))


def is_current(entry: Entry) -> bool:
    """Return whether an entry's kernel still has the code that was measured."""
    return entry.kernel == kernel_hash([_spec(entry).kernel])


def has_its_kernel(entry: Entry) -> bool:
    """Return whether an entry's kernel still has the code that was measured. Warn if it does not."""
    if is_current(entry):
        return True
    # All such rows share one text and one place, so that Python shows the warning once.
    warnings.warn(
        f"ignoring rows of this GPU's tuned table that tiledmm {entry.version or '(version unknown)'} measured with "
        f"kernels which tiledmm {__version__} has changed; run tiledmm.tune again to measure them",
        stacklevel=1,
    )
    return False


def add(path: Path, entry: Entry) -> None:
    """Write an entry to a tuned table's file, in place of any entry for the same product.

    All other rows stay, even if another process has just added them: a lock file keeps two writers apart. The file is
    replaced in one step, so that a reader finds either the old or the new one. A file that is not a table of this
    version is renamed and kept.
    """

    def added(rows: list[Any]) -> list[Any]:
        others = [row for row in rows if not (isinstance(row, dict) and row.get("product") == entry.product)]
        return [*others, asdict(entry)]

    path.parent.mkdir(parents=True, exist_ok=True)
    _rewrite(path, added)
    table_of.cache_clear()


def _rewrite(path: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the rows of a tuned table's file, under a lock.

    A file that is not a table of a supported format is renamed, and a new table is written in its place.

    Args:
        path: The table's file.
        change: Function that returns the rows of the new file, given those of the old one.
    """
    from filelock import FileLock  # slow to import, and ``auto`` writes at most once

    with FileLock(path.with_suffix(".lock")):
        try:
            rows, _ = _rows(path)
        except FileNotFoundError:
            rows = []
        except (ValueError, KeyError, TypeError):
            _keep_aside(path)
            rows = []
        text = json.dumps({"format": _FORMAT, "entries": change(rows)}, indent=1)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(text + "\n")
        os.replace(file.name, path)


def _keep_aside(path: Path) -> None:
    """Rename a file to a name that no other file in its folder has, so that it is kept."""
    names = (path.with_name(f"{path.name}.old{i}") for i in itertools.count(1))
    os.rename(path, next(name for name in names if not name.exists()))


@functools.lru_cache
def table_of(gpu: str) -> TunedTable:
    """Return the tuned table of a device, given the device's name. Its file is read only once."""
    return read(path_of(gpu))


def _warn(path: Path, what: str) -> None:
    warnings.warn(f"tuned table {path}: {what}; tiledmm.tune measures again and keeps this file", stacklevel=3)
