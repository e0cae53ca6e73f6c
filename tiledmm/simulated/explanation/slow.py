"""Explanations of slow kernels: sentences about their simulated counts, each with the variant that shows the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiledmm.compile.inspection import Resources
from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.hardware.data_sheets import REFERENCE_GPUS, Gpu
from tiledmm.hardware.occupancy import occupancy
from tiledmm.kernels.variants import VARIANTS
from tiledmm.simulated.explanation import counted_bound
from tiledmm.simulated.explanation.counted_bound import CountedBound, Rung, coalesced, l1_wavefronts, traffic_of
from tiledmm.simulated.explanation.integer_divisions import division_in_inner_loop
from tiledmm.simulator.report.report import Report
from tiledmm.simulator.report.traffic import AccessCounts, GlobalTraffic, SharedTraffic

# Sectors and wavefronts, as multiples of the ideal ones, from which on a line is mentioned.
_EXCESS = 1.5

# Fraction of all wavefronts of loads from which on a line is mentioned.
_SHARE = 0.05

# Uses of a loaded element, wavefronts per multiply-add of a warp, multiply-adds of a thread per barrier, and occupancy,
# beyond which a kernel is not held back by them.
_REUSE = 4.0
_LOADS = 0.75
_BETWEEN_BARRIERS = 16.0
_OCCUPANCY = 0.25


@dataclass(frozen=True, slots=True)
class Advice:
    """A reason why a kernel is slow, and what helps.

    Attributes:
        cause: The reason in a few words: ``"uncoalesced accesses"``, ``"bank conflicts"``, ``"little reuse"``,
            ``"shared-memory loads"``, ``"narrow loads"``, ``"barriers"``, ``"low occupancy"``, ``"idle lanes"``,
            ``"spills"``, ``"local arrays"`` or ``"integer division"``.
        message: Sentences with the figures, and with the roofline bound if the cause is removed.
        variant: Name of the variant that shows how to remove the cause; empty if none does.
        bound: Bound of the kernel's speed in FLOP/s by its counts; 0 if it is not known.
        mended_bound: Bound of the speed in FLOP/s if this cause is removed; 0 if it is not known.
        line: Line of ``Report.text`` with the cause; 0 if the cause is not at one line.
        location: File and line: ``"mine.cu:57"``; empty if the cause is not at one line.
        text: Text of the line.
    """

    cause: str
    message: str
    variant: str = ""
    bound: float = 0.0
    mended_bound: float = 0.0
    line: int = 0
    location: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.message


def explain_slow_kernel(
    report: Report,
    *,
    gpu: Gpu | None = None,
    dtype: str = "float32",
    resources: Resources | None = None,
    shared_bytes: int = 0,
    multiply_adds: int | None = None,
    is_product: bool = True,
) -> list[Advice]:
    """Return what slows a kernel down according to its simulated counts, in the order of the ladder's variants.

    Bounds are those of the roofline model: the peak of the CUDA cores, and the bandwidth of shared memory and L1. They
    are computed from counts, and nothing is measured.

    Args:
        report: The simulator's report of a launch.
        gpu: GPU, with the rates of its data sheet; None for the reference GPU of the report's target.
        dtype: Type in which the kernel multiplies, which decides the peak.
        resources: Registers and spills of the compiled kernel; None if they are not known.
        shared_bytes: Dynamic shared memory per block, in bytes.
        multiply_adds: Number of multiply-adds of the launch: of integers, which are not counted. None for half of the
            operations that were counted.
        is_product: Whether the kernel computes a matrix product. Other kernels may have no data to reuse, and are not
            compared with variants that reuse data.

    Example:
        >>> text = "__global__ void k(float* x, int n) { x[threadIdx.x * n] *= 2; }"
        >>> from tiledmm import simulator
        >>> report = simulator.launch(text, 1, 32, (np.ones(32 * 64, np.float32), 64))
        >>> [advice.cause for advice in explain_slow_kernel(report, is_product=False)]
        ['uncoalesced accesses', 'uncoalesced accesses']
    """
    gpu = gpu or REFERENCE_GPUS[report.target]
    kernel = _Kernel(report, gpu, dtype, CountedBound.of(report, gpu, dtype, multiply_adds), resources, shared_bytes)
    found = [*kernel.accesses(), *kernel.threads(), *kernel.compiled(), *kernel.divisions()]
    found += kernel.structure() if is_product else ()
    order = [*VARIANTS, ""]
    return sorted(found, key=lambda advice: order.index(advice.variant))


def nearest_rung(report: Report, *, gpu: Gpu | None = None, dtype: str = "float32") -> Rung | None:
    """Return the rung of the ladder whose counts are closest to a kernel's; None if the kernel multiplies nothing.

    Args:
        report: The simulator's report of a launch.
        gpu: GPU, with the rates of its data sheet; None for the reference GPU of the report's target.
        dtype: Type in which the kernel multiplies.
    """
    gpu = gpu or REFERENCE_GPUS[report.target]
    kernel = _Kernel(report, gpu, dtype, CountedBound.of(report, gpu, dtype, None), None, 0)
    if not kernel.bound.flops or not kernel.reuse:
        return None
    return counted_bound.nearest(counted_bound.rungs(gpu, dtype), kernel.bound.per_multiply_add, kernel.reuse)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel with its counts, its bound by them, and what the compiler says of it."""

    report: Report
    gpu: Gpu
    dtype: str
    bound: CountedBound
    resources: Resources | None
    shared_bytes: int

    @property
    def reuse(self) -> float:
        """Mean number of multiply-adds that use an element loaded from global memory; 0 if there are none."""
        elements = sum(
            each.bytes / _element_bytes(access.source.global_load)
            for access in self.report.accesses
            if (each := access.source.global_load + access.source.copy_load).bytes
        )
        return self.bound.flops / elements if elements else 0.0

    def accesses(self) -> Iterator[Advice]:
        """Yield advice about accesses that are uncoalesced or have bank conflicts."""
        whole = self.bound.wavefronts or 1.0
        for access in self.report.accesses:
            traffic = traffic_of(access)
            for verb, each in (
                ("read", traffic.global_load), ("write", traffic.global_store), ("copy from", traffic.copy_load)
            ):  # fmt: skip
                excess = l1_wavefronts(each) - coalesced(each)
                if each.sectors >= _EXCESS * each.ideal_sectors and excess >= _SHARE * whole:
                    said = (
                        f"{_per(each.sectors, each.requests)} sectors per request (ideally "
                        f"{_per(each.ideal_sectors, each.requests)}): {_of_addresses(each, verb)}"
                    )
                    yield self._advice("uncoalesced accesses", said, access, excess if verb == "read" else 0.0)
            for shared in (traffic.shared_load, traffic.shared_store, traffic.copy_store):
                excess = shared.bank_conflicts
                if shared.wavefronts >= _EXCESS * shared.ideal_wavefronts and excess >= _SHARE * whole:
                    said = (
                        f"{_per(shared.wavefronts, shared.requests)} wavefronts per request (ideally "
                        f"{_per(shared.ideal_wavefronts, shared.requests)}): lanes of a warp access different words in "
                        "the same bank (bank conflicts)"
                    )
                    yield self._advice("bank conflicts", said, access, excess if shared is traffic.shared_load else 0.0)

    def structure(self) -> Iterator[Advice]:
        """Yield advice about how a kernel reuses elements, and how often its threads wait for each other."""
        traffic, flops = self.report.sass or self.report.source, self.bound.flops
        if not flops:
            return
        warp_multiply_adds = flops / 2 / WARP_SIZE
        shared: SharedTraffic = traffic.shared_load
        if not shared.requests and 0 < self.reuse < _REUSE:
            uses = f"{self.reuse:.3g} multiply-add" + ("" if f"{self.reuse:.3g}" == "1" else "s")
            said = f"each element loaded from global memory is used in {uses} (little reuse)"
            yield self._structural("little reuse", f"{said}: all threads of a block can share a tile in shared memory")
        per_multiply_add = shared.ideal_wavefronts / warp_multiply_adds
        if per_multiply_add >= _LOADS:
            rate = self.gpu.arch.multiply_adds(self.dtype) / WARP_SIZE
            said = (
                f"a warp reads shared memory {per_multiply_add:.3g} times per multiply-add, but in the time of one "
                f"read an SM computes {rate:.3g} multiply-adds of a warp"
            )
            more = "a thread that computes several elements of C reads less per multiply-add"
            yield self._structural("shared-memory loads", f"{said}: {more}")
        elif shared.requests / warp_multiply_adds >= _LOADS / 4 and _lane_bytes(shared) <= 4:
            said = (
                "each lane reads shared memory 4 bytes at a time (narrow loads): reading 16 bytes at a time takes "
                "fewer instructions"
            )
            yield self._structural("narrow loads", said)
        threads = _count(self.report.grid) * _count(self.report.block)
        waits = self.report.barriers / _count(self.report.grid)
        if waits and (between := flops / 2 / threads / waits) <= _BETWEEN_BARRIERS:
            said = f"a block waits at a barrier after every {between:.3g} multiply-adds per thread (barriers)"
            yield self._structural("barriers", said, is_modelled=False)

    def threads(self) -> Iterator[Advice]:
        """Yield advice about a block whose last warp is not full."""
        if idle := -_count(self.report.block) % WARP_SIZE:
            size = _count(self.report.block)
            said = (
                f"with {size} threads per block, {idle} lanes of the last warp are idle: use a multiple of {WARP_SIZE}"
            )
            yield self._structural("idle lanes", said)

    def compiled(self) -> Iterator[Advice]:
        """Yield advice about registers, spills and occupancy, if the compiled kernel is known."""
        found = self.resources
        if found is None:
            return
        spilled = found.spill_store_bytes + found.spill_load_bytes
        if spilled:
            said = f"{spilled:,} bytes per thread are stored to and loaded from local memory for lack of registers"
            yield self._structural("spills", f"{said} (spills): compute fewer elements per thread")
        elif found.stack_bytes:
            said = f"{found.stack_bytes:,} bytes per thread are in local memory"
            why = "an array stays in registers only if all its subscripts are compile-time constants"
            yield self._structural("local arrays", f"{said}: {why}")
        threads, shared = _count(self.report.block), found.shared_bytes + self.shared_bytes
        held = occupancy(self.gpu.arch, threads, found.registers, shared)
        if held.blocks and held.fraction < _OCCUPANCY:
            said = (
                f"occupancy is {held.fraction:.0%} ({held.blocks} blocks of {threads} threads per SM), limited by "
                f"{held.limited_by}: {found.registers} registers per thread, {shared:,} bytes of shared memory per "
                "block"
            )
            yield self._structural("low occupancy", said)

    def divisions(self) -> Iterator[Advice]:
        """Yield advice about an integer division by a variable in the innermost loop that multiplies."""
        if found := division_in_inner_loop(self.report):
            line, divisor = found
            location, text = self.report.locations[line - 1], self.report.text.splitlines()[line - 1]
            said = (
                f"{location}: the inner loop divides an integer by {divisor}, which takes tens of instructions: "
                "compute rows and columns before the loop, or use a two-dimensional block"
            )
            yield Advice("integer division", said, line=line, location=location, text=text)

    def _advice(self, cause: str, said: str, access: AccessCounts, saved: float) -> Advice:
        """Return advice about an access without whose excess some wavefronts are saved."""
        variant = _mending(cause)
        now, then = self.bound.rate, self.bound.without(saved).rate
        where = f"{access.location}, {access.text}" if access.text else access.location
        message = f"{where}: {said}{self._outlook(variant, now, then)}"
        text = self.report.text.splitlines()[access.line - 1] if access.line else ""
        return Advice(cause, message, variant, now, then, access.line, access.location, text)

    def _structural(self, cause: str, said: str, *, is_modelled: bool = True) -> Advice:
        """Return advice about a whole kernel. The bound of the rung that mends it is what that would bring.

        Args:
            cause: The cause.
            said: Sentence that says so.
            is_modelled: Whether the roofline model knows the cause.
        """
        variant, now = _mending(cause), self.bound.rate
        then = counted_bound.rung(variant, self.gpu, self.dtype).rate if variant and is_modelled else now
        return Advice(cause, said + self._outlook(variant, now, then), variant, now, then)

    def _outlook(self, variant: str, now: float, then: float) -> str:
        """Return a clause that names the rung that helps and what it brings by the roofline."""
        if not variant:
            return ""
        if then <= 1.05 * now or not now:
            return f"; {variant} shows the remedy"
        rise = f"raises the roofline bound from {_tera(now)} to {_tera(then)} TFLOP/s"
        return f"; {variant} shows the remedy, which {rise}"


def _mending(cause: str) -> str:
    """Return the name of the first variant of the ladder that removes a cause; empty if none does."""
    return next((row.name for row in VARIANTS.values() if row.mends == cause), "")


def _of_addresses(traffic: GlobalTraffic, verb: str) -> str:
    """Return why a warp's accesses touch more sectors than their bytes fill."""
    if traffic.sectors - traffic.ideal_sectors <= traffic.requests:
        return "the bytes of a request do not begin at a multiple of 32, or have gaps (misaligned)"
    return f"the lanes of a warp {verb} addresses that are far apart (uncoalesced)"


def _element_bytes(traffic: GlobalTraffic) -> float:
    return traffic.bytes / traffic.lanes if traffic.lanes else 4.0


def _lane_bytes(traffic: SharedTraffic) -> float:
    return traffic.bytes / traffic.lanes if traffic.lanes else 0.0


def _tera(rate: float) -> str:
    return f"{rate / 1e12:.3g}"


def _count(sizes: tuple[int, int, int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]


def _per(count: int, requests: int) -> str:
    return f"{count / requests:.3g}" if requests else "0"
