"""What a variant is: a template, its parameters, and what it needs of types, layouts and devices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tiledmm.elements import ELEMENTS, PACKED_ELEMENTS, TF32, Element, compute_element
from tiledmm.errors import ConfigError, UnsupportedTypeError
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.config import (
    CONFIG_FIELDS,
    DYNAMIC_SHARED_BYTES,
    MAX_THREADS,
    STATIC_SHARED_BYTES,
    Config,
    ConfigOverrides,
)
from tiledmm.kernels.operands.operands import AS_THEY_ARE, Operands

# Fields that are 0 where a variant does not use them.
_MAY_BE_ZERO = ("pad", "stages", "wm", "wn", "triangle", "moduli", "pack_a", "pack_b", "pack_elements")

# Whether a rule holds, and the rule.
Rule = tuple[bool, str]


def block_of_tiles(config: Config) -> tuple[int, int]:
    """Return threads along x and y: one for each thread tile."""
    return config.bn // config.tn, config.bm // config.tm


@dataclass(frozen=True, slots=True)
class Hopper:
    """Instructions that only compute capability 9.0 has; nothing of it for other kernels.

    Attributes:
        arch: The one architecture that the kernel is compiled for; empty for that of the device.
        tma: Whether operands arrive by TMA, for which they need tensor maps.
        persistent: Whether it is a persistent kernel: at most one block per SM, each of which computes tile after tile.
        warpgroup: Whether it multiplies by ``wgmma``, an instruction of a warpgroup's four warps, which reads B from
            shared memory only.
    """

    arch: str = ""
    tma: bool = False
    persistent: bool = False
    warpgroup: bool = False


@dataclass(frozen=True, slots=True)
class Reads:
    """How a kernel reads and which products it is fast on, for the cost model and for counts.

    Attributes:
        from_global: How it reads operands: ``"elements"``; ``"vectors"``, 16 bytes at a time where B's rows are
            aligned, so ``auto`` may pack B; ``"K-major"``, along K only; ``"rows of B"``, 16 bytes at a time, once.
        from_shared: How a thread reads shared tiles: ``"elements"`` as they lie, ``"K-major"``, or
            ``"K-major vectors"``.
        down_columns: Whether successive lanes compute successive rows of C.
        packs_elements: Whether ``auto`` may pack narrow elements for it.
        few_rows: ``Config -> bool``, whether that is for a C with few rows: a product with fewer columns than rows is
            computed transposed.
        small_products: Whether it is for batches of many small products.
        short_k: Whether it is for a K of at most ``bk``, and a C whose rows are contiguous.
    """

    from_global: str = "elements"
    from_shared: str = "elements"
    down_columns: bool = False
    packs_elements: bool = False
    few_rows: Callable[[Config], bool] = lambda config: False
    small_products: bool = False
    short_k: bool = False


@dataclass(frozen=True, slots=True)
class UserTemplate:
    """A template that a user registered.

    Attributes:
        text: Its text when it was registered.
        folder: The folder of the template, and of the files that it includes.
    """

    text: str
    folder: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A row of the table of variants.

    Attributes:
        name: Name that ``variant=`` takes.
        template: File in ``cuda_src/``, or None for ``cublas``; of a user's variant the file's name.
        summary: What it adds to the variant before it, in one line.
        configure: ``(tile, element) -> Config`` for a computation type; ``(tile, element, scheme)`` for a variant with
            schemes.
        block: ``Config -> (x, y)``, the block's dimensions.
        shared_bytes: ``(Config, element, layout) -> bytes`` of shared memory that a block uses. It is dynamic, and may
            pass 48 KiB, with tensor cores.
        rules: ``(Config, element) -> [(holds, rule)]``: what its template requires of its parameters.
        tiles: Values of ``tile=``; empty if the variant has no tile to choose.
        default_tile: The tile where none is given.
        types: Its computation types, each with the least compute capability; empty for every type of arrays, on every
            device.
        tensor_cores: Whether tensor cores multiply, not CUDA cores.
        operands: Format of the operands that the kernel reads, see ``operands/``.
        waits: When each of its blocks executes ``griddepcontrol.wait``, with which it may be a programmatic dependent
            launch: ``"first"``, before it accesses memory; ``"last"``, afterwards, which is right if what it reads was
            there before the launches of the product; empty for never.
        reads: How it reads, for the cost model.
        hopper: What it uses of compute capability 9.0.
        writes: Format that an auxiliary kernel writes operands in; None for other kernels.
        user: The template that a user registered; None for a variant of this package.
    """

    name: str
    template: str | None
    summary: str
    configure: Callable[..., Config]
    block: Callable[[Config], tuple[int, int]] = lambda config: (config.threads, 1)
    shared_bytes: Callable[[Config, Element, str], int] = lambda config, element, layout: 0
    rules: Callable[[Config, Element], list[Rule]] = lambda config, element: []
    tiles: tuple[int, ...] = ()
    default_tile: int = 0
    types: tuple[tuple[str, tuple[int, int]], ...] = ()
    tensor_cores: bool = False
    operands: Operands = AS_THEY_ARE
    waits: str = ""
    reads: Reads = Reads()
    hopper: Hopper = Hopper()
    writes: Operands | None = None
    user: UserTemplate | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether it is ``cupy.matmul``, which has no kernel of this package."""
        return self.template is None

    @property
    def simulated(self) -> bool:
        """Whether the simulator runs it, which has no emulation of Hopper's instructions."""
        return not (self.is_baseline or self.hopper.arch)

    @property
    def is_limited(self) -> bool:
        """Whether sizes, and the number of tiles, are limited to 2^31 - 1: by TMA, or by the operand scan."""
        return self.hopper.tma or bool(self.operands.otherwise)

    @property
    def reads_unaligned(self) -> bool:
        """Whether it also reads operands in place that are not aligned, more slowly, at rates of its own."""
        if self.reads.from_global in ("K-major", "rows of B"):
            return True
        return self.tensor_cores and not self.hopper.tma and self.operands.reads_elements

    @property
    def is_for_few_shapes(self) -> bool:
        """Whether it is fast on products of certain shapes only, and so is no rung before others."""
        reads = self.reads
        return (
            reads.small_products
            or reads.short_k
            or reads.few_rows(self.config(None, compute_element(self.default_type)))
        )

    def config(self, tile: int | None, element: Element, overrides: ConfigOverrides | None = None) -> Config:
        """The parameters of a tile and a computation type.

        Args:
            tile: One of ``tiles``; None for the default.
            element: Computation type.
            overrides: Fields that replace the tile's own, by name.

        Raises:
            UnsupportedTypeError: If the variant does not multiply elements of this type. The message names its types.
            ConfigError: If the variant has no such tile, scheme or field, or if the fields break a rule. The message
                names those it has, or the rule.
        """
        if not self.multiplies(element):
            raise UnsupportedTypeError(
                f"variant {self.name!r} multiplies {', '.join(dict(self.types) or ELEMENTS)}, not "
                f"{element.dtype_name}; {self._instead(element)}"
            )
        config = self._of_tile(tile, element, self._scheme_of(overrides or {}))
        return self._checked(config, overrides, element) if overrides else config

    def multiplies(self, element: Element) -> bool:
        """Whether this is one of its computation types."""
        if self.types:
            return element.multiplied in dict(self.types)
        # A user's template may convert sums to the operands' type.
        return element != TF32 and not (element.result_name and self.user)

    def computes_in(self, element: Element) -> Element:
        """Its computation type for a product that asks for this one, which may be that of results: float32 for tf32."""
        return element if self.multiplies(element) else element.result

    def reads_fast(self, operand: int, letter: str, element: Element) -> bool:
        """Whether A (0) or B (1) is read fast in a layout (see ``tiledmm.source``).

        Tensor-core kernels load 16-bit elements in either layout. Bytes must be K-major. Wider elements that are not
        are loaded one by one, and not at all by ``wgmma``, which reads B from shared memory only. Limbs are written in
        the layout that is needed.
        """
        if (
            not self.tensor_cores
            or not self.operands.reads_elements
            or element.itemsize == 2
            or letter == "NT"[operand]
        ):
            return True
        return element.itemsize > 1 and not (self.hopper.warpgroup and operand == 1)

    def unit_flops(self, compute: Element, gpu: Gpu, *, scheme: str = "", by_mma: bool = False) -> float:
        """Return the peak of the unit that multiplies, in FLOP/s of ``2 * m * n * k``; 0 if the GPU has none.

        Args:
            compute: The computation type.
            gpu: The GPU.
            scheme: How operands are decomposed; empty for the variant's default.
            by_mma: Whether tensor cores count at the rate of ``mma.sync``, not at that of the fastest instructions.
        """
        if not self.tensor_cores:
            return gpu.peak_flops(compute.multiplied)
        itemsize, products = self.operands.multiplied(compute, scheme)
        return gpu.tensor_flops(itemsize, by_mma=by_mma) / products

    @property
    def default_type(self) -> str:
        """Its computation type where none is named."""
        return self.types[0][0] if self.types else "float32"

    def least_capability(self, element: Element) -> tuple[int, int]:
        """The least compute capability that multiplies elements of this type, or limbs of it."""
        return dict(self.types).get(element.multiplied, min((least for _, least in self.types), default=(0, 0)))

    def needed_capability(self, element: Element) -> str:
        """The same in words: ``"8.0 or newer"``; for a variant of one architecture ``"9.0"``."""
        major, minor = self.least_capability(element)
        return f"{major}.{minor}" if self.hopper.arch else f"{major}.{minor} or newer"

    def has_triangle(self, config: Config) -> bool:
        """Whether it can compute only the tiles on and below the diagonal of a symmetric C."""
        return config.wm > 0 and config.bm == config.bn and not self.tensor_cores

    def runs_on(self, capability: tuple[int, int], element: Element) -> bool:
        """Whether devices of a compute capability multiply elements of this type."""
        least = self.least_capability(element)
        return capability == least if self.hopper.arch else capability >= least

    def _instead(self, element: Element) -> str:
        if element == TF32:
            return "'tensor_core' multiplies it"
        if element == TF32.stored and self.multiplies(TF32):
            return "precision='tf32' rounds float32 to tf32; 'warp_tiled' multiplies float32 itself"
        return "'warp_tiled' multiplies every type"

    def _scheme_of(self, overrides: ConfigOverrides) -> str:
        """The scheme that is named, or the first; empty for a variant without schemes."""
        if not isinstance(overrides, Mapping):
            raise ConfigError(f"config is a mapping of fields to values, such as {{'bk': 16}}; got {overrides!r}")
        known = self.operands.schemes or ("",)
        scheme = overrides.get("scheme", known[0])
        if scheme not in known:
            own = f"its schemes are {', '.join(known)}" if self.operands.schemes else "it decomposes nothing"
            raise ConfigError(f"variant {self.name!r} has no scheme {scheme!r}; {own}")
        return str(scheme)

    def _of_tile(self, tile: int | None, element: Element, scheme: str) -> Config:
        of_scheme = (scheme,) if scheme else ()
        if tile is None:
            return self._default_config(element, *of_scheme)
        if not self.tiles:
            raise ConfigError(f"variant {self.name!r} has no tile to choose: leave the tile out")
        try:
            return self.configure(self.tiles[self.tiles.index(operator.index(tile))], element, *of_scheme)
        except (TypeError, ValueError):
            fits = ", ".join(map(str, self.tiles))
            if isinstance(tile, str) and tile.isdecimal():
                raise ConfigError(
                    f"a tile is an int, not the string {tile!r}; those of {self.name!r} are {fits}"
                ) from None
            raise ConfigError(f"variant {self.name!r} has no tile {tile!r}; its tiles are {fits}") from None

    def _default_config(self, element: Element, *scheme: str) -> Config:
        """Return the parameters of the default tile, or of the next smaller one whose limbs fit shared memory."""
        for tile in reversed(self.tiles[: self.tiles.index(self.default_tile) + 1] if scheme else ()):
            config = self.configure(tile, element, *scheme)
            if self.shared_bytes(config, element, "NT") <= self._shared_limit:
                return config
        return self.configure(self.default_tile, element, *scheme)

    @property
    def _shared_limit(self) -> int:
        """Most bytes of shared memory of a block on the device that has most."""
        return DYNAMIC_SHARED_BYTES if self.tensor_cores else STATIC_SHARED_BYTES

    def _checked(self, config: Config, overrides: ConfigOverrides, element: Element) -> Config:
        for name, value in overrides.items():
            if name not in CONFIG_FIELDS:
                raise ConfigError(f"unknown config field {name!r}; the fields are {', '.join(CONFIG_FIELDS)}")
            if name == "scheme":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < (name not in _MAY_BE_ZERO):
                raise ConfigError(
                    f"{name} is a whole number of at least {int(name not in _MAY_BE_ZERO)}; got {value!r}"
                )
        one_tile, has_moduli = config.tiles_per_block == 1, config.moduli > 0
        config = config.changed(overrides)
        launch, packed = config.launch, config.launch.pack_a + config.launch.pack_b
        shared = max(self.shared_bytes(config, element, layout) for layout in ("NN", "NT", "TN", "TT"))
        limit = self._shared_limit
        whole = config.bm % config.tm == 0 and config.bn % config.tn == 0
        alone = config.cluster == 1 or self.hopper.tma
        rules = [
            (whole, "bm and bn are multiples of tm and tn"),
            (
                config.triangle <= 1 and (config.triangle == 0 or self.has_triangle(config)),
                "triangle is 0, or 1 where blocks have warp tiles, without tensor cores, and bm is bn",
            ),
            (config.tiles_per_block == 1 or not one_tile, "tiles_per_block is 1"),
            (alone, "cluster is 1"),
            (
                has_moduli or not config.moduli,
                "moduli is 0 where operands are not decomposed into residues",
            ),
            (launch.group == 1 or config.wm > 0, "group is 1 where blocks have no warp tiles"),
            (
                max(launch.pack_a, launch.pack_b, launch.pack_elements) <= 1,
                "pack_a, pack_b and pack_elements are 0 or 1",
            ),
            (
                not launch.pack_elements or element.multiplied in PACKED_ELEMENTS,
                f"pack_elements is for {', '.join(PACKED_ELEMENTS)}",
            ),
            (
                not launch.pack_elements or not config.lanes > 1,
                "pack_elements is for kernels whose lanes do not share k",
            ),
            (not launch.pack_elements or not packed, "pack_elements is instead of pack_a and pack_b"),
            (config.threads <= MAX_THREADS, f"a block has at most {MAX_THREADS} threads, not {config.threads}"),
            (shared <= limit, f"a block has {limit} bytes of shared memory, not the {shared} that this needs"),
            *(self.rules(config, element) if whole and alone else ()),
        ]
        broken = "; ".join(rule for holds, rule in rules if not holds)
        if broken:
            raise ConfigError(f"variant {self.name!r} of {element.dtype_name} cannot have this config: {broken}")
        return config
