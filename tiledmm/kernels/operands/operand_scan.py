"""The operand scan: what kernels that decompose operands record about their values, and other kernels read.

The kernel that multiplies decomposed operands, and the kernel for operands that cannot be decomposed, are both
launched; the scan tells one of them to return at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiledmm.elements import ELEMENTS
from tiledmm.kernels.launches import Copy, Ready, Scratch
from tiledmm.problem.strides import Problem

#: Name of the scratch memory that holds the operand scan, and the value of its bytes before the first launch.
SCAN, SCAN_INIT = "operand scan", 0x7F

#: Bytes of a scan before the exponents of rows (``cuda_src/operand_scan.cuh``).
SCAN_HEAD = 12


def with_scan(ready: Ready, problem: Problem, both: Sequence[Copy]) -> Ready:
    """Return decomposed operands with the scans that the launches write, and with the memory of both scans.

    Args:
        ready: The operands, decomposed by the launches of ``both``, which are the last of its launches.
        problem: The product's problem.
        both: The copies of A and B.
    """
    begins, size = [], 0
    for rows, copy in zip((problem.m, problem.n), both, strict=True):
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
