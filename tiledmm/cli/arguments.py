"""Arguments that several commands share, with the functions that parse and complete them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from tiledmm.cli.exit_status import report_errors

if TYPE_CHECKING:
    from tiledmm.bench.sizes import Size
    from tiledmm.kernels.spec import KernelSpec


def _last_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that completes the last name of a comma-separated list.

    Args:
        names: Function that returns all names. It is called at each completion.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def variant_names() -> list[str]:
    """Return ``"auto"`` and the names of all variants, for completion and messages."""
    from tiledmm.kernels.variants import VARIANTS

    return ["auto", *VARIANTS]


def _types() -> list[str]:
    from tiledmm.elements import ELEMENTS, TF32, WIDE_RESULTS

    return ["all", *ELEMENTS, TF32.dtype_name, *WIDE_RESULTS]


def _targets() -> Iterable[str]:
    from tiledmm.hardware.architectures import TARGETS

    return TARGETS


def _precisions() -> Iterable[str]:
    from tiledmm.problem.keywords import Precision

    return get_args(Precision)


def _symmetries() -> Iterable[str]:
    from tiledmm.problem.keywords import SYMMETRIES

    return SYMMETRIES


complete_variants = _last_of(variant_names)
complete_types = _last_of(_types)
complete_layouts = _last_of(lambda: map("".join, itertools.product("NTG", repeat=2)))
complete_targets = _last_of(_targets)
complete_precisions = _last_of(_precisions)
complete_symmetries = _last_of(_symmetries)

TYPES_HELP = "Element types, separated by commas, or 'all'; also tf32 and int8_int32."
LAYOUTS_HELP = "Layouts of A and B, such as NN,NT: N for contiguous rows, T for contiguous columns, G for neither."
_DEFAULT_TILE = "the variant's default"

#: Sizes of ``tiledmm.bench.simulable``, for help: the products that are simulated unless others are named.
SIMULATED_SIZES = ("128", "61x83x47")

# Options are named in the singular, also where they accept several values; ``normalized`` accepts the plural, too.
Sizes = Annotated[
    list[str] | None, typer.Argument(help="Products, each N or MxNxK.", metavar="SIZE", show_default=False)
]
SizeOption = Annotated[
    str, typer.Option("--size", help="Products as an option, separated by commas.", show_default=False)
]
Tiles = Annotated[
    str,
    typer.Option("--tile", help="Tile sizes, separated by commas, or 'all'.", show_default="each variant's default"),
]
Dtypes = Annotated[str, typer.Option("--dtype", help=TYPES_HELP, autocompletion=complete_types)]
Layouts = Annotated[str, typer.Option("--layout", help=LAYOUTS_HELP, autocompletion=complete_layouts)]

Target = Annotated[
    str,
    typer.Option(help="Without a GPU: the target architecture.", autocompletion=complete_targets),
]
NoGpu = Annotated[bool, typer.Option("--no-gpu", help="Use the simulator, even if the machine has a GPU.")]

Variant = Annotated[
    str,
    typer.Argument(
        help="A variant: naive, coalesced, tiled, ...", show_default=False, autocompletion=complete_variants
    ),
]
VariantOrKernel = Annotated[
    str | None,
    typer.Argument(
        help="A variant: naive, coalesced, tiled, ...",
        show_default="that of --kernel",
        autocompletion=complete_variants,
    ),
]
Tile = Annotated[str | None, typer.Option(help="Tile size of the variant.", show_default=_DEFAULT_TILE)]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="Element type.", show_default="float32, or the variant's first type", autocompletion=complete_types
    ),
]
Layout = Annotated[
    str,
    typer.Option(
        help="Layout of A and B: N for contiguous rows, T for contiguous columns, G for neither.",
        autocompletion=complete_layouts,
    ),
]
Precision = Annotated[
    str, typer.Option(help="Precision of products, as for tiledmm.matmul.", autocompletion=complete_precisions)
]
Symmetry = Annotated[
    str,
    typer.Option(
        help="symmetric: B is A's own transpose; hermitian: its own adjoint. Then only A's letter of a layout counts.",
        autocompletion=complete_symmetries,
    ),
]
ConfigFields = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="FIELD=VALUE",
        help="Value of a config field that replaces the tile's, such as bk=16; may be repeated.",
    ),
]


@report_errors
def import_files(files: list[str] | None) -> list[str] | None:
    """Run the Python files that ``--import`` names, or register the plain kernels that ``--kernel`` names.

    typer calls this while it parses the command line, so that later arguments and completion include these variants.

    Args:
        files: Paths of the files; None for none. Those of plain kernels may have a kernel's name after a colon.

    Returns:
        The same.

    Raises:
        typer.BadParameter: If a file does not exist.
    """
    for file in files or []:
        from tiledmm.own_kernels.registration import import_file, parts_of

        if not parts_of(file)[0].is_file():
            raise typer.BadParameter(f"file {file!r} does not exist")
        import_file(file)
    return files


Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="FILE.py",
        help="Python file to run first, which registers your own kernels; may be repeated.",
        callback=import_files,
        show_default=False,
    ),
]

Kernel = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        metavar="FILE.cu",
        help="File of plain CUDA C whose kernel becomes a variant, or FILE.cu:KERNEL for one of several kernels; may "
        "be repeated.",
        callback=import_files,
        show_default=False,
    ),
]


def names_of_kernels(kernels: list[str] | None) -> list[str]:
    """Return the names of the variants that ``--kernel`` registered."""
    if not kernels:
        return []
    from tiledmm.own_kernels.registration import variant_name

    return [variant_name(each) for each in kernels]


def own_type(names: list[str]) -> str:
    """Return the name of the type that the first of some variants multiplies by default; float32 without variants."""
    from tiledmm.kernels.variants import find_variant

    return find_variant(names[0]).default_type if names else "float32"


def one_variant(variant: str | None, kernels: list[str] | None) -> str:
    """Return the variant that a command is about: the named one, or the only one that ``--kernel`` registered.

    Raises:
        typer.BadParameter: If there is none, or several.
    """
    names = names_of_kernels(kernels)
    if variant is None and len(names) != 1:
        raise typer.BadParameter("name one variant (naive, coalesced, tiled, ...), or give one --kernel FILE.cu")
    return variant or names[0]


#: Names of options by their plurals, which commands that accept several values used in earlier versions.
_SINGULAR = {f"{name}s": name for name in ("size", "tile", "dtype", "layout", "variant")}


def normalized(name: str) -> str:
    """Return the name of an option in the singular, as commands define it: ``"size"`` for ``"sizes"``.

    typer calls this as its ``token_normalize_func``, so that both names are accepted.
    """
    return _SINGULAR.get(name, name)


def sizes_of(texts: list[str] | None, option: str = "") -> list[Size]:
    """Return the sizes of products, each of which is written as N or MxNxK.

    Args:
        texts: Positional arguments, one product each; None for none.
        option: Further products, separated by commas.

    Raises:
        ConfigError: If a text has another form, or a size is 0 or too large.
    """
    from tiledmm.bench.sizes import parse_size

    return [parse_size(text) for text in (*(texts or []), *names_of(option))]


def size_of(option: str) -> Size:
    """Return the size of the product that ``--size`` states, for a command that accepts only one.

    Raises:
        typer.BadParameter: If the option does not state exactly one product.
    """
    found = sizes_of(None, option)
    if len(found) != 1:
        raise typer.BadParameter(f"--size accepts one product here, N or MxNxK; got {option!r}")
    return found[0]


def some_sizes_of(texts: list[str] | None, option: str) -> list[Size]:
    """Return the sizes of products, like ``sizes_of``, for a command that needs at least one.

    Raises:
        typer.BadParameter: If no product is named.
    """
    found = sizes_of(texts, option)
    if not found:
        raise typer.BadParameter("name a product: N or MxNxK, such as 4096 or 4096x1024x512")
    return found


def types_of(text: str) -> list[str]:
    """Return the names of the types that ``--dtype`` lists.

    ``all`` stands for the types that arrays can have, without tf32 and types with wide results.
    """
    from tiledmm.elements import ELEMENTS

    return list(ELEMENTS) if text == "all" else names_of(text)


def layout_of(text: str) -> str:
    """Return a layout of two letters, such as ``"nt"``, in upper case.

    Raises:
        ShapeError: If there is no such layout.
    """
    from tiledmm.kernels.variants import kernel_spec

    return kernel_spec("naive", layout=text.upper()).layout


def layouts_of(text: str) -> list[str]:
    """Return the layouts that ``--layout`` lists, in upper case.

    Raises:
        ShapeError: If there is no such layout.
    """
    return [layout_of(name) for name in names_of(text)]


def tiles_of(text: str) -> list[int] | Literal["all"] | None:
    """Return the tile sizes that ``--tile`` lists; ``"all"`` for the text "all"; None for an empty text.

    Raises:
        typer.BadParameter: If a tile is not a whole number.
    """
    if text == "all":
        return "all"
    try:
        return [int(name) for name in names_of(text)] or None
    except ValueError:
        from tiledmm.kernels.variants import kernel_variants

        known = ", ".join(map(str, sorted({tile for row in kernel_variants() for tile in row.tiles})))
        raise typer.BadParameter(
            f"--tile accepts 'all', or one or several, separated by commas, of {known}; got {text!r}"
        ) from None


def names_of(text: str) -> list[str]:
    """Return the names in a comma-separated text, without spaces around them and without empty names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def tile_of(text: str | None, default: str = _DEFAULT_TILE) -> int | None:
    """Return the tile size that ``--tile`` states, for a command that accepts only one; None without the option.

    A text that is not a number is returned as it is. The variant will raise an error that lists its tiles.

    Args:
        text: Value of the option; None if it is not given.
        default: Description of the tiles that are used without the option, for the message.

    Raises:
        typer.BadParameter: If the text names several tiles.
    """
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    if text == "all" or "," in text:
        raise typer.BadParameter(f"--tile accepts one tile here; leave it out for {default}; got {text!r}")
    return text  # type: ignore[return-value]


def kernel_of(
    variant: str, tile: str | int | None, dtype: str | None, layout: str, fields: list[str] | None = None
) -> KernelSpec:
    """Return the specification of the kernel that arguments of the command line select.

    Args:
        variant: Name of a variant.
        tile: Tile size, as text or as a number; None for the variant's default tile.
        dtype: Computation type; None for the variant's own.
        layout: Layout of A and B, in lower or upper case.
        fields: Config overrides, each written as field=value.

    Raises:
        typer.BadParameter: If the variant is ``auto``, or an argument cannot be parsed.
        TiledmmError: If there is no such kernel.
    """
    from tiledmm.kernels.variants import kernel_spec

    if variant == "auto":
        raise typer.BadParameter("'auto' chooses a kernel for each product and has none of its own: name a variant")
    number = tile_of(tile) if isinstance(tile, str) else tile
    return kernel_spec(variant, tile=number, dtype=dtype, layout=layout.upper(), config=overrides_of(fields)).kernel


def overrides_of(texts: list[str] | None) -> dict[str, int]:
    """Return config overrides by field, from texts such as ``"bk=16"`` or ``"bk=16,tm=4"``.

    Only their form is checked here. The variant checks fields and values later.

    Raises:
        typer.BadParameter: If a value is not a whole number.
    """
    found = {}
    for text in texts or []:
        for pair in names_of(text):
            name, _, value = pair.partition("=")
            try:
                found[name.strip()] = int(value)
            except ValueError:
                raise typer.BadParameter(
                    f"--config needs a field and a whole number, such as bk=16; got {pair!r}"
                ) from None
    return found


def to_write(file: Path | None) -> Path | None:
    """Check whether a file can be written, so that a command does not fail at its end, and return its path.

    Args:
        file: Path of the file, which may exist; None for no file.

    Raises:
        typer.BadParameter: If its folder does not exist, or the file cannot be written.
    """
    if file is None:
        return None
    if not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"cannot write {file}: folder {file.parent} does not exist")
    existed = file.exists()
    try:
        with file.open("ab"):
            pass
    except OSError as error:
        raise typer.BadParameter(f"cannot write {file}: {error.strerror}") from None
    if not existed:
        file.unlink()
    return file
