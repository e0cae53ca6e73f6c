"""Kernels on the CPU that use plain addresses as on a device, without checks or counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledmm.codegen.rendering import render
from tiledmm.kernels.spec import KernelSpec
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.execute.grid import run_grid


def execute(spec: KernelSpec, blocks: int, arguments: Sequence[Any]) -> None:
    """Run blocks of a kernel; ``arguments`` are ctypes objects, or NumPy arrays that hold one each."""
    path = toolchain.build_kernel(render(spec), spec.symbol, arch=900, build="bare")
    run_grid(
        Library.load(path),
        grid=(blocks, 1, 1), block=(*spec.block, 1), arguments=arguments,
        operands=(), shared=(), checks=False, counts=False,
    )  # fmt: skip
