"""Registration of a user's template as a variant, which can then be named like the variants of this package."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path

from tiledmm.codegen.rendering import has_kernel, render
from tiledmm.errors import ConfigError
from tiledmm.kernels.variant import UserTemplate, Variant
from tiledmm.kernels.variants import VARIANTS, find_variant, kernel_spec
from tiledmm.problem.keywords import AUTO

_NAME = re.compile(r"[a-z][a-z0-9_]*")

#: Paths of the files that ``import_file`` has run. A process that this one starts runs them, too.
IMPORTED: list[str] = []


def register(
    path: str | PathLike[str],
    *,
    name: str | None = None,
    like: str = "tiled",
    tiles: Iterable[int] | None = None,
    summary: str | None = None,
) -> str:
    """Register your own kernel template as a variant in this process, for ``matmul``, ``source`` and the simulator.

    The text of the file is read now. After an edit, register it again under the same name. For a command, write the
    call to a Python file and let the command run it first: ``tiledmm compare --import mine.py``.

    Args:
        path: Path of a template, ``.cu.j2`` or ``.cu``. It may include the package's files, such as
            ``preamble.cuh.j2``, and files in its own folder.
        name: Name of the variant, for ``variant=``; None for the file's name without its suffixes.
        like: Name of the variant whose block, parameters, rules and shared memory the template uses.
        tiles: Tiles of the variant; None for all tiles of ``like``.
        summary: One line about the variant.

    Returns:
        The name of the variant.

    Example:
        >>> tiledmm.register("my_tiled.cu.j2", like="tiled")
        'my_tiled'
        >>> c = tiledmm.matmul(a, b, variant="my_tiled", tile=16)

    Raises:
        ConfigError: If the file cannot be read or rendered or does not define the kernel, or if the name is invalid or
            that of a variant of this package. Nothing is registered then.
        UnknownVariantError: If there is no variant ``like``.
    """
    file = Path(path)
    name = file.name.removesuffix(".j2").removesuffix(".cu") if name is None else name
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a variant's name is a lower-case letter and letters, digits and underscores; got {name!r}")
    known = VARIANTS.get(name)
    if name == AUTO or (known is not None and known.user is None):
        raise ConfigError(f"{name!r} is a variant of this package; give yours another name")
    model = find_variant(like)
    if model.template is None:
        raise ConfigError(f"like={like!r} has no kernel to be like")
    try:
        text = file.read_text(encoding="utf-8-sig")  # editors on Windows write a byte-order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    row = replace(
        model,
        name=name,
        template=file.name,
        summary=summary or f"{file.name}, like {like}",
        tiles=model.tiles if tiles is None else _tiles(tiles),
        user=UserTemplate(text, str(file.resolve().parent)),
        waits="",  # the user's text need not wait
    )
    if row.tiles and row.default_tile not in row.tiles:
        row = replace(row, default_tile=row.tiles[0])
    _try(row, file)
    VARIANTS.add(row)
    return name


def import_file(path: str | PathLike[str]) -> None:
    """Run a Python file that registers templates, as the option ``--import`` of commands does.

    Its path is added to ``IMPORTED``, so that processes which this one starts run the file, too.
    """
    file = Path(path).resolve()
    runpy.run_path(str(file), run_name=file.stem)
    if str(file) not in IMPORTED:
        IMPORTED.append(str(file))


def unregister(name: str) -> None:
    """Remove a variant that ``register`` added.

    Raises:
        ConfigError: If it is a variant of this package.
        UnknownVariantError: If there is no variant of this name.
    """
    if find_variant(name).user is None:
        raise ConfigError(f"{name!r} is a variant of this package, which stays")
    VARIANTS.remove(name)


def _tiles(tiles: Iterable[int]) -> tuple[int, ...]:
    found = tuple(tiles)
    if not found or not all(isinstance(tile, int) and tile > 0 for tile in found):
        raise ConfigError(f"tiles are positive whole numbers, at least one; got {found!r}")
    return found


def _try(row: Variant, file: Path) -> None:
    """Render a user's template once, to check that it defines the kernel.

    Raises:
        ConfigError: If it does not define the kernel, or rendering fails.
    """
    spec = kernel_spec(row)
    if not has_kernel(render(spec), spec.symbol):
        raise ConfigError(
            f"{file} has no kernel of the name {spec.symbol}: include preamble.cuh.j2, and name yours KERNEL, as in "
            'extern "C" __global__ void KERNEL(...); or, without the preamble, {{ symbol }}'
        )
