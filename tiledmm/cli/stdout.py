"""Standard output that may end early: closed by its reader, as by ``| head``, or on a full disk."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

# As a shell reports a process that SIGPIPE ended: neither success nor a wrong kernel.
_CLOSED_PIPE = 128 + 13


class _Raw(io.RawIOBase):
    """Ends the process where nothing can be written: silently if nobody reads, or else in one line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The file descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any, /) -> int:
        """Writes bytes, or ends the process."""
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            discarded = os.open(os.devnull, os.O_WRONLY)
            os.dup2(discarded, self._descriptor)  # what is still buffered ends there
            os.close(discarded)
            if isinstance(error, BrokenPipeError):
                raise SystemExit(_CLOSED_PIPE) from None
            print(f"tiledmm: stdout cannot be written: {error.strerror}", file=sys.stderr)
            raise SystemExit(os.EX_IOERR) from None


def guard() -> None:
    """Puts a guarded stream in place of ``sys.stdout``; one that discards, where there is none."""
    stream = sys.stdout
    if stream is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return
    try:
        raw = _Raw(stream.fileno())
    except (OSError, ValueError):  # no file: a test's, or a notebook's
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering)
    )


def unguard() -> None:
    """Python's own stream again, for a program of the user's."""
    if sys.__stdout__ is not None:
        sys.stdout = sys.__stdout__
