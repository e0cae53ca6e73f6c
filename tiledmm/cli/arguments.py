"""Arguments that several commands have, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.codegen.rendering import Specialization

Sizes = Annotated[list[str], typer.Argument(help="Products, each N or MxNxK.", metavar="SIZE", show_default=False)]
Tiles = Annotated[str, typer.Option(help="Tile sizes, with commas, or 'all'.", show_default="each variant's own")]
Dtypes = Annotated[str, typer.Option(help="Element types, with commas, or 'all'; tf32, too.")]
Layouts = Annotated[
    str, typer.Option(help="How A and B lie in memory, with commas: N rows contiguous, T columns, G neither.")
]

Target = Annotated[str, typer.Option(help="Without a GPU: the target shown in detail.")]
NoGpu = Annotated[bool, typer.Option("--no-gpu", help="Do what can be done without a GPU, even if there is one.")]

Variant = Annotated[str, typer.Argument(help="A variant: naive, coalesced, tiled, ...", show_default=False)]
Tile = Annotated[int | None, typer.Option(help="Its tile size.", show_default="the variant's own")]
Dtype = Annotated[str | None, typer.Option(help="Element type.", show_default="float32, or the variant's own")]
Layout = Annotated[str, typer.Option(help="How A and B lie in memory: N rows contiguous, T columns, G neither.")]
Numbers = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="K=V", help="A number of the kernel's in place of the tile's, such as bk=16; repeatable."
    ),
]


def sizes_of(texts: list[str]) -> list[Size]:
    """Products, each written as N or MxNxK."""
    from tiledmm.bench.sizes import parse_size

    return [parse_size(text) for text in texts]


def types_of(text: str) -> list[str]:
    """Element types; for ``all``, those that arrays have."""
    from tiledmm.elements import ELEMENTS

    return list(ELEMENTS) if text == "all" else names_of(text)


def layout_of(text: str) -> str:
    """A pair of letters."""
    from tiledmm.codegen.rendering import specialize

    return specialize("naive", layout=text.upper()).layout


def layouts_of(text: str) -> list[str]:
    """Pairs of letters."""
    return [layout_of(name) for name in names_of(text)]


def tiles_of(text: str) -> list[int] | Literal["all"] | None:
    """Tile sizes; None where none is named."""
    if text == "all":
        return "all"
    try:
        return [int(name) for name in names_of(text)] or None
    except ValueError:
        raise typer.BadParameter(f"tiles are whole numbers, with commas, or 'all'; got {text!r}") from None


def names_of(text: str) -> list[str]:
    """What stands between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def kernel_of(
    variant: str, tile: int | None, dtype: str | None, layout: str, numbers: list[str] | None = None
) -> Specialization:
    """The kernel that is named so."""
    from tiledmm.codegen.rendering import specialize

    if variant == "auto":
        raise typer.BadParameter("'auto' chooses among kernels for each product, and has none of its own: name one")
    return specialize(variant, tile=tile, dtype=dtype, layout=layout.upper(), config=numbers_of(numbers)).kernel


def numbers_of(texts: list[str] | None) -> dict[str, int]:
    """Numbers of a kernel, each written as name=value."""
    found = {}
    for text in texts or []:
        for pair in names_of(text):
            name, _, value = pair.partition("=")
            try:
                found[name.strip()] = int(value)
            except ValueError:
                raise typer.BadParameter(f"a number is a name and a whole number, like bk=16; got {pair!r}") from None
    return found


def to_write(file: Path | None) -> Path | None:
    """A file that is written at the end: whether its folder is there is looked at in the beginning."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.parent} to write {file.name} to")
    return file
