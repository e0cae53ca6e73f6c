"""Cost of one memory access of a warp: wavefronts in shared memory, sectors in global memory.

The rules are those by which Nsight Compute counts. They were found on an H100 by profiling one access at a time:
``python -m benchmarks.studies.wavefronts``. Every access counted there is a test of these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tiledmm.errors import ConfigError

WIDTHS = (1, 2, 4, 8, 16)

_BANKS = 32
_WORD_BYTES = 4
SECTOR_BYTES = 32

Lanes = Sequence[int | None]


def wavefronts(addresses: Lanes, width: int, *, store: bool = False) -> int:
    """Count the wavefronts in which shared memory serves one access of a warp.

    The count is the one that Nsight Compute attributes to a source line. Each of the 32 banks serves one 4-byte word
    per wavefront, to any number of lanes. An access of up to 4 bytes per lane therefore needs as many wavefronts as the
    largest number of different words in one bank.

    Wider accesses are served in parts: half a warp at a time for 8 bytes per lane, a quarter for 16. One wavefront
    serves two adjacent parts of a load under two conditions. No two of their words share a bank. And either all pairs
    of lanes whose numbers differ only in bit 0 have equal addresses, or all pairs whose numbers differ only in bit 1;
    an inactive lane matches any address.

    The hardware counter ``l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld`` differs for loads of 16 bytes: there the
    quarters are joined in both halves of the warp or in neither, with or without conflicts.

    Args:
        addresses: Byte address of each lane, a multiple of `width`; None for an inactive lane.
        width: Bytes per lane: 1, 2, 4, 8 or 16.
        store: Whether the access is a store.

    Example:
        >>> wavefronts([4 * lane for lane in range(32)], 4)
        1
        >>> wavefronts([4 * 32 * lane for lane in range(32)], 4)
        32
        >>> wavefronts([0] * 32, 16)
        2

    Raises:
        ConfigError: If the width is not 1, 2, 4, 8 or 16.
    """
    _check(width)
    lanes = list(addresses)
    size = len(lanes) if width <= _WORD_BYTES else 128 // width
    parts = [lanes[first : first + size] for first in range(0, len(lanes), max(size, 1))]
    total = 0
    while parts:
        joined = [lane for part in parts[:2] for lane in part]
        if len(parts) > 1 and not store and _conflict(joined, width) <= 1 and _agree(joined):
            total += _conflict(joined, width)
        else:
            total += sum(_conflict(part, width) for part in parts[:2])
        parts = parts[2:]
    return total


def ideal_wavefronts(addresses: Lanes, width: int, *, store: bool = False) -> int:
    """Count ideal wavefronts as Nsight Compute does: one per 128 bytes, but no more than ``wavefronts`` returns.

    Args:
        addresses, width, store: As for :func:`wavefronts`.

    Example:
        >>> ideal_wavefronts([16 * lane for lane in range(32)], 16)
        4
        >>> ideal_wavefronts([4 * 32 * lane for lane in range(32)], 4)
        1
    """
    active = sum(address is not None for address in addresses)
    return min(-(-active * width // 128), wavefronts(addresses, width, store=store))


def sectors(addresses: Lanes, width: int) -> int:
    """Count the sectors of 32 bytes that one load or store of global memory touches.

    Args:
        addresses, width: As for :func:`wavefronts`.

    Example:
        >>> sectors([4 * lane for lane in range(32)], 4)
        4

    Raises:
        ConfigError: If the width is not 1, 2, 4, 8 or 16.
    """
    _check(width)
    return len({address // SECTOR_BYTES for address in addresses if address is not None})


def _check(width: int) -> None:
    if width not in WIDTHS:
        raise ConfigError(f"width must be 1, 2, 4, 8 or 16 bytes per lane; got {width}")


def _agree(lanes: Lanes) -> bool:
    """Return whether both lanes of each pair have the same address.

    This lets two parts of a load share a wavefront. The pairs are all lanes whose numbers differ only in bit 0, or
    all lanes whose numbers differ only in bit 1; it is enough if this is true of one of these two. An inactive lane,
    whose address is None, matches any address.
    """
    return any(
        all(
            lanes[i] == lanes[i ^ step]
            for i in range(len(lanes))
            if i ^ step < len(lanes) and lanes[i] is not None and lanes[i ^ step] is not None
        )
        for step in (1, 2)
    )


def _conflict(addresses: Lanes, width: int) -> int:
    """Return the maximum number of different words in one bank, which is the number of wavefronts for these lanes."""
    active = (at for at in addresses if at is not None)
    words = chain.from_iterable(range(at // _WORD_BYTES, (at + width - 1) // _WORD_BYTES + 1) for at in active)
    counts = [0] * _BANKS
    for word in set(words):
        counts[word % _BANKS] += 1
    return max(counts)
