"""Kernels on the CPU that use plain addresses as on a device, without checks or counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledmm.codegen.rendering import render
from tiledmm.hardware.architectures import TARGETS
from tiledmm.kernels.plain import PlainKernel
from tiledmm.kernels.spec import KernelSpec
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.execute.grid import run_grid


def execute(spec: KernelSpec, blocks: int, arguments: Sequence[Any]) -> None:
    """Run blocks of a kernel; ``arguments`` are ctypes objects, or NumPy arrays that hold one each."""
    _run(render(spec), spec.symbol, (blocks, 1, 1), (*spec.block, 1), arguments)


def execute_plain(plain: PlainKernel, grid: tuple[int, int, int], arguments: Sequence[Any]) -> None:
    """Run a plain kernel; ``arguments`` are NumPy arrays that hold one each."""
    _run(plain.text, plain.name, grid, plain.block, arguments)


def _run(
    text: str, name: str, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: Sequence[Any]
) -> None:
    path = toolchain.build_kernel(text, name, target=TARGETS["sm_90"], build="bare")
    run_grid(
        Library.load(path),
        grid=grid, block=block, arguments=arguments, operands=(), shared=(), checks=False, counts=False,
    )  # fmt: skip
