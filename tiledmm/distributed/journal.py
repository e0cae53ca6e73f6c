"""The journal of a product in a file: which tiles of C are finished, so that an interrupted product can go on.

A file of JSON lines: a header that says which product it is and how it is tiled, then a line for each tile that is on
the disk, with a hash of samples of it. A line is written after the tile, so a tile without a line is computed again.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, KeywordTypeError, KeywordValueError
from tiledmm.problem.strides import Span

# Blocks of a matrix that are hashed, in each direction, and their size across and along contiguous elements.
_SAMPLES, _ACROSS, _ALONG = 8, 4, 256

# What the header says of the file itself.
_FORMAT = "tiledmm out_of_core 1"


class Journal:
    """The journal of one product.

    Attributes:
        tiling: Its tiling as it stands in the file, which says how bits come about; None if nothing was done so far.
        finished: A hash of samples of each tile that is on the disk.
    """

    def __init__(self, path: str | os.PathLike[str], out: np.ndarray[Any, Any], product: Mapping[str, Any]) -> None:
        """Reads the file, if there is one.

        Args:
            path: Where it is.
            out: C, a memmap that is written to its file.
            product: What else a result depends on, by names that messages give; all of JSON's types.

        Raises:
            KeywordError: If ``out`` is in no file.
            ConfigError: If the file is the journal of another product, or none.
        """
        self.path, self._out, self._file = Path(path), out, check_out(out)
        self._header = {"format": _FORMAT, **product, "out": _place(out, self._file)}
        self.tiling: dict[str, Any] | None = None
        self.finished: dict[int, str] = {}
        self._end = 0
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        """Raises ConfigError if the file is no journal of this product."""
        # What stands behind the last end of a line was being written when the program ended: its tile is repeated.
        lines = self.path.read_bytes().split(b"\n")[:-1]
        try:
            header, *tiles = map(json.loads, lines)
            tiling, found = header.pop("tiling"), header.pop("format")
            self.finished = {int(each["tile"]): str(each["hash"]) for each in tiles}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"journal {self.path} is no journal of this package; delete it, or name another"
            ) from None
        wanted = {name: value for name, value in self._header.items() if name != "format"}
        names = [name for name in {**header, **wanted} if header.get(name) != wanted.get(name)]
        if found != _FORMAT:
            names = ["format", *names]
        if names:
            differs = "; ".join(f"{name}: {_shown(header.get(name))}, now {_shown(wanted.get(name))}" for name in names)
            raise ConfigError(
                f"journal {self.path} belongs to another product ({differs}); delete it to begin again, or name another"
            )
        self.tiling, self._end = tiling, sum(len(line) + 1 for line in lines)

    def check(self, tile: int, part: np.ndarray[Any, Any]) -> None:
        """Raises ConfigError if a finished tile is not what it was, as where ``mode="w+"`` has emptied the file."""
        if fingerprint(part) != self.finished[tile]:
            raise ConfigError(
                f"journal {self.path} says that tile {tile} is finished, but {self._file} has other elements there: it "
                f"was changed or emptied since (mode='w+' does that, 'r+' does not); delete the journal to begin again"
            )

    def begin(self, tiling: Mapping[str, Any]) -> None:
        """Opens the file for more lines; a new one gets its header, whole or not at all."""
        if self.tiling is None:
            own = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            with open(own, "wb") as file:
                _write(file, {**self._header, "tiling": dict(tiling)})
                self._end = file.tell()
            os.replace(own, self.path)
            self.tiling = dict(tiling)
        self._lines = open(self.path, "r+b")  # noqa: SIM115  closed by close()
        self._lines.truncate(self._end)
        self._lines.seek(self._end)

    def finish(self, tile: int, part: np.ndarray[Any, Any]) -> None:
        """Writes a tile to the disk, then its line."""
        _root(self._out).base.flush()
        with open(self._file, "r+b") as file:
            os.fsync(file.fileno())
        self.finished[tile] = fingerprint(part)
        _write(self._lines, {"tile": tile, "hash": self.finished[tile]})

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


def fingerprint(x: np.ndarray[Any, Any]) -> str:
    """A hash of a matrix's type, shape, strides and 64 blocks of 1024 elements, evenly spread, corners included.

    It tells matrices of other sizes or other data apart. It does not notice a change that no sampled block has.
    """
    rows = x if abs(x.strides[0]) >= abs(x.strides[1]) else x.T
    found = hashlib.blake2b(repr((x.dtype.str, x.shape, x.strides)).encode(), digest_size=16)
    for i in _begins(rows.shape[0], _ACROSS):
        for j in _begins(rows.shape[1], _ALONG):
            found.update(np.ascontiguousarray(rows[i : i + _ACROSS, j : j + _ALONG]).tobytes())
    return found.hexdigest()


def _begins(size: int, block: int) -> list[int]:
    """Where blocks begin, the last one at the end."""
    last = max(size - block, 0)
    return sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)})


def same_file(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are memmaps of one file, and the ranges that they span in it overlap."""
    if not (isinstance(x, np.memmap) and isinstance(y, np.memmap) and x.filename and y.filename):
        return False
    if Path(x.filename).resolve() != Path(y.filename).resolve():
        return False
    (begin, end), (other_begin, other_end) = _range(x), _range(y)
    return begin < other_end and other_begin < end


def _range(x: np.memmap[Any, Any]) -> tuple[int, int]:
    """Where the elements of a memmap begin in its file, and where they end."""
    first, span = _root(x), Span.of(x.shape, x.strides, x.itemsize)
    begin = int(first.offset) + x.ctypes.data - first.ctypes.data
    return begin + span.start, begin + span.stop


def _root(x: np.ndarray[Any, Any]) -> Any:
    """The memmap that an array is a view of: the one whose base is the mapping itself."""
    while not isinstance(x.base, mmap.mmap):
        x = x.base  # type: ignore[assignment]
    return x


def check_out(out: np.ndarray[Any, Any]) -> Path:
    """The file that C is written to.

    Raises:
        KeywordError: If it is in none.
    """
    if not isinstance(out, np.memmap) or out.filename is None:
        raise KeywordTypeError(
            f"journal= needs an out that outlives the program: a numpy.memmap of a file; got {type(out).__name__}"
        )
    if out.mode not in ("r+", "w+"):
        raise KeywordValueError(
            f"journal= needs an out that is written to its file, of mode 'r+'; its mode is {out.mode!r}"
        )
    return Path(out.filename).resolve()


def _place(out: np.ndarray[Any, Any], file: Path) -> dict[str, Any]:
    """Where C is: in JSON's types, so that it is equal to what is read."""
    begin, _ = _range(out)  # type: ignore[arg-type]
    return {"file": str(file), "begin": begin, "strides": list(out.strides), "shape": list(out.shape)}


def _write(file: Any, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
