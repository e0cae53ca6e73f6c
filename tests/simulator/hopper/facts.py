"""Launches that show what a GPU does beyond its documentation, by kernels of the corpus: no examples to follow."""

from __future__ import annotations

from tests.simulator.hopper.case import Array, Case
from tests.simulator.hopper.cases import tma_1d, tma_2d_at

#: All such launches. ``benchmarks/studies/wgmma_sums.py`` shows what wgmma computes.
FACTS: tuple[Case, ...] = (
    # A store leaves out what lies past the end in whole chunks of 16 bytes only: 150 elements are 37.5 of them.
    tma_1d("fact_stores_write_whole_chunks", 150, 152),
    # float32 that TMA rounds to tf32. Powers of two times the scale lie in the middle of two numbers, of which the
    # lower one is even, then the upper one.
    tma_2d_at("fact_tf32_ties_to_lower", "tf32", Array("float32", (37, 48), (-16, 16), 1 + 2.0**-11)),
    tma_2d_at("fact_tf32_ties_to_upper", "tf32", Array("float32", (37, 48), (-16, 16), 1 + 3 * 2.0**-11)),
)
