"""Compiled code that this package keeps on disk. Tuned tables are not among it, nor what CuPy itself compiled."""

from __future__ import annotations

from pathlib import Path

from tiledmm.report.cells import count
from tiledmm.report.tables import Table


def own_caches() -> dict[str, Path]:
    """Folders of compiled code, by what is in them; they need not exist."""
    from tiledmm.compile.disk_cache import kernels_folder
    from tiledmm.simulator.build.built_libraries import cache_path

    return {"simulated kernels": cache_path(), "kernels: text, and cubins for one architecture": kernels_folder()}


def clear_caches() -> Table:
    """Removes all of it, once no process compiles or loads it; a row for each folder says what was removed."""
    from tiledmm.simulator.build.shared_folder import clear

    rows = []
    for name, folder in own_caches().items():
        removed = clear(folder)
        rows.append((name, count(removed.files), count(removed.bytes), str(folder)))
    return Table(
        "Removed from disk",
        ("<cache", "files", "bytes", "<folder"),
        tuple(rows),
        ("Kernels are compiled again when they are next used. CuPy's own files and tuned tables are as they were.",),
    )
