"""Names of the kernels on which results depend, and a hash of the code behind each name.

A name is a variant and a computation type, such as ``"warp_tiled float32"``, followed by ``gemm`` for kernels with an
epilogue, by ``triangle`` for kernels that compute half of a symmetric C, and by ``conjugates`` for kernels that
conjugate an operand or compute half of a Hermitian C. It represents all tiles in all layouts, and the auxiliary kernels
that such products launch, so that a file with hundreds of kernels lists only dozens of names.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tiledmm.codegen.kernel_hash import kernel_hash
from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS, SCHEMES, TF32, Element, compute_element
from tiledmm.errors import TiledmmError
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import VARIANTS, find_variant
from tiledmm.problem.epilogue import Epilogue, EpilogueOperand
from tiledmm.selection.rates import shipped
from tiledmm.tuning.cases import Case, named

_GEMM, _TRIANGLE, _CONJUGATES = "gemm", "triangle", "conjugates"
_UNPACKED = {packed.dtype_name: name for name, packed in PACKED_ELEMENTS.items()}

# What is launched besides the kernel that multiplies, by fields of ``LaunchConfig``.
_WAYS: tuple[dict[str, int], ...] = ({}, {"pack_a": 1, "pack_b": 1})
_PACKED = {"pack_elements": 1}


def hashes(names: Iterable[str]) -> dict[str, str]:
    """Return the hash of the current code for each name."""
    return {name: _hash(name) for name in sorted(names)}


def changed(known: Mapping[str, str]) -> list[str]:
    """Return the names whose current code differs from the given hashes, in order."""
    return [name for name, found in known.items() if not _exists(name) or _hash(name) != found]


def loaded() -> set[str]:
    """Return the names of all kernels that this process has compiled for a GPU; none without CuPy."""
    compilation = sys.modules.get("tiledmm.compile.compilation")
    return {name for spec in (compilation.loaded_kernels() if compilation else ()) for name in names_of(spec)}


def names_of(spec: KernelSpec) -> list[str]:
    """Return the names of a kernel; auxiliary kernels have none, since they belong to the kernels that they serve."""
    variant = spec.variant
    if VARIANTS.get(variant.name) is not variant or variant.user is not None:
        return []
    kind = _UNPACKED.get(spec.compute.multiplied, spec.compute.multiplied)
    # Limbs and residues do not tell which type they are of, except that limbs of some schemes emulate tf32.
    scheme, types = SCHEMES.get(spec.config.scheme), list(dict(variant.types))
    types = [each for each in types if scheme is None or scheme.computes(compute_element(each))]
    types = [kind] if variant.operands.reads_elements else types
    uses = f" {_GEMM}" * (spec.epilogue is not None) + f" {_TRIANGLE}" * spec.config.triangle
    uses += f" {_CONJUGATES}" * (spec.conjugates != "" or spec.hermitian)
    return [f"{variant.name} {each}{uses}" for each in types]


def of_variants(*variants: str, dtype: str = "float32") -> list[str]:
    """Return the names of some variants with one type."""
    return [f"{variant} {dtype}" for variant in variants]


def of_auto(*dtypes: str) -> list[str]:
    """Return the names of all kernels that ``auto`` may choose for some types, according to the shipped tables."""
    rows = {row.variant for table in shipped().values() for row in table.rows}
    types = {dtype: compute_element(dtype) for dtype in dtypes}
    pairs = itertools.product(sorted(rows), types.items())
    return [f"{row} {dtype}" for row, (dtype, each) in pairs if find_variant(row).multiplies(each)]


def _exists(name: str) -> bool:
    variant, dtype, *_ = name.split()
    return variant in VARIANTS and (dtype in ELEMENTS or dtype == TF32.dtype_name)


@functools.cache
def _hash(name: str) -> str:
    variant, dtype, *uses = name.split()
    kernels = _kernels(find_variant(variant), dtype)
    if _TRIANGLE in uses:
        kernels = dict.fromkeys(map(_of_triangle, kernels))
    if _CONJUGATES in uses:
        kernels = dict.fromkeys(map(_with_conjugates, kernels))
    if _GEMM in uses:
        kernels = dict.fromkeys(_with_epilogue(each) for each in kernels if each.variant.name == variant)
    return kernel_hash(kernels)


def _kernels(variant: Variant, dtype: str) -> dict[KernelSpec, None]:
    """Return the kernels that products of all tiles and layouts launch."""
    found: dict[KernelSpec, None] = {}
    ways = (*_WAYS, _PACKED) if variant.reads.packs_elements and dtype in PACKED_ELEMENTS else _WAYS
    for tile, layout, split, way in itertools.product(variant.tiles or (None,), ("NN", "NT", "TN", "TT"), (1, 2), ways):
        with contextlib.suppress(TiledmmError):  # not for such products
            choice = named(variant.name, tile, dtype, Case(1, 67, 67, 515, layout, split), **way)
            found |= dict.fromkeys(choice.kernels)
    return found


def _of_triangle(kernel: KernelSpec) -> KernelSpec:
    if not kernel.variant.has_triangle(kernel.config):
        return kernel
    return replace(kernel, config=replace(kernel.config, triangle=1))


def _with_conjugates(kernel: KernelSpec) -> KernelSpec:
    variant, is_complex = kernel.variant, kernel.compute.components > 1
    if variant.writes is not None:
        conjugates = "a"
    else:
        conjugates = "b" if VARIANTS.get(variant.name) is variant and variant.operands.reads_elements else ""
    hermitian = kernel.config.triangle > 0
    return replace(kernel, conjugates=conjugates, hermitian=hermitian) if is_complex else kernel


def _with_epilogue(kernel: KernelSpec) -> KernelSpec:
    if not kernel.variant.operands.has_epilogue:
        return kernel  # another kernel finishes its sums
    epilogue = Epilogue(
        (EpilogueOperand("addend", kernel.c, (None, 1)), EpilogueOperand("bias", kernel.c, (0, 1))),
        ("alpha", "beta"),
        _activation(kernel.c),
    )
    return replace(kernel, epilogue=epilogue)


def _activation(result: Element) -> str:
    if result.components > 1:
        return ""
    return "gelu" if "float" in result.dtype_name else "relu"
