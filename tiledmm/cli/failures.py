"""Conversion of errors to a command's message and exit status."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import ParamSpec

import typer

_Arguments = ParamSpec("_Arguments")

# Error numbers of a write to a file that could be opened.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def told(command: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """Wrap a command so that it reports the errors of this package, and of missing things, without a traceback.

    The exit status is 2 if another command line would avoid the error, 74 if the disk is full, and 1 if something else
    is missing or broken.
    """

    @functools.wraps(command)
    def wrapper(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> None:
        try:
            command(*arguments, **options)
        except (typer.Exit, typer.BadParameter):
            raise
        except (ImportError, MemoryError, OSError) as error:
            raise _missing(error) from None
        except Exception as error:
            from tiledmm.errors import TiledmmError

            if not isinstance(error, TiledmmError):
                raise
            if isinstance(error, RuntimeError):  # an error of the device or a kernel, not of the command line
                raise _missing(error) from None
            raise typer.BadParameter(str(error)) from None

    return wrapper


def _missing(error: Exception) -> typer.Exit:
    """Print an error's message, with its class if it is not one of this package, and return the exit to raise."""
    name = "" if type(error).__module__ == "tiledmm.errors" else f"{type(error).__name__}: "
    typer.secho(f"{name}{error}", err=True, fg=typer.colors.RED)
    return typer.Exit(os.EX_IOERR if isinstance(error, OSError) and error.errno in _FULL else 1)
