"""CUDA C that users pass as a string or as the path of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tiledmm.errors import ConfigError, OperandTypeError


def is_path(source: str) -> bool:
    """Return whether a string is the path of a file, and no CUDA C: one line without braces, semicolons and ``#``."""
    line = source.strip()
    return bool(line) and "\n" not in line and not set("{};#") & set(line)


def read_source(source: Any) -> tuple[str, Path | None]:
    """Return CUDA C, and the path of its file; None for a string that is CUDA C itself.

    Args:
        source: CUDA C, or the path of a file with it.

    Raises:
        OperandTypeError: If ``source`` is neither a string nor a path.
        ConfigError: If the file cannot be read.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise OperandTypeError(f"source is CUDA C, or the path of a file with it; got {type(source).__name__}")
    if isinstance(source, str) and not is_path(source):
        return source, None
    path = Path(source.strip() if isinstance(source, str) else source)
    try:
        return path.read_text(encoding="utf-8"), path
    except FileNotFoundError:
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise ConfigError(
            f"there is no file {str(path)!r}{where}: pass the path of a file with CUDA C, or the CUDA C itself"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{str(path)!r} is not text in UTF-8: pass the path of a file with CUDA C") from None
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
