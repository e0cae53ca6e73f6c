"""Findings about what a GPU would not compile or launch: limits of blocks, memory, parameters and cooperative grids."""

from __future__ import annotations

from tiledmm.hardware.data_sheets import find_gpu
from tiledmm.hardware.occupancy import occupancy
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.parameters import OTHER
from tiledmm.simulator.build.translation.syntax import kernels_in, short_name, variables_in
from tiledmm.simulator.check.finding_kinds import (
    LAUNCH_BOUNDS,
    TOO_MANY_BLOCKS,
    TOO_MANY_CONSTANTS,
    TOO_MANY_PARAMETERS,
    TOO_MUCH_SHARED,
)
from tiledmm.simulator.check.findings import Finding
from tiledmm.simulator.check.kernel_findings import KernelFindings

#: Bytes of constant memory of a module, and of parameters of a kernel from compute capability 7.0 and CUDA 12.1 on.
_CONSTANT_BYTES = 64 * 1024
_PARAMETER_BYTES = 32_764


def beyond_limits(
    kernel: NativeKernel, findings: KernelFindings, block: tuple[int, int, int], shared_bytes: int
) -> list[Finding]:
    """Return findings about what a GPU would not compile or launch, with the lines of the declarations.

    These are blocks beyond the launch bounds, and shared memory, constants and parameters beyond the limits of the
    target architecture.

    Args:
        kernel: The kernel.
        findings: Factory of findings about it.
        block: Number of threads per block along x, y and z.
        shared_bytes: Dynamic shared memory per block, in bytes.
    """
    found = []
    threads, most = block[0] * block[1] * block[2], kernel.native.functions.tiledmm_max_threads()
    if most and threads > most:
        said = f"a block has {threads} threads, but the kernel's __launch_bounds__ allows {most}"
        found.append(findings.of_declaration(LAUNCH_BOUNDS, said, r"__launch_bounds__"))
    size, largest = _static_shared(kernel)
    if size > (limit := kernel.target.static_shared_bytes):
        said = f"{size:,} bytes of static shared memory, but a block has {limit:,}; dynamic shared memory may be larger"
        found.append(findings.of_declaration(TOO_MUCH_SHARED, said, rf"__shared__[^;]*\b{largest}\b"))
    elif size + shared_bytes > (most := kernel.target.max_shared_bytes):
        said = f"{size:,} bytes of static and {shared_bytes:,} of dynamic shared memory, but a block has {most:,}"
        found.append(findings.of_declaration(TOO_MUCH_SHARED, said, r"__shared__"))
    return found + _beyond_constants(kernel, findings)


def too_many_blocks(
    kernel: NativeKernel,
    findings: KernelFindings,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
) -> Finding | None:
    """Return a finding about a cooperative launch of more blocks than are resident at a time; None if all are.

    The numbers are those of the target's reference GPU. A kernel's registers are not known here, so a GPU may hold
    fewer blocks.

    Args:
        kernel: The kernel.
        findings: Factory of findings about it.
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        shared_bytes: Dynamic shared memory per block, in bytes.
    """
    target = kernel.target
    gpu = find_gpu(f"sm_{target.capability[0]}{target.capability[1]}")
    threads, size = block[0] * block[1] * block[2], _static_shared(kernel)[0] + shared_bytes
    of_one = occupancy(target, threads, 0, size)
    blocks, most = grid[0] * grid[1] * grid[2], of_one.blocks * gpu.sms
    if blocks <= most:
        return None
    said = (
        f"{blocks:,} blocks wait for each other, but only {most:,} fit on a GPU at a time ({gpu.name}: {gpu.sms} SMs "
        f"with {of_one.blocks} blocks of {threads} threads each, limited by {of_one.limited_by}; registers may allow "
        "fewer)"
    )
    return findings.of_declaration(TOO_MANY_BLOCKS, said, rf"\b{short_name(kernel.name)}\s*\(")


def _static_shared(kernel: NativeKernel) -> tuple[int, str]:
    """Return a kernel's static shared memory per block in bytes, and the name of its largest array."""
    # An array of another kernel of the text has that kernel's name in its own.
    own = short_name(kernel.title)
    others = [f"{len(name)}{name}" for name in kernels_in(kernel.text) if name != own]
    arrays = [
        each
        for each in kernel.debug.shared_arrays()
        if not each.dynamic and not any(name in each.symbol for name in others)
    ]
    largest = max(arrays, key=lambda each: each.bytes).name if arrays else ""
    return sum(each.bytes for each in arrays), largest


def _beyond_constants(kernel: NativeKernel, findings: KernelFindings) -> list[Finding]:
    """Return findings about constants and parameters of more bytes than ptxas allows, whichever the target."""
    found = []
    names = variables_in(kernel.text, "__constant__")
    constants = [each for each in kernel.variables if each.name in names]
    if (size := sum(each.bytes for each in constants)) > _CONSTANT_BYTES:
        largest = max(constants, key=lambda each: each.bytes).name
        said = f"{size:,} bytes of constant memory, but a module has {_CONSTANT_BYTES:,}: use global memory"
        found.append(findings.of_declaration(TOO_MANY_CONSTANTS, said, rf"__constant__[^;]*\b{largest}\b"))
    size = 0
    for each in kernel.parameters:
        alignment = each.bytes if each.kind != OTHER else 1
        size = -(-size // alignment) * alignment + each.bytes
    if size > _PARAMETER_BYTES:
        said = f"{size:,} bytes of parameters, but a kernel has {_PARAMETER_BYTES:,}: pass an array"
        found.append(findings.of_declaration(TOO_MANY_PARAMETERS, said, rf"\b{short_name(kernel.name)}\s*\("))
    return found
