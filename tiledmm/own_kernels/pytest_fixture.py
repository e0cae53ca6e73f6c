"""The pytest fixture ``cuda_check``: a test of a ``.cu`` file. pytest loads this module where tiledmm is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tiledmm.own_kernels.check_report import CheckReport


@pytest.fixture
def cuda_check(request: pytest.FixtureRequest) -> Callable[..., CheckReport]:
    """Check kernels as ``tiledmm.check`` does, and fail with its report if something is wrong.

    Paths are relative to the test's file:

        def test_my_kernel(cuda_check):
            cuda_check("kernels/mine.cu", "mm<16>", size=(64, 48, 37))
    """

    def run(source: str | Path, kernel: str | None = None, **options: Any) -> CheckReport:
        from tiledmm.own_kernels.api import check

        beside = request.path.parent / source if len(str(source)) < 1000 and "\n" not in str(source) else None
        report = check(beside if beside is not None and beside.is_file() else source, kernel, **options)
        if not report.ok:
            pytest.fail(f"{report.file}:\n{report}", pytrace=False)
        return report

    return run
