"""The journal of a product: a file that lists the finished tiles of C, so that an interrupted product can be resumed.

The file has JSON lines: a header with the product and its tiling, then one line per tile that is on the disk, with a
hash of samples of it. The line of a tile is written after the tile, so a tile without a line is computed again.
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

# Number of blocks of a matrix that are hashed in each direction, and their size across and along contiguous elements.
_SAMPLES, _ACROSS, _ALONG = 8, 4, 256

# Format of the file, as its header states it.
_FORMAT = "tiledmm out_of_core 1"


class Journal:
    """The file that describes one product and lists its finished tiles.

    Attributes:
        tiling: The product's tiling in the file; None if the file is new. With another tiling, results are rounded
            differently.
        finished: Hash of samples of each tile that is on the disk, by the tile's number.
    """

    def __init__(self, path: str | os.PathLike[str], out: np.ndarray[Any, Any], product: Mapping[str, Any]) -> None:
        """Create the journal of a product, and read its file if that exists.

        Args:
            path: Path of the file.
            out: C, a memmap that is written to its file.
            product: Everything else on which the result depends, such as the precision, by the names that messages use.
                Values have JSON types.

        Raises:
            KeywordError: If ``out`` is not in a file.
            ConfigError: If the file is the journal of another product, or not a journal.
        """
        self.path, self._out, self._file = Path(path), out, check_out(out)
        self._header = {"format": _FORMAT, **product, "out": _place(out, self._file)}
        self.tiling: dict[str, Any] | None = None
        self.finished: dict[int, str] = {}
        self._end = 0
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        """Read the tiling and the finished tiles from the file.

        Raises:
            ConfigError: If the file is the journal of another product, or not a journal.
        """
        # Text after the last newline was being written when the program ended: its tile is computed again.
        lines = self.path.read_bytes().split(b"\n")[:-1]
        try:
            header, *tiles = map(json.loads, lines)
            tiling, found = header.pop("tiling"), header.pop("format")
            self.finished = {int(each["tile"]): str(each["hash"]) for each in tiles}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"{self.path} is not a journal of this package; delete it, or pass another path as journal="
            ) from None
        wanted = {name: value for name, value in self._header.items() if name != "format"}
        names = [name for name in {**header, **wanted} if header.get(name) != wanted.get(name)]
        if found != _FORMAT:
            names = ["format", *names]
        if names:
            differs = "; ".join(f"{name}: {_shown(header.get(name))}, now {_shown(wanted.get(name))}" for name in names)
            raise ConfigError(
                f"journal {self.path} belongs to another product ({differs}); delete it to begin again, or pass another"
            )
        self.tiling, self._end = tiling, sum(len(line) + 1 for line in lines)

    def check(self, tile: int, part: np.ndarray[Any, Any]) -> None:
        """Raise ConfigError if a finished tile of C has changed since, for example because C's file was emptied.

        Args:
            tile: Number of the tile.
            part: Elements of C that the tile covers.
        """
        if fingerprint(part) != self.finished[tile]:
            raise ConfigError(
                f"journal {self.path} lists tile {tile} as finished, but {self._file} has other elements there: it was "
                f"changed or emptied since (mode='w+' empties a file, 'r+' does not); delete the journal to begin again"
            )

    def begin(self, tiling: Mapping[str, Any]) -> None:
        """Open the file, so that lines can be appended. If it does not exist, write it first, with its header.

        The header is written to another file, which is then renamed, so that a journal never has a partial header.

        Args:
            tiling: Fields of the product's tiling, which a new header states.
        """
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
        """Flush C to the disk, then record in the journal that a tile is finished.

        Args:
            tile: Number of the tile.
            part: Elements of C that the tile covers.
        """
        _root(self._out).base.flush()
        with open(self._file, "r+b") as file:
            os.fsync(file.fileno())
        self.finished[tile] = fingerprint(part)
        _write(self._lines, {"tile": tile, "hash": self.finished[tile]})

    def close(self) -> None:
        """Close the file, which stays on disk so that a later call can resume."""
        self._lines.close()


def fingerprint(x: np.ndarray[Any, Any]) -> str:
    """Return a hash of a matrix's type, shape, strides and samples of its elements.

    The samples are 64 blocks of up to 1024 elements, evenly spread, among them the corners. A change of other elements
    does not change the hash.
    """
    rows = x if abs(x.strides[0]) >= abs(x.strides[1]) else x.T
    found = hashlib.blake2b(repr((x.dtype.str, x.shape, x.strides)).encode(), digest_size=16)
    for i in _begins(rows.shape[0], _ACROSS):
        for j in _begins(rows.shape[1], _ALONG):
            found.update(np.ascontiguousarray(rows[i : i + _ACROSS, j : j + _ALONG]).tobytes())
    return found.hexdigest()


def _begins(size: int, block: int) -> list[int]:
    """Return the indices at which the sampled blocks of an axis begin. The last block ends where the axis ends.

    Args:
        size: Size of the axis.
        block: Size of a block.
    """
    last = max(size - block, 0)
    return sorted({last * i // (_SAMPLES - 1) for i in range(_SAMPLES)})


def same_file(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays are memmaps of one file and span overlapping ranges of it."""
    if not (isinstance(x, np.memmap) and isinstance(y, np.memmap) and x.filename and y.filename):
        return False
    if Path(x.filename).resolve() != Path(y.filename).resolve():
        return False
    (begin, end), (other_begin, other_end) = _range(x), _range(y)
    return begin < other_end and other_begin < end


def _range(x: np.memmap[Any, Any]) -> tuple[int, int]:
    """Return the offsets in bytes in a memmap's file at which its elements begin and end."""
    first, span = _root(x), Span.of(x.shape, x.strides, x.itemsize)
    begin = int(first.offset) + x.ctypes.data - first.ctypes.data
    return begin + span.start, begin + span.stop


def _root(x: np.ndarray[Any, Any]) -> Any:
    """Return the memmap that opened the file of which an array is a view. Its base is the mapping itself."""
    while not isinstance(x.base, mmap.mmap):
        x = x.base  # type: ignore[assignment]
    return x


def check_out(out: np.ndarray[Any, Any]) -> Path:
    """Return the path of the file to which the result ``out`` of a product is written.

    Raises:
        KeywordError: If ``out`` is not a memmap that is written to its file.
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
    """Return C's file, and offset, strides and shape of C in it, in JSON types, so that they can be compared later."""
    begin, _ = _range(out)  # type: ignore[arg-type]
    return {"file": str(file), "begin": begin, "strides": list(out.strides), "shape": list(out.shape)}


def _write(file: Any, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)
