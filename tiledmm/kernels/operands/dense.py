"""Dense matrices: rows or columns without gaps between them, in the types of a user's plain kernel.

A plain kernel receives sizes but no strides, and computes one product per launch. Operands that are not dense are
copied before the kernel reads them. If C is not dense, or has another type or an epilogue, the kernel writes a dense
C, from which C is then written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tiledmm.elements import Element
from tiledmm.kernels.config import Config
from tiledmm.kernels.launches import Launch, Schedule, problem_args, tiles
from tiledmm.kernels.operands.copies import PreparedOperands, copy_by
from tiledmm.kernels.operands.operands import Operands
from tiledmm.kernels.plain import SIZES, PlainKernel
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.split_k import SPLIT_K_REDUCTION, with_reduction
from tiledmm.kernels.variant import Variant, block_of_tiles
from tiledmm.problem.product import Product
from tiledmm.problem.strides import TRANSPOSED, Problem

COPY = Variant(
    name="copy",
    template="copy.cu.j2",
    summary="copies an operand to rows without gaps",
    waits="last",
    configure=lambda tile, element: Config(bm=32, bn=32, tm=4),
    block=block_of_tiles,
    shared_bytes=lambda config, element, layout: config.bm * (config.bn + 1) * element.sum_bytes,
)

# Config of the split-K reduction that reads one partial sum per element, or none and writes zeros.
_ONE_SUM = Config(bm=1, bn=256)


@dataclass(frozen=True)
class Dense(Operands):
    """Operands of a plain kernel.

    Attributes:
        plain: The kernel.
    """

    plain: PlainKernel = field(kw_only=True)

    has_epilogue = False

    def form(self, variant: Variant, product: Product) -> Product:
        """Return the product in the form that needs fewer copies, with all batch dimensions left to the caller.

        Raises:
            ShapeError: If the kernel cannot compute a product of these sizes.
        """
        forms = [product, product.transposed()]
        in_place = self.plain.reads_in_place
        product = max(forms, key=lambda each: sum(in_place(each.problem, matrix) for matrix in range(3)))
        problem = product.problem
        if not problem.is_empty and problem.k:
            self.plain.check_sizes(variant.name, dict(zip(SIZES, (problem.m, problem.n, problem.k), strict=True)))
        return replace(product, problem=replace(problem, outer=(*problem.outer, *problem.batch), batch=()))

    def remarks(self, spec: KernelSpec, problem: Problem) -> tuple[str, ...]:
        """Return remarks on which matrices are copied, and on whether C is cleared first."""
        stored = spec.a, spec.b, spec.c
        copied = [name for i, name in enumerate("ABC") if self._is_copied(spec, problem, i, stored[i])]
        return (*(f"{name} copied" for name in copied), *["C cleared"] * self.plain.adds_to_c)

    def kernel(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the plain kernel, with its types and layout."""
        a, b, c = self.plain.types
        return replace(spec.alone(), a=a, b=b, c=c, layout=self.plain.layout, epilogue=None)

    def prepare(self, spec: KernelSpec, problem: Problem) -> PreparedOperands:
        """Return ``PreparedOperands``, in which operands that are not dense or have another type are copied."""
        kernel, names = spec.kernel, ["A", "B"]
        launches: list[Launch] = []
        scratch = []
        for operand, stored in enumerate((spec.a, spec.b)):
            if not self._is_copied(spec, problem, operand, stored):
                continue
            copy = copy_by(
                self._copy_spec(spec, operand), problem, operand, "dense",
                *self._copied_matrix(problem, operand, kernel.layout[operand]), row_alignment=1,
            )  # fmt: skip
            launches += copy.launches
            scratch.append(copy.memory)
            names[operand] = copy.memory.name
            problem = copy.in_place_of(problem, kernel.layout)
        return PreparedOperands(problem, (names[0], names[1]), tuple(launches), tuple(scratch))

    def products(self, spec: KernelSpec, problem: Problem, ready: PreparedOperands) -> Schedule:
        """Return the ``Schedule`` of the plain kernel's launch, and of the launches that clear C and write it."""
        plain, kernel, into, name = self.plain, spec.kernel, ready.problem, "C"
        last, scratch = [], []
        if self._is_copied(spec, problem, 2, spec.c):
            into, memory, launch = with_reduction(spec, self._result_spec(spec), into, (1, problem.k))
            last, scratch, name = [launch], [memory], memory.name
        names, types = (*ready.names, name), (kernel.a, kernel.b, kernel.c)
        begins = tuple(begin * each.itemsize for begin, each in zip(into.begins[:3], types, strict=True))
        sizes = dict(zip(SIZES, (into.m, into.n, into.k), strict=True))
        blocks, *along_y_and_z = plain.grid(sizes)
        launches = [self._clearing(into, name, begins[2])] if plain.adds_to_c else []
        multiplying = Launch(
            kernel, blocks, np.array([], np.int64), names, begins,
            along_y_and_z=(along_y_and_z[0], along_y_and_z[1]), numbers=plain.numbers(into),
        )  # fmt: skip
        return Schedule((*launches, multiplying, *last), tuple(scratch))

    def kernels(self, spec: KernelSpec, by_auto: bool) -> Iterator[KernelSpec]:
        """Yield the plain kernel, and the kernels that copy operands, clear C and write it."""
        yield spec.kernel
        yield from (self._copy_spec(spec, operand) for operand in range(2))
        yield self._result_spec(spec)
        if self.plain.adds_to_c:
            yield self._clearing_spec

    def _is_copied(self, spec: KernelSpec, problem: Problem, matrix: int, stored: Element) -> bool:
        """Return whether A (0) or B (1) is copied before the kernel reads it, or C (2) is written from a copy."""
        if matrix == 2 and spec.epilogue is not None:
            return True
        return stored != self.plain.types[matrix] or not self.plain.reads_in_place(problem, matrix)

    def _copy_spec(self, spec: KernelSpec, operand: int) -> KernelSpec:
        into, letter = self.plain.types[operand], spec.layout[operand]
        if self.plain.layout[operand] == "T":
            letter = letter.translate(TRANSPOSED)
        return KernelSpec(COPY, COPY.configure(0, into), (spec.a, spec.b)[operand], into, into, into, f"{letter}N")

    def _copied_matrix(
        self, problem: Problem, operand: int, letter: str
    ) -> tuple[tuple[int, int, int], tuple[int, int], tuple[int, int, int]]:
        """Return the arguments ``sizes``, ``steps`` and ``matrix`` of ``copy_by`` for an operand's copy."""
        rows, cols = ((problem.m, problem.k), (problem.k, problem.n))[operand]
        row, col = problem.strides[2 * operand : 2 * operand + 2]
        if letter == "T":
            rows, cols, row, col = cols, rows, col, row
        return (rows, cols, 1), (row, col), (rows, cols, cols)

    def _result_spec(self, spec: KernelSpec) -> KernelSpec:
        """Return the specification of the kernel that writes C from a dense C: a reduction of one partial sum."""
        dense = self.plain.types[2]
        compute = spec.compute if spec.compute.result == dense else dense
        return KernelSpec(SPLIT_K_REDUCTION, _ONE_SUM, dense, dense, compute, spec.c, "NN", epilogue=spec.epilogue)

    @property
    def _clearing_spec(self) -> KernelSpec:
        dense = self.plain.types[2]
        return KernelSpec(SPLIT_K_REDUCTION, _ONE_SUM, dense, dense, dense, dense, "NN")

    def _clearing(self, into: Problem, name: str, begin: int) -> Launch:
        """Return the launch that fills C with zeros: the reduction of no partial sums."""
        sums = into.m * into.n
        of_none = replace(into, strides=(into.n, 1, *into.strides[2:]))
        kernel_args = problem_args(_ONE_SUM, of_none, (0, into.k), sums)
        return Launch(self._clearing_spec, tiles(sums, _ONE_SUM.bn), kernel_args, (name, name), (begin, begin))
