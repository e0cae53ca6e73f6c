"""The function ``tiledmm.check``: from a file of CUDA C to a report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiledmm.errors import CompilationError, ConfigError
from tiledmm.hardware.architectures import find_target
from tiledmm.own_kernels.argument_text import Said, joined
from tiledmm.own_kernels.check_report import CheckReport, KernelReport
from tiledmm.own_kernels.chosen_kernel import chosen_kernels, read_program
from tiledmm.own_kernels.expectation import Function
from tiledmm.own_kernels.kernel_check import check_kernel
from tiledmm.own_kernels.subject import Subject
from tiledmm.simulator.build.program.program import Program
from tiledmm.simulator.execute.settings import Settings

#: Seconds after which a launch is ended with a finding.
TIMEOUT = 8.0


def check(
    source: str | Path,
    kernel: str | None = None,
    *,
    grid: str | int | Sequence[int] = "",
    block: str | int | Sequence[int] = "",
    shared: str | int = "",
    args: str = "",
    size: str | int | Sequence[int] = "",
    expect: str | Any = "",
    define: Mapping[str, str | int] | Sequence[str] = (),
    include: Sequence[str | Path] = (),
    target: str = "sm_90",
    checks: bool | str = "full",
) -> CheckReport:
    """Check the kernels of a ``.cu`` file on the CPU: whether they are right, where they are wrong, and what they cost.

    The file may contain ``main``, host code and includes. Launch and arguments are read from its host code, from a
    comment such as ``// tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16``, and from the names and types of the parameters
    of a matmul-like kernel; arguments of this function override all of these. The result of a matmul-like kernel is
    compared with the product of its operands, at sizes that its tile divides and at sizes that it does not, in all
    layouts of A, B and C.

    The simulator runs the kernel as native code of this machine, and ``expect="FILE.py:function"`` runs Python: check
    only files that you would run.

    Args:
        source: Path of the file, or CUDA C.
        kernel: Name of the kernel, with its template arguments; None for all kernels that the file defines.
        grid, block: Number of blocks, and of threads per block: numbers, or expressions of M, N and K as in C,
            separated by commas: ``"(N+15)/16,(M+15)/16"``.
        shared: Dynamic shared memory per block, in bytes.
        args: All arguments of the kernel, in order: ``"A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K"``.
        size: M, N and K, or one number for all three.
        expect: ``"matmul"``, a function, or ``"FILE.py:function"``. The function is called with the arguments as they
            are before the launch. It returns the array that the kernel should write, or a dict that maps names of
            parameters to arrays.
        define: Macros: ``{"N": 64}`` or ``["N=64"]``. They replace definitions in the file.
        include: Folders of headers.
        target: The target architecture.
        checks: ``"full"``, or True for fewer checks in less time.

    Returns:
        The report. ``report.ok`` tells whether all kernels are right, ``print(report)`` shows the report, and
        ``report.json()`` returns it as JSON. A notebook displays the report without ``print``.

    Raises:
        ConfigError: If launch or arguments are unknown; the message says what to add.
        CompilationError: If a kernel does not compile.
        MissingDependencyError: If there is no C++ compiler.

    Example:
        >>> text = '''
        ... __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
        ...     int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
        ...     if (row < M && col < N) {
        ...         float sum = 0;
        ...         for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        ...         C[row * N + col] = sum;
        ...     }
        ... }'''
        >>> check(text).ok
        True
    """
    begin = time.perf_counter()
    said = Said(
        joined(grid), joined(block), joined(shared), args, joined(size), expect if isinstance(expect, str) else ""
    )
    function = Function(expect, getattr(expect, "__name__", "expect")) if callable(expect) else None
    program = read_program(source, define, include, target)
    reports = check_each(subjects_of(program, kernel, said, target, checks, function), kernel)
    if not any(each.trials for each in reports):
        raise ConfigError(f"{program.file}: no kernel could be checked: " + "; ".join(each.missing for each in reports))
    return CheckReport(program.file, find_target(target).name, tuple(reports), time.perf_counter() - begin)


def subjects_of(
    program: Program,
    kernel: str | None,
    said: Said,
    target: str,
    checks: bool | str = "full",
    function: Function | None = None,
) -> list[Subject]:
    """Return the kernels of a program to check, each with what its user says about it.

    Args:
        program: The program.
        kernel: Name of the kernel, with its template arguments; None for all that the program defines.
        said: What the user says, apart from comments of the program.
        target, checks: As for ``check``.
        function: What the kernels should compute; None for what the user says.
    """
    settings = Settings(
        checks=checks, target=find_target(target).name, timeout=TIMEOUT,
        cooperative="LaunchCooperativeKernel" in program.written,
    )  # fmt: skip
    subjects = []
    for chosen in chosen_kernels(program, kernel):
        whole = said.with_comment(program.written, chosen.declaration.short_name)
        right = function or (Function.of(whole.expect) if whole.expect not in ("", "matmul") else None)
        subjects.append(Subject(program, chosen, whole, right, settings))
    return subjects


def check_each(subjects: Sequence[Subject], kernel: str | None) -> list[KernelReport]:
    """Check kernels, and return their reports.

    Args:
        subjects: The kernels.
        kernel: The name by which the user asks for one; None if he asks for all of a file. An error of one of several
            is in its report.

    Raises:
        ConfigError: If launch or arguments are not known; the message says what to add.
        CompilationError: If a kernel does not compile.
    """
    reports = []
    for subject in subjects:
        try:
            reports.append(check_kernel(subject))
        except (ConfigError, CompilationError) as error:
            if kernel is not None or len(subjects) == 1:
                raise
            reports.append(subject.unchecked(str(error)))
    return reports
