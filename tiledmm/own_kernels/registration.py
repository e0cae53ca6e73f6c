"""Registration of a user's kernel as a variant, which can then be named like the variants of this package."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from tiledmm.codegen.rendering import has_kernel, render
from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import find_target
from tiledmm.kernels.variant import UserTemplate, Variant
from tiledmm.kernels.variants import VARIANTS, find_variant, kernel_spec
from tiledmm.own_kernels.argument_text import Said, joined
from tiledmm.own_kernels.chosen_kernel import chosen_kernels, read_program
from tiledmm.own_kernels.plain_variant import plain_variant
from tiledmm.own_kernels.subject import Subject
from tiledmm.problem.keywords import AUTO
from tiledmm.simulator.execute.settings import Settings

#: Value of ``like=`` for plain CUDA C.
PLAIN = "plain"

_NAME = re.compile(r"[a-z][a-z0-9_]*")

#: Paths of the files that ``import_file`` has run or registered. Processes that this one starts run them, too.
IMPORTED: list[str] = []


def register(
    path: str | PathLike[str],
    *,
    name: str | None = None,
    like: str = "tiled",
    tiles: Iterable[int] | None = None,
    summary: str | None = None,
    kernel: str | None = None,
    grid: str | int | Sequence[int] = "",
    block: str | int | Sequence[int] = "",
    shared: str | int = "",
    args: str = "",
    multiple_of: int | Sequence[int] | Mapping[str, int] | None = None,
    define: Mapping[str, str | int] | Sequence[str] = (),
    include: Sequence[str | Path] = (),
    target: str = "sm_90",
) -> str:
    """Register your own kernel as a variant in this process, for ``matmul`` and the simulator.

    With ``like="plain"``, the file is ordinary CUDA C. The parameters of its kernel are pointers to A, B and C, their
    sizes, and perhaps row strides (``lda``), alpha and beta; they determine the element types. Operands that are not
    dense are copied first, and C is cleared for a kernel that adds to it. The launch is read from the file's host code
    or from a comment, as in ``check``. Run ``check`` first, because registration does not run the kernel.

    Otherwise the file is a template that renders kernels of all types, layouts and tiles, with the parameters of
    another variant.

    The file is read when this function is called. After an edit, register it again under the same name.

    On the command line, pass ``--kernel mine.cu`` to register a plain kernel. To register a template, write the call of
    this function to a Python file, which a command runs first: ``tiledmm compare --import mine.py``.

    Args:
        path: Path of a plain kernel, ``.cu``, or of a template, ``.cu.j2`` or ``.cu``. A template may include the
            package's files, such as ``preamble.cuh.j2``, and files in its own folder.
        name: Name of the variant, for ``variant=``; None for the file's name without its suffixes.
        like: ``"plain"``, or the name of the variant whose block, parameters, rules and shared memory a template uses.
        tiles: Tiles of a template; None for all tiles of ``like``.
        summary: One line about the variant.
        kernel: Name of a plain kernel, with its template arguments; None if the file has only one.
        grid, block: Number of blocks, and of threads per block, of a plain kernel: numbers, or expressions of M, N and
            K as in C, separated by commas: ``"(N+15)/16,(M+15)/16"``.
        shared: Dynamic shared memory per block of a plain kernel, in bytes.
        args: Meaning of the parameters of a plain kernel, in order: ``"A:f32[M,K], B:f32[N,K], C:f32[M,N], M, N, K"``,
            here with B as (N, K).
        multiple_of: Numbers that M, N and K must be multiples of for a plain kernel: 16, (64, 64, 8) or {"K": 8}; None
            for those in the file's comment, or 1. Products of other sizes raise ShapeError.
        define: Macros of a plain kernel: ``{"TILE": 32}`` or ``["TILE=32"]``.
        include: Folders of headers of a plain kernel.
        target: Architecture whose ``__CUDA_ARCH__`` the preprocessor uses for a plain kernel.

    Returns:
        The name of the variant.

    Example:
        >>> tiledmm.register("mine.cu", like="plain", grid="(N+15)/16,(M+15)/16", block="16,16")
        'mine'
        >>> c = tiledmm.matmul(a, b, variant="mine")
        >>> tiledmm.register("my_tiled.cu.j2", like="tiled")
        'my_tiled'
        >>> c = tiledmm.matmul(a, b, variant="my_tiled", tile=16)

    Raises:
        ConfigError: If the file cannot be read or rendered or does not define the kernel, if launch or parameters of a
            plain kernel are unknown, or if the name is invalid or that of a variant of this package. Nothing is
            registered then.
        CompilationError: If the preprocessor rejects a plain kernel.
        UnknownVariantError: If there is no variant named ``like``.
    """
    file = Path(path)
    name = _checked_name(file, name)
    said = Said(joined(grid), joined(block), joined(shared), args)
    if like == PLAIN:
        if tiles is not None:
            raise ConfigError("tiles= is for templates: the text of a plain kernel fixes its tile")
        program = read_program(file, define, include, target)
        chosen = chosen_kernels(program, kernel)
        if len(chosen) != 1:
            names = ", ".join(each.name for each in chosen)
            raise ConfigError(f"{file.name} has {len(chosen)} kernels ({names}): name one of them with kernel=")
        whole = said.with_comment(program.written, chosen[0].declaration.short_name)
        subject = Subject(program, chosen[0], whole, None, Settings(target=find_target(target).name))
        VARIANTS.add(plain_variant(subject, name, summary, whole.steps if multiple_of is None else multiple_of))
        return name
    if kernel is not None or said != Said() or multiple_of is not None or define or include:
        raise ConfigError(
            "kernel, grid, block, shared, args, multiple_of, define and include need like='plain'; a template uses the "
            f"block and shared memory of {like!r}"
        )
    VARIANTS.add(_template_variant(file, name, like, tiles, summary))
    return name


def _checked_name(file: Path, name: str | None) -> str:
    """Return the name of a variant: the given name, or the file's without suffixes.

    Raises:
        ConfigError: If it is invalid, or the name of a variant of this package.
    """
    name = file.name.removesuffix(".j2").removesuffix(".cu") if name is None else name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"name must be a lower-case letter, then lower-case letters, digits and underscores; got {name!r}"
        )
    known = VARIANTS.get(name)
    if name == AUTO or (known is not None and known.user is None):
        raise ConfigError(f"{name!r} is a variant of this package; choose another name")
    return name


def _template_variant(file: Path, name: str, like: str, tiles: Iterable[int] | None, summary: str | None) -> Variant:
    """Return the row of a variant whose kernels are rendered from a user's template.

    Raises:
        ConfigError: If the file cannot be read or rendered or does not define the kernel.
        UnknownVariantError: If there is no variant named ``like``.
    """
    model = find_variant(like)
    if model.template is None or model.plain is not None:
        raise ConfigError(f"like= must name a variant with a template; {like!r} has none")
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
    return row


def import_file(path: str | PathLike[str]) -> None:
    """Run a Python file that registers kernels, or register a file of plain CUDA C, as commands do by their options.

    Its path is added to ``IMPORTED``, so that processes that this one starts do the same.

    Args:
        path: Path of a Python file, or of CUDA C; a kernel's name may follow after a colon: ``"mine.cu:mm<16>"``.
    """
    file, colon, kernel = parts_of(str(path))
    if file.suffix == ".py":
        runpy.run_path(str(file), run_name=file.stem)
    else:
        register(file, like=PLAIN, name=variant_name(path), kernel=kernel or None)
    whole = f"{file}{colon}{kernel}"
    if whole not in IMPORTED:
        IMPORTED.append(whole)


def variant_name(file: str | PathLike[str]) -> str:
    """Return the name under which commands register plain CUDA C, in lower case.

    It is the file's name, or that of the kernel after a colon, with its template arguments: ``"mm_16"``.
    """
    path, _, kernel = parts_of(str(file))
    found = re.sub(r"\W+", "_", (kernel or path.stem).lower()).strip("_")
    return found if _NAME.fullmatch(found) else f"kernel_{found}"


def parts_of(text: str) -> tuple[Path, str, str]:
    """Return the path in a text such as ``"mine.cu:mm<16>"``, the colon, and the kernel's name."""
    if Path(text).is_file():
        return Path(text).resolve(), "", ""
    path, colon, kernel = text.partition(":")
    return Path(path).resolve(), colon, kernel


def unregister(name: str) -> None:
    """Remove a variant that ``register`` added.

    Raises:
        ConfigError: If it is a variant of this package.
        UnknownVariantError: If there is no variant of this name.
    """
    if find_variant(name).user is None:
        raise ConfigError(f"{name!r} is a variant of this package, which cannot be removed")
    VARIANTS.remove(name)


def _tiles(tiles: Iterable[int]) -> tuple[int, ...]:
    found = tuple(tiles)
    if not found or not all(isinstance(tile, int) and tile > 0 for tile in found):
        raise ConfigError(f"tiles must be one or more positive integers; got {found!r}")
    return found


def _try(row: Variant, file: Path) -> None:
    """Render a user's template once, to check that it defines the kernel.

    Raises:
        ConfigError: If it does not define the kernel, or rendering fails.
    """
    spec = kernel_spec(row)
    if not has_kernel(render(spec), spec.symbol):
        raise ConfigError(
            f"{file} does not define a kernel named {spec.symbol}: include preamble.cuh.j2 and name the kernel KERNEL, "
            'as in extern "C" __global__ void KERNEL(...), or without the preamble {{ symbol }}. Register plain CUDA C '
            "with like='plain'"
        )
