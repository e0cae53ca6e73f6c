"""Plain kernels as variants: parameters, types, layouts and launch, read from the file without running the kernel."""

from __future__ import annotations

import functools
import math
import re
import threading
from collections.abc import Mapping, Sequence

from tiledmm.elements import Element, element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.kernels.config import MAX_THREADS, Config
from tiledmm.kernels.operands.dense import Dense
from tiledmm.kernels.plain import SIZES, PlainKernel, PlainParameter
from tiledmm.kernels.variant import Variant
from tiledmm.own_kernels.argument_text import Argument
from tiledmm.own_kernels.arguments import roles_of_arguments
from tiledmm.own_kernels.compiled import nvrtc_text
from tiledmm.own_kernels.declared_types import declared_parameters
from tiledmm.own_kernels.expectation import Product, number_type
from tiledmm.own_kernels.guessed_launch import guesses
from tiledmm.own_kernels.indices import Indices
from tiledmm.own_kernels.launch_rule import Geometry, LaunchRule, rounds_up, tile_of
from tiledmm.own_kernels.roles import Roles, has_size_names, roles_of
from tiledmm.own_kernels.subject import Subject
from tiledmm.simulator.build.parameters import POINTER, Parameter

# Instructions of tensor cores, and functions that execute them.
_TENSOR_CORES = re.compile(r"\bmma_sync\b|\bmma\.sync\b|\bwgmma\b")

# The names of the matrices by their extents, and whether columns are contiguous.
_EXTENTS = {
    ("M", "K"): ("A", "N"), ("K", "M"): ("A", "T"), ("K", "N"): ("B", "N"), ("N", "K"): ("B", "T"),
    ("M", "N"): ("C", "N"), ("N", "M"): ("C", "T"),
}  # fmt: skip

_EXAMPLE = "args='A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K'"


def plain_variant(
    subject: Subject, name: str, summary: str | None, multiple_of: int | Sequence[int] | Mapping[str, int]
) -> Variant:
    """Return the row of a variant whose kernel is plain CUDA C.

    Args:
        subject: The kernel, and the options that its user states.
        name: Name of the variant.
        summary: One line about it; None for a line that names the kernel.
        multiple_of: Numbers that M, N and K must be multiples of; one number for all three.

    Raises:
        ConfigError: If parameters, types or launch are unknown, or do not fit a product of matrices.
    """
    parameters = declared_parameters(subject.program, subject.chosen)
    if (said := subject.said.arguments) and len(said) != len(parameters):
        raise subject.error(f"has {len(parameters)} parameters ({subject.signature}), but args= describes {len(said)}")
    roles = _roles(subject, parameters)
    letters = _letters(subject.said.arguments, parameters)
    plain = plain_kernel(subject, parameters, roles, _rule(subject, roles, parameters), letters, _steps(multiple_of))
    return variant_of(plain, name, summary or f"{plain.file}: {plain.name}, plain CUDA C")


def plain_kernel(
    subject: Subject,
    parameters: Sequence[Parameter],
    roles: Roles,
    rule: LaunchRule,
    letters: str,
    steps: tuple[int, int, int],
) -> PlainKernel:
    """Return a plain kernel whose parameters and launch are known.

    Args:
        subject: The kernel.
        parameters: Its parameters.
        roles: Their roles.
        rule: How it is launched.
        letters: One letter per matrix A, B and C: N for contiguous rows, T for contiguous columns.
        steps: Numbers that M, N and K must be multiples of.

    Raises:
        ConfigError: If types or launch do not fit a product of matrices.
    """
    _check_roles(subject, roles)
    tile = tile_of(rule, roles)
    geometry = _constant_geometry(subject, rule)
    if not rounds_up(rule, roles, tile):  # blocks are left out at other sizes
        steps = math.lcm(steps[0], tile[0]), math.lcm(steps[1], tile[1]), steps[2]
    text, places, symbol = subject.program.kernel_text(subject.chosen.name)
    plain = PlainKernel(
        file=subject.program.file,
        name=symbol,
        text=text,
        places=places,
        source=nvrtc_text(text),
        parameters=tuple(_plain_parameter(at, each, roles) for at, each in enumerate(parameters)),
        types=_types(subject, parameters, roles),
        layout=letters[:2],
        grid=functools.partial(_grid, rule, threading.Lock()),
        block=geometry.block,
        shared_bytes=geometry.shared_bytes,
        tile=tile,
        multiple_of=steps,
        same_sizes=tuple(sizes for sizes in dict.fromkeys(roles.sizes.values()) if len(sizes) > 1),
        adds_to_c=roles.beta is not None or _adds_to(parameters[roles.c].name, subject.text),
    )
    return plain.of_transposed() if letters[2] == "T" else plain


def variant_of(plain: PlainKernel, name: str, summary: str) -> Variant:
    """Return the row of a variant with a plain kernel."""
    rows, cols = plain.tile
    own = Config(rows, cols)
    return Variant(
        name=name,
        template=plain.file,
        summary=summary,
        configure=lambda tile, element: own,
        block=lambda config: plain.block,
        shared_bytes=lambda config, element, layout: plain.shared_bytes,
        rules=lambda config, element: [
            (config == own, "a plain kernel has no config fields, because its text fixes them")
        ],
        types=((plain.types[0].dtype_name, (0, 0)),),
        tensor_cores=_TENSOR_CORES.search(plain.text) is not None,
        operands=Dense(plain=plain),
        user=plain,
    )


def _grid(rule: LaunchRule, lock: threading.Lock, sizes: Mapping[str, int]) -> tuple[int, int, int]:
    with lock:  # host code is evaluated with one set of sizes at a time
        return rule.geometry(sizes).grid


def _roles(subject: Subject, parameters: Sequence[Parameter]) -> Roles:
    """Return the roles of the parameters.

    Raises:
        ConfigError: If they are not evident from names, and the user does not state them.
    """
    if subject.said.args:
        if roles := roles_of_arguments(subject.said.arguments, parameters):
            return roles
        raise subject.error(
            f"does not match args={subject.said.args!r}: describe all parameters in order, as in {_EXAMPLE}"
        )
    possible = roles_of(subject.chosen.declaration.short_name, parameters, has_loop=True)
    evident = [each for each in possible if each.certain and has_size_names(each, parameters)]
    if not evident:
        raise subject.error(
            f"has parameters whose meaning is unclear ({subject.signature}): describe them, as in {_EXAMPLE}"
        )
    return evident[0]


def _check_roles(subject: Subject, roles: Roles) -> None:
    """Raise ConfigError if a product needs other numbers than its sizes, row strides, alpha and beta."""
    if roles.others:
        names = ", ".join(subject.chosen.declaration.parameters[at][1] for at in roles.others)
        raise subject.error(f"has parameters that are not sizes, row strides, alpha or beta: {names}")
    if roles.batch is not None:
        raise subject.error("has a parameter for the batch size, but a variant launches its kernel once per product")
    if missing := [size for size in SIZES if size not in roles.named]:
        raise subject.error(
            f"has no parameter for {' and '.join(missing)}: a variant needs M, N and K as parameters, not as constants"
        )


def _rule(subject: Subject, roles: Roles, parameters: Sequence[Parameter]) -> LaunchRule:
    """Return how the kernel is launched: as the user states, as the file launches it, or as its text suggests."""
    try:
        return subject.rule(roles)
    except ConfigError:
        if subject.said.grid or subject.said.block:
            raise
        indices = Indices(subject.program, subject.chosen)
        evident = [each for each in guesses(indices, roles, parameters) if each.evident]
        if not evident:
            raise subject.error(
                "has no launch in the file: pass grid='(N+15)/16,(M+15)/16', block='16,16', or add a comment to the "
                "file: // tiledmm: grid=(N+15)/16,(M+15)/16 block=16,16"
            ) from None
        return evident[0]


def _constant_geometry(subject: Subject, rule: LaunchRule) -> Geometry:
    """Return the launch at some size, after checking that block and shared memory are the same at another.

    Raises:
        ConfigError: If they differ, or a block has too many threads.
    """
    both = [rule.geometry(dict.fromkeys(SIZES, size)) for size in (1024, 3072)]
    if both[0].block != both[1].block or both[0].shared_bytes != both[1].shared_bytes:
        raise subject.error(
            f"has blocks of {both[0].block} threads with {both[0].shared_bytes:,} bytes of dynamic shared memory for "
            f"M = N = K = 1024, but {both[1].block} with {both[1].shared_bytes:,} for 3072: a variant needs the same "
            "for all sizes"
        )
    threads = math.prod(both[0].block)
    if not 0 < threads <= MAX_THREADS:
        raise subject.error(f"has blocks of {threads:,} threads, and a block may have at most {MAX_THREADS:,}")
    return both[0]


def _steps(multiple_of: int | Sequence[int] | Mapping[str, int]) -> tuple[int, int, int]:
    """Return the numbers that M, N and K must be multiples of.

    Raises:
        ConfigError: If they are not positive integers for M, N and K.
    """
    if isinstance(multiple_of, Mapping):
        found: list[object] = [multiple_of.get(name, 1) for name in SIZES]
        unknown = set(multiple_of) - set(SIZES)
    else:
        found = list(multiple_of) if isinstance(multiple_of, Sequence) else [multiple_of] * 3
        unknown = set()
    whole = [each for each in found if isinstance(each, int) and not isinstance(each, bool) and each > 0]
    if len(found) != 3 or len(whole) != 3 or unknown:
        raise ConfigError(
            "multiple_of must be a positive integer, three of them for M, N and K, or a dict such as {'K': 8}; got "
            f"{multiple_of!r}"
        )
    return whole[0], whole[1], whole[2]


def _letters(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> str:
    """Return the layout letters of A, B and C from the extents that a user states: N for rows, T for columns."""
    found = {"A": "N", "B": "N", "C": "N"}
    for each, parameter in zip(arguments, parameters, strict=False):
        extents = tuple(part.strip() for part in each.value.split(","))
        if parameter.kind == POINTER and each.dtype is not None and (known := _EXTENTS.get(extents)):  # type: ignore[arg-type]
            found[known[0]] = known[1]
    return "".join(found.values())


def _types(subject: Subject, parameters: Sequence[Parameter], roles: Roles) -> tuple[Element, Element, Element]:
    """Return the element types of A, B and C.

    Raises:
        ConfigError: If one is unknown, or A and B differ.
    """
    try:
        product = Product.of(roles, parameters)
    except ConfigError as error:
        raise subject.error(f"cannot be a variant: {error}") from None
    found = []
    for at, dtype in zip(roles.order, product.types, strict=True):
        try:
            found.append(element(dtype))
        except UnsupportedTypeError:
            raise subject.error(
                f"has the parameter {parameters[at].type} {parameters[at].name}, whose element type is not supported"
            ) from None
    if found[0] != found[1]:
        raise subject.error(
            f"multiplies {found[0].dtype_name} by {found[1].dtype_name}: a variant needs operands of the same type"
        )
    return found[0], found[1], found[2]


def _plain_parameter(at: int, parameter: Parameter, roles: Roles) -> PlainParameter:
    if parameter.kind == POINTER:
        return PlainParameter(parameter.name, "ABC"[roles.order.index(at)])
    dtype = number_type(parameter)
    if at in roles.sizes:
        return PlainParameter(parameter.name, roles.sizes[at][0], dtype)
    if at in roles.leading:
        matrix = roles.leading[at]
        return PlainParameter(parameter.name, f"ld{matrix.lower()}" if matrix in "ABC" else "N", dtype)
    return PlainParameter(parameter.name, "", dtype, 1.0 if at == roles.alpha else 0.0)


def _adds_to(name: str, text: str) -> bool:
    """Return whether a kernel's text adds to elements of an array: ``C[i] += x``, or by an atomic function."""
    subscript = rf"\b{re.escape(name)}\s*\[[^;=]*\]"
    return re.search(rf"{subscript}\s*\+=|\batomicAdd\s*\(\s*&?\s*\(?\s*{re.escape(name)}\b", text) is not None
