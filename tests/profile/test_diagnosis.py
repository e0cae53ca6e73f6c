"""Tests of diagnoses in words: the limit with its number, then what costs most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiledmm.profile.diagnosis import diagnose
from tiledmm.profile.kernel_profile import Profile, ProfiledLine

IDLE = Profile(
    "x", "tiledmm_x", sm_throughput=0.4, memory_throughput=0.4, dram_throughput=0.1, shared_throughput=0.3,
    tensor_active=0.0, issued=0.4, shared_wavefronts=100, ideal_shared_wavefronts=100, global_sectors=100,
    ideal_global_sectors=100, occupancy=0.9, possible_occupancy=1.0, waits={"long_scoreboard": 60, "selected": 40},
)  # fmt: skip


def test_nothing_is_near_its_peak() -> None:
    limit, waits = diagnose(IDLE)
    assert limit.startswith("Bound by latency") and "the SMs at 40%" in limit and "the schedulers at 40%" in limit
    assert waits == "Warps wait 60% of their time for data from global memory (long scoreboard)."


def test_what_is_nearest_its_peak_comes_first() -> None:
    """Check ``auto`` on an H100, whose tensor cores are its busiest unit, and a kernel limited by copies of tiles."""
    found = diagnose(replace(IDLE, tensor_active=0.68))[0]
    assert found.startswith("Near a limit: the tensor cores at 68%, the SMs at 40%")
    found = diagnose(replace(IDLE, shared_throughput=0.72))[0]
    assert found.startswith("Near a limit: shared memory at 72%")
    assert "tensor" not in diagnose(replace(IDLE, tensor_active=0.009))[0]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"dram_throughput": 0.85, "memory_throughput": 0.85}, "Bound by DRAM: it is at 85% of its peak."),
        ({"tensor_active": 0.9, "issued": 0.3}, "Bound by the tensor cores: they are active in 90%"),
        ({"shared_throughput": 0.95, "memory_throughput": 0.95}, "Bound by shared memory: it is at 95%"),
        (
            {"issued": 0.87, "sm_throughput": 0.87},
            "Bound by instruction issue: a scheduler issues an instruction in 87%",
        ),
        ({"memory_throughput": 0.9}, "Bound by caches and buses: the busiest is at 90%"),
        ({"sm_throughput": 0.9}, "Bound by an arithmetic pipe: the busiest unit of an SM is at 90%"),
    ],
)
def test_what_is_busiest_comes_first(figures: dict[str, float], expected: str) -> None:
    assert diagnose(replace(IDLE, **figures))[0].startswith(expected)  # type: ignore[arg-type]


def test_bank_conflicts() -> None:
    found = diagnose(replace(IDLE, shared_wavefronts=3200, ideal_shared_wavefronts=800))
    assert "Bank conflicts cause 75% of the shared memory wavefronts: 3,200, ideal are 800." in found
    assert not any("conflicts" in each for each in diagnose(replace(IDLE, shared_wavefronts=105)))


def test_accesses_that_are_not_coalesced() -> None:
    found = diagnose(replace(IDLE, global_sectors=800, load_sectors=640, load_requests=20))
    assert "Accesses to global memory need 8 times the ideal sectors (32 per load)." in found


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("mio_throttle", "in the queue to shared memory (MIO throttle)"),
        ("barrier", "for other warps at a barrier"),
        ("short_scoreboard", "for data from shared memory (short scoreboard)"),
        ("something_new", "for something_new"),
    ],
)
def test_what_warps_wait_for(reason: str, expected: str) -> None:
    found = diagnose(replace(IDLE, waits={reason: 50, "selected": 30, "wait": 15, "barrier_": 5}))
    (sentence,) = [each for each in found if each.startswith("Warps wait")]
    assert "50% of their time for" in sentence and expected in sentence
    assert "15%" in sentence and "barrier_" not in sentence


def test_the_worst_line() -> None:
    line = ProfiledLine(7, "tiled.cu.j2:3", "__syncthreads();", {"barrier": 60}, 0.6)
    assert diagnose(replace(IDLE, lines=(line,)))[-1] == "60% of all waiting is at tiled.cu.j2:3: __syncthreads();"
    assert len(diagnose(replace(IDLE, lines=(replace(line, share=0.05),)))) == 2


def test_few_warps() -> None:
    held = replace(IDLE, occupancy=0.12, possible_occupancy=0.125, registers=229, registers_limit=1, shared_limit=5)
    assert diagnose(held)[-1] == "Occupancy is 12%, limited by 229 registers per thread."
    assert "50% in theory: the launch has few blocks" in diagnose(replace(held, possible_occupancy=0.5))[-1]
    assert diagnose(replace(held, registers_limit=None, shared_limit=None))[-1].endswith("Occupancy is 12%.")


def test_five_sentences_at_most_and_none_of_nothing() -> None:
    worst = replace(
        IDLE,
        shared_wavefronts=3200,
        global_sectors=800,
        occupancy=0.1,
        lines=(ProfiledLine(1, "tiled.cu.j2:1", "x", {"wait": 1}, 1.0),),
    )
    assert len(diagnose(worst)) == 5
    assert diagnose(Profile("x", "k")) == []
    assert diagnose(Profile("x", "k", issued=0.01)) == [
        "Bound by latency, as no unit is near its peak: the schedulers at 1%."
    ]
