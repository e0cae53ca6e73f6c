"""Split-K: each block sums one partition of K, and a last launch, the reduction, adds partial sums in a fixed order."""

from __future__ import annotations

from dataclasses import replace

from tiledmm.elements import Element, partial_sums
from tiledmm.kernels.config import Config
from tiledmm.kernels.launches import Launch, Scratch, one_after_the_other, problem_args, products, tiles
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variant import Variant, block_of_tiles
from tiledmm.problem.strides import Problem


def _reduction(partitions: int, element: Element) -> Config:
    """Return the config of the split-K reduction, whose threads write up to 16 bytes each.

    With more partitions, more threads share each element.
    """
    tn = min(4, 16 // element.itemsize)
    groups = 1 if partitions <= 8 else 8 if partitions <= 128 else 32
    return Config(bm=groups, bn=256 // groups * tn, tn=tn)


#: The kernel of the reduction. Its tile is the number of partitions.
SPLIT_K_REDUCTION = Variant(
    name="split_k_reduction",
    template="split_k_reduction.cu.j2",
    summary="adds the partial sums of split-K partitions",
    waits="first",
    configure=_reduction,
    block=block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * config.bn * element.sum_bytes if config.bm > 1 else 0,
)


def split_k_specs(spec: KernelSpec, partitions: int) -> tuple[KernelSpec, KernelSpec | None]:
    """Return the specifications of the two kernels of a split-K product: the one that multiplies, and the reduction.

    There is no reduction (None) if the blocks of a cluster sum the partitions, and add up their sums themselves.
    """
    kernel = spec.kernel
    in_cluster = kernel.variant.hopper.in_cluster(kernel.config, partitions, kernel.compute)
    if in_cluster != kernel.config:
        return replace(kernel, config=in_cluster), None
    compute, partial, reduced = partial_sums(spec.compute)
    config, epilogue = SPLIT_K_REDUCTION.configure(partitions, partial), spec.epilogue
    kernel = replace(spec, compute=compute).kernel
    # An epilogue may read C. So of two kernels with different formats, only one may write C.
    condition = kernel.condition if epilogue else ""
    reduction = KernelSpec(
        SPLIT_K_REDUCTION, config, partial, partial, reduced, spec.c, "NN", condition, epilogue
    )  # fmt: skip
    return replace(kernel, c=partial, epilogue=None), reduction


def with_reduction(
    spec: KernelSpec, reduction: KernelSpec, problem: Problem, partitions: tuple[int, int]
) -> tuple[Problem, Scratch, Launch]:
    """Return the problem of the multiplying kernel, the scratch memory and the last launch of a split-K product.

    Args:
        spec: The kernel whose product is split.
        reduction: The kernel of the reduction.
        problem: The product's problem.
        partitions: The number of partitions, and the steps of k in each.

    Returns:
        The problem of the kernel that multiplies, whose C is partial sums; the scratch memory that holds these; and the
        launch that adds them.
    """
    # Rows begin at multiples of the elements that a thread reads at a time.
    pitch = tiles(problem.n, reduction.config.tn) * reduction.config.tn
    shape = partitions[0], products(problem), problem.m, problem.n
    memory = Scratch("partial sums", shape, pitch, reduction.a)
    sums = problem.m * pitch * products(problem)
    from_sums = replace(problem, strides=(pitch, 1, *problem.strides[2:]))
    kernel_args = problem_args(spec.config, from_sums, partitions, sums, reduction.epilogue)
    begins = 0, problem.begins[2] * reduction.c.itemsize
    launch = Launch(reduction, tiles(sums, reduction.config.bn), kernel_args, (memory.name, "C"), begins)
    into = replace(
        problem,
        strides=(*problem.strides[:4], pitch, 1), batch=one_after_the_other(problem, pitch),
        begins=(*problem.begins[:2], 0, *problem.begins[3:]),
    )  # fmt: skip
    return into, memory, launch
