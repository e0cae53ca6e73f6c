"""Specification of a kernel: variant, config, element types, layout, and what else its source depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tiledmm.elements import SCHEMES, TF32, Element
from tiledmm.hardware.architectures import Architecture
from tiledmm.kernels.config import Config, LaunchConfig
from tiledmm.kernels.operands.operands import Operands
from tiledmm.kernels.variant import Variant
from tiledmm.problem.epilogue import Epilogue
from tiledmm.problem.strides import TRANSPOSED

#: Template names of an operand's memory order, by the letter in a layout such as "NT".
ORDERS = {"N": "ROWS", "T": "COLUMNS", "G": "STRIDED"}


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """Everything that the source of a kernel depends on, and the parameters of its launches.

    Attributes:
        variant: The variant.
        config: The parameters of the kernel and of its launches.
        a, b, c: Element types of A, B and C in memory.
        compute: Computation type. The kernel converts elements of A and B to it as it reads them.
        layout: One letter per operand, A then B: N for contiguous rows, T for contiguous columns (the transpose of a
            row-major matrix), G for neither.
        condition: Use of the operand scan: ``"scan"`` for a kernel that writes it; ``"if decomposed"`` or ``"unless
            decomposed"`` for a kernel that computes only if the scan found that the operands can, or cannot, be
            decomposed; empty for all other kernels.
        epilogue: Operations on each sum before it is stored; None for none.
        conjugates: Operands whose elements are conjugated: ``"a"``, ``"b"``, ``"ab"``, or empty for none.
        hermitian: True for a kernel that computes a triangle of a Hermitian C, and stores conjugates above the
            diagonal.
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
    conjugates: str = ""
    hermitian: bool = False

    @property
    def symbol(self) -> str:
        """Name of the kernel in its source and in profilers, such as ``tiledmm_tiled_padded_f32_32x32x32_nn``.

        That of a plain kernel is its name in C++, with namespaces and template arguments.
        """
        if plain := self.variant.plain:
            return plain.name
        types = self.compute.name
        if not (self.a == self.b == self.compute.stored and self.c == self.compute.result):
            types = f"{self.a.name}_{self.b.name}_{self.compute.name}_{self.c.name}"
        cfg = self.config
        conjugated = f"_conj_{self.conjugates}" if self.conjugates else ""
        half = ("_hermitian" if self.hermitian else "") + ("_triangle" if cfg.triangle else "")
        suited = "_unsplit" if self.condition == "unless decomposed" else ""
        scheme = f"x{SCHEMES[cfg.scheme].products}" if cfg.scheme else f"x{cfg.moduli}" if cfg.moduli else ""
        numbers = f"{cfg.bm}x{cfg.bn}x{cfg.bk}" + (f"_by{cfg.cluster_k}" if cfg.cluster_k > 1 else "")
        after = f"_{self.epilogue.name}" if self.epilogue else ""
        layout = f"{self.layout.lower()}{conjugated}"
        return f"tiledmm_{self.variant.name}_{types}{scheme}_{numbers}_{layout}{half}{suited}{after}"

    def __str__(self) -> str:
        """Return the kernel's symbol, followed by the packing and the split-K partitions of its launches."""
        launch = self.config.launch
        parts = [self.kernel.symbol]
        parts += [f"{name} packed" for name, packs in (("A", launch.pack_a), ("B", launch.pack_b)) if packs]
        parts += ["elements packed"] * launch.pack_elements
        parts += [f"split-K {launch.split_k}"] * (launch.split_k > 1)
        return ", ".join(parts)

    @property
    def waits(self) -> str:
        """Point at which each block waits for earlier launches of the product.

        It is ``"first"``, before the block accesses memory; ``"last"``, at the block's end; or empty for never.
        """
        return "first" if self.condition == "unless decomposed" else self.variant.waits

    @property
    def block(self) -> tuple[int, ...]:
        """Numbers of threads per block along x and y, and z for a plain kernel."""
        return self.variant.block(self.config)

    @property
    def threads(self) -> int:
        """Number of threads per block."""
        return math.prod(self.block)

    @property
    def operands(self) -> Operands:
        """Format in which the kernel reads its operands, once they are packed as the config says."""
        return self.variant.operands.format_by(self.config.launch)

    def conjugates_operand(self, operand: int) -> str:
        """Return the value of ``conjugates`` for an auxiliary kernel whose only operand is A (0) or B (1)."""
        return "a" if "ab"[operand] in self.conjugates else ""

    @property
    def kernel(self) -> KernelSpec:
        """Specification of the kernel that multiplies, without auxiliary kernels.

        Its types and layout are those of the prepared operands, such as packed rows or limbs.
        """
        return self.operands.kernel(self)

    def alone(self) -> KernelSpec:
        """Return this specification with a default ``LaunchConfig``, which packs nothing and does not divide K."""
        return replace(self, config=replace(self.config, launch=LaunchConfig()))

    def transposed(self) -> KernelSpec:
        """Return this specification for the form C^T = B^T A^T of its product."""
        return replace(
            self, a=self.b, b=self.a, layout=self.layout[::-1].translate(TRANSPOSED),
            epilogue=self.epilogue and self.epilogue.transposed(),
            conjugates="".join(sorted(self.conjugates.translate(str.maketrans("ab", "ba")))),
        )  # fmt: skip

    def with_packing_for_tma(self, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """Return this specification with packing of the operands that a TMA kernel cannot read in place.

        The specification of a kernel without TMA is returned as it is.

        Args:
            a_in_place, b_in_place: Whether TMA can read A and B where they are.
        """
        return self.variant.operands.for_tma(self, a_in_place, b_in_place) if self.variant.hopper.tma else self

    @property
    def limbs(self) -> int:
        """Number of planes of limbs, bytes or residues per decomposed element; 1 if elements are not decomposed."""
        variant = self.variant
        return (variant.writes or variant.operands).limbs(self.config, self.compute)

    @property
    def products(self) -> int:
        """Number of products of limbs per product of two real numbers; 1 if numbers are not decomposed into limbs."""
        return SCHEMES[self.config.scheme].products if self.config.scheme else 1

    @property
    def is_tf32(self) -> bool:
        """True for a kernel of a product in tf32, whether it multiplies tf32 or limbs that emulate it."""
        scheme = SCHEMES.get(self.config.scheme)
        return self.compute == TF32 if scheme is None else scheme.emulates == TF32.dtype_name

    @property
    def has_residue_scan(self) -> bool:
        """True if the kernel writes or reads the operand scan of a product that is computed by residues.

        The operand scan records whether the values of float64 or complex128 operands can be decomposed into residues.
        """
        return bool(self.condition) and self.compute.dtype_name in ("float64", "complex128")

    @property
    def dynamic_shared_bytes(self) -> int:
        """Dynamic shared memory per block in bytes, which must be requested at launch; 0 if shared memory is static."""
        return self.shared_bytes if self.variant.tensor_cores or self.variant.plain else 0

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block in bytes, static or dynamic."""
        return self.variant.shared_bytes(self.config, self.compute, self.layout)

    def why_not_on(self, arch: Architecture) -> str:
        """Return the reason why GPUs of an architecture cannot run the kernel; an empty string if they can."""
        if not self.variant.runs_on(arch.capability, self.compute):
            needed = self.variant.needed_capability(self.compute)
            return f"variant {self.variant.name!r} needs compute capability {needed}, which {arch.name} does not have"
        if self.config.blocks_per_cluster > 1 and arch.capability < (9, 0):
            return f"{self.symbol} needs clusters: compute capability 9.0 or newer, which {arch.name} does not have"
        if self.shared_bytes > arch.max_shared_bytes:
            return (
                f"{self.symbol} needs {self.shared_bytes:,} bytes of shared memory, and a block of {arch.name} has at "
                f"most {arch.max_shared_bytes:,}"
            )
        return ""
