"""A product of matrices in host memory, tile by tile, on three streams: copies in, products, copies out.

The host issues steps in order and waits for two things only: for a staging buffer that it is about to fill, and for the
memory of a tile of C, which the tile after the next one reuses. Events order everything else. A thread copies tiles to
C, so that a slow disk delays no step.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from tiledmm import __version__
from tiledmm.distributed.journal import Journal, fingerprint
from tiledmm.distributed.tiling import Matrices, Tiling, device_bytes, most_workspace
from tiledmm.distributed.tiling_choice import tiling_within
from tiledmm.errors import ConfigError, device_module
from tiledmm.problem.arrays import Array
from tiledmm.problem.keywords import Precision

#: Bytes of a staging buffer. There are two buffers for copies in, and two for copies out.
STAGING_BYTES = 64 << 20

#: Fraction of the free device memory that is used if there is no limit.
SHARE = 0.8

# Maximum pitch of rows, in bytes, that 2-D copies support.
_MOST_PITCH = (1 << 31) - 1

_HostArray: TypeAlias = np.ndarray[Any, Any]

#: Function that reports progress. It is called with the number of finished tiles and the number of all tiles.
ProgressCallback: TypeAlias = Callable[[int, int], Any]


def multiply(
    a: _HostArray,
    b: _HostArray,
    out: _HostArray,
    memory: int | None,
    precision: Precision,
    told: ProgressCallback,
    journal: str | PathLike[str] | None,
) -> None:
    """Compute ``a @ b`` into ``out``, on the current device.

    Args:
        a, b, out: Matrices ``(m, k)``, ``(k, n)`` and ``(m, n)`` of one type, already checked. No size is 0.
        memory: Maximum number of bytes of device memory; None for 80% of the free memory.
        precision: Precision, as for ``tiledmm.matmul``.
        told: Function that is called at the start and after each tile.
        journal: Path of the file that lists the finished tiles; None to keep no list.

    Raises:
        ConfigError: If ``memory`` has no room for any tile, or the journal belongs to another product.
        KeywordError: If there is a journal, and ``out`` is not a memmap that is written to its file.
    """
    device = device_module("distributed.cuda_device").Device()
    # Sums of float16 are kept in float32 between steps along K, and rounded once.
    types = a.dtype, np.dtype(np.float32) if a.dtype == np.float16 else a.dtype
    layouts = "".join(map(_layout, (a, b, out)))
    matrices = Matrices(a.shape[0], b.shape[1], a.shape[1], a.itemsize, types[1].itemsize, layouts)
    workspace_of = functools.cache(device.workspace)  # a call takes a millisecond or more

    def workspace(tiling: Tiling, shape: tuple[int, int, int], first: bool, last: bool) -> int:
        (m, n, k), result = shape, types[0] if last else types[1]
        described = (
            _described(tiling, which, size, dtype)
            for which, (size, dtype) in enumerate((((m, k), types[0]), ((k, n), types[0]), ((m, n), result)))
        )
        return int(workspace_of(*described, not first, precision))

    limit = int(device.free_bytes() * SHARE) if memory is None else memory
    book = None
    if journal is not None:
        about = {"tiledmm": __version__, "device": device.name, "precision": precision, "dtype": a.dtype.name}
        sizes = {"shape of a": list(a.shape), "shape of b": list(b.shape)}
        prints = {"fingerprint of a": fingerprint(a), "fingerprint of b": fingerprint(b)}
        book = Journal(journal, out, {**about, **sizes, **prints})
    if book is not None and book.tiling is not None:
        tiling = Tiling(matrices, **book.tiling)
        if (needed := device_bytes(tiling, workspace)) > limit:
            raise ConfigError(
                f"memory={limit:,} bytes are too few for the tiles with which journal {book.path} began, which need "
                f"{needed:,} bytes; raise memory=, or delete the journal to begin again"
            )
        for number in book.finished:
            book.check(number, out[tiling.part_of_c(number)])
    else:
        tiling = tiling_within(matrices, limit, workspace)
    device.allocate(most_workspace(tiling, workspace), tiling.buffer_bytes)
    if book is not None:
        book.begin({name: value for name, value in asdict(tiling).items() if name != "matrices"})
    try:
        _Streaming(device, tiling, (a, b, out), types[1], precision, book).run(told)
    finally:
        device.close()
        if book is not None:
            book.close()


def _layout(x: _HostArray) -> str:
    """Return ``"T"`` if elements of a column are closer together in memory than elements of a row; else ``"N"``."""
    across, along = (abs(stride) if size > 1 else 1 << 63 for size, stride in zip(x.shape, x.strides, strict=True))
    return "T" if across < along else "N"


def _described(tiling: Tiling, which: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Return an ``Array`` that describes the part of a panel or tile that a product uses on the device.

    Args:
        tiling: Tiling of the product.
        which: 0 for a panel of A, 1 for a panel of B, 2 for a tile of C.
        shape: Shape of the part.
        dtype: Type of its elements.
    """
    pitch, layout = tiling.pitch(which, dtype.itemsize), tiling.matrices.layouts[which]
    return Array(shape, (pitch, dtype.itemsize) if layout == "N" else (dtype.itemsize, pitch), dtype)


@dataclass
class _Slot:
    """Memory for a panel on the device.

    Attributes:
        rows: Memory as an array with contiguous rows.
        loaded: Event after which the panel has been copied there; None if no panel was.
        used: Event after which no product reads the panel; None if no product did.
    """

    rows: Any
    loaded: Any = None
    used: Any = None


class _Staging:
    """Two page-locked staging buffers, used alternately."""

    def __init__(self, device: Any, size: int) -> None:
        self._device, self._turn = device, 0
        self._buffers: list[_HostArray] = [device.page_locked(size) for _ in range(2)]
        self._copied: list[Any] = [None, None]

    def blocks(self, host: _HostArray) -> Iterator[tuple[slice, _HostArray]]:
        """Yield ranges of a matrix's rows, each with a buffer of its size that can be overwritten.

        Wait for the last copy from or to a buffer before it is yielded.
        """
        rows, width = host.shape
        most = self._buffers[0].size // (width * host.itemsize)
        for begin in range(0, rows, most):
            size, self._turn = min(most, rows - begin), 1 - self._turn
            if (copied := self._copied[self._turn]) is not None:
                self._device.synchronize(copied)
            buffer = self._buffers[self._turn][: size * width * host.itemsize]
            yield slice(begin, begin + size), buffer.view(host.dtype).reshape(size, width)

    def copied(self, event: Any) -> None:
        """Record that the buffer that was yielded last can be overwritten after an event."""
        self._copied[self._turn] = event


class _Streaming:
    """One product, with its streams and its buffers. The device's memory must be allocated before.

    The parameter ``which`` of methods is 0 for A, 1 for B and 2 for C.
    """

    def __init__(
        self,
        device: Any,
        tiling: Tiling,
        arrays: tuple[_HostArray, _HostArray, _HostArray],
        sums: np.dtype[Any],
        precision: Precision,
        book: Journal | None,
    ) -> None:
        self._device, self._tiling, self._precision, self._book = device, tiling, precision, book
        self._layouts, dtype = tiling.matrices.layouts, arrays[0].dtype
        self._arrays = [x.view(np.ndarray) for x in arrays]  # a memmap is slower to slice
        self._copies_in, self._products, self._copies_out = (device.stream() for _ in range(3))
        self._begin = 0
        self._free = [
            [_Slot(self._rows(which, dtype)) for _ in range(count)]
            for which, count in enumerate((tiling.a_slots, tiling.b_slots))
        ]
        self._held: list[dict[tuple[int, int], _Slot]] = [{}, {}]  # by panel, the least recently used first
        self._results = [self._rows(2, dtype) for _ in range(tiling.results)]
        self._sums = self._rows(2, sums) if tiling.wide_sums else None
        self._is_direct = [self._copies_directly(which) for which in range(3)]
        self._staging_in, self._staging_out = self._staging(0, 1), self._staging(2)

    def _rows(self, which: int, dtype: np.dtype[Any]) -> Any:
        """Reserve device memory for a panel of A (0) or B (1) or a tile of C (2). Return it as contiguous rows."""
        rows, cols = self._tiling.shapes[which]
        shape = (rows, cols) if self._layouts[which] == "N" else (cols, rows)
        begin, self._begin = self._begin, self._begin + self._tiling.bytes(which, dtype.itemsize)
        return self._device.rows(begin, shape, self._tiling.pitch(which, dtype.itemsize), dtype)

    def _transposed(self, which: int, x: Any) -> Any:
        """Return the transpose of ``x`` if the columns of A (0), B (1) or C (2) are contiguous (layout T); else ``x``.

        This converts a matrix of layout T to contiguous rows, and such rows back to the matrix.
        """
        return x if self._layouts[which] == "N" else x.T

    def _copies_directly(self, which: int) -> bool:
        """Return whether A (0), B (1) or C (2) can be copied without a staging buffer.

        The matrix must be in page-locked memory, with strides that CUDA's 2-D copies support.
        """
        rows = self._transposed(which, self._arrays[which])
        width = rows.shape[1] * rows.itemsize
        pitch = rows.strides[0] if rows.shape[0] > 1 else width
        fits = (rows.strides[1] == rows.itemsize or rows.shape[1] == 1) and width <= pitch <= _MOST_PITCH
        return fits and bool(self._device.is_page_locked(rows))

    def _staging(self, *which: int) -> _Staging | None:
        """Allocate staging buffers for those of the given matrices that need them; return None if none does.

        A buffer has at most ``STAGING_BYTES`` bytes and is not larger than a panel, but it can hold one row.
        """
        sizes = [
            max(min(STAGING_BYTES, self._tiling.bytes(each)), self._tiling.pitch(each))
            for each in which
            if not self._is_direct[each]
        ]
        return _Staging(self._device, max(sizes)) if sizes else None

    def run(self, told: ProgressCallback) -> None:
        """Compute all tiles that are not finished. Report progress to ``told``, first at the start, then by tile."""
        tiling, device = self._tiling, self._device
        finished = self._book.finished if self._book is not None else {}
        todo = [number for number in range(tiling.tiles) if number not in finished]
        done = tiling.tiles - len(todo)
        pending: deque[Future[None]] = deque()
        told(done, tiling.tiles)

        def collect(most: int) -> None:
            """Wait until at most ``most`` computed tiles have not been copied to host memory. Report progress."""
            nonlocal done
            while pending and (len(pending) > most or pending[0].done()):
                pending.popleft().result()
                done += 1
                told(done, tiling.tiles)

        # On exit, even after an error, the thread first finishes the tiles that it was given.
        with ThreadPoolExecutor(1, "tiledmm", device.activate) as thread:
            for turn, number in enumerate(todo):
                result, (i, j) = self._results[turn % len(self._results)], tiling.tile(number)
                for step, depth in enumerate(tiling.depths(number)):
                    panels = self._panel(0, i, depth), self._panel(1, depth, j)
                    collect(len(pending) if step else len(self._results) - 1)  # now the tile's memory is free
                    self._multiply(panels, result, step)
                pending.append(thread.submit(self._copy_back, number, result, device.record(self._products)))
            collect(0)

    def _panel(self, which: int, i: int, j: int) -> tuple[_Slot, Any]:
        """Return a panel of A (0) or B (1) on the device, as its slot and as a matrix.

        If the panel is not on the device, its copy is started. If no slot is free, the copy replaces the panel that was
        used least recently. ``i`` and ``j`` count panels along the matrix's rows and columns.
        """
        (height, width), held = self._tiling.shapes[which], self._held[which]
        part = self._arrays[which][i * height : (i + 1) * height, j * width : (j + 1) * width]
        host, slot = self._transposed(which, part), held.pop((i, j), None)
        if slot is None:
            slot = self._free[which].pop() if self._free[which] else held.pop(next(iter(held)))
            self._copy_in(slot, host, self._is_direct[which])
        held[i, j] = slot
        return slot, self._transposed(which, slot.rows[: host.shape[0], : host.shape[1]])

    def _copy_in(self, slot: _Slot, host: _HostArray, is_direct: bool) -> None:
        """Start the copy of a panel to a slot. The slot's event ``loaded`` follows the copy."""
        device, rows = self._device, slot.rows[: host.shape[0], : host.shape[1]]
        if slot.used is not None:
            device.wait(self._copies_in, slot.used)
        if is_direct or self._staging_in is None:
            device.copy_in(rows, host, self._copies_in)
        else:
            for part, staged in self._staging_in.blocks(host):
                np.copyto(staged, host[part])
                device.copy_in(rows[part], staged, self._copies_in)
                self._staging_in.copied(device.record(self._copies_in))
        slot.loaded = device.record(self._copies_in)

    def _multiply(self, panels: tuple[tuple[_Slot, Any], tuple[_Slot, Any]], result: Any, step: int) -> None:
        """Launch the product of two panels, which is added to a tile of C. In step 0 it overwrites the tile."""
        (a_slot, a), (b_slot, b) = panels
        for slot in (a_slot, b_slot):
            self._device.wait(self._products, slot.loaded)
        sums = result if self._sums is None else self._sums
        out = result if step == self._tiling.steps - 1 else sums
        addend = None if step == 0 else self._tile(sums, a.shape[0], b.shape[1])
        self._device.product(a, b, self._tile(out, a.shape[0], b.shape[1]), addend, self._precision, self._products)
        a_slot.used = b_slot.used = self._device.record(self._products)

    def _tile(self, rows: Any, height: int, width: int) -> Any:
        """Return a view of the ``height`` x ``width`` corner of a buffer for a whole tile.

        Tiles at C's edges are smaller than the buffer.
        """
        return rows[:height, :width] if self._layouts[2] == "N" else rows[:width, :height].T

    def _copy_back(self, number: int, result: Any, computed: Any) -> None:
        """Copy a tile to C in host memory, wait for the copy, and record the tile in the journal, if there is one.

        A thread beside the one that launches products calls this.

        Args:
            number: Number of the tile.
            result: Tile on the device.
            computed: Event after which the tile is computed.
        """
        device, part = self._device, self._arrays[2][self._tiling.part_of_c(number)]
        host = self._transposed(2, part)
        rows = result[: host.shape[0], : host.shape[1]]
        device.wait(self._copies_out, computed)
        if self._staging_out is None:
            device.copy_out(host, rows, self._copies_out)
            device.synchronize(device.record(self._copies_out))
        else:
            before: tuple[Any, _HostArray, _HostArray] | None = None
            for block, staged in self._staging_out.blocks(host):
                device.copy_out(staged, rows[block], self._copies_out)
                event = device.record(self._copies_out)
                if before is not None:
                    self._deliver(*before)  # while the next block is copied
                before = event, host[block], staged
            if before is not None:
                self._deliver(*before)
        if self._book is not None:
            self._book.finish(number, part)

    def _deliver(self, copied: Any, host: _HostArray, staged: _HostArray) -> None:
        self._device.synchronize(copied)
        np.copyto(host, staged)
