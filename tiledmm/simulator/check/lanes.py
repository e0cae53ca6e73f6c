"""Lanes of a warp in words: ``"lanes 0 to 15 of warp 3"`` instead of a mask."""

from __future__ import annotations

from tiledmm.hardware.architectures import WARP_SIZE
from tiledmm.simulator.execute.interface import RawFinding

# With more runs of lanes than this, a sentence cannot be read, and the mask says it better.
_MOST_RUNS = 4

#: Kinds for lanes that wait for each other, and for lanes that take values of others.
WAITS = frozenset({"warp not converged", "lanes of a warp differ"})
SHUFFLES = frozenset({"shuffle from a lane outside the mask", "shuffle of an undefined value"})


def lanes_in_words(mask: int) -> str:
    """Return the lanes of a mask in words, such as ``"lanes 0 to 15 and 20"``.

    Args:
        mask: A bit for each lane.
    """
    lanes = [lane for lane in range(WARP_SIZE) if mask >> lane & 1]
    begins = [lane for lane in lanes if lane - 1 not in lanes]
    ends = [lane for lane in lanes if lane + 1 not in lanes]
    runs = [f"{begin} to {end}" if begin < end else str(begin) for begin, end in zip(begins, ends, strict=True)]
    if not runs:
        return "no lane"
    if len(runs) > _MOST_RUNS:
        return f"{len(lanes)} lanes (the bits of {mask:#010x})"
    listed = " and ".join(filter(None, [", ".join(runs[:-1]), runs[-1]]))
    return f"lane{'s' if len(lanes) > 1 else ''} {listed}"


def masks_in_words(raw: RawFinding, kind: str) -> str:
    """Return what a finding's sentence ends with where it is about the lanes of a mask; else an empty string.

    Args:
        raw: The runtime's record.
        kind: Kind of the finding.
    """
    if kind not in WAITS | SHUFFLES:
        return ""
    of_warp, mask = f"of warp {raw.warp}", lanes_in_words(raw.mask)
    if kind in SHUFFLES and not raw.present >> raw.bytes & 1 and raw.bytes < WARP_SIZE:
        return f": warp {raw.warp} of the block has only {lanes_in_words(raw.present)}"
    said = f"; the mask names {mask} {of_warp}"
    if kind in WAITS and raw.other_mask and raw.other_mask != raw.mask:
        said += f", and the other mask {lanes_in_words(raw.other_mask)}"
    return said
