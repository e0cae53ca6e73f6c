"""Standard output that may end early: the reader closes it, as ``| head`` does, or the disk is full."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

# Exit status that a shell reports for a process that SIGPIPE ended; it differs from those of the commands.
_CLOSED_PIPE = 128 + 13


class _Raw(io.RawIOBase):
    """A raw stream that ends the process if a write fails: silently if the reader has gone, else with a message."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return True: the stream can be written."""
        return True

    def write(self, data: Any, /) -> int:
        """Write bytes and return their number.

        Raises:
            SystemExit: If the reader has closed the stream (status 141), or the write fails otherwise (74).
        """
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            discarded = os.open(os.devnull, os.O_WRONLY)
            os.dup2(discarded, self._descriptor)  # buffered output is discarded from now on
            os.close(discarded)
            if isinstance(error, BrokenPipeError):
                raise SystemExit(_CLOSED_PIPE) from None
            print(f"tiledmm: stdout cannot be written: {error.strerror}", file=sys.stderr)
            raise SystemExit(os.EX_IOERR) from None


def guard() -> None:
    """Replace ``sys.stdout`` by a stream that ends the process if a write fails.

    Without a stdout, the new stream discards all output.
    """
    stream = sys.stdout
    if stream is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return
    try:
        raw = _Raw(stream.fileno())
    except (OSError, ValueError):  # the stream has no file descriptor: that of a test or a notebook
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering)
    )


def unguard() -> None:
    """Restore Python's own ``sys.stdout``, for a user's program."""
    if sys.__stdout__ is not None:
        sys.stdout = sys.__stdout__
