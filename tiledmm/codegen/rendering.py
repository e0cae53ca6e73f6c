"""From a variant, its numbers, types and layout to CUDA C. Needs no GPU and no CuPy.

What reaches a template is validated: integers, and names from closed sets. Nothing that a caller writes is pasted into
source.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from tiledmm._version import __version__
from tiledmm.codegen.tree_shaking import BEGIN, END, shake
from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS, SCHEMES, Element, compute_element, element
from tiledmm.errors import ConfigError, ShapeError, UnsupportedTypeError
from tiledmm.problem.casting import converts_in_kernel
from tiledmm.registry.auxiliary_kernels import DECOMPOSE_BYTES
from tiledmm.registry.config import Config, ConfigOverrides, LaunchConfig
from tiledmm.registry.variant import Variant
from tiledmm.registry.variants import find_variant

if TYPE_CHECKING:
    from jinja2.ext import Extension

#: How an operand lies in memory, by the letter a layout such as "NT" has for it.
ORDERS = {"N": "ROWS", "T": "COLUMNS", "G": "STRIDED"}


@dataclass(frozen=True, slots=True)
class Specialization:
    """Everything that decides a kernel's text.

    Attributes:
        variant: The variant.
        config: Its numbers.
        a, b, c: Element types of the operands and the result in memory.
        compute: Element type the product is taken in; ``a`` and ``b`` are converted to it as they are read.
        layout: Two letters, A's and B's: N rows contiguous, T columns contiguous (a transposed matrix), G neither.
        condition: The kernel's part in an operand scan: ``"scan"`` if it writes it; ``"if decomposed"`` or
            ``"unless decomposed"`` if the scan decides whether it computes; empty for all other kernels.
    """

    variant: Variant
    config: Config
    a: Element
    b: Element
    compute: Element
    c: Element
    layout: str
    condition: str = ""

    @property
    def symbol(self) -> str:
        """The kernel's name in a profiler: variant, types, numbers, layout."""
        types = self.compute.name
        if not self.a == self.b == self.c == self.compute.stored:
            types = f"{self.a.name}_{self.b.name}_{self.compute.name}_{self.c.name}"
        cfg = self.config
        half = "_triangle" if cfg.triangle else ""
        suited = "_unsplit" if self.condition == "unless decomposed" else ""
        scheme = f"x{SCHEMES[cfg.scheme].products}" if cfg.scheme else ""
        numbers = f"{cfg.bm}x{cfg.bn}x{cfg.bk}"
        return f"tiledmm_{self.variant.name}_{types}{scheme}_{numbers}_{self.layout.lower()}{half}{suited}"

    def __str__(self) -> str:
        """In words: the kernel, and what is done before and after it."""
        launch = self.config.launch
        parts = [self.kernel.symbol]
        parts += [f"{name} packed" for name, packs in (("A", launch.pack_a), ("B", launch.pack_b)) if packs]
        parts += ["elements packed"] * launch.pack_elements
        parts += [f"split-K {launch.split_k}"] * (launch.split_k > 1)
        return ", ".join(parts)

    @property
    def block(self) -> tuple[int, int]:
        """Threads of a block along x and y."""
        return self.variant.block(self.config)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)

    @property
    def kernel(self) -> Specialization:
        """What multiplies, without what is done before and after: packed operands are of the product's own type."""
        packed = self.packed
        bare = replace(packed.config, launch=LaunchConfig())
        if self.config.launch.pack_elements:
            words = PACKED_ELEMENTS[self.compute.dtype_name]
            return replace(self, config=bare, a=words, b=words, compute=words, layout="TN")
        if self.variant.decomposes_to_bytes:
            return replace(self, config=bare, a=ELEMENTS["uint8"], b=ELEMENTS["uint8"], layout="NT")
        if self.variant.decomposes:
            piece = SCHEMES[self.config.scheme].limb_of(self.compute)
            a, b = packed.layout[0], packed.layout[1]
            layout = ("N" if a == "G" else a) + ("T" if b == "G" else b)
            return replace(self, config=bare, a=piece, b=piece, compute=piece, layout=layout, condition="if decomposed")
        return replace(packed, config=bare)

    @property
    def packed(self) -> Specialization:
        """The same where operands that are packed have been: these are of the product's own type."""
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
        """How B lies once it is packed."""
        return self.variant.packed_b(self.compute)

    def packing_unless(self, a_in_place: bool, b_in_place: bool) -> Specialization:
        """The same, with what the copy engine cannot read in place packed first, if this kernel's operands come by it.

        Packed operands are of the product's own type: what is stored as another type, or lies the wrong way for the
        tensor cores, cannot be read in place. What is split can be, and is packed only for pieces to lie along k, which
        those of 16 bits need not.
        """
        if not self.variant.tma or self.variant.decomposes_to_bytes:
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
        """How many pieces, or bytes, an element is split into; 1 if it is not."""
        if self.variant.decomposes_to_bytes or self.variant is DECOMPOSE_BYTES:
            return self.compute.itemsize
        return SCHEMES[self.config.scheme].limbs if self.config.scheme else 1

    @property
    def products(self) -> int:
        """How many products of pieces one of two elements, or of their parts, is taken as; 1 if they are not split."""
        return SCHEMES[self.config.scheme].products if self.config.scheme else 1

    @property
    def dynamic_shared_bytes(self) -> int:
        """Bytes of it that have to be asked for at launch."""
        return self.shared_bytes if self.variant.dynamic_shared else 0

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return self.variant.shared_bytes(self.config, self.compute, self.layout)


def specialize(
    variant: str | Variant,
    *,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    dtype: Any = None,
    layout: str = "NN",
    a_dtype: Any = None,
    b_dtype: Any = None,
    out_dtype: Any = None,
) -> Specialization:
    """Checks a description of a kernel and completes it.

    Args:
        variant: Name of a variant with a kernel of its own.
        tile: Tile size, or None for the variant's default.
        config: Fields to have instead of the tile's own, by their names in ``Config``.
        dtype: Type the product is taken in, ``"tf32"`` being one; None for float32, or the first of the variant's own.
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
    a, b, c = (compute.stored if d is None else element(d) for d in (a_dtype, b_dtype, out_dtype))
    for source, target in ((a, compute), (b, compute), (compute, c)):
        if not converts_in_kernel(source.dtype, target.dtype):
            raise UnsupportedTypeError(f"a kernel does not convert {source.dtype_name} to {target.dtype_name}")
    spec = Specialization(row, row.config(tile, compute, config), a, b, compute, c, layout)
    return spec.packing_unless(*("G" not in letter for letter in layout))


def render(specialization: Specialization) -> str:
    """The CUDA C of a kernel, complete in itself: no includes, no macros to define."""
    return shake(fill(specialization))


def fill(specialization: Specialization, *extensions: type[Extension]) -> str:
    """A kernel's template with its parameters in it, before tree shaking; Jinja extensions may change the template."""
    spec = specialization
    numbers = asdict(spec.config)
    del numbers["launch"]
    return (
        _environment(spec.variant if spec.variant.text is not None else None, extensions)
        .get_template(str(spec.variant.template))
        .render(
            numbers,
            symbol=spec.symbol,
            version=__version__,
            template=spec.variant.template,
            parameters=" ".join(f"{name}={value}" for name, value in numbers.items() if value != ""),
            a_type=spec.a.c_type,
            b_type=spec.b.c_type,
            c_type=spec.c.c_type,
            compute_type=spec.compute.c_type,
            order_a=ORDERS[spec.layout[0]],
            order_b=ORDERS[spec.layout[1]],
            plain=spec.a == spec.b == spec.c == spec.compute.stored and spec.compute.is_summed_as_it_is,
            condition=spec.condition,
            threads=spec.config.threads,
            limbs=spec.limbs,
            products=spec.products,
            parts=spec.compute.parts,
            c_parts=spec.c.parts,
        )
    )


def template_folder() -> Path:
    """``cuda_src/``: inside the installed package, or beside it in a source tree and an editable install."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "cuda_src", package.parent / "cuda_src"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"cuda_src/ is neither in nor beside {package}: the installation is incomplete")


class _Headers(jinja2.FileSystemLoader):
    """Marks what the package's headers define, of which a kernel has what it uses."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        text, path, is_current = super().get_source(environment, template)
        if ".cuh" in template and template != "preamble.cuh.j2":
            text = f"{BEGIN}\n{text}{END}\n"
        return text, path, is_current


@functools.lru_cache(maxsize=32)
def _environment(registered: Variant | None, extensions: tuple[type[Extension], ...] = ()) -> jinja2.Environment:
    """One for all templates of the package; or for a user's, which finds those too, and the files beside it."""
    shipped = _Headers(template_folder())
    own: list[jinja2.BaseLoader] = []
    if registered is not None:
        text = {str(registered.template): registered.text or ""}
        own = [jinja2.DictLoader(text), jinja2.FileSystemLoader(registered.folder)]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([*own, shipped]),
        extensions=extensions,
        line_statement_prefix="//%",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
