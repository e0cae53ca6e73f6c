"""What a rung of the ladder is: a template, and the numbers that it takes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tiledmm.elements import ELEMENTS, TF32, WORDS, Element
from tiledmm.errors import ConfigError, UnsupportedTypeError

# A block's static shared memory; more has to be asked for at launch.
STATIC_SHARED_BYTES = 48 * 1024

# What a block of compute capability 9.0 may ask for; others have less (``architectures``).
DYNAMIC_SHARED_BYTES = 227 * 1024

# Bytes that a thread moves at a time, at most.
VECTOR_BYTES = 16

# Threads that a block can have.
MAX_THREADS = 1024

# Numbers of what is launched, which are no part of a kernel's text.
LAUNCHED = ("split_k", "pack_a", "pack_b", "pack_words", "group")

# Numbers that some rungs have no use for.
_MAY_BE_ZERO = ("pad", "stages", "wm", "wn", "triangle", "pack_a", "pack_b", "pack_words")


@dataclass(frozen=True, slots=True)
class Config:
    """The numbers of one kernel, named as its template names them (there in capitals).

    Attributes:
        bm, bn: Rows and columns of C that a block computes, or each of its tiles_per_block, or a cluster of blocks.
        bk: Step along K: of a tile in shared memory, or of lanes that share k; 1 where there is neither.
        tm, tn: Rows and columns of C that a thread computes.
        pad: Elements added to each row of a shared tile; in blocks of several tiles, to each tile.
        stages: Buffers for tiles in shared memory; 0 where none are kept there.
        unroll: Steps of the inner loop that are laid out in full.
        min_blocks: Blocks that an SM must have room for, which bounds a thread's registers.
        wm, wn: Rows and columns of C that a warp computes; 0 where its threads' places follow from the block's.
        lanes: Threads that share those elements, each with steps of k of its own.
        triangle: 1 if only tiles on and below C's diagonal are computed, and written on both sides of it: for a @ a.T.
        split_k: Slices that K is cut into, at most: blocks of their own sum them, and a second kernel adds them up. The
            same kernel serves any number.
        pack_words: 1 if both operands are first packed to words along K: of int8 and uint8 four elements, of bool 32.
        pack_a, pack_b: 1 if an operand is first copied to rows that begin at multiples of 16 bytes, else 0.
        group: Columns of blocks that are numbered together, so that those that run at a time share what they read.
        tiles_per_block: Tiles of bm x bn that a block computes, each with threads of its own.
        cluster: Blocks that compute a tile of bm x bn together, and share what they copy.
        scheme: Name of how elements are taken as pieces (see ``tiledmm.elements.SCHEMES``); empty where they are not.
    """

    bm: int
    bn: int
    bk: int = 1
    tm: int = 1
    tn: int = 1
    pad: int = 0
    stages: int = 0
    unroll: int = 1
    min_blocks: int = 1
    wm: int = 0
    wn: int = 0
    lanes: int = 1
    triangle: int = 0
    split_k: int = 1
    pack_a: int = 0
    pack_b: int = 0
    pack_words: int = 0
    group: int = 1
    tiles_per_block: int = 1
    cluster: int = 1
    scheme: str = ""

    @property
    def tile_threads(self) -> int:
        """Threads that compute a tile of bm x bn."""
        return (self.bm // self.tm) * (self.bn // self.tn) * self.lanes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile_threads * self.tiles_per_block // self.cluster


#: Some of what a ``Config`` has, by name: numbers, and the scheme's name.
Numbers = Mapping[str, Any]

# Whether something holds, and what.
Rule = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Variant:
    """One rung of the ladder.

    Attributes:
        name: What ``variant=`` takes.
        template: File in ``cuda_src/``, or None for the baseline that is not ours.
        summary: What it adds to the rung before it, in one line.
        configure: ``(tile, element) -> Config`` for products of that element type; of a variant that splits,
            ``(tile, element, scheme)``.
        block: ``Config -> (x, y)``, the block's dimensions.
        shared_bytes: ``(Config, element, layout) -> bytes`` of shared memory a block uses.
        rules: ``(Config, element) -> [(holds, rule)]``: what its template needs of its numbers.
        few_rows: Whether it is for a C of few rows: a product with fewer columns than rows is computed transposed.
        small_products: Whether it is for batches of many small products.
        tiles: What ``tile=`` may be; empty where the variant has no tile to choose.
        default_tile: The tile taken when none is given.
        simulated: Whether the simulator can run it: it has no twin for some instructions of GPUs.
        tensor_cores: Whether those multiply, and not the CUDA cores.
        types: The element types that products may be taken in, each with the least compute capability that can; empty
            for every type that arrays have, everywhere.
        dynamic_shared: Whether its kernels ask for their shared memory at launch: they may have more than 48 KiB.
        target: What its instructions are compiled for, where that is one architecture only: ``"sm_90a"``. Such a kernel
            runs as many blocks as there are SMs, each for one tile of C after the other, and has its operands copied
            to it by the copy engine (see ``tensor_maps``).
        schemes: Names of how operands may be split into pieces, or multiplied by the CUDA cores where these do not do,
            each with its largest tile; the first is taken where none is named.
        in_bytes: Whether operands, integers, are split into bytes.
        text: Of a user's template: its text when it was registered. ``template`` is then the file's name, for messages.
        folder: Where that lies, and what it includes may lie.
    """

    name: str
    template: str | None
    summary: str
    configure: Callable[..., Config]
    block: Callable[[Config], tuple[int, int]]
    shared_bytes: Callable[[Config, Element, str], int]
    rules: Callable[[Config, Element], list[Rule]] = lambda config, element: []
    few_rows: bool = False
    small_products: bool = False
    tiles: tuple[int, ...] = ()
    default_tile: int = 0
    simulated: bool = True
    tensor_cores: bool = False
    types: tuple[tuple[str, tuple[int, int]], ...] = ()
    dynamic_shared: bool = False
    target: str = ""
    schemes: tuple[tuple[str, int], ...] = ()
    in_bytes: bool = False
    text: str | None = None
    folder: str = ""

    @property
    def splits(self) -> bool:
        """Whether operands are split into pieces."""
        return bool(self.schemes)

    @property
    def is_limited(self) -> bool:
        """Whether sizes, and tiles in all, stay below 2^31: where boxes are copied, or findings kept of rows."""
        return bool(self.target) or self.splits

    def config(self, tile: int | None, element: Element, numbers: Numbers | None = None) -> Config:
        """The numbers for a tile and an element type, some of them given.

        Args:
            tile: One of ``tiles``; None for the default.
            element: Type the product is taken in.
            numbers: What to have instead of the tile's own numbers, by their names in ``Config``.

        Raises:
            UnsupportedTypeError: If the variant does not multiply elements of this type (the message says which).
            ConfigError: If the variant has no tiles, or not this one (the message names those it has), and so for
                schemes; if there is no such number, or they break a rule (the message says which).
        """
        if not self.multiplies(element):
            raise UnsupportedTypeError(
                f"variant {self.name!r} multiplies {', '.join(dict(self.types) or ELEMENTS)}, not "
                f"{element.dtype_name}; {self._instead(element)}"
            )
        config = self._of_tile(tile, element, self._scheme_of(numbers or {}))
        return self._with(config, numbers, element) if numbers else config

    def multiplies(self, element: Element) -> bool:
        """Whether products may be taken in this type."""
        return element.dtype_name in dict(self.types) if self.types else element != TF32

    def taken_in(self, element: Element) -> Element:
        """What it takes a product in for which this type will do: float32 will where tf32 does, and is more exact."""
        return element if self.multiplies(element) else element.stored

    def suits(self, operand: int, letter: str, element: Element) -> bool:
        """Whether A (0) or B (1) is read fast where it lies so (see ``tiledmm.source``).

        Tensor cores transpose elements of 16 bits on the way. Bytes have to lie along k. Wider elements are read one by
        one where they do not, or by wgmma, which reads B from shared memory only, not at all. What operands are split
        into lies as it should.
        """
        if not self.tensor_cores or self.splits or self.in_bytes or element.itemsize == 2 or letter == "NT"[operand]:
            return True
        return element.itemsize > 1 and not (self.target and operand == 1)

    def packed_b(self, element: Element) -> str:
        """How B lies once it is packed: by rows; along k for tensor cores that transpose no elements of its size.

        So do elements that are split after that: they are packed for nothing else.
        """
        return "T" if self.splits or (self.tensor_cores and element.itemsize in (1, 4)) else "N"

    @property
    def default_type(self) -> str:
        """The type that a product is taken in where none is named."""
        return self.types[0][0] if self.types else "float32"

    def least_capability(self, element: Element) -> tuple[int, int]:
        """The least compute capability of a device that multiplies elements of this type, or pieces of that type."""
        return dict(self.types).get(element.dtype_name, min((least for _, least in self.types), default=(0, 0)))

    def halves(self, config: Config) -> bool:
        """Whether, of a symmetric C, it can compute the tiles on and below the diagonal alone."""
        return config.wm > 0 and config.bm == config.bn and not self.tensor_cores

    def runs_on(self, capability: tuple[int, int], element: Element) -> bool:
        """Whether a device of a compute capability multiplies elements of this type."""
        least = self.least_capability(element)
        return capability == least if self.target else capability >= least

    def _instead(self, element: Element) -> str:
        if element == TF32:
            return "'tensor_core' multiplies it"
        if element == TF32.stored and self.multiplies(TF32):
            return "precision='tf32' has float32 numbers rounded to tf32, 'warp_tiled' multiplies them as they are"
        return "'warp_tiled' multiplies every type"

    def _scheme_of(self, numbers: Numbers) -> str:
        """The scheme that is named, or the first; empty for a variant that splits nothing."""
        known = [name for name, _ in self.schemes] or [""]
        scheme = numbers.get("scheme", known[0])
        if scheme not in known:
            own = f"its schemes are {', '.join(known)}" if self.splits else "it splits nothing"
            raise ConfigError(f"variant {self.name!r} has no scheme {scheme!r}; {own}")
        return str(scheme)

    def _of_tile(self, tile: int | None, element: Element, scheme: str) -> Config:
        of_scheme = (scheme,) if scheme else ()
        if tile is None:
            largest = dict(self.schemes).get(scheme, self.default_tile)
            return self.configure(min(self.default_tile, largest), element, *of_scheme)
        if not self.tiles:
            raise ConfigError(f"variant {self.name!r} has no tile to choose; leave tile= out")
        try:
            return self.configure(self.tiles[self.tiles.index(operator.index(tile))], element, *of_scheme)
        except (TypeError, ValueError):
            fits = ", ".join(map(str, self.tiles))
            raise ConfigError(f"variant {self.name!r} has no tile {tile!r}; its tiles are {fits}") from None

    def _with(self, config: Config, numbers: Numbers, element: Element) -> Config:
        known = [field.name for field in fields(Config)]
        for name, value in numbers.items():
            if name not in known:
                raise ConfigError(f"there is no number {name!r}; the numbers are {', '.join(known)}")
            if name == "scheme":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < (name not in _MAY_BE_ZERO):
                raise ConfigError(
                    f"{name} is a whole number of at least {int(name not in _MAY_BE_ZERO)}; got {value!r}"
                )
        one_tile = config.tiles_per_block == 1
        config = replace(config, **numbers)
        shared = max(self.shared_bytes(config, element, layout) for layout in ("NN", "NT", "TN", "TT"))
        limit = DYNAMIC_SHARED_BYTES if self.dynamic_shared else STATIC_SHARED_BYTES
        whole = config.bm % config.tm == 0 and config.bn % config.tn == 0
        alone = config.cluster == 1 or bool(self.target)
        rules = [
            (whole, "bm and bn are multiples of tm and tn"),
            (
                config.triangle <= 1 and (config.triangle == 0 or self.halves(config)),
                "triangle is 0, or 1 where blocks have warp tiles, without tensor cores, and bm is bn",
            ),
            (config.tiles_per_block == 1 or not one_tile, "tiles_per_block is 1"),
            (alone, "cluster is 1"),
            (config.group == 1 or config.wm > 0, "group is 1 where blocks have no warp tiles"),
            (max(config.pack_a, config.pack_b, config.pack_words) <= 1, "pack_a, pack_b and pack_words are 0 or 1"),
            (not config.pack_words or element.dtype_name in WORDS, f"pack_words is for {', '.join(WORDS)}"),
            (not config.pack_words or not config.lanes > 1, "pack_words is for kernels whose lanes do not share k"),
            (not config.pack_words or not config.pack_a + config.pack_b, "pack_words packs both, once"),
            (config.threads <= MAX_THREADS, f"a block has at most {MAX_THREADS} threads, not {config.threads}"),
            (shared <= limit, f"a block has {limit} bytes of shared memory, not the {shared} that this needs"),
            *(self.rules(config, element) if whole and alone else ()),
        ]
        broken = "; ".join(rule for holds, rule in rules if not holds)
        if broken:
            raise ConfigError(f"variant {self.name!r} of {element.dtype_name} cannot have these numbers: {broken}")
        return config
