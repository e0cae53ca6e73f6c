"""Products of matrices in host memory, or on a disk, that are larger than a GPU's memory.

    import numpy, tiledmm.out_of_core
    a, b = numpy.load("a.npy", mmap_mode="r"), numpy.load("b.npy", mmap_mode="r")
    c = tiledmm.out_of_core.matmul(a, b, memory=16e9)

Tiles of C are computed one after the other on the current device, while panels of A and B for the next one are copied
there, and the tile before is copied back.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from tiledmm.distributed import journal as journals
from tiledmm.distributed.streaming import Told, multiply
from tiledmm.errors import KeywordTypeError, KeywordValueError, OperandTypeError, ShapeError, UnsupportedTypeError
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import Precision
from tiledmm.selection.select import is_ieee

__all__ = ["matmul"]

#: Types of elements.
TYPES = ("float16", "float32", "float64", "complex64", "complex128")

# Steps in which NumPy may look for an element that two arrays share; if it takes more, ranges of addresses count.
_MOST_WORK = 10_000

_Matrix: TypeAlias = np.ndarray[Any, Any]


def matmul(
    a: _Matrix,
    b: _Matrix,
    /,
    out: _Matrix | None = None,
    *,
    memory: float | None = None,
    precision: Precision = "full",
    progress: bool | Callable[[int, int], Any] | None = None,
    journal: str | PathLike[str] | None = None,
) -> _Matrix:
    """Matrix product of two NumPy arrays or memmaps by a GPU whose memory holds a part of them at a time.

    The bits of the result depend on the device, the arrays' shapes, strides and elements, ``precision`` and ``memory``:
    give ``memory`` for the same bits on each run, since the default depends on what is free. With a journal they are
    the same whatever is resumed. Returns once the result is in ``out``.

    Args:
        a: Left operand, ``(m, k)``, of any strides. float16, float32, float64, complex64 or complex128. Copied to the
            device without staging if it is page-locked, its rows or columns contiguous.
        b: Right operand, ``(k, n)``, of the same type. It may overlap ``a``.
        out: Array or memmap for the result, ``(m, n)`` of the same type, of any strides, that shares no memory with
            operands; None for a new array. float16 is rounded once, from sums in float32.
        memory: Most bytes of device memory for panels, tiles and workspace, such as ``16e9``; kernels' code and what
            CUDA itself takes come on top. None for 80 % of what is free.
        precision: As for ``tiledmm.matmul``.
        progress: Whether to show a bar on stderr, or a function that is called with the number of tiles of C that are
            finished and that of all: at the start, and after each.
        journal: Path of a file that makes the product resumable; ``out`` is then a memmap of mode ``"r+"`` or
            ``"w+"``. Each finished tile is written to the disk, then to the journal. The same call with the same
            journal computes the other tiles only, with the tiling of the first call. One process uses a journal at a
            time. Operands are recognized by shapes, strides, types and a hash of 64 blocks of up to 1024 elements,
            evenly spread, and so are finished tiles of C: other matrices are noticed, and a file that was emptied, but
            not a change of few elements that none of these blocks has.

    Returns:
        ``out``, or a new array.

    Raises:
        ShapeError: Operands that are no matrices, or do not fit together, or an ``out`` that does not fit.
        OperandTypeError: An operand or ``out`` that is not in host memory, or no array, or a masked one.
        UnsupportedTypeError: Element types that are not supported, or differ.
        KeywordError: An ``out`` that is read-only or overlaps operands, a ``memory`` or ``progress`` that is none, a
            journal without a memmap.
        ConfigError: A limit too small for any tile, a precision that there is not, or the journal of another product.

    Example:
        >>> c = numpy.lib.format.open_memmap("c.npy", "w+", numpy.float32, (m, n))
        >>> tiledmm.out_of_core.matmul(a, b, c, memory=16e9, progress=True, journal="c.journal")
    """
    _check_operands(a, b)
    shape = a.shape[0], b.shape[1]
    if out is not None:
        _check_out(a, b, out, shape)
    limit = _bytes(memory)
    is_ieee(precision)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise KeywordTypeError(f"progress is a bool, None or a function of two counts; got {progress!r}")
    result = np.empty(shape, a.dtype) if out is None else out
    if journal is not None:
        journals.check_out(result)
    if 0 in (*shape, a.shape[1]):
        result[...] = 0  # sums of nothing
        return result
    with _told(progress) as told:
        multiply(a, b, result, limit, precision, told, journal)
    return result


def _check_operands(a: Any, b: Any) -> None:
    for name, x in (("a", a), ("b", b)):
        _check_array(name, x)
        if x.ndim != 2:
            raise ShapeError(f"{name} is a matrix, with 2 dimensions; its shape is {x.shape}")
        if x.dtype.name not in TYPES or not x.dtype.isnative:
            types = f"{', '.join(TYPES[:-1])} or {TYPES[-1]}, in this machine's byte order"
            raise UnsupportedTypeError(f"{name} is of type {x.dtype.str}; expected {types}: {name}.astype() converts")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"a has {a.shape[1]} columns and b {b.shape[0]} rows (shapes {a.shape} and {b.shape})")
    if a.dtype != b.dtype:
        raise UnsupportedTypeError(
            f"a is of type {a.dtype} and b {b.dtype}; convert one, as by b.astype({a.dtype.name!r})"
        )


def _check_array(name: str, x: Any) -> None:
    if isinstance(x, np.ma.MaskedArray):
        instead = "out.data" if name == "out" else f"{name}.filled(...), with a value for masked elements"
        raise OperandTypeError(f"{name} is a masked array, whose mask a product would ignore: pass {instead}")
    if isinstance(x, np.ndarray):
        return
    if type(x).__module__.partition(".")[0] == "cupy":
        raise OperandTypeError(
            f"{name} is a CuPy array, which is in device memory: tiledmm.matmul multiplies it there, and "
            f"cupy.asnumpy({name}) copies it to the host"
        )
    raise OperandTypeError(f"{name} is a NumPy array or memmap; got {type(x).__module__}.{type(x).__qualname__}")


def _check_out(a: _Matrix, b: _Matrix, out: Any, shape: tuple[int, int]) -> None:
    _check_array("out", out)
    if out.shape != shape:
        raise ShapeError(f"out has the shape {shape} of the product; its shape is {out.shape}")
    if out.dtype != a.dtype:
        raise UnsupportedTypeError(f"out is of the operands' type, {a.dtype}; it is of type {out.dtype.str}")
    if not out.flags.writeable:
        raise KeywordValueError("out is read-only; a memmap is opened with mode='r+' to be written")
    describe(out).check_writable()
    for name, x in (("a", a), ("b", b)):
        if _shares_memory(x, out) or journals.same_file(x, out):
            raise KeywordValueError(f"out overlaps {name}, which is read while out is written; pass another out")


def _shares_memory(x: _Matrix, y: _Matrix) -> bool:
    try:
        return np.shares_memory(x, y, max_work=_MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return np.may_share_memory(x, y)


def _bytes(memory: Any) -> int | None:
    """A limit as a whole number."""
    if memory is None:
        return None
    is_number = isinstance(memory, (int, float, np.integer, np.floating)) and not isinstance(memory, bool)
    if not is_number or not 0 < memory < math.inf:
        error = KeywordValueError if is_number else KeywordTypeError
        raise error(f"memory is a number of bytes greater than 0, such as 16e9, or None; got {memory!r}")
    return int(memory)


@contextlib.contextmanager
def _told(progress: bool | Callable[[int, int], Any] | None) -> Iterator[Told]:
    """What is called as tiles are finished."""
    if not progress:
        yield lambda done, total: None
        return
    if progress is not True:
        yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("tiles of C"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
