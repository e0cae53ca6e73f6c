"""Arguments of several commands, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.codegen.specialization import Specialization

Sizes = Annotated[list[str], typer.Argument(help="Products, each N or MxNxK.", metavar="SIZE", show_default=False)]
Tiles = Annotated[str, typer.Option(help="Tile sizes, with commas, or 'all'.", show_default="each variant's own")]
Dtypes = Annotated[str, typer.Option(help="Element types, with commas, or 'all'; also tf32.")]
Layouts = Annotated[
    str, typer.Option(help="Layouts of A and B in memory, with commas: N rows contiguous, T columns, G neither.")
]

Target = Annotated[str, typer.Option(help="Without a GPU: the target architecture shown in detail.")]
NoGpu = Annotated[bool, typer.Option("--no-gpu", help="Do what needs no GPU, even if the machine has one.")]

Variant = Annotated[str, typer.Argument(help="A variant: naive, coalesced, tiled, ...", show_default=False)]
Tile = Annotated[int | None, typer.Option(help="Its tile size.", show_default="the variant's own")]
Dtype = Annotated[str | None, typer.Option(help="Element type.", show_default="float32, or the variant's own")]
Layout = Annotated[str, typer.Option(help="Layout of A and B in memory: N rows contiguous, T columns, G neither.")]
ConfigFields = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="FIELD=VALUE", help="A config field to override the tile's, such as bk=16; repeatable."
    ),
]


def sizes_of(texts: list[str]) -> list[Size]:
    """Products, each written as N or MxNxK."""
    from tiledmm.bench.sizes import parse_size

    return [parse_size(text) for text in texts]


def types_of(text: str) -> list[str]:
    """Element types; ``all`` is those that arrays have."""
    from tiledmm.elements import ELEMENTS

    return list(ELEMENTS) if text == "all" else names_of(text)


def layout_of(text: str) -> str:
    """A layout, two letters."""
    from tiledmm.codegen.specialization import specialize

    return specialize("naive", layout=text.upper()).layout


def layouts_of(text: str) -> list[str]:
    """Layouts, two letters each."""
    return [layout_of(name) for name in names_of(text)]


def tiles_of(text: str) -> list[int] | Literal["all"] | None:
    """Tile sizes; None if no tile is named."""
    if text == "all":
        return "all"
    try:
        return [int(name) for name in names_of(text)] or None
    except ValueError:
        raise typer.BadParameter(f"tiles are whole numbers, with commas, or 'all'; got {text!r}") from None


def names_of(text: str) -> list[str]:
    """The names in a text, which commas separate."""
    return [name.strip() for name in text.split(",") if name.strip()]


def kernel_of(
    variant: str, tile: int | None, dtype: str | None, layout: str, fields: list[str] | None = None
) -> Specialization:
    """The kernel of these arguments."""
    from tiledmm.codegen.specialization import specialize

    if variant == "auto":
        raise typer.BadParameter("'auto' chooses a kernel for each product and has none of its own; name a variant")
    return specialize(variant, tile=tile, dtype=dtype, layout=layout.upper(), config=overrides_of(fields)).kernel


def overrides_of(texts: list[str] | None) -> dict[str, int]:
    """Config overrides, each written as field=value.

    Whether a kernel has these fields, and takes these values, is for the registry to say.
    """
    found = {}
    for text in texts or []:
        for pair in names_of(text):
            name, _, value = pair.partition("=")
            try:
                found[name.strip()] = int(value)
            except ValueError:
                raise typer.BadParameter(
                    f"--config takes a field and a whole number, such as bk=16; got {pair!r}"
                ) from None
    return found


def to_write(file: Path | None) -> Path | None:
    """A file that is written at the end. Its folder is checked at the beginning."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.parent} to write {file.name} to")
    return file
