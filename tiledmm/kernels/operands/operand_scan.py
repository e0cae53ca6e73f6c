"""Operand scan: what kernels record about the operands' values as they decompose them, for later kernels to read.

Two kernels are launched: one multiplies decomposed operands, the other multiplies operands that cannot be decomposed.
The operand scan tells one of them to return at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiledmm.elements import ELEMENTS
from tiledmm.kernels.launches import Scratch
from tiledmm.kernels.operands.copies import Copy, PreparedOperands
from tiledmm.problem.strides import Problem

#: Name of the scratch memory that holds the operand scan, and the value of each of its bytes before the first launch.
SCAN, SCAN_INIT = "operand scan", 0x7F

#: Number of bytes in a scan before the exponents of the rows (``cuda_src/operand_scan.cuh``).
SCAN_HEAD = 12


def with_scan(ready: PreparedOperands, problem: Problem, both: Sequence[Copy]) -> PreparedOperands:
    """Return decomposed operands with scratch memory for the operand scan, which the decomposing launches write.

    Args:
        ready: The decomposed operands. Its last launches are those of ``both``.
        problem: The product's problem.
        both: The copies of A and B.
    """
    begins, size = list[int](), 0
    for rows, copy in zip((problem.m, problem.n), both, strict=True):
        if not copy.launches:  # the other operand's scan is of both
            begins.append(begins[0])
            continue
        begins.append(size)
        size += SCAN_HEAD + 4 * rows * copy.matrices
        size += -size % 8
    writes = [begins[copy.operand] for copy in both for _ in copy.launches]
    first = len(ready.launches) - len(writes)
    scanning = (replace(each, scan=(begin, begin)) for each, begin in zip(ready.launches[first:], writes, strict=True))
    memory = Scratch(SCAN, (size,), size, ELEMENTS["uint8"])
    return replace(
        ready,
        launches=(*ready.launches[:first], *scanning),
        scratch=(*ready.scratch, memory),
        scan=(begins[0], begins[1]),
    )
