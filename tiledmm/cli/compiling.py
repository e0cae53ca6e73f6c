"""Compilation of kernels for several targets, with a progress bar."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tiledmm.cli.output import progress

if TYPE_CHECKING:
    from tiledmm.bench.kernel_resources import Compiled
    from tiledmm.kernels.spec import KernelSpec


def compiled(
    specs: list[KernelSpec], targets: Collection[str], tell: Callable[[str, int, int], None] | None = None
) -> list[Compiled]:
    """Compile each kernel for each target that it can run on.

    Args:
        specs: The kernels.
        targets: Names of targets.
        tell: Progress to report to; None for a progress bar of this function.

    Raises:
        MissingDependencyError: If NVRTC is not installed.
    """
    from tiledmm.bench.kernel_resources import compile_all

    if tell is None:
        with progress() as bar:
            return compiled(specs, targets, bar)
    total = len(specs) * len(targets)
    finished = itertools.count(1)
    return compile_all(specs, targets, done=lambda: tell(f"compiling {total} kernels", next(finished), total))
