"""Search of ``auto`` for the kernel with the least expected time, over packings, split-K factors and parts of C."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from tiledmm.elements import PACKED_ELEMENTS, Element
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.kernels.config import Config
from tiledmm.kernels.launches import tiles, tiles_of_c
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem
from tiledmm.selection.choice import MOST_APART, Choice, kernel_spec_of, transposed_if_preferred
from tiledmm.selection.cost import Cost, row_flops
from tiledmm.selection.parts import grids, strips
from tiledmm.selection.rates import KernelRates, Rates, nearest_rates, rate_type
from tiledmm.selection.suitable import is_suitable

# Type of the table rows for packed elements, which are as wide as an int32.
_PACKED_TYPE = "int32"

#: Split-K factors that are considered.
SPLIT_K_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

# When C is cut into parts: minimum time of the product in microseconds, number of the fastest kernels for which cuts
# are tried, and maximum time of the parts as a fraction of the time of the whole.
_WORTH_CUTTING, _CUT_KERNELS, _LEFT_AFTER_CUTTING = 100.0, 3, 0.98

# Maximum number of blocks per SM of a split-K product.
_MOST_BLOCKS = 16

# Maximum size of the partial sums of split-K, in bytes.
_MOST_WORKSPACE = 1 << 27


class Model:
    """Model of a GPU: the kernels from which ``auto`` chooses, and the times that they are expected to take.

    Args:
        gpu: Data sheet of the GPU.
        rates: Table of rates, measured on this GPU or on another; None for the package's table of the nearest GPU.
        ieee: Whether to choose only kernels whose products are multiply-adds in the elements' own type.
    """

    def __init__(self, gpu: Gpu, rates: Rates | None = None, *, ieee: bool = False) -> None:
        rates = nearest_rates(gpu) if rates is None else rates
        self.gpu = gpu
        self.rates = rates.only(lambda variant: find_variant(variant).operands.is_ieee) if ieee else rates
        self._cost = Cost(gpu, rates)
        self._fastest = functools.lru_cache(maxsize=256)(self._fastest_in_one)

    def takes(self, variant: str) -> bool:
        """Return whether ``auto`` may choose kernels of a variant with this model.

        Args:
            variant: Name of the variant.
        """
        return any(row.variant == variant for row in self.rates.rows)

    def kernels_for(self, compute: Element) -> Iterator[KernelRates]:
        """Yield the kernels from which ``auto`` chooses for a computation type, as rows of the table of rates."""
        for row in self.rates.rows:
            variant = find_variant(row.variant)
            own = variant.computes_in(compute)
            packed = variant.reads.packs_elements and own.multiplied in PACKED_ELEMENTS and row.type == _PACKED_TYPE
            if (packed or row.type == rate_type(own)) and variant.multiplies(own) and runs_on(row, own, self.gpu):
                yield row

    def bound(self, product: Product) -> float:
        """Return a lower bound of the time of a product by the roofline, in microseconds.

        It is the time of the arithmetic on the fastest unit, or that of reading A and B and writing C, whichever is
        longer.
        """
        problem, compute = product.problem, product.compute
        flops = 2.0 * problem.m * problem.n * problem.k * problem.products
        units = (self._unit_flops(row, compute) for row in self.kernels_for(compute))
        half = 0.5 if product.symmetric else 1.0
        sizes = problem.elements(0) * product.a.itemsize, problem.elements(1) * product.b.itemsize
        size = sum(sizes) * half + problem.m * problem.n * problem.products * product.c.itemsize
        return max(half * flops / max(units), size / self.gpu.bandwidth) * 1e6

    def _unit_flops(self, row: KernelRates, compute: Element) -> float:
        packed = row.type != rate_type(find_variant(row.variant).computes_in(compute))
        in_one = PACKED_ELEMENTS[compute.multiplied].per_packed if packed else 1
        return in_one * row_flops(row, self.gpu)

    def rank(self, product: Product) -> Iterator[Choice]:
        """Yield the kernels whose time is known, fastest first, each with its best packing and split-K factor.

        After these, the fastest of them are yielded again with C cut into parts: the kernel computes a part of whole
        tiles or of whole waves of blocks, and the fastest kernels for the other parts compute those. A symmetric C is
        not cut.
        """
        timed = (pair for pair in self._in_one(product) if _time(pair[1]) < math.inf)
        ranked = sorted(timed, key=lambda pair: _time(pair[1]))
        yield from (choice for _, choice in ranked)
        problem = product.problem
        if product.symmetric:  # kernels of two parts may round C[i, j] and C[j, i] differently
            return
        if not problem.outer and not problem.is_empty and _time(ranked[0][1]) > _WORTH_CUTTING:
            limit = _LEFT_AFTER_CUTTING * _time(ranked[0][1])
            for row, choice in ranked[:_CUT_KERNELS]:
                if choice.others:
                    continue
                cuts = (self._in_several(row, choice.product, *cut, limit) for cut in self._cuts(choice))
                if found := [each for each in cuts if each]:
                    yield min(found, key=_time)

    def alone(self, product: Product) -> Iterator[Choice]:
        """Return an iterator over all kernels for a product, each with its best packing and split-K factor.

        Unlike ``rank``, it does not cut C to save time.
        """
        return (choice for _, choice in self._in_one(product))

    def every(self, product: Product) -> Iterator[Choice]:
        """Yield every kernel that computes all of C at once, with every packing, split-K factor and cluster.

        Their expected times can be compared with measured ones.
        """
        for row, best in self._in_one(product):
            if best.others:
                continue
            own = best.product.computed_in(best.spec.compute)
            config = best.spec.config
            launch = replace(config.launch, split_k=1, pack_a=0, pack_b=0, pack_elements=0)
            for each in self._clustered(row.variant, replace(config, cluster_k=1, launch=launch), own):
                splits = (1,) if each.moduli or each.cluster_k > 1 else SPLIT_K_FACTORS
                for packs, split in itertools.product(packings(row, own), splits):
                    chosen = each.changed({"split_k": split, **dict.fromkeys(packs, 1)})
                    time = self._cost.microseconds(row, each, own, packs, split)
                    yield Choice(best.product, kernel_spec_of(row.variant, chosen, own), time)

    def best(self, product: Product) -> Choice:
        """Return a ``Choice`` of the kernel, or of the kernels for parts of C, with the least expected time."""
        return min(self.rank(product), key=_time)

    def best_within(self, product: Product, fits: Callable[[Choice], bool]) -> Choice | None:
        """Return a ``Choice`` of the fastest kernel that fits, with one kernel for all of C; None if no kernel fits.

        Args:
            product: The product.
            fits: Function that returns whether a kernel with its packing and split-K factor fits, for example into
                memory.
        """
        return min((choice for _, choice in self._in_one(product, fits)), key=_time, default=None)

    def with_others(self, product: Product, cut: tuple[int, int]) -> tuple[Product, tuple[Choice, ...]]:
        """Return the product of the first part of C, and the choices of the fastest kernels for the other parts.

        Args:
            product: The product.
            cut: Numbers of rows and columns of the first part.
        """
        first, *others = strips(product, *cut)
        return first, tuple(map(self._fastest, others))

    def _in_one(
        self, product: Product, fits: Callable[[Choice], bool] | None = None
    ) -> Iterator[tuple[KernelRates, Choice]]:
        """Yield the kernels that are suitable for a product, each with its row of the table of rates.

        Kernels that decompose operands may compute C as a grid of parts. With ``fits``, only kernels that fit are
        yielded.
        """
        for each in self.kernels_for(product.compute):
            variant = find_variant(each.variant)
            config = _config(each.variant, each.tile, variant.computes_in(product.compute))
            transposed = transposed_if_preferred(variant, config, product)
            if not is_suitable(variant, config, transposed.problem) or (
                any(product.conjugates) and not variant.conjugates
            ):
                continue
            choice = self._at_best(each, transposed, fits) or self._in_parts(each, transposed, fits)
            if choice:
                yield each, choice

    def _at_best(
        self, row: KernelRates, wanted: Product, fits: Callable[[Choice], bool] | None = None
    ) -> Choice | None:
        """Return a ``Choice`` of a kernel with its fastest packing and split-K factor that fit; None if none fits.

        Args:
            row: The kernel's row of the table of rates.
            wanted: The product.
            fits: Function that returns whether a choice fits, for example into memory; None if all fit.
        """
        product = wanted.computed_in(find_variant(row.variant).computes_in(wanted.compute))
        config = _config(row.variant, row.tile, product.compute)
        ways = (
            (own, packs, split)
            for half in self._triangles(row.variant, config, product)
            for own in self._clustered(row.variant, half, product)
            for packs, split in itertools.product(packings(row, product), self._splits(own, product))
        )
        times = {way: self._cost.microseconds(row, way[0], product, *way[1:]) for way in ways}
        for way in sorted(times, key=times.__getitem__):
            own, packs, split = way
            chosen = own.changed({"split_k": split, **dict.fromkeys(packs, 1)})
            choice = Choice(wanted, kernel_spec_of(row.variant, chosen, product), times[way])
            if fits is None or fits(choice):
                return choice
        return None

    def _in_parts(
        self, row: KernelRates, product: Product, fits: Callable[[Choice], bool] | None = None
    ) -> Choice | None:
        """Return a ``Choice`` of a kernel that decomposes operands, for C as a grid of parts; None if no grid helps.

        A grid helps if the operands of the whole product exceed the format's limit, or if their scratch memory does not
        fit and is so large that parts share theirs.
        """
        problem, variant = product.problem, find_variant(row.variant)
        operands, compute = variant.operands, variant.computes_in(product.compute)
        if operands.reads_elements or problem.outer or problem.is_empty:
            return None
        if operands.fits(problem, compute) and (
            fits is None or operands.prepared_bytes(problem, compute) <= MOST_APART
        ):
            return None
        for parts in grids(variant, product):
            alike: dict[tuple[int, ...], Choice | None] = {}
            choices = []
            for part in parts:
                # Parts on both sides of the diagonal of a symmetric C have the same config, so that they sum alike.
                batch = (dimension.size for dimension in part.problem.batch)
                shape = part.problem.m, part.problem.n, part.symmetric, *batch
                if shape not in alike:
                    alike[shape] = self._at_best(row, part, fits)
                if (choice := alike[shape]) is None:
                    break
                choices.append(choice.of(part))
            else:
                whole = replace(choices[0], microseconds=sum(map(_time, choices)), others=tuple(choices[1:]))
                if fits is None or fits(whole):
                    return whole
        return None

    def _fastest_in_one(self, product: Product) -> Choice:
        return min((choice for _, choice in self._in_one(product)), key=_time)

    def _cuts(self, choice: Choice) -> Iterator[tuple[int, int]]:
        """Yield the cuts of C that are tried, each as the rows and columns of the first part.

        The first part consists of whole tiles, or of whole waves of blocks.
        """
        problem, config = choice.product.problem, choice.spec.config
        m, n = problem.m // config.bm * config.bm, problem.n // config.bn * config.bn
        down, across = tiles(problem.m, config.bm), tiles(problem.n, config.bn)
        busy = down * across * problem.products // self.gpu.sms * self.gpu.sms
        rows, cols = busy // (across * problem.products) * config.bm, busy // (down * problem.products) * config.bn
        for cut in sorted({(m, problem.n), (problem.m, n), (m, n), (rows, problem.n), (problem.m, cols)}):
            if 0 < cut[0] <= problem.m and 0 < cut[1] <= problem.n and cut != (problem.m, problem.n):
                yield cut

    def _in_several(self, row: KernelRates, product: Product, m: int, n: int, limit: float) -> Choice | None:
        """Return a ``Choice`` of a kernel for the first m rows and n columns of C, and of others for the rest of C.

        The kernels for the rest are the fastest. Return None if all together are not expected to take less than
        ``limit`` microseconds.
        """
        first, *others = strips(product, m, n)
        choice = self._at_best(row, first)
        if choice is None or _time(choice) + len(others) * self._cost.launch_time >= limit:
            return None
        rest = tuple(map(self._fastest, others))
        time = _time(choice) + sum(map(_time, rest))
        return replace(choice, microseconds=time, others=rest) if time < limit else None

    @staticmethod
    def _triangles(variant_name: str, config: Config, product: Product) -> Iterator[Config]:
        """Yield the configs of a kernel from which ``auto`` chooses: of a symmetric C, all tiles or a triangle of them.

        A Hermitian C counts as symmetric. All tiles are yielded only if the kernel rounds C[i, j] and C[j, i] alike. No
        kernel does for complex numbers.
        """
        variant = find_variant(variant_name)
        if product.symmetric and variant.has_triangle(config):
            yield replace(config, triangle=1)
        if not product.symmetric or (variant.operands.sums_in_order and product.compute.components == 1):
            yield config

    def _clustered(self, variant_name: str, config: Config, product: Product) -> Iterator[Config]:
        """Yield a kernel's config, then the same with each number of blocks per cluster that may share K."""
        yield config
        problem, variant = product.problem, find_variant(variant_name)
        if problem.outer or self.gpu.arch.capability < (9, 0):
            return
        for blocks in variant.clusters:
            own = replace(config, cluster_k=blocks)
            obeys = all(holds for holds, _ in variant.rules(own, product.compute))
            if obeys and blocks <= _most_parts(problem, own) and str(blocks) in self.rates.device.clusters:
                yield own

    def _splits(self, config: Config, product: Product) -> Iterator[int]:
        """Yield the split-K factors that are tried for a kernel and a product, beginning with 1.

        It is only 1 if blocks of a cluster share K, and for residues, because the products for all moduli fill the GPU.
        """
        problem = product.problem
        yield 1
        if problem.outer or config.moduli or config.cluster_k > 1:
            return
        sums = problem.m * problem.n * problem.products * product.compute.result.itemsize
        blocks = tiles_of_c(config, problem) * problem.products
        most = min(
            _most_parts(problem, config),
            _MOST_WORKSPACE // max(sums, 1),
            tiles(_MOST_BLOCKS * self.gpu.sms, max(blocks, 1)),
        )
        yield from itertools.takewhile(lambda split: split <= most, SPLIT_K_FACTORS[1:])


def _most_parts(problem: Problem, config: Config) -> int:
    """Return the maximum number of parts of K: each has at least two tiles."""
    return problem.k // (2 * max(config.bk, 16))


#: Model of an H100, and the same without variants that decompose operands.
H100 = Model(REFERENCE_GPUS["sm_90"])
H100_IEEE = Model(H100.gpu, ieee=True)


def runs_on(row: KernelRates, compute: Element, gpu: Gpu) -> bool:
    """Return whether a GPU has the instructions of a kernel, and enough shared memory per block.

    Args:
        row: The kernel's row of a table of rates.
        compute: Computation type.
        gpu: Data sheet of the GPU.
    """
    runs = find_variant(row.variant).runs_on(gpu.arch.capability, compute)
    return runs and _shared_bytes(row.variant, row.tile, compute) <= gpu.arch.max_shared_bytes


@functools.lru_cache(maxsize=1024)
def _shared_bytes(variant: str, tile: int, compute: Element) -> int:
    return find_variant(variant).shared_bytes(_config(variant, tile, compute), compute, "NT")


def packings(row: KernelRates, product: Product) -> Iterator[tuple[str, ...]]:
    """Return an iterator over the packings that a kernel may use for a product (see ``Operands.packings``).

    If the row's type differs from the product's, the row is for packed elements, and the only packing is theirs.
    """
    if row.type != rate_type(product.compute):
        return iter([("pack_elements",)])
    variant = find_variant(row.variant)
    return variant.operands.packings(variant, row.tile, product)


def _time(choice: Choice) -> float:
    return choice.microseconds or 0.0


@functools.lru_cache(maxsize=1024)
def _config(variant: str, tile: int, compute: Element) -> Config:
    return find_variant(variant).config(tile, compute)
