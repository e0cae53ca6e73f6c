"""One product on several GPUs of one process: each GPU computes rows of C while its next operands are copied to it.

The operands are on one device, or in host memory. Every other device receives its rows of A and all of B, one panel of
columns after the other: each panel is copied while the one before it is multiplied, and C is copied back likewise.
By the rates in data sheets, these devices get fewer rows, so that all devices end at about the same time. All copies
run on streams of their own: a copy on the legacy default stream would block both devices.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from tiledmm import api
from tiledmm.distributed import streaming
from tiledmm.distributed.cuda_device import Device
from tiledmm.distributed.shares import PANELS, Times, ranges, share_of_others
from tiledmm.errors import KeywordTypeError, KeywordValueError, OperandTypeError, ShapeError, UnsupportedTypeError
from tiledmm.launch import devices
from tiledmm.problem.arrays import Array
from tiledmm.problem.call import resolve_call
from tiledmm.problem.casting import loop_type
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.selection.choose import choose

_kept = threading.local()


def matmul(a: Any, b: Any, out: Any, numbers: Sequence[int], precision: Any) -> Any:
    """Return the product of two matrices, computed on several devices.

    Args:
        a, b: Matrices ``(m, k)`` and ``(k, n)``: CuPy arrays on one device, or NumPy arrays.
        out: Array ``(m, n)`` for the result, of the operands' library and on their device; None to allocate one.
        numbers: Numbers of the devices. A device that is named twice computes two shares.
        precision: Precision, as for ``tiledmm.matmul``.

    Raises:
        KeywordError: If ``numbers`` is empty, or names a device that does not exist.
        TiledmmError: If ``tiledmm.matmul`` would not support the operands, or if they are not two matrices of one
            library on one device.
    """
    _check_devices(numbers)
    arrays = {"x1": a, "x2": b} | ({} if out is None else {"out": out})
    on_host = all(isinstance(x, np.ndarray) for x in arrays.values())
    if not on_host and not all(isinstance(x, cupy.ndarray) for x in arrays.values()):
        raise OperandTypeError("x1, x2 and out must all be CuPy arrays, or all NumPy arrays")
    for name in ("x1", "x2"):
        if arrays[name].ndim != 2:
            raise ShapeError(f"{name} must be a matrix; it has {arrays[name].ndim} dimensions")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"x1 has {a.shape[1]} columns, and x2 has {b.shape[0]} rows")
    kind, shape = loop_type(a.dtype, b.dtype, None), (a.shape[0], b.shape[1])
    if out is not None and out.shape != shape:
        raise ShapeError(f"out has shape {out.shape}; the product has {shape}")
    if out is not None and out.dtype != kind:
        raise UnsupportedTypeError(f"out is of type {out.dtype}; the product is of {kind}")
    if on_host:
        return _of_host_arrays(a, b, np.empty(shape, kind) if out is None else out, numbers, precision)
    home = a.data.device_id
    for name, x in arrays.items():
        if x.data.device_id != home:
            raise OperandTypeError(f"x1 is on device {home} and {name} on device {x.data.device_id}; copy one of them")
    with cupy.cuda.Device(home):
        return _of_device_arrays(a, b, cupy.empty(shape, kind) if out is None else out, numbers, precision)


def _check_devices(numbers: Sequence[int]) -> None:
    count = cupy.cuda.runtime.getDeviceCount()
    are_numbers = all(isinstance(each, int) for each in numbers)
    if not numbers or not are_numbers or not all(0 <= each < count for each in numbers):
        error = KeywordValueError if are_numbers else KeywordTypeError
        raise error(f"devices must list numbers of devices, from 0 to {count - 1}; got {list(numbers)!r}")


def _of_host_arrays(a: Any, b: Any, out: Any, numbers: Sequence[int], precision: Any) -> Any:
    """Compute the product of host arrays into ``out``, and return it.

    Each device computes a range of rows of C. It copies its rows of A and all of B from host memory, tile by tile.
    """
    if a.dtype != b.dtype or a.dtype.kind not in "fc":
        raise UnsupportedTypeError(
            f"host arrays must be floats or complex numbers of one type; got {a.dtype} and {b.dtype}"
        )

    def share(number: int, rows: slice) -> None:
        with cupy.cuda.Device(number):
            streaming.multiply(a[rows], b, out[rows], memory[number], precision, lambda done, tiles: None, None)

    if not out.size or not a.shape[1]:
        out.fill(0)
        return out
    memory = {number: int(streaming.SHARE * _free_bytes(number)) // numbers.count(number) for number in numbers}
    shares = list(zip(numbers, ranges(out.shape[0], [1 / len(numbers)] * len(numbers)), strict=True))
    with ThreadPoolExecutor(len(shares), "tiledmm") as threads:
        for done in [threads.submit(share, number, rows) for number, rows in shares if rows.stop > rows.start]:
            done.result()
    return out


def _of_device_arrays(a: Any, b: Any, out: Any, numbers: Sequence[int], precision: Any) -> Any:
    """Compute the product of arrays on the current device into ``out``, and return it without waiting for the devices.

    Each device computes a share of the rows of C. The current device is launched first, because its operands are not
    copied.
    """
    home, current = devices.current_device(), cupy.cuda.get_current_stream()
    first, second = (_rows(x) or _Rows(cupy.ascontiguousarray(x), False) for x in (a, b))
    third = None if cupy.may_share_memory(out, a) or cupy.may_share_memory(out, b) else _rows(out)
    third = third or _Rows(cupy.empty(out.shape, out.dtype), False)
    ready = current.record()
    shares = ranges(out.shape[0], fractions(numbers, a, b, out, precision))
    own = numbers.index(home) if home in numbers else -1
    if own >= 0:
        api.matmul(a[shares[own]], b, out=third.matrix[shares[own]], precision=precision)
    done = [
        _share(turn, number, (first, second, third), rows, ready, precision)
        for turn, (number, rows) in enumerate(zip(numbers, shares, strict=True))
        if turn != own and rows.stop > rows.start
    ]
    for event in done:
        current.wait_event(event)
    if third.x.data.ptr != out.data.ptr:
        out[...] = third.x
    return out


#: Bytes per second and direction of a link other than NVLink: PCIe 4.0 with 16 lanes.
PCIE = 32e9


def fractions(numbers: Sequence[int], a: Any, b: Any, out: Any, precision: Any) -> list[float]:
    """Return the fraction of C's rows that each device computes. The fractions sum to 1.

    The device that holds the operands computes more than the others, which wait for copies. Fractions are equal if that
    device does not take part, or if the expected time of the product is unknown.

    Args:
        numbers: Numbers of the devices.
        a, b, out: Operands and result, on one device.
        precision: Precision, as for ``tiledmm.matmul``.
    """
    count, home = len(numbers), a.data.device_id
    (m, k), n = a.shape, b.shape[1]

    def seconds_of(rows: int, columns: int) -> float:
        return _expected_seconds(rows, columns, k, a.dtype, b.dtype, precision, home)

    seconds, height = seconds_of(m, n), max(1, -(-m // count))
    if home not in numbers or not seconds:
        return [1 / count] * count
    others = [number for number in numbers if number != home]
    linked = all(cupy.cuda.runtime.deviceCanAccessPeer(number, home) for number in others)
    rate = (linked and devices.device_model().gpu.nvlink) or PCIE
    # Time one device's rows and scale to all rows, because each panel packs or decomposes the rows again.
    widths = [cols.stop - cols.start for cols in ranges(n, PANELS)]
    panels = [seconds_of(height, width) * m / height if width else 0.0 for width in widths]
    share = share_of_others(Times(seconds, panels, *(x.nbytes / rate for x in (a, b, out))), count)
    found = [share] * count
    found[numbers.index(home)] = 1 - (count - 1) * share
    return found


@functools.lru_cache(maxsize=1024)
def _expected_seconds(m: int, n: int, k: int, first: Any, second: Any, precision: Any, device: int) -> float:
    """Return the time in seconds that the cost model expects of ``(m, k) @ (k, n)`` on one device; 0 if it is unknown.

    Args:
        m, n, k: Sizes of the product.
        first, second: Types of A and B.
        precision: Precision, as for ``tiledmm.matmul``.
        device: Number of the current device. Results are cached by it.
    """
    x1, x2 = Array.allocated((m, k), first), Array.allocated((k, n), second)
    call = resolve_call(x1, x2, None, UfuncKeywords())
    choice = choose(call, KernelKeywords(precision=precision), devices.device_model)
    return (choice.microseconds or 0.0) * 1e-6


def _free_bytes(number: int) -> int:
    with cupy.cuda.Device(number):
        return Device().free_bytes()


@dataclass(frozen=True, slots=True)
class _Rows:
    """A matrix that is stored as contiguous rows, or whose transpose is.

    Attributes:
        x: Array with contiguous rows, the matrix or its transpose.
        transposed: Whether ``x`` is the transpose.
    """

    x: Any
    transposed: bool

    def part(self, rows: slice, cols: slice) -> Any:
        """Return the view of ``x`` with the elements at the given rows and columns of the matrix."""
        return self.x[cols, rows] if self.transposed else self.x[rows, cols]

    def like(self, height: int, width: int) -> _Rows:
        """Allocate a matrix of ``height`` x ``width`` elements on the current device, stored as this one is."""
        shape = (width, height) if self.transposed else (height, width)
        return _Rows(cupy.empty(shape, self.x.dtype), self.transposed)

    @property
    def matrix(self) -> Any:
        """The matrix itself: ``x``, or its transpose if ``x`` is the transpose of the matrix."""
        return self.x.T if self.transposed else self.x


def _rows(x: Any) -> _Rows | None:
    """Return a matrix as ``_Rows`` without a copy; None if neither its rows nor its columns are contiguous."""
    for rows, transposed in ((x, False), (x.T, True)):
        if rows.strides[1] == x.itemsize and rows.strides[0] >= rows.shape[1] * x.itemsize:
            return _Rows(rows, transposed)
    return None


def _share(
    turn: int, number: int, matrices: tuple[_Rows, _Rows, _Rows], rows: slice, ready: Any, precision: Any
) -> Any:
    """Launch the copies and products with which one device computes its rows of C.

    Args:
        turn: Position of the device in the call's list of devices.
        number: Number of the device.
        matrices: A, B and C.
        rows: Rows of C that the device computes.
        ready: Event after which A and B can be read, and C can be written.
        precision: Precision, as for ``tiledmm.matmul``.

    Returns:
        The event that happens when these rows have been copied to C.
    """
    a, b, c = matrices
    _let_copy(number, c.x.data.device_id)
    with cupy.cuda.Device(number):
        copies_in, products, copies_out = _streams(turn, number)
        with products:  # allocates on this stream: later calls that reuse the memory wait for it
            height, (depth, width) = rows.stop - rows.start, b.matrix.shape
            own_a, own_b, own_c = a.like(height, depth), b.like(depth, width), c.like(height, width)
        copies_in.wait_event(ready)
        copies_in.wait_event(products.record())
        every = slice(None)
        _copy(own_a.x, a.part(rows, every), copies_in)
        for cols in ranges(width, PANELS):
            if cols.stop == cols.start:
                continue
            _copy(own_b.part(every, cols), b.part(every, cols), copies_in)
            products.wait_event(copies_in.record())
            with products:
                api.matmul(own_a.matrix, own_b.matrix[:, cols], out=own_c.matrix[:, cols], precision=precision)
            copies_out.wait_event(products.record())
            copies_out.wait_event(ready)
            _copy(c.part(rows, cols), own_c.part(every, cols), copies_out)
        done = copies_out.record()
        products.wait_event(done)
        return done


def _streams(turn: int, number: int) -> tuple[Any, Any, Any]:
    """Return three streams on the current device, for copies to it, products, and copies from it.

    The streams are kept for later calls from this thread, because CuPy pools memory by stream.

    Args:
        turn: Position of the device in the call's list of devices: a device that is listed twice has two sets.
        number: Number of the current device.
    """
    known: dict[tuple[int, int], tuple[Any, Any, Any]] = vars(_kept).setdefault("streams", {})
    if (turn, number) not in known:
        first, second, third = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))
        known[turn, number] = first, second, third
    return known[turn, number]


def _let_copy(number: int, home: int) -> None:
    """Enable direct copies between two devices, without a detour through host memory, if they support it."""
    runtime = cupy.cuda.runtime
    for one, other in ((number, home), (home, number)):
        if one != other and (one, other) not in _linked and runtime.deviceCanAccessPeer(one, other):
            with cupy.cuda.Device(one):
                try:
                    runtime.deviceEnablePeerAccess(other)
                except runtime.CUDARuntimeError as error:
                    if error.status != _ALREADY_ENABLED:
                        raise
        _linked.add((one, other))


_linked: set[tuple[int, int]] = set()

# Status of a second request to enable peer access.
_ALREADY_ENABLED = 704


def _copy(to: Any, rows: Any, stream: Any) -> None:
    """Start a copy of contiguous rows to memory of the same shape, on the same device or another one."""
    height, width = rows.shape
    if height and width:
        sides = [(x.data.ptr, max(x.strides[0], width * x.itemsize)) for x in (to, rows)]
        kind = cupy.cuda.runtime.memcpyDefault
        cupy.cuda.runtime.memcpy2DAsync(*sides[0], *sides[1], width * rows.itemsize, height, kind, stream.ptr)
