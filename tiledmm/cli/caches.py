"""Caches of this package's compiled code on disk, without tuned tables and CuPy's own files."""

from __future__ import annotations

from pathlib import Path

from tiledmm.report.cells import count
from tiledmm.report.tables import Table


def own_caches() -> dict[str, Path]:
    """Return the folders of compiled code, by a description of their contents; they need not exist."""
    from tiledmm.compile.disk_cache import kernels_folder
    from tiledmm.simulator.compiler.built_libraries import cache_path

    return {"simulated kernels": cache_path(), "kernels: text, and cubins for one architecture": kernels_folder()}


def clear_caches() -> Table:
    """Remove all compiled code and return a table of what was removed, with one row per folder.

    It waits until no process compiles or loads such code.
    """
    from tiledmm.compile.disk_cache import clear

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
