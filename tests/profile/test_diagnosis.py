"""Tests of diagnoses in words: the limit with its number, then what costs most."""

from __future__ import annotations

import re
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
    assert re.search("Latency.*SMs at 40%.*schedulers at 40%", limit)
    assert "60%" in waits and "long scoreboard" in waits


def test_what_is_nearest_its_peak_comes_first() -> None:
    """Check ``auto`` on an H100, whose tensor cores are its busiest unit, and a kernel limited by copies of tiles."""
    found = diagnose(replace(IDLE, tensor_active=0.68))[0]
    assert re.search("limit.*tensor cores at 68%.*SMs at 40%", found)
    found = diagnose(replace(IDLE, shared_throughput=0.72))[0]
    assert re.search("limit.*shared memory at 72%", found)
    assert "tensor" not in diagnose(replace(IDLE, tensor_active=0.009))[0]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"dram_throughput": 0.85, "memory_throughput": 0.85}, "^Bound by DRAM.*85%"),
        ({"tensor_active": 0.9, "issued": 0.3}, "^Bound by the tensor cores.*90%"),
        ({"shared_throughput": 0.95, "memory_throughput": 0.95}, "^Bound by shared memory.*95%"),
        (
            {"issued": 0.87, "sm_throughput": 0.87},
            "instruction issue.*87%",
        ),
        ({"memory_throughput": 0.9}, "caches.*90%"),
        ({"sm_throughput": 0.9}, "arithmetic.*90%"),
    ],
)
def test_what_is_busiest_comes_first(figures: dict[str, float], expected: str) -> None:
    assert re.search(expected, diagnose(replace(IDLE, **figures))[0])  # type: ignore[arg-type]


def test_bank_conflicts() -> None:
    found = diagnose(replace(IDLE, shared_wavefronts=3200, ideal_shared_wavefronts=800))
    assert any(re.search("conflicts.*75%.*3,200.*800", each) for each in found)
    assert not any("conflicts" in each for each in diagnose(replace(IDLE, shared_wavefronts=105)))


def test_accesses_that_are_not_coalesced() -> None:
    found = diagnose(replace(IDLE, global_sectors=800, load_sectors=640, load_requests=20))
    assert any(re.search("global memory.* 8 .*32", each) for each in found)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("mio_throttle", "MIO throttle"),
        ("barrier", "at a barrier"),
        ("short_scoreboard", "short scoreboard"),
        ("something_new", "something_new"),
    ],
)
def test_what_warps_wait_for(reason: str, expected: str) -> None:
    found = diagnose(replace(IDLE, waits={reason: 50, "selected": 30, "wait": 15, "barrier_": 5}))
    (sentence,) = [each for each in found if each.startswith("Warps wait")]
    assert "50%" in sentence and expected in sentence
    assert "15%" in sentence and "barrier_" not in sentence


def test_the_worst_line() -> None:
    line = ProfiledLine(7, "tiled.cu.j2:3", "__syncthreads();", {"barrier": 60}, 0.6)
    assert re.search(r"60%.*tiled\.cu\.j2:3.*__syncthreads\(\);", diagnose(replace(IDLE, lines=(line,)))[-1])
    assert len(diagnose(replace(IDLE, lines=(replace(line, share=0.05),)))) == 2


def test_few_warps() -> None:
    held = replace(IDLE, occupancy=0.12, possible_occupancy=0.125, registers=229, registers_limit=1, shared_limit=5)
    assert re.search("12%.*229 registers", diagnose(held)[-1])
    assert re.search("12%.*50%.*few blocks", diagnose(replace(held, possible_occupancy=0.5))[-1])
    unlimited = diagnose(replace(held, registers_limit=None, shared_limit=None))[-1]
    assert "12%" in unlimited and "229" not in unlimited


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
    (sentence,) = diagnose(Profile("x", "k", issued=0.01))
    assert re.search("Latency.*schedulers.* 1%", sentence)
