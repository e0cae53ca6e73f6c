"""A kernel by everything that its text depends on: variant, config, element types and layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tiledmm.elements import SCHEMES, Element
from tiledmm.hardware.architectures import Architecture
from tiledmm.kernels.config import Config, LaunchConfig
from tiledmm.kernels.operands.operands import Operands
from tiledmm.kernels.variant import Variant
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
    def operands(self) -> Operands:
        """The format of the operands, packed first where the config says so."""
        return self.variant.operands.packed_by(self.config.launch)

    @property
    def kernel(self) -> KernelSpec:
        """The kernel that multiplies, without its auxiliary kernels: it reads prepared operands."""
        return self.operands.kernel(self)

    def alone(self) -> KernelSpec:
        """Return the kernel without parameters of its launches."""
        return replace(self, config=replace(self.config, launch=LaunchConfig()))

    def packing_for_tma(self, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """Return the kernel with the operands packed first that TMA cannot read, if it reads by TMA.

        Args:
            a_in_place, b_in_place: Whether TMA can read A and B where they are.
        """
        return self.variant.operands.for_tma(self, a_in_place, b_in_place) if self.variant.hopper.tma else self

    @property
    def limbs(self) -> int:
        """Planes of limbs, bytes or residues that an element is decomposed into; 1 if it is not."""
        variant = self.variant
        return (variant.writes or variant.operands).limbs(self.config, self.compute)

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
        return self.shared_bytes if self.variant.tensor_cores else 0

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
