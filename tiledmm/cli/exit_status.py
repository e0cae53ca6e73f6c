"""Ends of a command: the message and exit status after an error, and a stdout that cannot be written.

Readers may close stdout early, as ``| head`` does, and a disk may be full.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

# Error numbers of a write to a file that could be opened.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# Exit status that a shell reports for a process that SIGPIPE ended; it differs from those of the commands.
_CLOSED_PIPE = 128 + 13


def report_errors(command: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return a function that runs a command, or parses its options, and reports expected errors without a traceback.

    These are the errors of this package, missing modules, a lack of memory, and errors of files. The exit status is 2
    if another command line would avoid the error, 74 if the disk is full, and otherwise 1.
    """

    @functools.wraps(command)
    def wrapper(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        try:
            return command(*arguments, **options)
        except (typer.Exit, typer.BadParameter):
            raise
        except (ImportError, MemoryError, OSError) as error:
            raise _exit_after(error) from None
        except Exception as error:
            from tiledmm.errors import TiledmmError

            if not isinstance(error, TiledmmError):
                raise
            if isinstance(error, RuntimeError):  # an error of the device or a kernel, not of the command line
                raise _exit_after(error) from None
            raise typer.BadParameter(str(error)) from None

    return wrapper


def _exit_after(error: Exception) -> typer.Exit:
    """Print an error's message to stderr, and return the ``typer.Exit`` that ends the command.

    The message begins with the name of the error's class if it is not a class of this package. The exit status is 74 if
    the disk is full, else 1.
    """
    name = "" if type(error).__module__ == "tiledmm.errors" else f"{type(error).__name__}: "
    typer.secho(f"{name}{error}", err=True, fg=typer.colors.RED)
    return typer.Exit(os.EX_IOERR if isinstance(error, OSError) and error.errno in _FULL else 1)


class _Raw(io.RawIOBase):
    """A raw stream that ends the process if a write fails.

    The process ends silently if the reader has closed the stream, else with a message on stderr.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the file descriptor of the stream."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return True, because the stream can be written."""
        return True

    def write(self, data: Any, /) -> int:
        """Write bytes, and return the number of bytes that were written.

        Raises:
            SystemExit: If the reader has closed the stream (exit status 141), or the write fails otherwise (74).
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


def guard_stdout() -> None:
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


def restore_stdout() -> None:
    """Undo ``guard_stdout``: make Python's own stdout ``sys.stdout`` again, for a user's program."""
    if sys.__stdout__ is not None:
        sys.stdout = sys.__stdout__
