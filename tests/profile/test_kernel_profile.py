"""Tests of the values derived from counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiledmm.compile.disassembly import Instruction, MachineCode
from tiledmm.profile.kernel_profile import METRICS, Profile, reduced, with_lines
from tiledmm.profile.ncu import Instructions, ProfiledLaunch
from tiledmm.simulator.build.source_map import SourceMap

VALUES = {metric: 50.0 for metric in METRICS.values()} | {
    METRICS["shared_wavefronts"]: 400.0,
    METRICS["ideal_shared_wavefronts"]: 100.0,
    METRICS["load_sectors"]: 800.0,
    "smsp__pcsamp_warps_issue_stalled_barrier": 30.0,
    "smsp__pcsamp_warps_issue_stalled_barrier_not_issued": 29.0,
    "smsp__pcsamp_warps_issue_stalled_no_instructions": 10.0,
    "smsp__pcsamp_warps_issue_stalled_membar": 0.0,
    "smsp__pcsamp_warps_issue_stalled_selected": 60.0,
    "smsp__pcsamp_sample_count": 100.0,
}

SOURCE = """__device__ float helper() {
    return 1;
}
#define KERNEL tiledmm_x
void KERNEL() {
    a = helper();
    __syncthreads();
}
"""
PLACES = SourceMap.of_file("x.cu", SOURCE)
CODE = MachineCode((), {}, {0: Instruction("LDS", (2, 6)), 16: Instruction("BAR", (7,)), 32: Instruction("EXIT", (8,))})
ROWS = (
    (0, "@!P0 LDS.128 R4, [R2] ;", {
        "stall_short_sb": 30, "stall_short_sb (Not Issued)": 29, "stall_selected": 50, "stall_mio": 10,
        "L1 Wavefronts Shared": 64, "L1 Wavefronts Shared Ideal": 8, "L2 Theoretical Sectors Global": 0,
    }),
    (16, "BAR.SYNC.DEFER_BLOCKING 0x0 ;", {"stall_barrier": 60}),
    (32, "EXIT ;", {"stall_selected": 1}),
)  # fmt: skip


def test_counters_become_numbers() -> None:
    found = reduced("tiled 32", ProfiledLaunch("tiledmm_x", VALUES))
    assert (found.label, found.kernel) == ("tiled 32", "tiledmm_x")
    assert found.sm_throughput == found.occupancy == found.l2_hit_rate == 0.5
    assert found.nanoseconds == found.registers == 50
    assert found.conflicts == 300
    assert (found.sectors_per_load, found.sectors_per_store) == (16, 1)
    assert found.waits == {"selected": 60, "barrier": 30, "no_instruction": 10}
    assert (found.share("barrier"), found.share("mio_throttle")) == (0.3, 0)
    assert found.missing == ()


def test_what_is_missing_is_none_and_named() -> None:
    values = {name: value for name, value in VALUES.items() if name != METRICS["ideal_shared_wavefronts"]}
    found = reduced("x", ProfiledLaunch("k", values))
    assert found.conflicts is None and found.missing == (METRICS["ideal_shared_wavefronts"],)
    nothing = reduced("x", ProfiledLaunch("k", {}))
    assert nothing == replace(Profile("x", "k"), missing=tuple(METRICS.values()))
    assert nothing.share("barrier") is None and nothing.sectors_per_load is None


def test_no_requests_have_no_sectors() -> None:
    assert Profile("x", "k", load_sectors=0, load_requests=0).sectors_per_load is None


def test_source_lines_are_those_of_the_kernels_page() -> None:
    found = with_lines(Profile("x", "tiledmm_x"), Instructions("tiledmm_x", ROWS), CODE, SOURCE, PLACES)
    barrier, load = found.lines
    assert (barrier.number, barrier.location, barrier.text) == (7, "x.cu:7", "__syncthreads();")
    assert (barrier.waits, barrier.share) == ({"barrier": 60}, 0.6)
    assert (load.number, load.location, load.text, load.share) == (6, "x.cu:6", "a = helper();", 0.4)
    assert load.waits == {"short_scoreboard": 30, "mio_throttle": 10}
    assert (load.wavefronts, load.ideal_wavefronts, load.sectors, load.ideal_sectors) == (64, 8, 0, 0)
    assert found.note == ""


@pytest.mark.parametrize("code", [{0: Instruction("LDG", (6,))}, {0: Instruction("LDS", (6,))}])
def test_other_machine_code_has_no_lines(code: dict[int, Instruction]) -> None:
    found = with_lines(Profile("x", "tiledmm_x"), Instructions("k", ROWS), MachineCode((), {}, code), SOURCE, PLACES)
    assert found.lines == () and "tiledmm_x" in found.note


def test_instructions_of_no_line() -> None:
    code = MachineCode((), {}, {0: Instruction("LDS", ())})
    (line,) = with_lines(Profile("x", "k"), Instructions("k", ROWS[:1]), code, SOURCE, PLACES).lines
    assert (line.number, line.location, line.text, line.share) == (0, "an unknown line", "", 1)


def test_nothing_waited() -> None:
    rows = ((0, "LDS R1, [R2] ;", {"L1 Wavefronts Shared": 1}), (16, "BAR.SYNC 0x0 ;", {}))
    (line,) = with_lines(Profile("x", "k"), Instructions("k", rows), CODE, SOURCE, PLACES).lines
    assert (line.number, line.share, line.waits) == (6, 0, {})
