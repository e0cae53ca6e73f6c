"""Elements of an array that each thread of a kernel stores, and the blocks that follow from them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiledmm.own_kernels.expectation import Product
from tiledmm.own_kernels.indices import Access, Indices
from tiledmm.own_kernels.kernel_text import Point
from tiledmm.own_kernels.roles import Roles
from tiledmm.simulator.build.parameters import Parameter

# Numbers of threads along an axis that a kernel with a fixed tile may have.
_COUNTS = (1, 2, 4, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
_MOST_THREADS = 1024

# Sizes at which subscripts are evaluated: so large and so different that rows and columns can be distinguished.
_SIZES = {"M": 3 << 20, "N": 5 << 20, "K": 7 << 20}


@dataclass(frozen=True, slots=True)
class Stores:
    """The elements of C, or of another array, that threads store.

    Attributes:
        indices: The kernel's indices.
        array: Number of the parameter.
        access: The access to it.
        numbers: Values of the kernel's parameters, by number.
        scale: Elements of C per element of the pointer.
        sizes: Values of M, N and K.
        is_known: Whether rows and columns of C can be distinguished.
        is_batch: Whether blocks along z compute different products of a batch.
    """

    indices: Indices
    array: int
    access: Access
    numbers: Mapping[int, int]
    scale: int
    sizes: Mapping[str, int]
    is_known: bool
    is_batch: bool = False
    _known: dict[Point, int | None] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, indices: Indices, roles: Roles, parameters: Sequence[Parameter]) -> Stores | None:
        """Return the elements of C that threads store; None if the text does not determine it."""
        sizes = dict(_SIZES)
        for names in roles.sizes.values():
            sizes |= dict.fromkeys(names, sizes[names[0]])
        numbers = dict.fromkeys(roles.order, 0) | {at: sizes[names[0]] for at, names in roles.sizes.items()}
        numbers |= {at: sizes["K" if matrix == "A" else "N"] for at, matrix in roles.leading.items()}
        if roles.batch is not None:
            numbers[roles.batch] = 2
        scale = max(1, parameters[roles.c].element_bytes // Product.of(roles, parameters).types[2].itemsize)
        is_known = sizes["M"] != sizes["N"] and not roles.leading
        for access in reversed(indices.accesses(roles.c)):
            stores = cls(indices, roles.c, access, numbers, scale, sizes, is_known, roles.batch is not None)
            if stores.element(Point()) is not None:
                return stores
        return None

    @classmethod
    def of_array(cls, indices: Indices, array: int, numbers: Mapping[int, int]) -> Stores | None:
        """Return the elements of any array that threads store; None if the text does not determine it.

        Args:
            indices: The kernel's indices.
            array: Number of the parameter.
            numbers: Values of the kernel's integers, by the number of the parameter.
        """
        for access in reversed(indices.accesses(array)):
            stores = cls(indices, array, access, {**numbers, array: 0}, 1, _SIZES, False)
            if stores.element(Point()) is not None:
                return stores
        return None

    def element(self, point: Point) -> int | None:
        """Return the number of the element of C that a thread stores first."""
        if point not in self._known:
            found = self.indices.element(self.access, point, self.numbers, self.sizes["N"])
            self._known[point] = None if found is None else found * self.scale
        return self._known[point]

    def moved(self, point: Point, origin: Point) -> int:
        """Return the distance from the first element of one thread to that of another; 0 if that is unknown."""
        before, after = self.element(origin), self.element(point)
        return 0 if before is None or after is None else after - before

    def steps(self, block: tuple[int, int]) -> tuple[int, int]:
        """Return the distances from a block's elements to those of the next block along x and along y."""
        origin = Point(dim=(*block, 1))
        return self.moved(_block(0, origin), origin), self.moved(_block(1, origin), origin)

    def shapes(self) -> Iterator[tuple[int, int]]:
        """Yield the possible blocks of a kernel with a fixed tile.

        A thread beyond the last one would store an element of another block, or one of the next iteration of a loop:
        ``threadIdx.y + j`` with ``j += 8``.
        """
        origin = Point(dim=(64, 8, 1))
        others = {step for step in self.steps((64, 8)) if step} | self.passes(origin)
        both = self.indices.reads("thread", "y")
        bound = self.indices.launch_bound
        counts = [
            [n for n in _COUNTS if self.moved(_thread(axis, n, origin), origin) in others] or ([1] if not axis else [])
            for axis in range(1 + both)
        ]
        if both:
            yield from ((x, y) for x, y in itertools.product(*counts) if x * y <= _MOST_THREADS)
            return
        if bound:
            yield bound, 1
        yield from ((threads, 1) for threads in self.strides())
        yield from ((threads, 1) for threads in counts[0] if 32 <= threads <= (bound or _MOST_THREADS))

    def passes(self, origin: Point) -> set[int]:
        """Return the distances from a thread's first element to those of other statements and of the next iteration."""
        found = set()
        first = self.element(origin) or 0
        for access in self.indices.accesses(self.array):
            other = self.indices.element(access, origin, self.numbers, self.sizes["N"])
            found.add(0 if other is None else abs(other * self.scale - first))
        for loop in self.indices.loops_around(self.access.at):
            value = self.indices.pass_of(loop, origin, self.numbers)
            if value is not None:
                found.add(self.moved(replace(origin, loops=((loop.key, value),)), origin))
        return found - {0}

    def strides(self) -> Iterator[int]:
        """Yield the steps of loops that all threads of a block share: ``for (i = tid; ...; i += 128)``."""
        origin = Point(dim=(64, 8, 1))
        for loop in self.indices.loops:
            step = loop.step and self.indices.value(loop.step, loop.at, origin, self.numbers)
            if not step or step % 32 or step > _MOST_THREADS:
                continue
            first, last = (
                self.indices.value(loop.first, loop.at, _thread(0, at, origin), self.numbers) for at in (0, step)
            )
            if first is not None and last == first + step:
                yield step

    def is_by_columns(self) -> bool:
        """Return whether C is column-major: some thread or block index is multiplied by M and not by N."""
        origin = Point(dim=(16, 16, 1))
        points = [_block(0, origin), _block(1, origin), _thread(0, 1, origin), _thread(1, 1, origin)]
        moved = [each for each in (abs(self.moved(point, origin)) for point in points) if each >= self.sizes["M"]]
        return self.is_known and bool(moved) and all(each % self.sizes["M"] == 0 for each in moved)

    def loops_over_rows(self) -> bool:
        """Return whether each thread stores elements of all rows in a loop."""
        limits = (
            self.indices.value(loop.limit, loop.at, Point(), self.numbers)
            for loop in self.indices.loops_around(self.access.at)
            if loop.limit
        )
        return self.sizes["M"] in limits

    def loops_over_grid(self, block: tuple[int, int]) -> bool:
        """Return whether each thread's loop advances by the number of threads of the whole grid."""
        small, large = (Point(dim=(*block, 1), grid=(grid, grid, 1)) for grid in (64, 128))
        return any(
            loop.step is not None
            and (one := self.indices.value(loop.step, loop.at, small, self.numbers)) is not None
            and one != self.indices.value(loop.step, loop.at, large, self.numbers)
            for loop in self.indices.loops_around(self.access.at)
        )

    def is_evident(self, block: tuple[int, int], steps: tuple[int, int]) -> bool:
        """Return whether the text determines the block: a thread beyond it would store an element of another block."""
        origin = Point(dim=(*block, 1))
        passes = self.passes(origin)
        others = passes | {step for step in steps if step}
        axes = [axis for axis in (0, 1) if self.indices.reads("thread", "xy"[axis])]
        of_threads = (self.moved(_thread(axis, block[axis], origin), origin) in others for axis in axes)
        twice = (
            self.moved(_thread(axis, count, origin), origin) in passes
            for axis in axes
            for count in _COUNTS
            if count < block[axis]
        )
        of_blocks = (
            self.moved(_block(axis, origin, count), origin) == count * steps[axis]
            for axis, count in itertools.product((0, 1), (5, 38))
        )
        is_deep = self.indices.reads("block", "z") and not self.indices.reads("grid", "z") and not self.is_batch
        is_deep = is_deep or self.indices.reads("thread", "z")
        return bool(axes) and all(of_threads) and not any(twice) and all(of_blocks) and not is_deep


def _block(axis: int, origin: Point, count: int = 1) -> Point:
    """Return the same thread of the block that is ``count`` blocks further along an axis."""
    x, y, z = origin.block
    return replace(origin, block=(x + count * (axis == 0), y + count * (axis == 1), z))


def _thread(axis: int, count: int, origin: Point) -> Point:
    """Return the thread that is ``count`` threads further along an axis."""
    x, y, z = origin.thread
    return replace(origin, thread=(x + count * (axis == 0), y + count * (axis == 1), z))
