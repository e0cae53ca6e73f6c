"""From a product and its kernel to a launch.

A plan does everything once that does not depend on where the data lies.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np
from cupy.linalg import _product

from tiledmm.architectures import Gpu
from tiledmm.choice import Choice
from tiledmm.compilation import raw_kernel
from tiledmm.errors import AlignmentError, OperandTypeError
from tiledmm.geometry import Launch
from tiledmm.model import Model, candidates
from tiledmm.passes import FINDINGS, UNFOUND, schedule
from tiledmm.tensor_maps import ALIGNMENT, TensorMap

#: CuPy's own product, also where the name ``cupy.matmul`` has been given to ours.
cupy_matmul = _product.matmul

#: Device that launches go to.
current_device = cupy.cuda.runtime.getDevice

# Where arrays in scratch memory begin.
_ALIGNMENT = 512

# Places of scratch memory for which a launch keeps its arguments.
_PLACES = 16

# RawKernel takes a size-1 NumPy array as a struct by value, and wraps it so at every launch (1.6 us on a 7 us launch).
# A wrapper made once serves as well; it is not a documented name, so a CuPy without it gets the array.
_PreparedArgument = getattr(cupy.cuda.function, "CNumpyArray", lambda array: array)


def _by_value(array: Any) -> Any:
    return _PreparedArgument(array.view(f"V{array.nbytes}"))


class _Prepared:
    """A launch of a plan: kernel, grid, block and sizes.

    Attributes:
        operands: Of each of its pointers, the array by name and how many bytes in.
        maps: Of A and B, if the copy engine is to find them.
        findings: Bytes into scratch memory at which it finds what was found of each operand, if it asks.
    """

    __slots__ = ("_placed", "block", "findings", "function", "grid", "maps", "operands", "shared", "sizes", "words")

    def __init__(self, launch: Launch, operands: list[tuple[str, int]], findings: int = 0) -> None:
        specialization = launch.specialization
        self.function = raw_kernel(specialization).kernel
        self.grid: tuple[int, ...] = (launch.blocks,)
        if specialization.variant.target:  # its blocks stay, and take one tile after the other
            together = specialization.config.cluster
            room = device_model().gpu.sms // together
            self.grid = (min(launch.blocks, room) * together,)
        self.block: tuple[int, int] = specialization.block
        self.shared = specialization.dynamic_shared_bytes
        self.words = launch.words
        self.findings = [findings + begin for begin in launch.findings]
        self.sizes: Any = _by_value(launch.words)
        self._placed: dict[int, Any] = {}  # the same with addresses of findings, by that of the scratch memory
        self.operands = operands
        self.maps: tuple[TensorMap, ...] = launch.maps

    def __call__(self, addresses: dict[str, int]) -> None:
        """Launches it on arrays that begin there."""
        arguments: list[Any] = [addresses[name] + begin for name, begin in self.operands]
        for i, each in enumerate(self.maps):
            arguments[i] = _map_argument(each, arguments[i])
        sizes = self._sizes(addresses["scratch"]) if self.findings else self.sizes
        self.function(self.grid, self.block, (*arguments, sizes), self.shared)

    def _sizes(self, scratch: int) -> Any:
        """The sizes, with the addresses of what is found; CuPy's pool mostly hands out the same memory again."""
        sizes = self._placed.get(scratch)
        if sizes is None:
            if len(self._placed) >= _PLACES:
                self._placed.clear()
            words = [*self.words, *(scratch + begin for begin in self.findings)]
            sizes = self._placed[scratch] = _by_value(np.array(words, np.int64))
        return sizes


@functools.lru_cache(maxsize=1024)
def _map_argument(described: TensorMap, pointer: int) -> Any:
    """The map of a matrix there, as a kernel's argument."""
    cupy.cuda.runtime.setDevice(current_device())  # the driver encodes in a context only; a new thread has none yet
    return _by_value(described.encode(pointer))


class Plan:
    """One product on one device, ready to be launched on any arrays that are described alike."""

    __slots__ = ("_packing", "alignment", "choice", "findings", "launches", "mapped", "product", "scratch_bytes")

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.product = choice.product
        self.alignment = max(each.itemsize for each in (self.product.a, self.product.b, self.product.c)) - 1
        self.launches: list[_Prepared] = []  # none if there is nothing to multiply
        self.scratch_bytes = 0
        self.mapped: set[str] = set()  # what the copy engine reads in place
        self.findings: list[tuple[int, int]] = []  # begin and bytes of what is to be filled with UNFOUND
        self._packing: Plan | None = None
        if self.product.problem.is_empty or (self.product.problem.k == 0 and choice.copies):
            return
        for part in choice.parts:
            planned = schedule(part.specialization, part.product.problem)
            names = {"A": "x2", "B": "x1"} if part.product.swapped else {"A": "x1", "B": "x2"}
            offsets = {}
            for memory in planned.scratch:
                offsets[memory.name] = self.scratch_bytes
                self.scratch_bytes += -(-memory.bytes // _ALIGNMENT) * _ALIGNMENT
                if memory.name == FINDINGS:
                    self.findings.append((offsets[memory.name], memory.bytes))
            for each in planned.launches:
                operands = [
                    ("scratch", offsets[name] + begin) if name in offsets else (names.get(name, name), begin)
                    for name, begin in zip(each.operands, each.begins, strict=True)
                ]
                self.launches.append(_Prepared(each, operands, offsets.get(FINDINGS, 0)))
                self.mapped.update(names[name] for name in ("A", "B") if each.maps and name in each.operands)

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        """Computes the product.

        Args:
            x1, x2: The operands.
            out: Where the result goes, or None for a new array.

        Returns:
            ``out``, or the new array.
        """
        product = self.product
        if self.mapped and any(x.data.ptr % ALIGNMENT for name, x in (("x1", x1), ("x2", x2)) if name in self.mapped):
            return self._packed().run(x1, x2, out)
        if out is None:
            result = cupy.ndarray(product.shape, product.result_type, order=product.order)
        elif self.launches and self._overlaps(x1, x2, out):
            result = self._apart(out)
        else:
            result = out
        if product.problem.is_empty:
            return result
        if (x1.data.ptr | x2.data.ptr | result.data.ptr) & self.alignment:
            self._check_alignment(x1, x2, result)
        if not self.launches:
            result.fill(0)  # sums of nothing
        elif product.problem.outer:
            for a, b, c in product.problem.outer_offsets():
                steps = (b, a, c) if product.swapped else (a, b, c)
                pairs = zip((x1, x2, result), steps, strict=True)
                self._launch(*(x.data.ptr + step * x.dtype.itemsize for x, step in pairs))
        elif len(self.launches) > 1 or self.launches[0].maps:
            self._launch(x1.data.ptr, x2.data.ptr, result.data.ptr)
        else:
            left, right = (x2, x1) if product.swapped else (x1, x2)
            only = self.launches[0]
            only.function(only.grid, only.block, (left, right, result, only.sizes), only.shared)
        if out is not None and result is not out:
            out[...] = result
            return out
        return result

    def _packed(self) -> Plan:
        """For operands that the copy engine cannot read where they begin: the same, but packed first."""
        if self._packing is None:
            self._packing = Plan(self.choice.packed())
        return self._packing

    def _launch(self, x1: int, x2: int, out: int) -> None:
        """All kernels of a product, on memory that begins at these addresses."""
        with _borrowed(self.scratch_bytes) as scratch:
            addresses = {"x1": x1, "x2": x2, "C": out, "scratch": scratch}
            for begin, size in self.findings:
                cupy.cuda.runtime.memsetAsync(scratch + begin, UNFOUND, size, cupy.cuda.get_current_stream().ptr)
            for each in self.launches:
                each(addresses)

    def _overlaps(self, x1: Any, x2: Any, out: Any) -> bool:
        """Whether ``out`` may share memory with an operand, judged by the stretch of memory that each spans."""
        spans = self.product.spans
        start, stop = (out.data.ptr + edge for edge in (spans[2].start, spans[2].stop))
        return any(
            x.data.ptr + span.start < stop and start < x.data.ptr + span.stop
            for x, span in zip((x1, x2), spans, strict=False)
        )

    def _apart(self, out: Any) -> Any:
        """An array like ``out``, strides and all, in memory of its own."""
        span = self.product.spans[2]
        memory = cupy.cuda.alloc(span.stop - span.start) - span.start
        return cupy.ndarray(out.shape, out.dtype, memory, strides=out.strides)

    def _check_alignment(self, x1: Any, x2: Any, result: Any) -> None:
        for name, x in (("x1", x1), ("x2", x2), ("out", result)):
            if x.data.ptr % x.dtype.itemsize:
                raise AlignmentError(
                    f"{name} begins at an address that is not a multiple of its {x.dtype.itemsize}-byte elements; "
                    "a GPU cannot read it in place: copy it first (x.copy())"
                )


@contextlib.contextmanager
def _borrowed(size: int) -> Iterator[int]:
    """The address of memory for what is launched meanwhile on the current stream.

    From CuPy's pool, which hands it out again to what comes later on that stream. A graph that is being captured is
    launched any time later: there the memory is the graph's own.
    """
    if not size:
        yield 0
        return
    stream = cupy.cuda.get_current_stream()
    if not stream.is_capturing():
        memory = cupy.cuda.alloc(size)
        yield memory.ptr
        return
    pointer: int = cupy.cuda.runtime.mallocAsync(size, stream.ptr)
    yield pointer
    cupy.cuda.runtime.freeAsync(pointer, stream.ptr)


def device_model(splits: bool = True) -> Model:
    """The current device's, with or without kernels that split operands."""
    return _model_of(current_device(), splits)


@functools.lru_cache
def _model_of(device: int, splits: bool) -> Model:
    gpu = Gpu.of_device(cupy.cuda.runtime.getDeviceProperties(device))
    return Model(gpu, candidates(splits))


def check_array(x: Any, name: str) -> None:
    """Raises OperandTypeError unless ``x`` is a CuPy array on the current device."""
    if isinstance(x, cupy.ndarray):
        device = current_device()
        if x.data.device_id != device and x.size:
            raise OperandTypeError(
                f"{name} is on device {x.data.device_id} and the current device is {device}; "
                f"use 'with cupy.cuda.Device({x.data.device_id}):', or copy it"
            )
        return
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    advice = "cupy.asarray(x) copies it to the GPU, and tiledmm.simulator.matmul takes NumPy arrays on the CPU"
    raise OperandTypeError(f"{name} must be a cupy.ndarray, not {kind}; {advice}")
