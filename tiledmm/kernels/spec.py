"""A kernel by everything that its text depends on: variant, config, element types and layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS, SCHEMES, Element, compute_element, compute_element_of, element
from tiledmm.errors import ConfigError, ShapeError, UnsupportedTypeError
from tiledmm.hardware.architectures import Architecture
from tiledmm.kernels.auxiliary_kernels import DECOMPOSE_BYTES, DECOMPOSE_RESIDUES
from tiledmm.kernels.config import Config, ConfigOverrides, LaunchConfig
from tiledmm.kernels.residues import residue_planes
from tiledmm.kernels.variant import Variant
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.casting import converts_in_kernel
from tiledmm.problem.epilogue import Epilogue

#: The template's name of an operand's layout, by its letter in a layout such as "NT".
ORDERS = {"N": "ROWS", "T": "COLUMNS", "G": "STRIDED"}


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """Everything that a kernel's text depends on, and the config of its launches.

    Attributes:
        variant: The variant.
        config: Its parameters.
        a, b, c: Element types of the operands and the result in memory.
        compute: Computation type; ``a`` and ``b`` are converted to it as they are read.
        layout: A letter each for A and B: N rows contiguous, T columns contiguous (a transposed matrix), G neither.
        condition: The kernel's part in an operand scan: ``"scan"`` if it writes it; ``"if decomposed"`` or
            ``"unless decomposed"`` if the scan decides whether it computes; empty for all other kernels.
        epilogue: What becomes of a sum before it is stored; None for nothing.
    """

    variant: Variant
    config: Config
    a: Element
    b: Element
    compute: Element
    c: Element
    layout: str
    condition: str = ""
    epilogue: Epilogue | None = None

    @property
    def symbol(self) -> str:
        """The kernel's name in a profiler: variant, types, tile, layout."""
        types = self.compute.name
        if not (self.a == self.b == self.compute.stored and self.c == self.compute.result):
            types = f"{self.a.name}_{self.b.name}_{self.compute.name}_{self.c.name}"
        cfg = self.config
        half = "_triangle" if cfg.triangle else ""
        suited = "_unsplit" if self.condition == "unless decomposed" else ""
        scheme = f"x{SCHEMES[cfg.scheme].products}" if cfg.scheme else f"x{cfg.moduli}" if cfg.moduli else ""
        numbers = f"{cfg.bm}x{cfg.bn}x{cfg.bk}"
        after = f"_{self.epilogue.name}" if self.epilogue else ""
        return f"tiledmm_{self.variant.name}_{types}{scheme}_{numbers}_{self.layout.lower()}{half}{suited}{after}"

    def __str__(self) -> str:
        """The kernel's symbol, and what its auxiliary kernels do."""
        launch = self.config.launch
        parts = [self.kernel.symbol]
        parts += [f"{name} packed" for name, packs in (("A", launch.pack_a), ("B", launch.pack_b)) if packs]
        parts += ["elements packed"] * launch.pack_elements
        parts += [f"split-K {launch.split_k}"] * (launch.split_k > 1)
        return ", ".join(parts)

    @property
    def waits(self) -> str:
        """When its blocks wait for the launches before: ``Variant.waits``."""
        return "first" if self.condition == "unless decomposed" else self.variant.waits

    @property
    def block(self) -> tuple[int, int]:
        """Threads of a block along x and y."""
        return self.variant.block(self.config)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)

    @property
    def kernel(self) -> KernelSpec:
        """The kernel that multiplies, without its auxiliary kernels: packed operands have the computation type."""
        packed = self.packed
        bare = replace(packed.config, launch=LaunchConfig())
        if self.config.launch.pack_elements:
            into = PACKED_ELEMENTS[self.compute.multiplied]
            return replace(self, config=bare, a=into, b=into, compute=self.compute.packed or into, layout="TN")
        if self.variant.decomposes_to_bytes:
            return replace(self, config=bare, a=ELEMENTS["uint8"], b=ELEMENTS["uint8"], layout="NT")
        if self.variant.decomposes_to_residues:
            byte = ELEMENTS["uint8"]
            return replace(
                self, config=bare, a=byte, b=byte, c=byte, layout="NT", condition="if decomposed", epilogue=None
            )
        if self.variant.decomposes:
            limb = SCHEMES[self.config.scheme].limb_of(self.compute)
            a, b = packed.layout[0], packed.layout[1]
            layout = ("N" if a == "G" else a) + ("T" if b == "G" else b)
            return replace(self, config=bare, a=limb, b=limb, compute=limb, layout=layout, condition="if decomposed")
        return replace(packed, config=bare)

    @property
    def packed(self) -> KernelSpec:
        """The same after packing: packed operands have the computation type."""
        config = self.config
        return replace(
            self,
            config=config.changed({"pack_a": 0, "pack_b": 0}),
            a=self.compute.stored if config.launch.pack_a else self.a,
            b=self.compute.stored if config.launch.pack_b else self.b,
            layout=("N" if config.launch.pack_a else self.layout[0])
            + (self.packed_b if config.launch.pack_b else self.layout[1]),
        )

    @property
    def packed_b(self) -> str:
        """B's layout once it is packed."""
        return self.variant.packed_b(self.compute)

    def packing_unless(self, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """The same, with operands packed first that TMA cannot read in place, if this kernel reads by TMA.

        Those are operands of another type, or in a layout that tensor cores do not take. Operands that are decomposed
        are read in place; they are packed only if their limbs must be K-major, as those of 32 bits must.
        """
        if not self.variant.tma or self.variant.decomposes_to_bytes or self.variant.decomposes_to_residues:
            return self
        if self.variant.decomposes:
            transposes = SCHEMES[self.config.scheme].limb.itemsize == 2
            a_in_place, b_in_place = transposes or self.layout[0] != "T", transposes or self.layout[1] != "N"
        else:
            stored = self.compute.stored
            a_in_place &= self.a == stored and self.variant.reads_fast(0, self.layout[0], self.compute)
            b_in_place &= self.b == stored and self.variant.reads_fast(1, self.layout[1], self.compute)
        pack_a, pack_b = (
            self.config.launch.pack_a or int(not a_in_place),
            self.config.launch.pack_b or int(not b_in_place),
        )
        return replace(self, config=self.config.changed({"pack_a": pack_a, "pack_b": pack_b}))

    @property
    def limbs(self) -> int:
        """Limbs, or bytes, that an element is decomposed into; 1 if it is not."""
        if self.variant.decomposes_to_bytes or self.variant is DECOMPOSE_BYTES:
            return self.compute.itemsize
        if self.variant is DECOMPOSE_RESIDUES:
            return residue_planes(self.config.moduli, self.compute.parts)
        return SCHEMES[self.config.scheme].limbs if self.config.scheme else 1

    @property
    def products(self) -> int:
        """Products of limbs in a product of two elements, or of their parts; 1 if they are not decomposed."""
        return SCHEMES[self.config.scheme].products if self.config.scheme else 1

    @property
    def has_residue_scan(self) -> bool:
        """Whether the operand scan that it writes or reads is that of float64 numbers, decomposed into residues."""
        return bool(self.condition) and self.compute.dtype_name in ("float64", "complex128")

    @property
    def dynamic_shared_bytes(self) -> int:
        """Bytes of it that have to be asked for at launch."""
        return self.shared_bytes if self.variant.dynamic_shared else 0

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return self.variant.shared_bytes(self.config, self.compute, self.layout)

    def why_not_on(self, arch: Architecture) -> str:
        """Why GPUs of an architecture cannot run the kernel; empty if they can."""
        if not self.variant.runs_on(arch.capability, self.compute):
            needed = self.variant.needed_capability(self.compute)
            return f"variant {self.variant.name!r} needs compute capability {needed}, which {arch.name} does not have"
        if self.shared_bytes > arch.max_shared_bytes:
            return (
                f"{self.symbol} needs {self.shared_bytes:,} bytes of shared memory, and a block of {arch.name} has at "
                f"most {arch.max_shared_bytes:,}"
            )
        return ""


def kernel_spec(
    variant: str | Variant,
    *,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
) -> KernelSpec:
    """Checks a description of a kernel and completes it.

    Args:
        variant: Name of a variant with a kernel of its own.
        tile: Tile size, or None for the variant's default.
        config: Fields to have instead of the tile's own, by their names in ``Config``.
        dtype: Computation type; also ``"tf32"``, or ``"int8_int32"``, which ``"int32"`` is if both operands are int8.
            None for float32, or the first of the variant's own.
        layout: Two letters of N (rows contiguous), T (columns contiguous) and G (general strides), for A and B.
        a_dtype, b_dtype, out_dtype: Types in memory where they differ from ``dtype``.

    Raises:
        UnknownVariantError, ConfigError, UnsupportedTypeError, ShapeError: If something is not in the closed sets.
    """
    row = variant if isinstance(variant, Variant) else find_variant(variant)
    if row.template is None:
        raise ConfigError(f"variant {row.name!r} has no kernel of this package: it calls cupy.matmul")
    if not isinstance(layout, str) or len(layout) != 2 or not set(layout) <= set(ORDERS):
        raise ShapeError(f"layout is two letters of N, T and G, for A and B, such as 'NT'; got {layout!r}")
    compute = compute_element(row.default_type if dtype is None else dtype)
    a, b = (compute.stored if d is None else element(d) for d in (a_dtype, b_dtype))
    c = compute.result if out_dtype is None else element(out_dtype)
    own = compute_element_of(a, b, compute)
    compute = own if row.multiplies(own) else compute
    for source, target in ((a, compute), (b, compute), (compute.result, c)):
        if not converts_in_kernel(source.dtype, target.dtype):
            raise UnsupportedTypeError(f"a kernel does not convert {source.dtype_name} to {target.dtype_name}")
    spec = KernelSpec(row, row.config(tile, compute, config), a, b, compute, c, layout)
    return spec.packing_unless(*("G" not in letter for letter in layout))
