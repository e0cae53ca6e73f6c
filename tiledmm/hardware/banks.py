"""How memory serves one access of a warp: wavefronts of shared memory, sectors of global memory.

The rules are those by which Nsight Compute counts, found on an H100 by making one access at a time and counting it:
``python -m benchmarks.studies.wavefronts``. Every access counted there is a test of these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tiledmm.errors import ConfigError

WIDTHS = (1, 2, 4, 8, 16)

_BANKS = 32
_WORD_BYTES = 4
_SECTOR_BYTES = 32

Lanes = Sequence[int | None]


def wavefronts(addresses: Lanes, width: int, *, store: bool = False) -> int:
    """Wavefronts in which shared memory serves one access of a warp, as Nsight Compute attributes them to source lines.

    Each of the 32 banks serves one 4-byte word a wavefront, for any number of lanes. So up to 4 bytes a lane take as
    many wavefronts as there are different words in one bank. Wider accesses are served in parts: halves of the warp
    where a lane moves 8 bytes, quarters where it moves 16. Two adjacent parts of a load are served at once, in one
    wavefront, if no two of their words share a bank and either every lane asks for the same as the lane beside it (its
    number with the lowest bit flipped) or every lane for the same as the lane two away (the second bit); lanes that
    take no part agree with any.

    The counters of the hardware itself (``l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld``) differ in loads of 16
    bytes: there the quarters are joined in both halves of the warp or in none, conflicts or not.

    Args:
        addresses: Byte address of each lane, a multiple of `width`; None where a lane takes no part.
        width: Bytes that each lane loads or stores: 1, 2, 4, 8 or 16.
        store: Whether it is a store.

    Example:
        >>> wavefronts([4 * lane for lane in range(32)], 4)
        1
        >>> wavefronts([4 * 32 * lane for lane in range(32)], 4)
        32
        >>> wavefronts([0] * 32, 16)
        2

    Raises:
        ConfigError: If no access has this width.
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
    """Ideal wavefronts, as Nsight Compute states them for the same access: 128 bytes each, and no more than it took.

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
    """Sectors, of 32 bytes each, that one load or store of global memory touches.

    Args:
        addresses, width: As for :func:`wavefronts`.

    Example:
        >>> sectors([4 * lane for lane in range(32)], 4)
        4

    Raises:
        ConfigError: If no access has this width.
    """
    _check(width)
    return len({address // _SECTOR_BYTES for address in addresses if address is not None})


def _check(width: int) -> None:
    if width not in WIDTHS:
        raise ConfigError(f"a lane loads or stores 1, 2, 4, 8 or 16 bytes at a time; got {width}")


def _agree(lanes: Lanes) -> bool:
    """Whether each lane asks for the same as the one beside it, or each the same as the one two away."""
    return any(
        all(
            lanes[i] == lanes[i ^ step]
            for i in range(len(lanes))
            if i ^ step < len(lanes) and lanes[i] is not None and lanes[i ^ step] is not None
        )
        for step in (1, 2)
    )


def _conflict(addresses: Lanes, width: int) -> int:
    """The most different words in one bank."""
    active = (at for at in addresses if at is not None)
    words = chain.from_iterable(range(at // _WORD_BYTES, (at + width - 1) // _WORD_BYTES + 1) for at in active)
    counts = [0] * _BANKS
    for word in set(words):
        counts[word % _BANKS] += 1
    return max(counts)
