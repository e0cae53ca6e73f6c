"""A profile in words: what limits the kernel, each sentence with its number."""

from __future__ import annotations

from collections.abc import Iterator

from tiledmm.profile.kernel_profile import ISSUING, Profile, ProfiledLine

# From here on a unit is what limits a kernel: more than so much of its peak is hardly ever reached.
_BUSY = 0.8
_BUSY_DRAM = 0.7  # memory turns from reading to writing, and has to be refreshed

# Where even the busiest unit works less than this, warps wait for answers, not for a turn: Nsight Compute's rule, too.
_NEAR = 0.6

# What works less than this is not what the kernel is about.
_WORKS = 0.05

# What is worth a sentence: of a warp's time; of the wavefronts; times the fewest sectors; of the warps an SM can hold.
_WAITS = 0.1
_CONFLICTS = 0.1
_SECTORS = 1.25
_OCCUPANCY = 0.35

_MOST_WAITS = 2

#: What warps wait for.
REASONS = {
    "barrier": "for others at a barrier",
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
    "sleeping": "because they were told to (sleeping)",
    "tex_throttle": "for a place in the queue to the texture unit",
    "wait": "for the instruction before, a fixed number of cycles (wait)",
    "warpgroup_arrive": "for the warps of their group (warpgroup arrive)",
}


def diagnose(profile: Profile) -> list[str]:
    """What limits a kernel: two to five sentences, the most important first; none if nothing was counted."""
    found = [_limit(profile), *_memory(profile), *_waiting(profile), *_residence(profile)]
    return [sentence for sentence in found if sentence][:5]


def waits_in_words(line: ProfiledLine) -> str:
    """What warps wait for at a line: the two most frequent reasons, with their shares."""
    whole = sum(line.waits.values())
    return ", ".join(f"{reason} {samples / whole:.0%}" for reason, samples in list(line.waits.items())[:_MOST_WAITS])


def _limit(profile: Profile) -> str:
    """What is busiest, or that nothing is: single units before the wholes that they are parts of."""
    dram, issued, sm = profile.dram_throughput, profile.issued, profile.sm_throughput
    tensor, shared, memory = profile.tensor_active, profile.shared_throughput, profile.memory_throughput
    if dram is not None and dram >= _BUSY_DRAM:
        return f"Bound by memory: it works at {dram:.0%} of its peak."
    if tensor is not None and tensor >= _BUSY:
        return f"Bound by the tensor cores: they work in {tensor:.0%} of the cycles."
    if shared is not None and shared >= _BUSY:
        return f"Bound by shared memory: it serves {shared:.0%} of the wavefronts that it could."
    if issued is not None and issued >= _BUSY:
        return f"Bound by the issue of instructions: a scheduler issues one in {issued:.0%} of its cycles."
    if memory is not None and memory >= _BUSY:
        return f"Bound by the way to memory: the busiest of caches and buses works at {memory:.0%} of its peak."
    if sm is not None and sm >= _BUSY:
        return f"Bound by an arithmetic pipe: the busiest part of an SM works at {sm:.0%} of its peak."
    shares = {
        "the tensor cores": tensor, "shared memory": shared, "the SMs": sm, "the schedulers": issued,
        "the way to memory": memory, "memory itself": dram,
    }  # fmt: skip
    known = sorted(((share, name) for name, share in shares.items() if share is not None), key=lambda each: -each[0])
    if not known:
        return ""
    busiest = known[0][0]
    parts = ", ".join(f"{name} at {share:.0%}" for share, name in known if share >= min(busiest, _WORKS))
    if busiest >= _NEAR:
        return f"Near a limit, and not at it: {parts}."
    return f"Bound by latency, for nothing is near its peak: {parts}."


def _memory(profile: Profile) -> Iterator[str]:
    """What accesses cost beyond what they have to."""
    wavefronts, conflicts = profile.shared_wavefronts, profile.conflicts
    if wavefronts and conflicts is not None and conflicts >= _CONFLICTS * wavefronts:
        fewest = profile.ideal_shared_wavefronts
        yield (
            f"Bank conflicts take {conflicts / wavefronts:.0%} of shared memory's wavefronts: {wavefronts:,.0f}, where "
            f"{fewest:,.0f} would do."
        )
    sectors, ideal = profile.global_sectors, profile.ideal_global_sectors
    if sectors and ideal and sectors >= _SECTORS * ideal:
        each = "" if profile.sectors_per_load is None else f" ({profile.sectors_per_load:.3g} a load)"
        yield f"Accesses to global memory touch {sectors / ideal:.3g} times the sectors that they need{each}."


def _waiting(profile: Profile) -> Iterator[str]:
    """What warps do with their time."""
    waits = [(reason, profile.share(reason) or 0.0) for reason in profile.waits if reason != ISSUING]
    worth = waits[:1] + [(reason, share) for reason, share in waits[1:_MOST_WAITS] if share >= _WAITS]
    if worth:
        parts = [f"{share:.0%} of their time {REASONS.get(reason, f'for {reason}')}" for reason, share in worth]
        yield f"Warps wait {', and '.join(parts)}."
    line = next(iter(profile.lines), None)
    if line and line.share >= _WAITS:
        yield f"{line.share:.0%} of all waiting is at {line.location}: {line.text}"


def _residence(profile: Profile) -> Iterator[str]:
    """How few warps there are to hide latency with, and why."""
    held, possible = profile.occupancy, profile.possible_occupancy
    if held is None or held >= _OCCUPANCY:
        return
    if possible is not None and possible >= 1.5 * held:
        yield f"An SM holds {held:.0%} of the warps that it can, where {possible:.0%} would fit: blocks are few."
        return
    limits = {
        f"{profile.registers:.0f} registers a thread" if profile.registers else "registers": profile.registers_limit,
        "shared memory": profile.shared_limit,
        "the warps of a block": profile.warps_limit,
        "the number of blocks": profile.blocks_limit,
    }
    known = {name: blocks for name, blocks in limits.items() if blocks is not None}
    why = f", limited by {min(known, key=lambda name: known[name])}" if known else ""
    yield f"An SM holds {held:.0%} of the warps that it can{why}."
