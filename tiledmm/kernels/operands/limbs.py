"""Limbs: float32 numbers, or parts of complex64's, as sums of 16-bit floats or tf32, which tensor cores multiply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiledmm.elements import ELEMENTS, SCHEMES, Element, Scheme, compute_element
from tiledmm.hardware.device_rates import DeviceTimes
from tiledmm.kernels.config import Config, LaunchConfig, in_real_numbers
from tiledmm.kernels.launches import tiles
from tiledmm.kernels.operands.copies import (
    Copy,
    PreparedOperands,
    both_copies,
    copy_by,
    k_major_letter,
    k_major_rows,
    with_copies,
)
from tiledmm.kernels.operands.operand_scan import with_scan
from tiledmm.kernels.operands.operands import OperandCost, Operands, bytes_of
from tiledmm.kernels.operands.packed_rows import after_packing, pack_operands, pack_spec, with_packing
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variant import Variant
from tiledmm.problem.product import Product
from tiledmm.problem.strides import Problem

#: Columns of a slab of an MN-major tile of 16-bit elements, whose rows are 128 bytes.
SLAB_COLUMNS = 64

#: Largest number of real numbers along K for which a block of 64 threads decomposes a row as fast as one of 256.
SHORT_ROW = 2048


@dataclass(frozen=True)
class Limbs(Operands):
    """Operands as planes of limbs, whose products are summed in float32 (``docs/rungs/split_float32.md``)."""

    reads_elements = False
    is_ieee = False
    sums_in_order = False
    most_bytes = 1 << 33

    # Shorter sums in float32 are as accurate. A complex element is two terms.
    shortest = 256

    timed_batches = ((256, 256, 256, 256), (64, 512, 512, 512), (1, 4096, 4096, 256))

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that multiplies limbs, with the type and the layout of the limbs."""
        limb = SCHEMES[spec.config.scheme].limb_of(spec.compute)
        packed = after_packing(spec).layout
        layout = packed[0].replace("G", "N") + packed[1].replace("G", "T")
        kernel = replace(spec.alone(), a=limb, b=limb, compute=limb, layout=layout)
        return replace(kernel, condition="if decomposed", conjugates="")

    def for_tma(self, spec: KernelSpec, a_in_place: bool, b_in_place: bool) -> KernelSpec:
        """Return the specification with packing of MN-major operands, if limbs must be K-major.

        Limbs of 32 bits must be K-major. Limbs of 16 bits need not, unless the columns of a tile are not whole slabs of
        an MN-major tile: whole slabs would not fit into shared memory. ``a_in_place`` and ``b_in_place`` have no
        effect, because limbs are always written so that TMA can read them.
        """
        limb, columns = SCHEMES[spec.config.scheme].limb, in_real_numbers(spec.config, spec.compute).bn
        transposes = limb.itemsize == 2 and columns % SLAB_COLUMNS == 0
        return with_packing(spec, transposes or spec.layout[0] != "T", transposes or spec.layout[1] != "N")

    def packings(self, variant: Variant, tile: int, product: Product) -> Iterator[tuple[str, ...]]:
        """Yield the only packing among which ``auto`` may choose, which is none; nothing if the kernel is unsuitable.

        It is also unsuitable if MN-major operands would be packed for this tile alone.
        """
        if tile % SLAB_COLUMNS == 0 or "T" not in product.problem.k_major_layout:
            yield from super().packings(variant, tile, product)

    def limbs(self, config: Config, compute: Element) -> int:
        """Return the number of limbs per real number."""
        return SCHEMES[config.scheme].limbs

    def product_type(self, spec: KernelSpec) -> Element:
        """Return the type that a kernel's limbs stand for: complex64 if they are complex, else float32 or tf32."""
        real = compute_element(SCHEMES[spec.config.scheme].emulates)
        return real if spec.compute.components == 1 else ELEMENTS["complex64"]

    def packed_b_letter(self, variant: Variant, compute: Element) -> str:
        """Return the layout letter of a packed B, which is T, because operands are packed only to make them K-major."""
        return "T"

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return the limbs of both operands as ``PreparedOperands``, with the launches that write them.

        Operands are packed first if necessary. The decomposing kernels also write the operand scan, which records
        whether the values can be decomposed.
        """
        kernel, ready = spec.kernel, pack_operands(spec, problem)

        def copy_of(operand: int) -> Copy:
            copy = _copy_of(after_packing(spec), ready.problem, operand)
            names = ready.names[operand], copy.memory.name
            return replace(copy, launches=tuple(replace(each, operands=names) for each in copy.launches))

        both = both_copies(copy_of, _is_shared(spec.config, spec.compute))
        decomposed = with_copies(kernel, ready.problem, both, in_real_numbers(kernel.config, kernel.compute))
        launches, scratch = (*ready.launches, *decomposed.launches), (*ready.scratch, *decomposed.scratch)
        return with_scan(replace(decomposed, launches=launches, scratch=scratch), problem, both)

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield the specifications of the kernel that multiplies and of the kernels that pack or decompose A and B."""
        yield spec.kernel
        packs = spec.config.launch.pack_a, spec.config.launch.pack_b
        yield from (pack_spec(spec, operand) for operand in range(2) if packs[operand])
        for operand in range(2):
            yield from (decompose_spec(after_packing(spec), operand, short) for short in (False, True))

    def prepared_bytes(self, problem: Problem, compute: Element) -> int:
        """Return the size of both decomposed operands in bytes, with the default scheme.

        Each complex element of B becomes a 2 x 2 matrix of real numbers. Limbs of other schemes are up to twice as
        large.
        """
        real_numbers = (problem.elements(0) + compute.components * problem.elements(1)) * compute.components
        return real_numbers * _limb_bytes(SCHEMES[self.schemes_of(compute)[0]])

    def cost(
        self, variant: Variant, config: Config, launch: LaunchConfig, product: Product, times: DeviceTimes
    ) -> OperandCost:
        """Return the cost of decomposing operands that are not prepared into limbs, and of reading the limbs."""
        problem, compute = product.problem, product.compute
        layout = problem.k_major_layout
        each_time = product.each_time(shared=_is_shared(config, compute))
        before = sum(_decompose_time(product, i, layout[i], config.scheme, times) for i in each_time)
        # The rates are those of three launches: two decompose operands, and one returns at once.
        launched = (1 + len(each_time)) / 3
        before += launched * times.rates.decomposing_launches
        written = _limb_bytes(SCHEMES[config.scheme]) / ELEMENTS["float32"].itemsize
        a, b = (size * written for size in bytes_of(product))
        host = launched * times.rates.decomposing_call
        return OperandCost((a, b * compute.components), layout, (True, True), problem.k, before, host=host)

    def rates(self, compute: Element) -> tuple[str, ...]:
        """Return the names of the device's rates of decomposing operands into limbs, as fields of ``DeviceRates``."""
        return "decomposing_launches", "decomposing.N", "decomposing.T", "decomposing_mn_major"

    def multiplied(self, compute: Element, scheme: str = "") -> tuple[int, int]:
        """Return the size of a limb in bytes, and the number of products of limbs per product of two elements."""
        chosen = SCHEMES[scheme or self.schemes_of(compute)[0]]
        return chosen.limb.itemsize, chosen.products * compute.multiplies

    def unit(self, spec: KernelSpec) -> str:
        """Return the number of products of limbs per product of two real numbers, as text."""
        scheme = SCHEMES[spec.config.scheme]
        products = "one product" if scheme.products == 1 else f"{scheme.products} products"
        return f"{products} of {scheme.limb.dtype_name} for one"

    def fragment(self, spec: KernelSpec) -> tuple[int, int]:
        """Return the number of columns of C that share one read of a limb of A, and the bytes read per element.

        A warpgroup computes 128 columns per instruction, or all if they are no multiple of 128, and reads a limb once
        per product of limbs. A warp without warpgroup instructions computes all columns of its tile, and reads each
        limb once.
        """
        scheme, real = SCHEMES[spec.config.scheme], spec.config.wn * spec.compute.components
        by_warpgroup = spec.variant.hopper.warpgroup
        cols, times = (real if real % 128 else 128, scheme.products) if by_warpgroup else (real, scheme.limbs)
        return cols, scheme.limb.itemsize * times * spec.compute.multiplies


def _limb_bytes(scheme: Scheme) -> int:
    """Return the size of all limbs of a real number in bytes."""
    return scheme.limbs * scheme.limb.itemsize


def _is_shared(config: Config, compute: Element) -> bool:
    """Return whether the limbs of A are also those of B: of real numbers, if B is the transpose of A."""
    return config.triangle > 0 and compute.components == 1


def _k_major(element: Element, scheme: str, short: bool = False) -> Config:
    """Return the config of the kernel that decomposes contiguous rows: one row per block.

    Each thread reads four contiguous real numbers at a time. If ``short`` is True, a block has 64 threads instead of
    256.
    """
    count, threads = 4 // element.components, 64 if short else 256
    return Config(bm=1, bn=count, bk=threads * count, tn=count, unroll=4, lanes=threads, scheme=scheme)


def _mn_major(element: Element, scheme: str, copies: int) -> Config:
    """Return the config of the kernel that decomposes contiguous columns, with 32 rows of limbs per block.

    Each row of elements becomes ``copies`` rows of limbs.
    """
    rows = 4 // copies
    return Config(bm=8 * rows, bn=1, bk=64, tm=rows, unroll=4 // element.components, lanes=64, scheme=scheme)


#: The kernel that decomposes float32 elements, or the parts of complex64's.
DECOMPOSE = Variant(
    name="decompose",
    template="decompose.cu.j2",
    summary="decomposes float32 elements, or the parts of complex64's, into limbs",
    waits="last",
    writes=Limbs(),
    configure=lambda tile, element, scheme: _k_major(element, scheme),
    block=lambda config: (config.threads, 1),
    shared_bytes=lambda config, element, layout: 2 * 4 * config.threads // 32 * config.bm,
)


def decompose_spec(spec: KernelSpec, operand: int, short: bool) -> KernelSpec:
    """Return the specification of the kernel that decomposes A (0) or B (1) into limbs. It reads B transposed.

    A complex element becomes a row of two real numbers in A, and a 2 x 2 matrix of these in B.

    Args:
        spec: The kernel that multiplies.
        operand: 0 for A, 1 for B.
        short: Whether rows are short enough for a block of fewer threads.
    """
    compute, scheme = spec.compute.stored, SCHEMES[spec.config.scheme]
    limb = scheme.limb_of(compute) if operand else scheme.limb
    letter = k_major_letter(spec, operand)
    if letter == "T":
        config = _mn_major(compute, scheme.name, limb.components)
    else:
        config = _k_major(compute, scheme.name, short)
    stored, conjugates = (spec.a, spec.b)[operand], spec.conjugates_operand(operand)
    return KernelSpec(
        DECOMPOSE, config, stored, compute, compute, limb, f"{letter}N", "scan", conjugates=conjugates
    )  # fmt: skip


def _copy_of(spec: KernelSpec, problem: Problem, operand: int) -> Copy:
    writer = decompose_spec(spec, operand, problem.k * spec.compute.components <= SHORT_ROW)
    rows, steps = k_major_rows(problem, operand)
    read, written = writer.compute.components, writer.c.components  # real numbers per element
    across, along, transposed = rows * written, problem.k * read, writer.layout[0] == "T"
    height, contiguous = (along, across) if transposed else (across, along)
    # Rows are padded, because a thread writes several elements at a time, a block writes all of its rows, and rows end
    # with whole 16-byte vectors.
    width = max(writer.config.bm * written, writer.config.tn * read, 16 // writer.c.itemsize)
    filled = tiles(contiguous, width) * width
    return copy_by(
        writer, problem, operand, "limbs of", (rows, 1, problem.k), steps, (height, contiguous, filled), transposed
    )


def _decompose_time(product: Product, operand: int, letter: str, scheme: str, times: DeviceTimes) -> float:
    """Return the time of decomposing A (0) or B (1) into limbs, in microseconds.

    Args:
        product: The product.
        operand: 0 for A, 1 for B, whose complex elements become 2 x 2 matrices of real numbers.
        letter: N if the operand is K-major, T if it is MN-major, G for neither.
        scheme: Name of the decomposition scheme.
        times: Times of moving data on the device.
    """
    problem, compute = product.problem, product.compute
    elements = problem.elements(operand)
    size = elements * (product.a, product.b)[operand].itemsize
    components = compute.components if operand else 1
    written = components * _limb_bytes(SCHEMES[scheme]) / ELEMENTS["float32"].itemsize
    time = times.moving((1 + written) * size, times.rates.decomposing[letter])
    if letter != "T":
        return time
    rows = max(elements // problem.k, 1)
    blocks = tiles(rows, _mn_major(compute, scheme, components).bm)
    return times.rates.decomposing_mn_major + time / min(1.0, 2 * blocks / times.sms)
