"""What needs CuPy or another optional package: all else works without."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from tiledmm.errors import INSTALL, MissingDependencyError


def device_module(name: str) -> Any:
    """A module that needs CuPy, imported when it is first needed."""
    try:
        return importlib.import_module(f"tiledmm.{name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs CuPy, which does not import here ({error}); "
            f"on a machine with an NVIDIA GPU, {INSTALL.format(extra='cuda12')} (or cuda13)"
        ) from error


@contextlib.contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Where a module imports an optional package: a failure names the extra that installs it.

    Raises:
        MissingDependencyError: If the import in the ``with`` block fails.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs {package}, which does not import here ({error}); {INSTALL.format(extra=extra)}"
        ) from error
