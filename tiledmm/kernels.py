"""Kernels by name: their source, compiled kernels, and compilation ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tiledmm.codegen.page import page_of
from tiledmm.codegen.rendering import render
from tiledmm.codegen.specialization import Specialization, specialize
from tiledmm.elements import compute_element
from tiledmm.lazy import device_module
from tiledmm.registry.variants import find_variant
from tiledmm.schedule.schedule import required_kernels
from tiledmm.selection.model import SPLIT_K_FACTORS, Model
from tiledmm.selection.select import AUTO

if TYPE_CHECKING:
    from tiledmm.compile.compilation import Kernel


def source(
    variant: str,
    *,
    tile: int | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
    page: bool = False,
) -> str:
    """The CUDA C of a kernel. Needs no GPU and no CuPy.

    Args:
        variant: A variant with a kernel of its own: any but ``"cublas"``.
        tile: Tile size, or None for the variant's default.
        dtype: Computation type, which may be ``"tf32"``; None for float32, or the first of the variant's own.
        layout: A letter each for A and B: N rows contiguous, T columns contiguous (the transpose of a row-major
            matrix), G neither.
        a_dtype, b_dtype, out_dtype: Types in memory where they differ from ``dtype``.
        page: Whether to return the kernel's own page only, without the headers before it; it does not compile.

    Returns:
        Source that is complete in itself, with an ``extern "C"`` kernel; or its page.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError, ShapeError: If there is no such variant, tile, type or
            layout.
    """
    specialization = specialize(
        variant, tile=tile, dtype=dtype, layout=layout, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_dtype
    )
    text = render(specialization.kernel)
    return page_of(text) if page else text


def kernel(
    variant: str,
    *,
    tile: int | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
) -> Kernel:
    """The compiled kernel on the current device: source, RawKernel, registers, shared memory, occupancy.

    Args:
        variant, tile, dtype, layout, a_dtype, b_dtype, out_dtype: As for ``source``.

    Raises:
        TiledmmError: As ``source``.
        DeviceError: If there is no GPU; ``tiledmm.compile.inspection`` tells what can be known without one.
        CompilationError: If it does not compile.
    """
    specialization = specialize(
        variant, tile=tile, dtype=dtype, layout=layout, a_dtype=a_dtype, b_dtype=b_dtype, out_dtype=out_dtype
    )
    compiled: Kernel = device_module("compile.compilation").compiled(specialization.kernel)
    return compiled


def precompile(
    variants: str | Iterable[str] = AUTO,
    *,
    tiles: Iterable[int] | None = None,
    dtypes: Any = None,
    layouts: Iterable[str] = ("NN", "NT", "TN", "TT"),
    progress: Callable[[str], None] | None = None,
) -> int:
    """Compiles kernels now, on the current device, so that no call has to later.

    Args:
        variants: A name or several; ``"auto"`` stands for all kernels of ``auto``, with and without split-K.
        tiles: Tile sizes; None for all that each variant has.
        dtypes: A type or several; None for float32, or the first of a variant's own.
        layouts: Layouts of A and B, see ``source``.
        progress: Called with each kernel's name once it is compiled.

    Returns:
        How many kernels are ready.

    Raises:
        TiledmmError: As ``kernel``.
    """
    names = [variants] if isinstance(variants, str) else list(variants)
    types = [dtypes] if isinstance(dtypes, str) or not isinstance(dtypes, Iterable) else list(dtypes)
    sizes = None if tiles is None else list(tiles)
    pairs = list(layouts)
    named = {
        (chosen, specialize(name, tile=tile, dtype=_own_type(name, dtype), layout=layout))
        for chosen in names
        for dtype in types
        for name, tile in (_kernels_of_auto(sizes, dtype) if chosen == AUTO else _kernels_of(chosen, sizes))
        for layout in pairs
    }
    specializations: set[Specialization] = set()
    for chosen, spec in named:
        by_auto = chosen == AUTO
        specializations |= required_kernels(spec, SPLIT_K_FACTORS[1:] if by_auto else (), by_auto)
    device_module("compile.compilation").raw_kernels(sorted(specializations, key=lambda each: each.symbol), progress)
    return len(specializations)


def _own_type(name: str, dtype: Any) -> Any:
    """A variant's computation type for products of a type."""
    return None if dtype is None else find_variant(name).computes_in(compute_element(dtype)).dtype_name


def _kernels_of(name: str, tiles: list[int] | None) -> list[tuple[str, int | None]]:
    """A variant with each of its tiles, or with those given."""
    has = find_variant(name).tiles
    if not has:
        return [(name, None)]
    return [(name, tile) for tile in (has if tiles is None else tiles)]


def _kernels_of_auto(tiles: list[int] | None, dtype: Any) -> list[tuple[str, int]]:
    """The kernels of ``auto`` for a type, on the current device."""
    model: Model = device_module("devices").device_model()
    rows = model.kernels_for(compute_element("float32" if dtype is None else dtype))
    return [(name, tile) for name, tile in dict.fromkeys(row.name for row in rows) if tiles is None or tile in tiles]
