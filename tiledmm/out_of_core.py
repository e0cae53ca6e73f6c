"""Products of matrices in host memory or on disk that are larger than a GPU's memory.

    import numpy, tiledmm.out_of_core
    a, b = numpy.load("a.npy", mmap_mode="r"), numpy.load("b.npy", mmap_mode="r")
    c = tiledmm.out_of_core.matmul(a, b, memory=16e9)

The current device computes tiles of C one after the other. Meanwhile, panels of A and B for the next tile are copied to
it, and the previous tile is copied back.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from tiledmm.distributed import journal as journals
from tiledmm.distributed.streaming import ProgressCallback, multiply
from tiledmm.errors import KeywordTypeError, KeywordValueError, OperandTypeError, ShapeError, UnsupportedTypeError
from tiledmm.problem.arrays import describe
from tiledmm.problem.keywords import Precision, is_ieee

__all__ = ["matmul"]

#: Supported types of elements.
TYPES = ("float16", "float32", "float64", "complex64", "complex128")

# Steps in which NumPy may search for an element that two arrays share. Beyond that, ranges of addresses are compared.
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
    """Compute the product of two NumPy arrays or memmaps on a GPU whose memory holds only parts of them at a time.

    The call returns when the result is in ``out``. Its bits depend on the device, the arrays' shapes, strides and
    elements, ``precision`` and ``memory``. Pass ``memory`` to get the same bits in every run, because the default
    depends on how much memory is free. With a journal, a product that is resumed has the same bits as one that is not.

    Args:
        a: Left operand, ``(m, k)``, of any strides: float16, float32, float64, complex64 or complex128. It is copied to
            the device without staging if it is page-locked and its rows or columns are contiguous.
        b: Right operand, ``(k, n)``, of the same type. It may overlap ``a``.
        out: Array or memmap for the result, ``(m, n)``, of the same type and any strides, which shares no memory with
            the operands; None for a new array. float16 is summed in float32 and rounded once.
        memory: Maximum number of bytes of device memory for panels, tiles and workspace, such as ``16e9``; None for
            80% of the free memory. The code of kernels and CUDA itself need memory beyond that.
        precision: Precision, as for ``tiledmm.matmul``.
        progress: Whether to show a progress bar on stderr; or a function, which is called at the start and after each
            tile of C with the number of finished tiles and the number of all tiles.
        journal: Path of a file that makes the product resumable. ``out`` must then be a memmap of mode ``"r+"`` or
            ``"w+"``. Each finished tile is written to the disk, then to the journal. The same call with the same
            journal computes only the other tiles, with the tiling of the first call. Only one process may use a journal
            at a time. Operands are recognized by shapes, strides, types and a hash of 64 blocks of up to 1024 elements,
            evenly spread, and so are finished tiles of C. So other matrices and an emptied file are noticed, but not a
            change of a few elements outside of these blocks.

    Returns:
        ``out``, or a new array.

    Raises:
        ShapeError: If the operands are not matrices or do not fit together, or ``out`` does not fit.
        OperandTypeError: If an operand or ``out`` is not an array in host memory, or is a masked array.
        UnsupportedTypeError: If the element types are not supported, or differ.
        KeywordError: If ``out`` is read-only or overlaps an operand, ``memory`` or ``progress`` is invalid, or there is
            a journal and ``out`` is not a memmap.
        ConfigError: If no tile fits into ``memory``, the precision is unknown, or the journal belongs to another
            product.

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
        raise KeywordTypeError(f"progress must be a bool, None or a function of two counts; got {progress!r}")
    result = np.empty(shape, a.dtype) if out is None else out
    if journal is not None:
        journals.check_out(result)
    if 0 in (*shape, a.shape[1]):
        result[...] = 0  # an empty sum is 0
        return result
    with _told(progress) as told:
        multiply(a, b, result, limit, precision, told, journal)
    return result


def _check_operands(a: Any, b: Any) -> None:
    for name, x in (("a", a), ("b", b)):
        _check_array(name, x)
        if x.ndim != 2:
            raise ShapeError(f"{name} must be a matrix, with 2 dimensions; its shape is {x.shape}")
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
    raise OperandTypeError(f"{name} must be a NumPy array or memmap; got {type(x).__module__}.{type(x).__qualname__}")


def _check_out(a: _Matrix, b: _Matrix, out: Any, shape: tuple[int, int]) -> None:
    _check_array("out", out)
    if out.shape != shape:
        raise ShapeError(f"out must have the shape {shape} of the product; its shape is {out.shape}")
    if out.dtype != a.dtype:
        raise UnsupportedTypeError(f"out must be of the operands' type, {a.dtype}; it is of type {out.dtype.str}")
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
    """Return the value of ``memory=`` as a whole number of bytes; None if there is no limit.

    Raises:
        KeywordError: If it is not a positive number.
    """
    if memory is None:
        return None
    is_number = isinstance(memory, (int, float, np.integer, np.floating)) and not isinstance(memory, bool)
    if not is_number or not 0 < memory < math.inf:
        error = KeywordValueError if is_number else KeywordTypeError
        raise error(f"memory must be a number of bytes greater than 0, such as 16e9, or None; got {memory!r}")
    return int(memory)


@contextlib.contextmanager
def _told(progress: bool | Callable[[int, int], Any] | None) -> Iterator[ProgressCallback]:
    """Yield the function to call with the number of finished tiles of C and the number of all tiles.

    For True it updates a progress bar on stderr; for False or None it does nothing. A function is yielded unchanged.
    """
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
