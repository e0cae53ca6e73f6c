"""Paths of the user's measurements, one file per kind and device."""

from __future__ import annotations

import os
import re
from pathlib import Path


def user_file(kind: str, gpu: str) -> Path:
    """Return the path of a device's measurements, in ``$TILEDMM_CACHE_DIR`` or the system's folder for caches.

    Args:
        kind: Kind of measurements, the name of their folder: ``"rates"`` or ``"tuned"``.
        gpu: Name of the device.
    """
    named = os.environ.get("TILEDMM_CACHE_DIR")
    if named:
        folder = Path(named)
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("tiledmm")
    name = re.sub(r"[^A-Za-z0-9]+", "-", gpu).strip("-").lower()
    return folder / kind / f"{name}.json"
