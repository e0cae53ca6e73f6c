"""Diagnosis of a kernel's profile: sentences with figures that explain what limits the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from tiledmm.profile.kernel_profile import ISSUING, Profile, ProfiledLine

# A unit at this fraction of its peak limits a kernel: higher fractions are rare.
_BUSY = 0.8
_BUSY_DRAM = 0.7  # DRAM also switches between reads and writes, and needs refreshes

# If the busiest unit is below this fraction, latency limits the kernel. Nsight Compute has the same rule.
_NEAR = 0.6

# Units below this fraction are not mentioned in a diagnosis.
_WORKS = 0.05

# Thresholds for a sentence: fraction of a warp's time, fraction of wavefronts, multiple of ideal sectors, occupancy.
_WAITS = 0.1
_CONFLICTS = 0.1
_SECTORS = 1.25
_OCCUPANCY = 0.35

_MOST_WAITS = 2

#: What warps wait for, by stall reason.
REASONS = {
    "barrier": "for other warps at a barrier",
    "branch_resolving": "for a branch to be taken",
    "dispatch_stall": "for the dispatcher",
    "drain": "for their last stores",
    "gmma": "for the tensor cores (GMMA)",
    "imc_miss": "for a constant to be fetched",
    "lg_throttle": "for a place in the queue to global memory (LG throttle)",
    "long_scoreboard": "for data from global memory (long scoreboard)",
    "math_pipe_throttle": "for a busy arithmetic pipe (math pipe throttle)",
    "membar": "for a memory fence",
    "mio_throttle": "for a place in the queue to shared memory (MIO throttle)",
    "misc": "for something else",
    "no_instruction": "for instructions to be fetched",
    "not_selected": "for the scheduler, which issues another warp's instruction (not selected)",
    "short_scoreboard": "for data from shared memory (short scoreboard)",
    "sleeping": "because they sleep (sleeping)",
    "tex_throttle": "for a place in the queue to the texture unit",
    "wait": "for the fixed latency of the previous instruction (wait)",
    "warpgroup_arrive": "for the warps of their group (warpgroup arrive)",
}


def diagnose(profile: Profile) -> list[str]:
    """Return up to five sentences that explain what limits a kernel's speed, the most important first.

    The list is empty if the profile has no metrics.
    """
    sentences = [_limit(profile), *_memory(profile), *_waiting(profile), *_residence(profile)]
    return [sentence for sentence in sentences if sentence][:5]


def waits_in_words(line: ProfiledLine) -> str:
    """Return the two most frequent stall reasons of warps at a source line as text: ``"barrier 60%, drain 20%"``.

    The percentages are shares of the line's samples of stalled warps.
    """
    total = sum(line.waits.values())
    return ", ".join(f"{reason} {samples / total:.0%}" for reason, samples in list(line.waits.items())[:_MOST_WAITS])


def _limit(profile: Profile) -> str:
    """Return a sentence on the unit that limits a kernel, or one that states that latency limits it.

    Single units are tested before the groups of units that contain them. The sentence is empty without metrics.
    """
    dram, issued, sm = profile.dram_throughput, profile.issued, profile.sm_throughput
    tensor, shared, memory = profile.tensor_active, profile.shared_throughput, profile.memory_throughput
    if dram is not None and dram >= _BUSY_DRAM:
        return f"Bound by DRAM: it is at {dram:.0%} of its peak."
    if tensor is not None and tensor >= _BUSY:
        return f"Bound by the tensor cores: they are active in {tensor:.0%} of the cycles."
    if shared is not None and shared >= _BUSY:
        return f"Bound by shared memory: it is at {shared:.0%} of its peak, in wavefronts."
    if issued is not None and issued >= _BUSY:
        return f"Bound by instruction issue: a scheduler issues an instruction in {issued:.0%} of its cycles."
    if memory is not None and memory >= _BUSY:
        return f"Bound by caches and buses: the busiest is at {memory:.0%} of its peak."
    if sm is not None and sm >= _BUSY:
        return f"Bound by an arithmetic pipe: the busiest unit of an SM is at {sm:.0%} of its peak."
    shares = {
        "the tensor cores": tensor, "shared memory": shared, "the SMs": sm, "the schedulers": issued,
        "caches and buses": memory, "DRAM": dram,
    }  # fmt: skip
    known = sorted(((share, name) for name, share in shares.items() if share is not None), key=lambda each: -each[0])
    if not known:
        return ""
    busiest = known[0][0]
    parts = ", ".join(f"{name} at {share:.0%}" for share, name in known if share >= min(busiest, _WORKS))
    if busiest >= _NEAR:
        return f"Near a limit: {parts}."
    return f"Latency-bound, because no unit is near its peak: {parts}."


def _memory(profile: Profile) -> Iterator[str]:
    """Yield sentences about bank conflicts in shared memory and excess sectors of global memory, if there are many."""
    wavefronts, conflicts = profile.shared_wavefronts, profile.conflicts
    if wavefronts and conflicts is not None and conflicts >= _CONFLICTS * wavefronts:
        yield (
            f"Bank conflicts cause {conflicts / wavefronts:.0%} of the shared-memory wavefronts: {wavefronts:,.0f} "
            f"instead of the ideal {profile.ideal_shared_wavefronts:,.0f}."
        )
    sectors, ideal = profile.global_sectors, profile.ideal_global_sectors
    if sectors and ideal and sectors >= _SECTORS * ideal:
        each = "" if profile.sectors_per_load is None else f" ({profile.sectors_per_load:.3g} per load)"
        yield f"Accesses to global memory need {sectors / ideal:.3g} times the ideal sectors{each}."


def _waiting(profile: Profile) -> Iterator[str]:
    """Yield sentences that state what the warps of a kernel wait for, and at which source line they wait most."""
    waits = [(reason, profile.share(reason) or 0.0) for reason in profile.waits if reason != ISSUING]
    worth = waits[:1] + [(reason, share) for reason, share in waits[1:_MOST_WAITS] if share >= _WAITS]
    if worth:
        parts = [f"{share:.0%} of their time {REASONS.get(reason, f'for {reason}')}" for reason, share in worth]
        yield f"Warps wait {', and '.join(parts)}."
    line = next(iter(profile.lines), None)
    if line and line.share >= _WAITS:
        yield f"{line.share:.0%} of all waiting is at {line.location}: {line.text}"


def _residence(profile: Profile) -> Iterator[str]:
    """Yield a sentence about a kernel's occupancy and what limits it, if the occupancy is low."""
    held, possible = profile.occupancy, profile.possible_occupancy
    if held is None or held >= _OCCUPANCY:
        return
    if possible is not None and possible >= 1.5 * held:
        yield f"Occupancy is {held:.0%}, although {possible:.0%} is possible: the launch has too few blocks."
        return
    limits = {
        f"{profile.registers:.0f} registers per thread" if profile.registers else "registers": profile.registers_limit,
        "shared memory": profile.shared_limit,
        "the size of blocks": profile.warps_limit,
        "the maximum of blocks per SM": profile.blocks_limit,
    }
    known = {name: blocks for name, blocks in limits.items() if blocks is not None}
    why = f", limited by {min(known, key=lambda name: known[name])}" if known else ""
    yield f"Occupancy is {held:.0%}{why}."
