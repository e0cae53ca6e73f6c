"""Command ``tiledmm doctor``: checks this machine's installation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli.output import Csv, Json, Markdown, Output, progress

if TYPE_CHECKING:
    from tiledmm.cli.checks import Check
    from tiledmm.report.tables import Table


def doctor(
    clear_caches: Annotated[
        bool,
        typer.Option("--clear-caches", help="Remove this package's compiled kernels from disk instead of checking."),
    ] = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Check what works on this machine, and say what to do about the rest.

    It runs a small product on the GPU and on the simulator. The exit status is 0 if at least one of the results is
    right, otherwise 1. Everything else is optional.

        tiledmm doctor
        tiledmm doctor --markdown    (for a bug report)
        tiledmm doctor --clear-caches
    """
    from tiledmm.cli import checks
    from tiledmm.report.cells import Figure
    from tiledmm.report.tables import Table

    out = Output(json=json, csv=csv, markdown=markdown)
    if clear_caches:
        out.table(_cleared())
        out.end(ok=True)
    jobs = list(checks.jobs())
    found = []
    with progress() as tell:
        for i, job in enumerate(jobs):
            tell(f"looking at {job[1]}", i, len(jobs))
            found.append(checks.carry_out(*job))
    purposes = [each.purpose for each in found]
    out.table(
        Table(
            "What works here",
            ("<for", "<what", "<state", "<found", *(["<what to do"] if out.for_programs else [])),
            tuple(
                (
                    Figure("" if purposes[:i][-1:] == [each.purpose] else each.purpose, each.purpose),
                    each.name,
                    each.state,
                    each.found,
                    *([Figure(each.advice, each.advice or None)] if out.for_programs else []),
                )
                for i, each in enumerate(found)
            ),
            bad=frozenset(i for i, each in enumerate(found) if each.state == checks.BROKEN),
        )
    )
    for line in _advice(found):
        out.say(line)
    works = {each.name for each in found if each.state == checks.WORKS}
    where = [name for name, check in (("the GPU", checks.ON_GPU), ("the simulator", checks.ON_CPU)) if check in works]
    no_gpu = any((each.name, each.state) == (checks.ON_GPU, checks.UNKNOWN) for each in found)
    if where:
        out.say(f"Ready: kernels run on {' and '.join(where)}{' (no GPU)' if no_gpu else ''}.")
    else:
        out.say("Not ready: kernels run neither on a GPU nor on the simulator.")
    out.end(ok=bool(where))


def _advice(found: list[Check]) -> Iterator[str]:
    """Yield lines that advise what to install or set, with one line for all checks with the same advice.

    Args:
        found: Results of all checks.
    """
    helps: dict[str, list[str]] = {}
    for each in found:
        if each.advice and not each.advice.startswith("see "):
            helps.setdefault(each.advice, []).append(each.name)
    if helps:
        yield "How to get what you need:"
        yield from (f"  {', '.join(names)}: {advice}" for advice, names in helps.items())
        yield ""


def _cleared() -> Table:
    """Remove this package's compiled code from disk and return a table of what was removed, with one row per folder.

    It waits until no process compiles or loads such code. Tuned tables and CuPy's own files are left.
    """
    from tiledmm.report.cells import count
    from tiledmm.report.tables import Table
    from tiledmm.simulator.build.shared_folder import clear

    rows = []
    for name, folder in _own_caches().items():
        removed = clear(folder)
        rows.append((name, count(removed.files), count(removed.bytes), str(folder)))
    return Table(
        "Removed from disk",
        ("<cache", "files", "bytes", "<folder"),
        tuple(rows),
        ("Kernels are compiled again when they are used next. Tuned tables and CuPy's own files were kept.",),
    )


def _own_caches() -> dict[str, Path]:
    """Return the folders of this package's compiled code, by a description of their contents. They need not exist."""
    from tiledmm.compile.disk_cache import kernels_folder
    from tiledmm.simulator.build.built_libraries import cache_path

    return {"simulated kernels": cache_path(), "CUDA C, and cubins for a single architecture": kernels_folder()}
