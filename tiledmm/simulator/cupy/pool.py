"""The memory pool that scripts ask for its size."""

from __future__ import annotations

import gc

import numpy as np

from tiledmm.simulator.cupy.arrays import ndarray

# CuPy's allocations are multiples of this.
_UNIT = 512


class MemoryPool:
    """A pool that keeps no memory: what no array uses is free at once."""

    def __init__(self) -> None:
        self._limit = 0

    def used_bytes(self) -> int:
        """Bytes of all arrays of the simulator's ``cupy``, in CuPy's units of allocation."""
        sizes = {}
        for each in gc.get_objects():
            if isinstance(each, ndarray):
                owner: np.ndarray = np.asarray(each)
                while isinstance(owner.base, np.ndarray):
                    owner = owner.base
                sizes[owner.ctypes.data] = -(-owner.nbytes // _UNIT) * _UNIT
        return sum(sizes.values())

    def total_bytes(self) -> int:
        """As ``used_bytes``."""
        return self.used_bytes()

    def free_bytes(self) -> int:
        """Bytes that are kept for later arrays: none."""
        return 0

    def n_free_blocks(self) -> int:
        """Blocks of memory that are kept: none."""
        return 0

    def free_all_blocks(self, stream: object = None) -> None:
        """Frees what is kept: nothing is."""

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Notes a limit, which has no effect."""
        self._limit = int(size or 0)

    def get_limit(self) -> int:
        """The limit that was noted; 0 for none."""
        return self._limit
