"""What needs CuPy, imported when it is first needed: all else works without."""

from __future__ import annotations

import importlib
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
