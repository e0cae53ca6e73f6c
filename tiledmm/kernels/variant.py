"""Variant of a matrix product: a template, its parameters, and the types, layouts and devices that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiledmm.elements import ELEMENTS, TF32, Element, compute_element
from tiledmm.errors import UnsupportedTypeError
from tiledmm.hardware.data_sheets import Gpu
from tiledmm.kernels.config import TRIANGLE_GROUP, Config, ConfigOverrides
from tiledmm.kernels.operands.operands import AS_THEY_ARE, Operands
from tiledmm.kernels.plain import PlainKernel
from tiledmm.kernels.tile_config import config_of_tile, scheme_of, with_overrides

# Whether a rule holds, and its text for errors.
Rule = tuple[bool, str]


def block_of_tiles(config: Config) -> tuple[int, ...]:
    """Return the numbers of threads per block along x and y, with one thread per thread tile of C."""
    return config.bn // config.tn, config.bm // config.tm


@dataclass(frozen=True, slots=True)
class Hopper:
    """Features of compute capability 9.0 that a kernel uses; by default none.

    Attributes:
        arch: The only architecture that the kernel is compiled for, ``"sm_90a"``; empty to compile for the device's.
        tma: True if the kernel reads operands by TMA, which needs tensor maps.
        persistent: True for a persistent kernel: the grid has at most one block per SM, and each block computes one
            tile after the other.
        warpgroup: True if the kernel multiplies by ``wgmma``, which the four warps of a warpgroup execute together, and
            which reads B from shared memory only.
        in_cluster: Function ``(Config, partitions, element) -> Config`` that returns the config of the kernel whose
            clusters add up the partial sums of split-K, so that no reduction follows; the given config if clusters
            cannot have that many blocks.
    """

    arch: str = ""
    tma: bool = False
    persistent: bool = False
    warpgroup: bool = False
    in_cluster: Callable[[Config, int, Element], Config] = lambda config, partitions, element: config


@dataclass(frozen=True, slots=True)
class Reads:
    """Access pattern of a kernel, and the products that it is fast for. The cost model and predicted counts use both.

    Attributes:
        from_global: Reads of operands from global memory: ``"elements"``, the default; ``"vectors"``, 16 bytes at a
            time of MN-major operands if both are aligned, so that ``auto`` may pack B; ``"K-major"``, 16 bytes at a
            time along K, so both operands should be K-major; ``"rows of B"``, 16 bytes of a row at a time, each row
            once.
        from_shared: Reads of a thread from shared tiles: ``"elements"`` in the layout of the matrices; ``"K-major"``,
            elements from K-major tiles; ``"K-major vectors"``, 16 bytes at a time.
        down_columns: True if successive lanes of a warp compute successive rows of C.
        packs_elements: True if ``auto`` may pack narrow elements for the kernel.
        few_rows: Function ``Config -> bool``: whether a kernel with this config is meant for a C with few rows. A
            product with fewer columns than rows is then computed transposed.
        few_columns: The same for a C with few columns. A product with fewer rows than columns is then computed
            transposed.
        small_products: True if the kernel is meant for batches of many small products.
        short_k: True if the kernel is meant for K of at most ``bk`` and a C with contiguous rows.
        narrow: True if the kernel is meant for a C of at most ``bn`` columns, whose rows follow each other without
            gaps, and computes only the columns that C has.
    """

    from_global: str = "elements"
    from_shared: str = "elements"
    down_columns: bool = False
    packs_elements: bool = False
    few_rows: Callable[[Config], bool] = lambda config: False
    few_columns: Callable[[Config], bool] = lambda config: False
    small_products: bool = False
    short_k: bool = False
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class UserTemplate:
    """Template that a user registered.

    Attributes:
        text: Text of the template when it was registered.
        folder: Path of the folder that holds the template and the files that it includes.
    """

    text: str
    folder: str


@dataclass(frozen=True, slots=True)
class Variant:
    """Matrix-product variant: a template with its parameters, and the types, layouts and devices that it supports.

    Attributes:
        name: Name of the variant, a value of ``variant=``.
        template: Name of the template's file in ``cuda_src/``, or of a user's file; None for ``cublas``.
        summary: One line on what the variant adds to the variant before it.
        configure: Function ``(tile, element) -> Config`` that returns the config of a tile for a computation type;
            ``(tile, element, scheme) -> Config`` for a variant with schemes.
        block: Function ``Config -> (x, y)`` that returns the threads per block along x and y; ``(x, y, z)`` for a plain
            kernel.
        shared_bytes: Function ``(Config, element, layout) -> bytes`` that returns the shared memory per block. It is
            dynamic if tensor cores multiply, and may then exceed 48 KiB.
        rules: Function ``(Config, element) -> [(holds, rule)]`` that checks what the template requires of its config.
        tiles: Values of ``tile=``; empty if the variant has no choice of tiles.
        default_tile: Tile for ``tile=None``.
        types: Computation types, each with the lowest compute capability that supports it; empty for every type of
            arrays, on every device.
        tensor_cores: True if tensor cores multiply, False if CUDA cores do.
        operands: Format of the operands that the kernel reads (see ``operands/``).
        waits: Point at which each block executes ``griddepcontrol.wait``, so that the kernel may be a programmatic
            dependent launch: ``"first"``, before the block accesses memory; ``"last"``, at its end, for kernels that
            read only what was there before the product's first launch; empty for never.
        reads: Access pattern, for the cost model.
        hopper: Features of compute capability 9.0 that the kernel uses.
        clusters: Numbers of blocks per cluster that may each sum a part of K (``cluster_k``) on GPUs with clusters.
        mends: Cause of slowness that this variant removes, in the words of ``Advice.cause``; empty if none.
        writes: Format of the operands that an auxiliary kernel writes; None for other kernels.
        user: Template or plain kernel that a user registered; None for a variant of this package.
    """

    name: str
    template: str | None
    summary: str
    configure: Callable[..., Config]
    block: Callable[[Config], tuple[int, ...]] = lambda config: (config.threads, 1)
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
    clusters: tuple[int, ...] = ()
    mends: str = ""
    writes: Operands | None = None
    user: UserTemplate | PlainKernel | None = None

    @property
    def is_baseline(self) -> bool:
        """True for ``cublas``, which calls ``cupy.matmul`` and has no kernel of this package."""
        return self.template is None

    @property
    def plain(self) -> PlainKernel | None:
        """Plain kernel that a user registered; None for a variant with a template."""
        return self.user if isinstance(self.user, PlainKernel) else None

    @property
    def conjugates(self) -> bool:
        """True if the kernel can multiply conjugates of its operands: every kernel of this package can."""
        return self.user is None

    @property
    def simulated(self) -> bool:
        """True if the simulator can run the kernel: for every variant but ``cublas``."""
        return not self.is_baseline

    @property
    def is_limited(self) -> bool:
        """True if sizes and the number of tiles are limited to 2^31 - 1, because of TMA or the operand scan."""
        return self.hopper.tma or bool(self.operands.otherwise)

    @property
    def reads_unaligned(self) -> bool:
        """True if the kernel also reads unaligned operands in place, at slower rates that are measured separately."""
        if self.reads.from_global != "elements":
            return True
        return self.tensor_cores and not self.hopper.tma and self.operands.reads_elements

    @property
    def is_for_few_shapes(self) -> bool:
        """True if the kernel is fast only on products of certain shapes."""
        reads = self.reads
        return (
            reads.small_products
            or reads.short_k
            or reads.few_rows(self.config(None, compute_element(self.default_type)))
        )

    def config(self, tile: int | None, element: Element, overrides: ConfigOverrides | None = None) -> Config:
        """Return the config of a tile for a computation type.

        Args:
            tile: One of ``tiles``; None for the default.
            element: Computation type.
            overrides: Values of fields that replace those of the tile, by name.

        Raises:
            UnsupportedTypeError: If the variant does not support this type. The message lists its types.
            ConfigError: If the variant has no such tile, scheme or field, or if the fields break a rule. The message
                lists the valid values or quotes the rule.
        """
        if not self.multiplies(element):
            raise UnsupportedTypeError(
                f"variant {self.name!r} does not support {element.dtype_name}: its types are "
                f"{', '.join(dict(self.types) or ELEMENTS)}; {self._instead(element)}"
            )
        config = config_of_tile(self, tile, element, scheme_of(self, element, overrides or {}))
        return with_overrides(self, config, overrides, element) if overrides else config

    def multiplies(self, element: Element) -> bool:
        """Return whether ``element`` is one of the variant's computation types."""
        if self.types:
            wide = self.plain is None or not element.result_name or self.plain.types[2] == element.result
            return element.multiplied in dict(self.types) and wide
        # A user's template may convert sums to the operands' type.
        return element != TF32 and not (element.result_name and self.user)

    def computes_in(self, element: Element) -> Element:
        """Return the type in which the variant computes a product whose computation type is ``element``.

        It is ``element`` itself if the variant multiplies it; else the type of the results, such as float32 for tf32.
        """
        return element if self.multiplies(element) else element.result

    def reads_fast(self, operand: int, letter: str, element: Element) -> bool:
        """Return whether the kernel reads an operand of this type at full speed in its layout.

        Tensor-core kernels load 16-bit elements fast in either layout. 8-bit elements must be K-major. Wider elements
        that are not K-major are loaded one by one, except that ``wgmma`` cannot read such a B at all, because B must
        be in shared memory. Limbs are always written in the layout that the kernel needs, and kernels without tensor
        cores read every layout fast.

        Args:
            operand: 0 for A, 1 for B.
            letter: The operand's letter in the layout: N, T or G.
            element: Computation type.
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
        """Return the peak rate of the units that multiply, in FLOP/s; 0 if the GPU does not have such units.

        A product counts ``2 * m * n * k`` FLOP, also if numbers are decomposed.

        Args:
            compute: Computation type.
            gpu: The GPU.
            scheme: Name of the decomposition scheme; empty for the variant's default.
            by_mma: Whether tensor cores multiply by ``mma.sync`` instead of the GPU's fastest instructions.
        """
        if not self.tensor_cores:
            return gpu.peak_flops(compute.multiplied)
        itemsize, products = self.operands.multiplied(compute, scheme)
        return gpu.tensor_flops(itemsize, by_mma=by_mma) / products

    @property
    def default_type(self) -> str:
        """Name of the computation type for calls that do not name one."""
        return self.types[0][0] if self.types else "float32"

    def least_capability(self, element: Element) -> tuple[int, int]:
        """Return the lowest compute capability whose GPUs run the variant with a computation type.

        For a type that is not in ``types``, such as that of limbs, it is the lowest for any type in ``types``. It is
        (0, 0) if every GPU runs the variant.
        """
        return dict(self.types).get(element.multiplied, min((least for _, least in self.types), default=(0, 0)))

    def needed_capability(self, element: Element) -> str:
        """Return the compute capability that a message names as required.

        It is a text such as ``"8.0 or newer"``, or ``"9.0"`` if the variant runs only on that one.
        """
        major, minor = self.least_capability(element)
        return f"{major}.{minor}" if self.hopper.arch else f"{major}.{minor} or newer"

    def has_triangle(self, config: Config) -> bool:
        """Return whether the kernel can compute only the tiles that reach below the diagonal of C or lie on it.

        The template of a user cannot.
        """
        return self.user is None and config.wm > 0 and TRIANGLE_GROUP * config.bn % config.bm == 0

    def runs_on(self, capability: tuple[int, int], element: Element) -> bool:
        """Return whether GPUs of a compute capability run the variant with this computation type."""
        least = self.least_capability(element)
        return capability == least if self.hopper.arch else capability >= least

    def _instead(self, element: Element) -> str:
        if element == TF32:
            return "'tensor_core' supports tf32"
        if element == TF32.stored and self.multiplies(TF32):
            return "precision='tf32' rounds float32 to tf32, and 'warp_tiled' supports float32 itself"
        return "'warp_tiled' supports every type"
