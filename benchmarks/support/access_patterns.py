"""Accesses that ``benchmarks.studies.wavefronts`` counts: addresses and active lanes of a warp, from fixed seeds."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

LANES = range(32)
ALL = 0xFFFF_FFFF

SHARED_BYTES = 32 * 1024  # of the array in shared memory that is accessed
GLOBAL_BYTES = 2 * 1024 * 1024  # of the one in global memory

BLOCK_SHAPES = (8, 16, 32)
PITCHES = (8, 9, 16, 17, 32, 33, 36, 64)  # 4-byte words

STRIDES = (*range(2, 13), 14, 15, 16, 17, 20, 24, 31, 32, 33)  # elements

# Lanes that take part: (name, mask).
MASKS = [
    ("lane 0", 1),
    ("lane 21", 1 << 21),
    ("low half", 0x0000_FFFF),
    ("high half", 0xFFFF_0000),
    ("even lanes", 0x5555_5555),
    ("odd lanes", 0xAAAA_AAAA),
    ("every fourth lane", 0x1111_1111),
    ("two of four", 0x3333_3333),
    ("low half of each quarter", 0x0F0F_0F0F),
    ("quarter 0", 0x0000_00FF),
    ("quarter 2", 0x00FF_0000),
    ("quarters 0 and 2", 0x00FF_00FF),
    ("quarters 1 and 3", 0xFF00_FF00),
    ("first lane of each quarter", 0x0101_0101),
    ("all but lane 13", ALL ^ 1 << 13),
    ("first 20 lanes", (1 << 20) - 1),
]


@dataclass(frozen=True, slots=True)
class Access:
    """A memory instruction of one warp.

    Attributes:
        name: Description of the pattern.
        kind: ``"shared_ld"``, ``"shared_st"``, ``"global_ld"``, ``"global_st"``, ``"async_ca"`` or ``"async_cg"``
            (``cp.async`` through L1 or past it).
        width: Bytes per lane.
        form: Way in which lanes are left out: ``"branch"`` around the instruction, ``"predicate"`` on it, or
            ``"zfill"`` (a ``cp.async`` of all lanes that writes zeros for these).
        addresses: Byte offset of each lane, inactive ones included; in a ``cp.async``, of the source.
        active: Mask of active lanes, bit i for lane i.
        to: Byte offset in shared memory to which each lane of a ``cp.async`` writes.
    """

    name: str
    kind: str
    width: int
    addresses: tuple[int, ...]
    active: int = ALL
    form: str = "branch"
    to: tuple[int, ...] | None = None

    @property
    def group(self) -> str:
        """Group of accesses that are counted together: ``"shared"``, ``"global"`` or ``"async"``."""
        return self.kind.partition("_")[0]

    @property
    def symbol(self) -> str:
        """Symbol of the kernel that performs the access."""
        return f"wavefronts_{self.kind}_{self.width}_{self.form}"


@functools.cache
def accesses() -> dict[str, list[Access]]:
    """Return every access by group, with kinds interleaved so that the beginning of a list contains some of each."""
    found: dict[str, list[Access]] = {}
    for group, of_group in (("shared", _shared), ("global", _global), ("async", _async)):
        queues: dict[tuple[str, bool, bool], list[Access]] = {}
        for access in dict.fromkeys(of_group()):
            sort = (access.symbol, access.active == ALL, access.name.startswith("random"))
            queues.setdefault(sort, []).append(access)
        found[group] = list(_take_turns(list(queues.values())))
    return found


def _take_turns(queues: list[list[Access]]) -> Iterator[Access]:
    """Interleave queues so that all end together."""
    placed = [((i + 0.5) / len(queue), n, access) for n, queue in enumerate(queues) for i, access in enumerate(queue)]
    yield from (access for *_, access in sorted(placed, key=lambda item: item[:2]))


def _shared() -> Iterator[Access]:
    for width in (4, 8, 16, 2, 1):
        rng = random.Random(f"shared {width}")
        lists = _aligned(_shared_patterns(width), width)
        drawn = [(f"random {i}", *_random_pattern(rng, width, SHARED_BYTES)) for i in range(40)]
        for kind in ("shared_ld", "shared_st"):
            # Enough stores, and narrow accesses, to show whether they differ from loads of 4 bytes or more.
            step = (1 if kind == "shared_ld" else 3) if width >= 4 else 4
            for name, addresses in lists[:3] + lists[3::step]:
                yield Access(name, kind, width, addresses)
            for name, addresses, active in drawn[:: 1 if step == 1 else 2]:
                yield Access(name, kind, width, addresses, active)
            yield from _masked(Access("", kind, width, ()), _bases(width, rng), 1 if step == 1 else 4)


def _shared_patterns(width: int) -> Iterator[tuple[str, list[int]]]:
    """Yield structured patterns, the most informative ones first."""
    row = 128  # bytes from one word of a bank to the next
    yield "broadcast", [0 for _ in LANES]
    yield "contiguous", [lane * width for lane in LANES]
    yield "one bank", [lane * row for lane in LANES]
    # Which lanes may share: the lane's number without one of its bits, or without several.
    for spacing, how in ((width, "apart"), (row, "in one bank")):
        for bits in (1, 2, 4, 8, 16, 3, 5, 6, 7, 12, 15, 24, 28, 30):
            yield f"lanes without bits {bits:#x}, {how}", [_squeeze(lane, bits) * spacing for lane in LANES]
    rules: dict[str, Callable[[int], int]] = {
        "a": lambda lane: lane & ~1,
        "b": lambda lane: lane & ~2,
        "c": lambda lane: lane & ~4,
        "d": lambda lane: lane,
    }
    # One rule for each quarter of the warp.
    for quarters in ("aabb", "abab", "abba", "aadd", "ddbb", "adad", "adda", "aacc", "bbcc", "aaad", "dbbb", "bbdb"):
        yield f"rules {quarters}", [rules[quarters[lane // 8]](lane) * width for lane in LANES]
        yield f"rules {quarters} in one bank", [rules[quarters[lane // 8]](lane) * row for lane in LANES]
    for odd in (0, 5, 10, 31):
        yield f"pairs, but for lane {odd}", [(40 if lane == odd else lane & ~1) * width for lane in LANES]
        yield f"broadcast, but for lane {odd}", [(40 if lane == odd else 3) * width for lane in LANES]
    yield "two vectors taking turns", [(lane & 1) * width for lane in LANES]
    yield "two vectors taking turns in one bank", [(lane & 1) * row for lane in LANES]
    yield "two vectors, irregular", [(0b01101001 >> lane % 8 & 1) * width for lane in LANES]
    yield "two vectors, irregular, in one bank", [(0b01101001 >> lane % 8 & 1) * row for lane in LANES]
    yield "pairs around the edges", [(lane + 1 & ~1) * width for lane in LANES]
    yield "mirrored", [min(lane, 31 - lane) * width for lane in LANES]
    yield "mirrored in quarters", [min(lane % 8, 7 - lane % 8) * width for lane in LANES]
    for period in (2, 4, 8, 16):
        yield f"the same {period} again", [lane % period * width for lane in LANES]
        yield f"the same {period} again, in one bank", [lane % period * row for lane in LANES]
        yield f"the same {period}, turned", [(lane + lane // period) % period * width for lane in LANES]
        yield f"the same {period}, pitch 8 words", [lane % period * 32 for lane in LANES]
        yield f"{period} lanes at one, in turn", [lane // period * width for lane in LANES]
        yield f"{period} lanes at one, in one bank", [lane // period * row for lane in LANES]
        pitch = -(-period * width // row) * row
        yield (
            f"{period} lanes in a row, rows in the same banks",
            [lane % period * width + lane // period * pitch for lane in LANES],
        )
    yield "contiguous, reversed", [(31 - lane) * width for lane in LANES]
    yield "contiguous, halves exchanged", [(lane ^ 16) * width for lane in LANES]
    yield "contiguous, one on", [(lane + 1) * width for lane in LANES]
    yield "contiguous, three on", [(lane + 3) * width for lane in LANES]
    for seed in range(2):
        order = random.Random(seed).sample(LANES, 32)
        yield f"contiguous, shuffled {seed}", [lane * width for lane in order]
    for block in BLOCK_SHAPES:
        for pitch in PITCHES:
            tx, ty = [lane % block for lane in LANES], [lane // block for lane in LANES]
            yield f"block {block} pitch {pitch}: As[ty][k]", [y * pitch * 4 for y in ty]
            yield f"block {block} pitch {pitch}: Bs[tx][k]", [x * pitch * 4 for x in tx]
            both = zip(tx, ty, strict=True)
            yield f"block {block} pitch {pitch}: [ty][tx]", [y * pitch * 4 + x * width for x, y in both]
    for stride in STRIDES:
        yield f"stride {stride}", [lane * stride * width for lane in LANES]
    if width < 4:
        for stride in (1, 2, 3, 4, 8, 16, 32, 33):
            yield f"stride {stride} words", [lane * stride * 4 for lane in LANES]


def _squeeze(lane: int, without: int) -> int:
    """Remove some bits from a lane's number and close the gaps."""
    kept = [bit for bit in range(5) if not without >> bit & 1]
    return sum((lane >> bit & 1) << place for place, bit in enumerate(kept))


def _random_pattern(rng: random.Random, width: int, limit: int) -> tuple[tuple[int, ...], int]:
    """Draw addresses from a small or large pool, sometimes equal in pairs, sometimes with inactive lanes."""
    span = rng.choice((16 * width, 256, 1024, 4096, limit)) // width
    pool = [rng.randrange(span) * width for _ in range(rng.choice((2, 3, 4, 6, 8, 12, 16, 24, 32, 32, 32)))]
    drawn = [rng.choice(pool) for _ in LANES]
    alike = rng.choice((0, 0, 1, 2, 4, 8, 3))  # lanes that differ in these bits only ask for the same
    addresses = [drawn[lane & ~alike] for lane in LANES]
    if rng.random() < 0.25:  # except one
        addresses[rng.randrange(32)] = rng.choice(pool)
    active = ALL
    if rng.random() < 0.4:
        share = rng.choice((0.2, 0.5, 0.9))
        active = sum(1 << lane for lane in LANES if rng.random() < share) or 1
    return tuple(addresses), active


def _bases(width: int, rng: random.Random) -> list[tuple[str, tuple[int, ...]]]:
    """Return the patterns from which lanes are removed."""
    return [
        ("contiguous", tuple(lane * width for lane in LANES)),
        ("8 vectors of a quarter in one bank", tuple(lane * 128 for lane in LANES)),
        ("pairs", tuple((lane & ~1) * width for lane in LANES)),
        ("random", tuple(rng.randrange(2048 // width) * width for _ in LANES)),
    ]


def _masked(like: Access, bases: Iterable[tuple[str, tuple[int, ...]]], step: int) -> Iterator[Access]:
    """Yield each mask with the base patterns in turn, some in the other forms, and finally an access without lanes."""
    bases = list(bases)
    for i, (name, mask) in enumerate(MASKS):
        if i % step:
            continue
        which, addresses = bases[(i // step + i // step // len(bases)) % len(bases)]
        access = replace(like, name=f"{which}, {name}", addresses=addresses, active=mask)
        yield access
        if step == 1 and i % 4 == 2:
            yield replace(access, form="predicate")
        if step == 1 and like.width == 16 and i % 2:  # where it decides what is served together
            which, addresses = bases[(i + 1) % len(bases)]
            yield replace(access, name=f"{which}, {name}", addresses=addresses)
    if step == 1:
        yield replace(like, name="no lane", addresses=bases[0][1], active=0, form="predicate")


def _global() -> Iterator[Access]:
    for width in (4, 16, 8, 2, 1):
        rng = random.Random(f"global {width}")
        lists = _aligned(_global_patterns(width), width)
        drawn = [(f"random {i}", *_random_pattern(rng, width, GLOBAL_BYTES)) for i in range(12)]
        for kind in ("global_ld", "global_st"):
            step = (1 if kind == "global_ld" else 2) * (1 if width >= 4 else 2)
            for name, addresses in lists[::step]:
                yield Access(name, kind, width, addresses)
            for name, addresses, active in drawn[::step]:
                yield Access(name, kind, width, addresses, active)
            full = kind == "global_ld" and width in (4, 16)
            yield from _masked(Access("", kind, width, ()), _bases(width, rng), 1 if full else 5)


def _global_patterns(width: int) -> Iterator[tuple[str, list[int]]]:
    yield "contiguous", [lane * width for lane in LANES]
    yield "broadcast", [0 for _ in LANES]
    yield "one sector a lane", [lane * 32 for lane in LANES]
    yield "one line a lane", [lane * 128 for lane in LANES]
    for on in (1, 2, 4, 7):
        yield f"contiguous, {on} on", [(lane + on) * width for lane in LANES]
    for stride in (2, 3, 4, 5, 8, 9, 16, 33):
        yield f"stride {stride}", [lane * stride * width for lane in LANES]
    for rows, pitch in ((2, 4096), (4, 4096), (2, 4004), (4, 4016), (8, 2048)):
        per_row = 32 // rows
        pitch -= pitch % width
        yield f"{rows} rows, {pitch} bytes apart", [lane // per_row * pitch + lane % per_row * width for lane in LANES]
        yield f"{rows} lanes at one, {pitch} bytes apart", [lane // rows * pitch for lane in LANES]
    yield "a column, 2048 bytes apart", [lane * 2048 for lane in LANES]
    yield "a column, 4000 bytes apart", [lane * 4000 for lane in LANES]
    yield "two sectors taking turns", [(lane & 1) * 32 for lane in LANES]
    yield "a sector in different quarters", [lane % 8 * width for lane in LANES]
    yield "sectors shared by neighbours", [lane // 2 * 32 for lane in LANES]
    yield "contiguous, reversed", [(31 - lane) * width for lane in LANES]
    yield "contiguous, shuffled", [lane * width for lane in random.Random(0).sample(LANES, 32)]


def _async() -> Iterator[Access]:
    """Yield ``cp.async`` accesses with various sources, destinations and active lanes."""
    for kind, width in (("async_ca", 4), ("async_cg", 16), ("async_ca", 16), ("async_ca", 8)):
        rng = random.Random(f"{kind} {width}")
        row = [lane * width for lane in LANES]
        line = [lane * 128 for lane in LANES]
        pairs = [(lane & ~1) * width for lane in LANES]
        quarters = [lane // 8 * 4096 + lane % 8 * width for lane in LANES]
        blocks = [lane % 8 * width + lane // 8 * 144 for lane in LANES]
        few = [rng.randrange(64) * width for _ in LANES]
        many = [rng.randrange(SHARED_BYTES // width) * width for _ in LANES]
        combined = {
            "contiguous": (row, row),
            "to one bank": (row, line),
            "to pairs": (row, pairs),
            "to one place": (row, [0] * 32),
            "to pitch 36": (quarters, blocks),
            "to pitch 33": (row, [lane // 8 * 33 * 4 * 4 // width * width + lane % 8 * width for lane in LANES]),
            "to many": (row, many),
            "to few": (row, few),
            "from one place": ([0] * 32, row),
            "from lines": (line, row),
            "from one on": ([at + width for at in row], row),
            "from many": (many, row),
            "from many to few": (many, few),
        }
        for name, (addresses, to) in combined.items():
            yield Access(name, kind, width, tuple(addresses), to=tuple(to))
        for i, (name, mask) in enumerate(MASKS[2::3]):
            for form in ("branch", "predicate", "zfill"):
                if form == "zfill" or (i % 2 == 0) == (form == "branch"):
                    target = (row, many)[i % 2]
                    yield Access(name, kind, width, tuple(line), mask, form, tuple(target))
        yield Access("no lane", kind, width, tuple(row), 0, "zfill", tuple(row))


def _aligned(patterns: Iterable[tuple[str, list[int]]], width: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the distinct patterns that are aligned for this width, each under its first name."""
    names: dict[tuple[int, ...], str] = {}
    for name, addresses in patterns:
        if not any(address % width for address in addresses):
            names.setdefault(tuple(addresses), name)
    return [(name, addresses) for addresses, name in names.items()]
