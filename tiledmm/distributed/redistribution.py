"""From chunks that are anywhere to a rank's block: the ranks exchange what they have of each other's blocks.

Each part of a chunk goes along its owner's grid row, then along the grid column of the rank that needs it, by the
broadcasts that panels go by. All ranks know which rank has which chunk, so nothing is agreed on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, pairwise, product
from typing import Any, TypeAlias

from tiledmm.distributed.communicators import COLUMN, ROW, Broadcast, Communicator
from tiledmm.distributed.grid import Layout, pair
from tiledmm.distributed.local import copy, empty, hand_over

# Most bytes of a part, and of all that are on their way along a grid row or column at once: they take memory beside the
# blocks on each of its ranks.
_PART_BYTES, _BATCH_BYTES = 64 << 20, 256 << 20

#: Row and column sizes of a matrix's chunks, or of its blocks.
Sizes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

_Slices: TypeAlias = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class Part:
    """What a chunk and a block have in common.

    Attributes:
        chunk: The chunk's number, row by row.
        rank: The rank whose block it is.
        shape: Rows and columns.
        in_chunk, in_block: Where it is in either.
    """

    chunk: int
    rank: int
    shape: tuple[int, int]
    in_chunk: _Slices
    in_block: _Slices

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.shape[0] * self.shape[1]

    def pieces(self, most: int) -> Iterator[Part]:
        """Ranges of its rows, of at most so many elements, or one row."""
        rows, columns = self.shape
        step = max(1, most // columns)
        for begin in range(0, rows, step):
            height = min(step, rows - begin)
            yield Part(
                self.chunk,
                self.rank,
                (height, columns),
                _rows(self.in_chunk, begin, height),
                _rows(self.in_block, begin, height),
            )


@dataclass(frozen=True, slots=True)
class Spread:
    """The chunks of a matrix, and the ranks that have them.

    Attributes:
        chunks: Their row and column sizes.
        owners: A rank for each chunk, row by row.
    """

    chunks: Sizes
    owners: tuple[int, ...]

    def of(self, rank: int) -> list[int]:
        """The numbers of a rank's chunks."""
        return [number for number, owner in enumerate(self.owners) if owner == rank]

    def shape(self, chunk: int) -> tuple[int, int]:
        """A chunk's rows and columns."""
        i, j = divmod(chunk, len(self.chunks[1]))
        return self.chunks[0][i], self.chunks[1][j]


def _rows(within: _Slices, begin: int, height: int) -> _Slices:
    return slice(within[0].start + begin, within[0].start + begin + height), within[1]


def parts(chunks: Sizes, blocks: Sizes) -> list[Part]:
    """The parts of all chunks. Ranks are the blocks' numbers, row by row."""
    rows, columns = (list(_common(*sizes)) for sizes in zip(chunks, blocks, strict=True))
    return [
        Part(
            chunk=row.chunk * len(chunks[1]) + column.chunk,
            rank=row.block * len(blocks[1]) + column.block,
            shape=(row.size, column.size),
            in_chunk=(row.in_chunk, column.in_chunk),
            in_block=(row.in_block, column.in_block),
        )
        for row, column in product(rows, columns)
    ]


@dataclass(frozen=True, slots=True)
class _Range:
    """What a chunk and a block have in common along an axis."""

    chunk: int
    block: int
    size: int
    in_chunk: slice
    in_block: slice


def _common(chunks: Sequence[int], blocks: Sequence[int]) -> Iterator[_Range]:
    chunk_ends, block_ends = [0, *accumulate(chunks)], [0, *accumulate(blocks)]
    chunk = block = 0
    for begin, end in pairwise(sorted({*chunk_ends, *block_ends})):
        while chunk_ends[chunk + 1] <= begin:
            chunk += 1
        while block_ends[block + 1] <= begin:
            block += 1
        at, there = begin - chunk_ends[chunk], begin - block_ends[block]
        size = end - begin
        yield _Range(chunk, block, size, slice(at, at + size), slice(there, there + size))


def spreads(operands: Sequence[tuple[Sizes, Sizes, Sequence[Sequence[str]]]]) -> list[Spread]:
    """Which rank gets which chunks of a product's operands: those that its worker has, where that is known.

    Args:
        operands: For each its chunks' sizes, its blocks' sizes, and the workers that have each chunk.

    Returns:
        A spread for each operand. The scheduler gives each rank to the worker that has most of its chunks.
    """
    needed = [[Counter[int]() for _ in holders] for _, _, holders in operands]  # elements, by chunk and rank
    held: Counter[tuple[str, int]] = Counter()
    for of_chunk, (chunks, blocks, holders) in zip(needed, operands, strict=True):
        for part in parts(chunks, blocks):
            of_chunk[part.chunk][part.rank] += part.size
            for worker in holders[part.chunk][:1]:
                held[worker, part.rank] += part.size
    rank_of = {worker: rank for rank, worker in pair((size, rank, worker) for (worker, rank), size in held.items())}
    # A worker whose ranks were given to others gets one of the rest.
    rows, columns = operands[0][1]
    rest = sorted(set(range(len(rows) * len(columns))) - set(rank_of.values()))
    rank_of |= zip(sorted({worker for worker, _ in held} - rank_of.keys()), rest, strict=False)

    def owner(needs: Counter[int], workers: Sequence[str]) -> int:
        """The rank that needs most of a chunk: one whose worker has it, if there is any."""
        ranks = {rank_of[worker] for worker in workers if worker in rank_of}
        return max(ranks or needs, key=lambda rank: (needs[rank], -rank), default=0)

    return [
        Spread(chunks, tuple(map(owner, of_chunk, holders)))
        for of_chunk, (chunks, _, holders) in zip(needed, operands, strict=True)
    ]


def block_of(
    held: Sequence[Any],
    spread: Spread,
    blocks: Sizes,
    layout: Layout,
    rank: int,
    communicator: Communicator,
    like: Any,
) -> Any:
    """A rank's block of an operand. Every rank calls it at the same time.

    Args:
        held: The rank's chunks, in the spread's order.
        spread: All chunks.
        blocks: Sizes of the operand's blocks.
        layout: The grid.
        rank: Which rank this is.
        communicator: Its way to the others.
        like: An array of the operand's type, and of the place where the block is wanted.

    Returns:
        The block; the chunk itself where they are the same.
    """
    every, own = parts(spread.chunks, blocks), dict(zip(spread.of(rank), held, strict=True))
    row, column = layout.place(rank)
    shape = blocks[0][row], blocks[1][column]
    mine = [part for part in every if part.rank == rank and part.chunk in own]
    if len(mine) == 1 and mine[0].shape == shape == own[mine[0].chunk].shape:
        block = own[mine[0].chunk]
    else:
        block = empty(shape, like)
        for part in mine:
            copy(block[part.in_block], own[part.chunk][part.in_chunk])
    moves = [
        Move(piece, layout.place(spread.owners[part.chunk]), layout.place(part.rank))
        for part in every
        if spread.owners[part.chunk] != part.rank
        for piece in part.pieces(_PART_BYTES // like.dtype.itemsize)
    ]
    for batch in batches(moves, _BATCH_BYTES // like.dtype.itemsize):
        for part, array in _exchange(batch, own, (row, column), communicator, like):
            copy(block[part.in_block], array)
    hand_over(block)
    return block


@dataclass(frozen=True, slots=True)
class Move:
    """A part, and the places in the grid of the rank that has it and of the one that needs it.

    It goes along the grid row of the first to the grid column of the second, and along that.
    """

    part: Part
    source: tuple[int, int]
    target: tuple[int, int]

    def ways(self) -> list[tuple[int, int]]:
        """The axes along which it goes, and which grid row or column that is: up to two."""
        row, column = (ROW, self.source[0]), (COLUMN, self.target[1])
        return [row] * (self.source[1] != self.target[1]) + [column] * (self.source[0] != self.target[0])


def batches(moves: Sequence[Move], most: int) -> Iterator[list[Move]]:
    """Moves that are made at once: of at most so many elements along each grid row and column, or one.

    Those of all ranks come by turns, so that links carry data both ways.
    """
    turn: defaultdict[tuple[int, int], Iterator[int]] = defaultdict(count)
    batch: list[Move] = []
    under_way: Counter[tuple[int, int]] = Counter()
    for move in sorted(moves, key=lambda move: next(turn[move.source])):
        ways = move.ways()
        if any(under_way[way] and under_way[way] + move.part.size > most for way in ways):
            yield batch
            batch = []
            under_way.clear()
        batch.append(move)
        for way in ways:
            under_way[way] += move.part.size
    if batch:
        yield batch


def _exchange(
    batch: Sequence[Move], own: Mapping[int, Any], here: tuple[int, int], communicator: Communicator, like: Any
) -> list[tuple[Part, Any]]:
    """The parts of a batch that this rank needs. Each goes along a grid row first, then along a grid column."""
    found = {i: own[move.part.chunk][move.part.in_chunk] for i, move in enumerate(batch) if move.source == here}

    def along(axis: int) -> None:
        """What goes along this rank's row or column, from those places of it where it is."""
        indices = [i for i, move in enumerate(batch) if (axis, here[axis]) in move.ways()]
        roots = [batch[i].source[1 - axis] for i in indices]
        wanted = [
            Broadcast(axis, root, found[i] if root == here[1 - axis] else None, batch[i].part.shape)
            for i, root in zip(indices, roots, strict=True)
        ]
        found.update(zip(indices, communicator.broadcast(wanted, like)(), strict=True))

    along(ROW)
    # All ranks of a row get what goes along it: this is not for them.
    for i in [i for i in found if batch[i].target[1] != here[1]]:
        del found[i]
    along(COLUMN)
    return [(batch[i].part, array) for i, array in found.items() if batch[i].target == here]
