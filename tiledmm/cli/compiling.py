"""Kernels compiled for several targets, with a progress bar."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING

from tiledmm.cli.output import progress

if TYPE_CHECKING:
    from tiledmm.bench.kernel_resources import Compiled
    from tiledmm.codegen.specialization import Specialization


def compiled(specs: list[Specialization], targets: Collection[str]) -> list[Compiled]:
    """Each kernel on each target that it runs on.

    Raises:
        MissingDependencyError: If there is no compiler.
    """
    from tiledmm.bench.kernel_resources import compile_all

    total = len(specs) * len(targets)
    finished = itertools.count(1)
    with progress() as tell:
        return compile_all(specs, targets, done=lambda: tell(f"compiling {total} kernels", next(finished), total))
