"""Errors as a command tells them: a sentence, and an exit status that says whose they are."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import ParamSpec

import typer

_Arguments = ParamSpec("_Arguments")

# Errors of a file that was opened and then cannot be written.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def told(command: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """A command whose errors are told in a sentence.

    The exit status is 2 where another command line would do, 74 where the disk is full, and 1 where something else is
    missing or broken.
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
            if isinstance(error, RuntimeError):  # the device's fault, or a kernel's
                raise _missing(error) from None
            raise typer.BadParameter(str(error)) from None

    return wrapper


def _missing(error: Exception) -> typer.Exit:
    """Says what an error says, and Python's name for it where the message alone may not be clear."""
    name = "" if type(error).__module__ == "tiledmm.errors" else f"{type(error).__name__}: "
    typer.secho(f"{name}{error}", err=True, fg=typer.colors.RED)
    return typer.Exit(os.EX_IOERR if isinstance(error, OSError) and error.errno in _FULL else 1)
