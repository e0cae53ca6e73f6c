"""Arguments that several commands have, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tiledmm.bench.records import Size

Sizes = Annotated[list[str], typer.Argument(help="Products, each N or MxNxK.", metavar="SIZES...")]
Dtypes = Annotated[str, typer.Option(help="Element types, with commas, or 'all'; tf32, too.")]
Layouts = Annotated[
    str, typer.Option(help="How A and B lie in memory, with commas: N rows contiguous, T columns, G neither.")
]

Target = Annotated[str, typer.Option(help="Without a GPU: the target shown in detail.")]


def sizes_of(texts: list[str]) -> list[Size]:
    """Products, each written as N or MxNxK."""
    from tiledmm.bench.records import parse_size

    return [parse_size(text) for text in texts]


def types_of(text: str) -> list[str]:
    """Element types; for ``all``, those that arrays have."""
    from tiledmm.elements import ELEMENTS

    return list(ELEMENTS) if text == "all" else names_of(text)


def layouts_of(text: str) -> list[str]:
    """Pairs of letters."""
    return [layout.upper() for layout in names_of(text)]


def tiles_of(text: str) -> list[int]:
    """Tile sizes."""
    try:
        return [int(name) for name in names_of(text)]
    except ValueError:
        raise typer.BadParameter(f"tiles are whole numbers, with commas, or 'all'; got {text!r}") from None


def names_of(text: str) -> list[str]:
    """What stands between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
