"""Command ``tiledmm check``: checks the kernels of a ``.cu`` file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiledmm.cli.arguments import complete_targets
from tiledmm.cli.output import Json
from tiledmm.cli.watch import watch as watch_folder

if TYPE_CHECKING:
    from tiledmm.own_kernels.check_report import CheckReport


def check(
    file: Annotated[Path, typer.Argument(help="File of CUDA C.")],
    kernel: Annotated[
        str | None,
        typer.Argument(
            help="Kernel to check, with template arguments if any: 'mm<16>'.", show_default="all in the file"
        ),
    ] = None,
    grid: Annotated[str, typer.Option(help="Blocks along x, y, z, by M, N and K: '(N+15)/16,(M+15)/16'.")] = "",
    block: Annotated[str, typer.Option(help="Threads per block along x, y, z: 16,16.")] = "",
    shared: Annotated[str, typer.Option(help="Dynamic shared memory per block, in bytes.")] = "",
    args: Annotated[str, typer.Option(help="Arguments: 'A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K'.")] = "",
    size: Annotated[str, typer.Option(help="Sizes M,N,K, or one number for all three.")] = "",
    expect: Annotated[str, typer.Option(help="Expected result: 'matmul', or FILE.py:function, which is run.")] = "",
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="Macro to define: N=64; may be repeated.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("--include", "-I", help="Folder of headers; may be repeated.")
    ] = None,
    target: Annotated[str, typer.Option(help="Target architecture.", autocompletion=complete_targets)] = "sm_90",
    watch: Annotated[bool, typer.Option("--watch", help="Check again whenever a file in the folder is saved.")] = False,
    json: Json = False,
) -> None:
    """Check kernels of your own on the CPU: are they right, where are they wrong, and what do they cost?

    The file may have main(), host code and headers. The launch and the arguments are read from its host code, from a
    comment '// tiledmm: grid=... block=... args=...', or from names such as A, B, C, M, N and K; options take
    precedence. A product is checked at sizes that its tile divides and at sizes that it does not divide. The kernel
    runs as native code of this machine: check only files that you would run. The exit status is 1 if a kernel is wrong
    or has findings.

        tiledmm check mine.cu
        tiledmm check mine.cu "mm<16>" --grid "(N+15)/16,(M+15)/16" --block 16,16
        tiledmm check mine.cu --expect reference.py:softmax --watch
    """
    options: dict[str, Any] = {
        "grid": grid, "block": block, "shared": shared, "args": args, "size": size, "expect": expect,
        "define": define or (), "include": include or (), "target": target,
    }  # fmt: skip
    if watch:
        watch_folder(file, lambda: typer.echo(str(_checked(file, kernel, options))))
    report = _checked(file, kernel, options)
    typer.echo(report.json() if json else str(report))
    raise typer.Exit(0 if report.ok else 1)


def _checked(file: Path, kernel: str | None, options: dict[str, Any]) -> CheckReport:
    from tiledmm.own_kernels.api import check as check_file

    return check_file(file, kernel, **options)
