"""Command ``tiledmm source``: prints a kernel's CUDA C, PTX or machine code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiledmm.cli.arguments import (
    ConfigFields,
    Dtype,
    Import,
    Kernel,
    Layout,
    Tile,
    VariantOrKernel,
    complete_targets,
    complete_variants,
    kernel_of,
    one_variant,
    tile_of,
)
from tiledmm.cli.output import console

if TYPE_CHECKING:
    from tiledmm.kernels.spec import KernelSpec

# Lines around a change in a diff: enough to see the loop that contains it.
_CONTEXT = 4

# First line of a page, which the simulator recognizes.
_PAGE_NOTE = (
    "// Only the kernel's page, without its headers: it does not compile. `tiledmm source {variant}` prints the "
    "complete file.\n"
)


def source(
    variant: VariantOrKernel = None,
    tile: Tile = None,
    dtype: Dtype = None,
    layout: Layout = "NN",
    config: ConfigFields = None,
    page: Annotated[
        bool, typer.Option("--page", help="Print only the kernel's page, without its headers: it does not compile.")
    ] = False,
    diff: Annotated[
        str,
        typer.Option(
            metavar="OTHER[:TILE]",
            help="Print the difference from another variant or tile.",
            show_default=False,
            autocompletion=complete_variants,
        ),
    ] = "",
    ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX that NVRTC compiles.")] = False,
    sass: Annotated[bool, typer.Option("--sass", help="Print the machine code that ptxas compiles.")] = False,
    target: Annotated[
        str, typer.Option(help="For --ptx and --sass: the target architecture.", autocompletion=complete_targets)
    ] = "sm_90",
    imported: Import = None,
    kernel: Kernel = None,
) -> None:
    """Print the complete CUDA C of a kernel, as NVRTC compiles it. Needs no GPU.

    --diff prints the difference from another variant; --ptx and --sass print the compiler's output.

        tiledmm source tiled --tile 16 --page
        tiledmm source tiled_padded --diff tiled
        tiledmm source warp_tiled --tile 256 --diff warp_tiled:128
        tiledmm source vectorized --sass --target sm_80 | grep LDS
    """
    from tiledmm.hardware.architectures import find_target

    if ptx + sass + bool(diff) > 1:
        raise typer.BadParameter("--diff, --ptx and --sass exclude each other: name one of them")
    if page and (ptx or sass):
        raise typer.BadParameter("--page selects a part of the CUDA C: leave out either --page, or --ptx and --sass")
    find_target(target)
    spec = kernel_of(one_variant(variant, kernel), tile, dtype, layout, config)
    if ptx or sass:
        _show(_compiled(spec, target, machine_code=sass), "ptx" if ptx else "")
    elif diff:
        _show(_changes(_other(diff, tile, dtype, layout), spec, page), "diff")
    else:
        text = _text(spec, page)
        is_part = page and text != _text(spec, page=False)
        _show(f"{_PAGE_NOTE.format(variant=spec.variant.name) if is_part else ''}{text}", "cuda")


def _compiled(spec: KernelSpec, target: str, *, machine_code: bool) -> str:
    from tiledmm.codegen.rendering import render
    from tiledmm.compile import disassembly, inspection
    from tiledmm.errors import ConfigError
    from tiledmm.hardware.architectures import find_target

    if not spec.variant.runs_on((arch := find_target(target)).capability, spec.compute):
        raise ConfigError(spec.why_not_on(arch))
    compiler = disassembly.sass if machine_code else inspection.ptx_of
    return compiler(render(spec), spec.symbol, spec.variant.hopper.arch or target)


def _other(text: str, tile: str | None, dtype: str | None, layout: str) -> KernelSpec:
    """Return the specification of the kernel that ``--diff`` names, for comparison with the kernel of the command.

    Args:
        text: Value of ``--diff``: a variant, or a variant and a tile such as ``"tiled:16"``.
        tile: Value of ``--tile``, which is the tile if ``text`` has none and the variant has this tile. Otherwise the
            variant's default tile is used.
        dtype, layout: Values of ``--dtype`` and ``--layout``.

    Raises:
        typer.BadParameter: If ``text`` has another form.
    """
    from tiledmm.kernels.variants import find_variant

    name, _, size = text.partition(":")
    if size and not size.isdecimal():
        raise typer.BadParameter(f"--diff needs a variant, or a variant and a tile such as tiled:16; got {text!r}")
    same = tile_of(tile) if tile_of(tile) in find_variant(name).tiles else None
    return kernel_of(name, int(size) if size else same, dtype, layout)


def _changes(before: KernelSpec, after: KernelSpec, page: bool) -> str:
    import difflib

    old, new = (_text(spec, page).splitlines() for spec in (before, after))
    lines = difflib.unified_diff(old, new, before.symbol, after.symbol, n=_CONTEXT, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _text(spec: KernelSpec, page: bool) -> str:
    from tiledmm.codegen.rendering import page_of, render

    text = render(spec)
    return page_of(text) if page else text


def _show(text: str, language: str) -> None:
    """Print source code, with highlighted syntax on a terminal.

    Args:
        text: Source code.
        language: Name of the language; empty for no highlighting.
    """
    screen: Any = console()
    if not screen.is_terminal or not language:
        typer.echo(text, nl=False)
        return
    from rich.syntax import Syntax

    shown = Syntax(text, language, theme="ansi_dark", background_color="default").highlight(text)
    shown.rstrip()
    screen.print(shown, soft_wrap=True)
