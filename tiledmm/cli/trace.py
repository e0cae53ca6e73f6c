"""Command ``tiledmm trace``: writes a page that shows a kernel of one's own, instruction by instruction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiledmm.cli.arguments import complete_targets

if TYPE_CHECKING:
    from tiledmm.own_kernels.kernel_trace import KernelTrace


def trace(
    file: Annotated[Path, typer.Argument(help="File of CUDA C.")],
    kernel: Annotated[
        str | None,
        typer.Argument(
            help="Kernel to trace, with template arguments if any: 'mm<16>'.", show_default="all in the file"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="HTML file to write.", show_default="FILE's name with .html, in this folder"
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    traced_block: Annotated[
        str,
        typer.Option(
            help="Index of the block to show: 2,1.", show_default="the block of the first finding, or the first block"
        ),
    ] = "",
    grid: Annotated[str, typer.Option(help="Blocks along x, y, z, by M, N and K: '(N+15)/16,(M+15)/16'.")] = "",
    block: Annotated[str, typer.Option(help="Threads per block along x, y, z: 16,16.")] = "",
    shared: Annotated[str, typer.Option(help="Dynamic shared memory per block, in bytes.")] = "",
    args: Annotated[str, typer.Option(help="Arguments: 'A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K'.")] = "",
    size: Annotated[str, typer.Option(help="Sizes M,N,K, or one number for all three.")] = "",
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="Macro to define: N=64; may be repeated.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("--include", "-I", help="Folder of headers; may be repeated.")
    ] = None,
    target: Annotated[str, typer.Option(help="Target architecture.", autocompletion=complete_targets)] = "sm_90",
) -> None:
    """Show what each instruction of your kernel accesses: an HTML page of one block, step by step.

    The page shows the elements of global memory, the words of shared memory, their banks, and the bank conflicts of
    each warp, beside the source line. It is one file that loads nothing from elsewhere. Needs no GPU.

    Launch, arguments and sizes are found as 'tiledmm check' finds them: in the host code, in a comment '// tiledmm:
    grid=... block=... args=...', or from the names of the parameters; options come first. The kernel runs as native
    code of this machine: trace only files that you would run. The exit status is 1 if a kernel has findings; the page
    shows them, too.

        tiledmm trace mine.cu --open
        tiledmm trace mine.cu "mm<16>" --traced-block 2,1 -o mm.html
    """
    import webbrowser

    from tiledmm.own_kernels.kernel_trace import is_page, trace_file

    index = _index(traced_block)
    path = output or Path(f"{file.stem}.html")
    if output is None and not is_page(path):
        raise typer.BadParameter(f"{path} exists, and is no page of this command: name another file by --output")
    found = trace_file(
        file, kernel, grid=grid, block=block, shared=shared, args=args, size=size, define=define or (),
        include=include or (), target=target, traced_block=index,
    )  # fmt: skip
    path.write_text(found.page, encoding="utf-8")
    for missing in found.missing:
        typer.secho(f"not traced: {missing}", err=True, fg=typer.colors.YELLOW)
    for each in found.traces:
        typer.echo(_line(each))
        for finding in each.findings:
            typer.secho(f"finding: {finding}", err=True, fg=typer.colors.RED)
        for note in each.notes:
            typer.echo(f"  note: {note}", err=True)
    typer.echo(f"{path}: written")
    if open_ and not webbrowser.open(path.resolve().as_uri()):
        typer.secho(f"No browser was found: open {path} yourself.", err=True, fg=typer.colors.RED)
        raise typer.Exit(1)
    raise typer.Exit(1 if any(each.findings for each in found.traces) else 0)


def _index(text: str) -> tuple[int, ...] | None:
    """Return the index of a block; None if no block is named."""
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not all(part.isdigit() for part in parts):
        raise typer.BadParameter(f"--traced-block is one to three numbers with commas, such as 2,1; got {text!r}")
    return tuple(map(int, parts))


def _line(trace: KernelTrace) -> str:
    return f"{trace.name}: {trace.facts} Steps of a warp: {trace.instructions:,}."
