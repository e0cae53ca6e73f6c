"""Guesses about tiles: transposed, not advanced, or taken from another place; and rows that hold other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product as pairs

import numpy as np

from tiledmm.simulated.explanation.wrong_product import EVIDENCE, Array, Guess, WrongProduct


def tile_guesses(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses about whole rows and columns, then those for each size that a tile may have."""
    yield from _displaced(wrong)
    yield _exchange(wrong, max(wrong.c.shape), (True, True), (False, False))
    yield _exchange(wrong, max(wrong.c.shape), (False, False), (True, True))
    for tile in wrong.tiles:
        yield from _register_tile_transposed(wrong, tile)
        yield from _transposed(wrong, tile)
        yield from _not_advanced(wrong, tile)
        yield from _exchanged(wrong, tile)


def _transposed(wrong: WrongProduct, tile: int) -> Iterator[Guess]:
    """Yield guesses in which the tiles of A or B are transposed in shared memory."""
    own_a, own_b = _padded(wrong.a, tile), _padded(wrong.b, tile)
    a, b = _tiles_transposed(own_a, tile), _tiles_transposed(own_b, tile)
    for name, left, right in (("A", a, own_b), ("B", own_a, b), ("A and B", a, b)):
        why = "row and column are exchanged where it is stored or read"
        said = f"each tile of {name} ({tile} x {tile}) is transposed: {why}"
        yield _product(wrong, "tile transposed", said, left, right)


def _not_advanced(wrong: WrongProduct, tile: int) -> Iterator[Guess]:
    """Yield guesses in which each step reads the first tile of A or B again."""
    if wrong.k <= tile:
        return
    a, b = _padded(wrong.a, tile), _padded(wrong.b, tile)
    again = np.arange(a.shape[1]) % tile
    for name, left, right in (
        ("A", a[:, again], b),
        ("B", a, b[again]),
        ("A and B", a[:, again], b[again]),
        ("A and B", a[:, again[: wrong.k]], b[again[: wrong.k]]),
    ):
        said = f"the tile of {name} does not advance along K: each step reads the first {tile} elements again"
        yield _product(wrong, "tile not advanced", said, left, right)
    first = np.arange(a.shape[1]) // tile * tile
    for name, left, right in (("A", a[:, first], b), ("B", a, b[first])):
        said = f"each step within a tile reads the first element of the tile of {name} again (tiles of {tile})"
        yield _product(wrong, "step within a tile constant", said, left, right)
    for name, along in (("A", wrong.memory_a.cols), ("B", wrong.memory_b.rows)):
        right_step = tile * along
        names = {tile * size: f"{tile} * {size_name}" for size, size_name in wrong.names.items() if size > 1}
        names |= wrong.names | {tile: str(tile)}
        for step in names:
            if step != right_step:
                own = names.get(right_step, f"{right_step:,}")
                said = f"the tile of {name} advances by {names[step]} elements per step along K, and {own} is right"
                yield _advanced(wrong, said, name, tile, step - tile * along)


def _advanced(wrong: WrongProduct, said: str, name: str, tile: int, more: int) -> Guess:
    """Return a guess in which the tiles of a factor are read at a wrong distance from each other.

    Args:
        wrong: The wrong product.
        said: Clause that says so.
        name: The factor, A or B.
        tile: Number of steps along K in a tile.
        more: Elements by which the distance is too large.
    """
    steps = np.arange(wrong.k)
    offsets = steps // tile * more

    def values(rows: Array, cols: Array) -> tuple[Array, Array]:
        left, right = wrong.a[rows], wrong.b[:, cols]
        known = np.ones((len(rows), len(cols)), np.bool_)
        if name == "A":
            memory = wrong.memory_a
            left, inside = memory.read(np.add.outer(rows * memory.rows, steps * memory.cols + offsets))
            known &= np.all(inside, axis=1, keepdims=True)
        else:
            memory = wrong.memory_b
            right, inside = memory.read(np.add.outer(steps * memory.rows + offsets, cols * memory.cols))
            known &= np.all(inside, axis=0, keepdims=True)
        return wrong.multiply(left, right), known

    return Guess("tile not advanced", said, values)


def _product(wrong: WrongProduct, pattern: str, said: str, left: Array, right: Array) -> Guess:
    """Return a guess in which two matrices are multiplied that may have more rows or columns than C."""

    def values(rows: Array, cols: Array) -> tuple[Array, None]:
        return wrong.multiply(left[rows], right[:, cols]), None

    return Guess(pattern, said, values)


def _padded(matrix: Array, tile: int) -> Array:
    rows, cols = (-size % tile for size in matrix.shape)
    return np.pad(matrix, ((0, rows), (0, cols)))


def _tiles_transposed(matrix: Array, tile: int) -> Array:
    rows, cols = (size // tile for size in matrix.shape)
    exchanged: Array = matrix.reshape(rows, tile, cols, tile).transpose(0, 3, 2, 1).reshape(matrix.shape)
    return exchanged


def _register_tile_transposed(wrong: WrongProduct, tile: int) -> Iterator[Guess]:
    """Yield guesses in which row and column are exchanged among the elements of C that one thread computes.

    A thread's rows are ``inner`` contiguous ones, the next ``inner`` after those of all threads, and so on.

    Args:
        wrong: The wrong product.
        tile: Number of threads of a block along x and along y.
    """
    if not wrong.has_register_tiles:
        return
    per_row, per_col = (
        -(-size // threads) for size, threads in ((wrong.m, wrong.covered[1]), (wrong.n, wrong.covered[0]))
    )
    if per_row != per_col:
        return
    for inner in dict.fromkeys(each for each in (1, 4, per_row) if per_row % each == 0):

        def place(own: Array, other: Array, inner: int = inner) -> Array:
            group = tile * inner
            at: Array = own // (tile * per_row) * (tile * per_row) + other % (tile * per_row) // group * group
            at += own % group // inner * inner + other % inner
            return at

        def values(rows: Array, cols: Array, place: Callable[[Array, Array], Array] = place) -> tuple[Array, Array]:
            row, col = np.meshgrid(rows, cols, indexing="ij")
            of_row, of_col = place(row, col), place(col, row)
            known = (of_row < wrong.m) & (of_col < wrong.n)
            return wrong.sums[np.where(known, of_row, 0), np.where(known, of_col, 0)], known

        said = (
            f"the {per_row} x {per_row} elements of each thread are transposed: A's and B's factors are exchanged "
            "(a[j] * b[i] where a[i] * b[j] is right), or the subscripts of the sums are (acc[j][i] for acc[i][j])"
        )
        yield Guess("register tile transposed", said, values)


def _exchanged(wrong: WrongProduct, tile: int) -> Iterator[Guess]:
    """Yield guesses in which the row of A, or the column of B, is that of another block or thread."""
    each = tuple(pairs((False, True), repeat=2))
    for of_a, of_b in pairs(each, each):
        if (any(of_a) or any(of_b)) and (of_a, of_b) not in (((True, True), each[0]), (each[0], (True, True))):
            yield _exchange(wrong, tile, of_a, of_b)


def _exchange(wrong: WrongProduct, tile: int, of_a: tuple[bool, ...], of_b: tuple[bool, ...]) -> Guess:
    """Return a guess in which x and y are exchanged in some indices.

    Args:
        wrong: The wrong product.
        tile: Size of a tile of C.
        of_a: Whether the block's, and whether the thread's index along the rows is the one along the columns.
        of_b: The same, along the columns.
    """

    def place(own: Array, other: Array, exchanged: tuple[bool, ...]) -> Array:
        block, thread = (np.where(which, other, own) for which in exchanged)
        at: Array = block // tile * tile + thread % tile
        return at

    def values(rows: Array, cols: Array) -> tuple[Array, Array]:
        row, col = np.meshgrid(rows, cols, indexing="ij")
        of_row, of_col = place(row, col, of_a), place(col, row, of_b)
        known = (of_row < wrong.m) & (of_col < wrong.n)
        return wrong.sums[np.where(known, of_row, 0), np.where(known, of_col, 0)], known

    if of_a == of_b == (False, True):
        said = f"each tile of C ({tile} x {tile}) is transposed: threadIdx.x and threadIdx.y are exchanged"
        return Guess("tile transposed", said, values)
    if of_a == of_b == (True, False):
        said = f"the tiles of C ({tile} x {tile}) are swapped across the diagonal"
        if wrong.has_register_tiles:  # a block's tile is larger
            return Guess("tiles exchanged", said, values)
        return Guess("block index exchanged", f"{said}: blockIdx.x and blockIdx.y are exchanged", values)
    if all(of_a) and not any(of_b):
        return Guess(
            "indices exchanged", "the rows of A are read by the column's index: col where row is right", values
        )
    if all(of_b) and not any(of_a):
        return Guess(
            "indices exchanged", "the columns of B are read by the row's index: row where col is right", values
        )
    clauses = []
    for name, exchanged in (("rows of A", of_a), ("columns of B", of_b)):
        which = " and ".join(what for what, is_so in zip(("blockIdx", "threadIdx"), exchanged, strict=True) if is_so)
        if which:
            clauses.append(f"x and y of {which} are exchanged where {name} are read")
    pattern = "block index exchanged" if of_a[0] or of_b[0] else "thread index exchanged"
    return Guess(pattern, f"{', and '.join(clauses)} (tiles of {tile} x {tile})", values)


def _displaced(wrong: WrongProduct) -> Iterator[Guess]:
    """Yield guesses in which each wrong row of C holds another row of the product, and the same of columns."""
    for axis, name in ((0, "row"), (1, "column")):
        source = _sources(wrong, axis)
        moved = [(int(to), int(of)) for to, of in enumerate(source) if to != of]
        if not moved or wrong.c.shape[1 - axis] < EVIDENCE:
            continue
        said = ", ".join(f"{name} {to} of C holds {name} {of} of the product" for to, of in moved[:2])
        more = f", and so on for {len(moved):,} {name}s" if len(moved) > 2 else ""
        of_same = [of - to for to, of in moved]
        pattern = "rows or columns shifted" if len(set(of_same)) == 1 else "rows or columns at other places"

        def values(rows: Array, cols: Array, source: Array = source, axis: int = axis) -> tuple[Array, None]:
            return wrong.sums[np.ix_(source[rows], cols) if axis == 0 else np.ix_(rows, source[cols])], None

        yield Guess(pattern, said + more, values)


def _sources(wrong: WrongProduct, axis: int) -> Array:
    """Return, for each row of C, the row of the product that it holds; its own number if there is none.

    Args:
        wrong: The wrong product.
        axis: 0 for rows, 1 for columns.
    """
    source = np.arange(wrong.c.shape[axis])
    # A row whose first wrong element is not anywhere in its column of the product holds none of it.
    for at in np.flatnonzero((wrong.wrong & wrong.compared).any(axis=1 - axis)):
        mine = np.flatnonzero(np.take(wrong.wrong & wrong.compared, at, axis=axis))
        index = (at, mine[0]) if axis == 0 else (mine[0], at)
        line = wrong.sums[:, mine[0]] if axis == 0 else wrong.sums[mine[0], :]
        for other in np.flatnonzero(wrong.equal(wrong.finish(line, index), index))[:4]:
            whole = (at, slice(None)) if axis == 0 else (slice(None), at)
            if wrong.equal(wrong.finish(np.take(wrong.sums, other, axis=axis), whole), whole).all():
                source[at] = other
                break
        else:
            return np.arange(wrong.c.shape[axis])
    return source
