"""Access to kernels by name: their source, compiled kernels, and compilation in advance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tiledmm.codegen.rendering import page_of, render
from tiledmm.elements import SCHEMES, compute_element
from tiledmm.errors import ConfigError, device_module
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import find_variant, kernel_spec
from tiledmm.problem.keywords import AUTO, KernelKeywords, Precision, Symmetry, is_ieee
from tiledmm.schedule.schedule import required_kernels
from tiledmm.selection.choose import call_of, choose, layouts_with
from tiledmm.selection.model import SPLIT_K_FACTORS, Model

if TYPE_CHECKING:
    from tiledmm.compile.compilation import LoadedKernel


def source(
    variant: str,
    *,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
    page: bool = False,
) -> str:
    """Return the CUDA C of a kernel. This function needs neither a GPU nor CuPy.

    Args:
        variant: Name of a variant: any but ``"cublas"``, which has no kernel of this package.
        tile: Tile size; None for the variant's default.
        config: Values of config fields that replace those of the tile, as for ``matmul``.
        dtype: Computation type. It may also be ``"tf32"``, or a type such as ``"int8_int32"`` for int8 operands with
            int32 results. None for float32, or for the variant's first type if it does not support float32.
        layout: One letter per operand, A then B: N for contiguous rows, T for contiguous columns (the transpose of a
            row-major matrix), G for neither.
        a_dtype, b_dtype, out_dtype: Types in memory of A, B and C if they differ from ``dtype``.
        page: Whether to return only the kernel's own part of the text, without the headers before it. That part does
            not compile by itself.

    Returns:
        Source that compiles by itself, with an ``extern "C"`` kernel; with ``page``, only the kernel's own part of
        it.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError, ShapeError: If the variant, tile, type or layout does
            not exist.
    """
    spec = kernel_spec(
        variant, tile=tile, config=config, dtype=dtype, layout=layout, a_dtype=a_dtype, b_dtype=b_dtype,
        out_dtype=out_dtype,
    )  # fmt: skip
    text = render(spec.kernel)
    return page_of(text) if page else text


def kernel(
    variant: str,
    *,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
) -> LoadedKernel:
    """Compile a kernel for the current device and return it with its source, resource use and occupancy.

    Args:
        variant, tile, config, dtype, layout, a_dtype, b_dtype, out_dtype: As for ``source``.

    Raises:
        TiledmmError: As for ``source``.
        DeviceError: If there is no GPU. ``tiledmm.compile.inspection`` compiles without one.
        CompilationError: If the kernel does not compile.
    """
    spec = kernel_spec(
        variant, tile=tile, config=config, dtype=dtype, layout=layout, a_dtype=a_dtype, b_dtype=b_dtype,
        out_dtype=out_dtype,
    )  # fmt: skip
    compiled: LoadedKernel = device_module("compile.compilation").compiled(spec.kernel)
    return compiled


def precompile(
    variants: str | Iterable[str] = AUTO,
    *,
    sizes: Iterable[tuple[int, int, int]] | None = None,
    tiles: Iterable[int] | None = None,
    dtypes: Any = None,
    layouts: Iterable[str] = ("NN", "NT", "TN", "TT"),
    precision: Precision = "full",
    symmetry: Symmetry = "none",
    progress: Callable[[str], None] | None = None,
) -> int:
    """Compile kernels for the current device in advance, so that later calls need not compile them.

    Args:
        variants: One or several names of variants. ``"auto"`` means all kernels from which ``auto`` chooses, with and
            without split-K.
        sizes: Sizes (m, n, k) of products, each with all ``dtypes`` and ``layouts``. Then only the kernels that
            ``matmul`` launches for these products are compiled, a few instead of hundreds. None for all kernels that
            products of any size may need.
        tiles: Tile sizes. None for all tiles of each variant or, with ``sizes``, the tile that ``matmul`` chooses.
        dtypes: One or several types. None for float32, or for the variant's first type if it does not support
            float32.
        layouts: Layouts of A and B, as for ``source``.
        precision: Precision, as for ``matmul``. A decomposition scheme such as ``"fp16x3"`` needs ``sizes``.
        symmetry: ``"symmetric"`` for products ``a @ a.T``, ``"hermitian"`` for ``gemm(a, a, adjoint_b=True)``. These
            need ``sizes``, and only the first letter of each layout counts, which is A's.
        progress: Function that is called with each kernel's name once it is compiled.

    Returns:
        The number of kernels that are compiled now, including those that already were.

    Raises:
        TiledmmError: As for ``kernel``.

    Example:
        >>> tiledmm.precompile(sizes=[(4096, 4096, 4096), (1, 4096, 4096)], dtypes="float16", layouts=["NN"])
    """
    names = [variants] if isinstance(variants, str) else list(variants)
    types = [dtypes] if isinstance(dtypes, str) or not isinstance(dtypes, Iterable) else list(dtypes)
    chosen, pairs = None if tiles is None else list(tiles), list(layouts)
    if sizes is None:
        if symmetry != "none":
            raise ConfigError(f"symmetry={symmetry!r} names the kernels of given products, so sizes= is needed")
        specs = kernels_of_any_product(names, chosen, types, pairs, precision)
    else:
        specs = list(kernels_of_products(list(sizes), names, chosen, types, pairs, precision, symmetry))
    told = None if progress is None else lambda ready: progress(ready.symbol)
    device_module("compile.compilation").raw_kernels(specs, told)
    return len(specs)


def kernels_of_any_product(
    variants: list[str], tiles: list[int] | None, dtypes: list[Any], layouts: list[str], precision: str
) -> list[KernelSpec]:
    """Return the specifications of the kernels that products of any sizes may launch, sorted by name.

    Args:
        variants, tiles, dtypes, layouts, precision: As for ``precompile``.

    Raises:
        TiledmmError: As ``precompile``.
    """
    if precision in SCHEMES:
        raise ConfigError(f"precision={precision!r} names a kernel for each product, so sizes= is needed")
    types = ["tf32" if precision == "tf32" and dtype in (None, "float32") else dtype for dtype in dtypes]
    ieee = is_ieee(precision)
    named = {
        (chosen, kernel_spec(name, tile=tile, dtype=_own_type(name, dtype), layout=layout))
        for chosen in variants
        for dtype in types
        for name, tile in (_kernels_of_auto(tiles, dtype, ieee) if chosen == AUTO else _kernels_of(chosen, tiles))
        for layout in layouts
    }
    specs: set[KernelSpec] = set()
    for chosen, spec in named:
        by_auto = chosen == AUTO
        specs |= required_kernels(spec, SPLIT_K_FACTORS[1:] if by_auto else (), by_auto)
    return sorted(specs, key=lambda each: each.symbol)


def kernels_of_products(
    sizes: Sequence[tuple[int, int, int]],
    variants: list[str],
    tiles: list[int] | None,
    dtypes: list[Any],
    layouts: list[str],
    precision: str,
    symmetry: str = "none",
) -> dict[KernelSpec, list[str]]:
    """Return a dict of the kernels that given products launch, each with the descriptions of these products.

    The kernels are sorted by name. A description is a text with sizes, type and layout.

    Args:
        sizes, variants, tiles, dtypes, layouts, precision, symmetry: As for ``precompile``.

    Raises:
        TiledmmError: As ``precompile``.
    """
    found: dict[KernelSpec, list[str]] = {}
    model, own_or_given = device_module("launch.devices").device_model, tiles or (None,)
    orders, of_c = layouts_with(symmetry, layouts), "" if symmetry == "none" else f"  {symmetry}"
    for size, dtype, layout, variant, tile in itertools.product(sizes, dtypes, orders, variants, own_or_given):
        if len(size) != 3 or min(size) < 1:
            raise ConfigError(f"sizes must be triples (m, n, k) of integers of at least 1; got {size!r}")
        kernel_spec("naive" if variant == AUTO else variant, layout=layout)  # raises if there is no such kernel
        m, n, k = map(int, size)
        call, asked = call_of((m, n, k), "float32" if dtype is None else dtype, layout, precision, symmetry)
        choice = choose(call, KernelKeywords(variant, tile, None, asked), model)
        for spec in choice.kernels:
            products = found.setdefault(spec, [])
            if (name := f"{m} x {n} x {k}  {call.multiplied.compute.dtype_name}  {layout}{of_c}") not in products:
                products.append(name)
    return {each: found[each] for each in sorted(found, key=lambda each: each.symbol)}


def _own_type(name: str, dtype: Any) -> Any:
    """Return the name of the type in which a variant computes products of a type; None if ``dtype`` is None."""
    return None if dtype is None else find_variant(name).computes_in(compute_element(dtype)).dtype_name


def _kernels_of(name: str, tiles: list[int] | None) -> list[tuple[str, int | None]]:
    """Return pairs of a variant's name and each of the given tiles; for None, each of the variant's own tiles.

    If the variant has no choice of tiles, the only pair has None as its tile.
    """
    has = find_variant(name).tiles
    if not has:
        return [(name, None)]
    return [(name, tile) for tile in (has if tiles is None else tiles)]


def _kernels_of_auto(tiles: list[int] | None, dtype: Any, ieee: bool) -> list[tuple[str, int]]:
    """Return the variants and tiles from which ``auto`` chooses for a computation type on the current device.

    Args:
        tiles: Tiles to include; None for all.
        dtype: Computation type; None for float32.
        ieee: Whether to include only kernels that multiply and add in the elements' own type.
    """
    model: Model = device_module("launch.devices").device_model(ieee)
    rows = model.kernels_for(compute_element("float32" if dtype is None else dtype))
    return [(name, tile) for name, tile in dict.fromkeys(row.name for row in rows) if tiles is None or tile in tiles]
