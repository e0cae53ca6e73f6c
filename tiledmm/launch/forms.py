"""Forms of a prepared operand in a device's memory: each is made by the first product that needs it, and then kept."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any

import cupy

from tiledmm.compile.compilation import raw_kernels
from tiledmm.errors import PreparedOperandError
from tiledmm.kernels.launches import Form
from tiledmm.launch.prepared import SCRATCH, X1, PreparedLaunch, fill


class _Moment:
    """End of the work that the current stream has been given so far, for which later work on any stream can wait."""

    def __init__(self) -> None:
        self._event: Any = cupy.cuda.Event(disable_timing=True)
        self._event.record()

    def wait(self) -> None:
        """Let later work on the current stream begin after this moment. The host waits only if a graph is captured."""
        event = self._event
        if event is None:
            return
        stream = cupy.cuda.get_current_stream()
        if stream.is_capturing():  # a graph cannot wait for what is not in it
            event.synchronize()
            self._event = None
        elif event.done:
            self._event = None
        else:
            stream.wait_event(event)


@dataclass(frozen=True, slots=True)
class _Made:
    """A form that has been made: its memory, and the moment from which on it may be read."""

    memory: Any
    written: _Moment


class DeviceForms:
    """Forms of an array on the current device, in memory from CuPy's pool, which is freed with this object.

    Any thread and any stream may use them. Streams wait for the array, which the current stream must be the last to
    have written, and for each form until it has been made.

    Args:
        array: The array, a CuPy array on the current device.
        check: Whether each product checks that the array has not changed. The host then waits for the device.

    Raises:
        PreparedOperandError: If the current stream is being captured in a graph.
    """

    def __init__(self, array: Any, check: bool = False) -> None:
        if cupy.cuda.get_current_stream().is_capturing():
            raise PreparedOperandError(
                "an operand cannot be prepared while a graph is captured, because its array is written when the graph "
                "runs: prepare it before the capture"
            )
        self._array, self._readable = array, _Moment()
        self._made: dict[Form, _Made] = {}
        self._lock = threading.Lock()
        self._fingerprint = fingerprint(array) if check else None

    @property
    def bytes(self) -> int:
        """Size of all forms that have been made, in bytes."""
        return sum(form.bytes for form in tuple(self._made))

    def read(self) -> None:
        """Let later work on the current stream read the array.

        Raises:
            PreparedOperandError: If the array is checked, and has changed or a graph is captured.
        """
        self._readable.wait()
        if self._fingerprint is None:
            return
        if cupy.cuda.get_current_stream().is_capturing():
            raise PreparedOperandError("an operand with check=True cannot be used while a graph is captured")
        if fingerprint(self._array) != self._fingerprint:
            raise PreparedOperandError(
                f"an array of shape {self._array.shape} has changed since tiledmm.prepare: prepare it again after it "
                "was written"
            )

    def address(self, form: Form) -> int:
        """Return the address of a form, which is made if necessary. Later work on the current stream may read it.

        Raises:
            PreparedOperandError: If the form has not been made, and a graph is captured.
            MemoryError: If there is no memory for it.
        """
        made = self._made.get(form)
        if made is None:
            with self._lock:  # another thread may be making it
                made = self._made.get(form) or self._make(form)
        made.written.wait()
        return int(made.memory.ptr)

    def _make(self, form: Form) -> _Made:
        """Launch the kernels that write a form on the current stream, and keep the form."""
        if cupy.cuda.get_current_stream().is_capturing():
            raise PreparedOperandError(
                f"the {form} of a prepared operand cannot be made while a graph is captured, because each run of the "
                "graph would make them again: compute the product once before the capture"
            )
        memory = cupy.cuda.alloc(form.bytes)
        places = {"A": (X1, 0), "B": (X1, 0), **form.places(SCRATCH)}
        scan = [] if form.scan is None else [places[form.scan.name]] * 2
        if form.scan is not None:
            fill(memory.ptr + scan[0][1], form.scan.bytes)
        for launch, raw in zip(form.launches, raw_kernels([each.spec for each in form.launches]), strict=True):
            operands = [
                (places[name][0], places[name][1] + begin)
                for name, begin in zip(launch.operands, launch.begins, strict=True)
            ]
            prepared = PreparedLaunch(launch, raw, operands, scan if launch.scan else [], first=True)
            prepared.at((self._array.data.ptr, 0, 0, memory.ptr))()
        made = self._made[form] = _Made(memory, _Moment())
        return made


@functools.cache
def _weighted_sum() -> Any:
    """Return the kernel that sums elements modulo 2^64, each times a weight."""
    return cupy.ReductionKernel(
        "T x, uint64 weight", "uint64 y",
        "(static_cast<unsigned long long>(x) + 1) * weight", "a + b", "y = a", "0",
        "tiledmm_fingerprint",
    )  # fmt: skip


def fingerprint(array: Any) -> int:
    """Return a number that depends on all bits of an array's elements. It differs if a single element differs.

    The host waits for the device.

    Args:
        array: CuPy array of any type and strides.
    """
    if not array.size:
        return 0
    parts = [array.real, array.imag] if array.dtype == "complex128" else [array]
    sums = [_hashed(part.view(f"u{part.itemsize}").reshape(-1, part.shape[-1])) for part in parts]
    return hash(tuple(sums))


def _hashed(words: Any) -> int:
    """Return a weighted sum of a matrix of unsigned integers. Weights are odd, so that every bit counts."""
    rows, columns = (
        cupy.arange(size, dtype=cupy.uint64) * cupy.uint64(0x9E3779B97F4A7C15) | cupy.uint64(1) for size in words.shape
    )
    return int(_weighted_sum()(_weighted_sum()(words, columns, axis=1), rows))
