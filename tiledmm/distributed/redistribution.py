"""Redistribution of an operand: from chunks that any rank may hold to each rank's block.

Each piece of a chunk moves along its owner's grid row, then along the grid column of the rank that needs it, by the
same broadcasts as panels. All ranks know which rank has which chunk, so they need not agree on anything.
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

# Maximum bytes of one piece, and of all pieces in flight along a grid row or column: every rank of the row or column
# needs memory for them, in addition to its blocks.
_PIECE_BYTES, _BATCH_BYTES = 64 << 20, 256 << 20

#: Sizes of the rows and of the columns of a matrix's chunks, or of its blocks.
Sizes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

_Slices: TypeAlias = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class Piece:
    """The intersection of a chunk and a block.

    Attributes:
        chunk: Number of the chunk, counted row by row.
        rank: Rank that owns the block.
        shape: Rows and columns of the piece.
        in_chunk, in_block: Rows and columns of the chunk, and of the block, that the piece covers.
    """

    chunk: int
    rank: int
    shape: tuple[int, int]
    in_chunk: _Slices
    in_block: _Slices

    @property
    def size(self) -> int:
        """Number of elements of the piece."""
        return self.shape[0] * self.shape[1]

    def split(self, most: int) -> Iterator[Piece]:
        """Yield parts of this piece, divided between rows: each of at most ``most`` elements, or of a single row."""
        rows, columns = self.shape
        step = max(1, most // columns)
        for begin in range(0, rows, step):
            height = min(step, rows - begin)
            yield Piece(
                self.chunk,
                self.rank,
                (height, columns),
                _rows(self.in_chunk, begin, height),
                _rows(self.in_block, begin, height),
            )


@dataclass(frozen=True, slots=True)
class Spread:
    """The chunks of a matrix, and the ranks that hold them.

    Attributes:
        chunks: Row sizes and column sizes of the chunks.
        owners: Rank that holds each chunk, row by row.
    """

    chunks: Sizes
    owners: tuple[int, ...]

    def of(self, rank: int) -> list[int]:
        """Return the numbers of the chunks that a rank holds, in increasing order."""
        return [number for number, owner in enumerate(self.owners) if owner == rank]

    def shape(self, chunk: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of a chunk."""
        i, j = divmod(chunk, len(self.chunks[1]))
        return self.chunks[0][i], self.chunks[1][j]


def _rows(within: _Slices, begin: int, height: int) -> _Slices:
    return slice(within[0].start + begin, within[0].start + begin + height), within[1]


def pieces(chunks: Sizes, blocks: Sizes) -> list[Piece]:
    """Return a ``Piece`` for each chunk and each block of a matrix that overlap, row by row.

    The rank that owns a block has the block's number, counted row by row.

    Args:
        chunks: Row sizes and column sizes of the chunks.
        blocks: Row sizes and column sizes of the blocks.
    """
    rows, columns = (list(_common(*sizes)) for sizes in zip(chunks, blocks, strict=True))
    return [
        Piece(
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
    """The intersection of a chunk and a block along one axis.

    Attributes:
        chunk, block: Index of the chunk and of the block along the axis.
        size: Number of elements in both.
        in_chunk, in_block: Range of these elements within the chunk, and within the block.
    """

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
    """Assign each chunk of a product's operands to a rank, if possible to one whose worker holds the chunk already.

    Args:
        operands: For each operand, the sizes of its chunks, the sizes of its blocks, and for each chunk, row by row,
            the addresses of the workers that hold it; no address if the chunk is not computed yet.

    Returns:
        A ``Spread`` for each operand. The scheduler then gives each rank to the worker that holds most of its chunks.
    """
    needed = [[Counter[int]() for _ in holders] for _, _, holders in operands]  # elements, by chunk and rank
    held: Counter[tuple[str, int]] = Counter()
    for of_chunk, (chunks, blocks, holders) in zip(needed, operands, strict=True):
        for piece in pieces(chunks, blocks):
            of_chunk[piece.chunk][piece.rank] += piece.size
            for worker in holders[piece.chunk][:1]:
                held[worker, piece.rank] += piece.size
    rank_of = {worker: rank for rank, worker in pair((size, rank, worker) for (worker, rank), size in held.items())}
    # A worker whose ranks went to other workers gets one of the remaining ranks.
    rows, columns = operands[0][1]
    rest = sorted(set(range(len(rows) * len(columns))) - set(rank_of.values()))
    rank_of |= zip(sorted({worker for worker, _ in held} - rank_of.keys()), rest, strict=False)

    def owner(needs: Counter[int], workers: Sequence[str]) -> int:
        """Return the rank to which a chunk is assigned: the one that needs most of its elements.

        Only ranks whose worker holds the chunk are considered, if there are any.

        Args:
            needs: Number of the chunk's elements that each rank needs.
            workers: Addresses of the workers that hold the chunk.
        """
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
    """Return a rank's block of an operand, assembled from chunks of all ranks. Every rank calls this at the same time.

    Args:
        held: Chunks that the rank holds, in the order of their numbers.
        spread: Sizes of all chunks, with the ranks that hold them.
        blocks: Row sizes and column sizes of the operand's blocks.
        layout: Process grid and the sizes of its blocks.
        rank: Number of this rank.
        communicator: Connection to the other ranks.
        like: Array with the block's type. The block is stored on the device of this array, or in host memory if this
            is a NumPy array.

    Returns:
        The block. If it is the same as one chunk of this rank, that chunk is returned without a copy.

    Raises:
        CollectiveError: If another rank failed, or was silent past the deadline.
    """
    every, own = pieces(spread.chunks, blocks), dict(zip(spread.of(rank), held, strict=True))
    row, column = layout.place(rank)
    shape = blocks[0][row], blocks[1][column]
    mine = [piece for piece in every if piece.rank == rank and piece.chunk in own]
    if len(mine) == 1 and mine[0].shape == shape == own[mine[0].chunk].shape:
        block = own[mine[0].chunk]
    else:
        block = empty(shape, like)
        for piece in mine:
            copy(block[piece.in_block], own[piece.chunk][piece.in_chunk])
    moves = [
        Move(moved, layout.place(spread.owners[piece.chunk]), layout.place(piece.rank))
        for piece in every
        if spread.owners[piece.chunk] != piece.rank
        for moved in piece.split(_PIECE_BYTES // like.dtype.itemsize)
    ]
    for batch in batches(moves, _BATCH_BYTES // like.dtype.itemsize):
        for piece, array in _exchange(batch, own, (row, column), communicator, like):
            copy(block[piece.in_block], array)
    hand_over(block)
    return block


@dataclass(frozen=True, slots=True)
class Move:
    """A piece, with the grid positions of the rank that has it and of the rank that needs it.

    The piece moves along the grid row of its source to the grid column of its target, then along that column.
    """

    piece: Piece
    source: tuple[int, int]
    target: tuple[int, int]

    def ways(self) -> list[tuple[int, int]]:
        """Return the grid row and the grid column along which the piece moves, as pairs of axis and index.

        A grid row or column is left out if the piece need not move along it.
        """
        row, column = (ROW, self.source[0]), (COLUMN, self.target[1])
        return [row] * (self.source[1] != self.target[1]) + [column] * (self.source[0] != self.target[0])


def batches(moves: Sequence[Move], most: int) -> Iterator[list[Move]]:
    """Group moves into batches, and yield each batch. The moves of a batch are made at the same time.

    A batch moves at most ``most`` elements along each grid row and column, but it has at least one move. Moves from
    different ranks alternate, so that links carry data both ways.
    """
    turn: defaultdict[tuple[int, int], Iterator[int]] = defaultdict(count)
    batch: list[Move] = []
    under_way: Counter[tuple[int, int]] = Counter()
    for move in sorted(moves, key=lambda move: next(turn[move.source])):
        ways = move.ways()
        if any(under_way[way] and under_way[way] + move.piece.size > most for way in ways):
            yield batch
            batch = []
            under_way.clear()
        batch.append(move)
        for way in ways:
            under_way[way] += move.piece.size
    if batch:
        yield batch


def _exchange(
    batch: Sequence[Move], own: Mapping[int, Any], here: tuple[int, int], communicator: Communicator, like: Any
) -> list[tuple[Piece, Any]]:
    """Move the pieces of a batch, and return those that this rank needs, each with the array of its elements.

    Every rank calls this at the same time. Pieces move along grid rows first, then along grid columns.
    """
    found = {i: own[move.piece.chunk][move.piece.in_chunk] for i, move in enumerate(batch) if move.source == here}

    def along(axis: int) -> None:
        """Broadcast the pieces that move along this rank's grid row or column, from the ranks that have them."""
        indices = [i for i, move in enumerate(batch) if (axis, here[axis]) in move.ways()]
        roots = [batch[i].source[1 - axis] for i in indices]
        wanted = [
            Broadcast(axis, root, found[i] if root == here[1 - axis] else None, batch[i].piece.shape)
            for i, root in zip(indices, roots, strict=True)
        ]
        found.update(zip(indices, communicator.broadcast(wanted, like)(), strict=True))

    along(ROW)
    # All ranks of a row receive the pieces that move along it. Drop those that other ranks need.
    for i in [i for i in found if batch[i].target[1] != here[1]]:
        del found[i]
    along(COLUMN)
    return [(batch[i].piece, array) for i, array in found.items() if batch[i].target == here]
