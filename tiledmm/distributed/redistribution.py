"""From chunks that are anywhere to a rank's block: the ranks exchange what they have of each other's blocks.

Each part of a chunk goes along its owner's grid row, then along the grid column of the rank that needs it, by the
broadcasts that panels go by. All ranks know which rank has which chunk, so nothing is agreed on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any, TypeAlias

from tiledmm.distributed.communicators import COLUMN, ROW, Broadcast, Communicator
from tiledmm.distributed.grid import Layout, pair
from tiledmm.distributed.local import copy, empty

# Bytes that a rank has on their way at once, if each has as much to send: they take memory beside the blocks.
_BATCH_BYTES = 512 << 20

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


def parts(chunks: Sizes, blocks: Sizes) -> list[Part]:
    """The parts of all chunks, in the chunks' order. Ranks are the blocks' numbers, row by row."""
    rows, columns = (list(_common(*sizes)) for sizes in zip(chunks, blocks, strict=True))
    found = [
        Part(
            chunk=row.chunk * len(chunks[1]) + column.chunk,
            rank=row.block * len(blocks[1]) + column.block,
            shape=(row.size, column.size),
            in_chunk=(row.in_chunk, column.in_chunk),
            in_block=(row.in_block, column.in_block),
        )
        for row, column in product(rows, columns)
    ]
    return sorted(found, key=lambda part: part.chunk)


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

    def owner(needs: Counter[int], workers: Sequence[str]) -> int:
        """Of the ranks whose workers have a chunk, the one that needs most of it; else of all."""
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
    moved = [part for part in every if spread.owners[part.chunk] != part.rank]
    row, column = layout.place(rank)
    mine = [part for part in every if part.rank == rank and part.chunk in own]
    shape = blocks[0][row], blocks[1][column]
    if len(mine) == 1 and mine[0].shape == shape == own[mine[0].chunk].shape:
        block = own[mine[0].chunk]
    else:
        block = empty(shape, like)
        for part in mine:
            copy(block[part.in_block], own[part.chunk][part.in_chunk])
    for batch in _batches(moved, _BATCH_BYTES * layout.size // like.dtype.itemsize):
        arrived = _exchange(batch, spread, own, layout, rank, communicator, like)
        for index, part in enumerate(batch):
            if part.rank == rank:
                copy(block[part.in_block], arrived[index])
    return block


def _exchange(
    batch: Sequence[Part],
    spread: Spread,
    own: Mapping[int, Any],
    layout: Layout,
    rank: int,
    communicator: Communicator,
    like: Any,
) -> dict[int, Any]:
    """Some parts, by their index, as far as they have come to this rank: along grid rows, then along grid columns."""
    here = layout.place(rank)
    found = {i: own[part.chunk][part.in_chunk] for i, part in enumerate(batch) if part.chunk in own}

    def along(axis: int, is_on_the_way: Callable[[tuple[int, int], tuple[int, int]], bool]) -> None:
        wanted = {}
        for index, part in enumerate(batch):
            source, target = layout.place(spread.owners[part.chunk]), layout.place(part.rank)
            root = source[1] if axis == ROW else source[0]
            if is_on_the_way(source, target):
                panel = found.get(index) if root == (here[1] if axis == ROW else here[0]) else None
                wanted[index] = Broadcast(axis, root, panel, part.shape)
        found.update(zip(wanted, communicator.broadcast(list(wanted.values()), like)(), strict=True))

    along(ROW, lambda source, target: source[0] == here[0] and source[1] != target[1])
    along(COLUMN, lambda source, target: target[1] == here[1] and source[0] != target[0])
    return found


def _batches(moved: Sequence[Part], most: int) -> Iterator[list[Part]]:
    """Parts that are on their way at once: of at most so many elements, or one."""
    batch: list[Part] = []
    size = 0
    for part in moved:
        if batch and size + part.size > most:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part.size
    if batch:
        yield batch
