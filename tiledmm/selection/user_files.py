"""Where a user's measurements are: a file a device."""

from __future__ import annotations

import os
import re
from pathlib import Path


def user_file(kind: str, gpu: str) -> Path:
    """The file of a kind of measurements of a device, in ``$TILEDMM_CACHE_DIR`` or the system's folder for caches."""
    named = os.environ.get("TILEDMM_CACHE_DIR")
    if named:
        folder = Path(named)
    else:
        import platformdirs

        folder = platformdirs.user_cache_path("tiledmm")
    name = re.sub(r"[^A-Za-z0-9]+", "-", gpu).strip("-").lower()
    return folder / kind / f"{name}.json"
