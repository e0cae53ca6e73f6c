"""Kernels with a planted bug: edits of rendered text, and the finding that the simulator must report for each.

The simulator's tests check them; ``tools.sanitize_bugs`` runs them under compute-sanitizer. Bugs in the host code are
in ``tools.planted``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tiledmm

if TYPE_CHECKING:
    from tiledmm import simulator


@dataclass(frozen=True)
class Bug:
    """An edit that plants a bug in a kernel.

    Attributes:
        name: Description of the bug.
        variant, tile, layout, dtype, target: Kernel that is broken.
        old, new: Text to replace, which occurs in the kernel, and its replacement.
        kinds: Kinds of findings, one of which the simulator must report; none if only the result is wrong.
        line: Text of a line that the finding must name, if any.
        sizes: m, n and k, in elements.
    """

    name: str
    variant: str
    old: str
    new: str
    kinds: tuple[str, ...]
    line: str = ""
    tile: int | None = 16
    layout: str = "NN"
    dtype: str = "float32"
    target: str = "sm_90"
    sizes: tuple[int, int, int] = (40, 50, 37)


#: The kind of bugs that only the result shows.
WRONG = "wrong result"

RACE, SHARED_OUT, GLOBAL_OUT = "race on shared memory", "shared access out of bounds", "global access out of bounds"
UNINITIALISED, NOT_WAITED = "uninitialised shared memory", "copy not waited for"
SUBSCRIPT = "subscript out of bounds"

BUGS = (
    Bug("no barrier after the stores", "tiled", "__syncthreads();   // both", "//", (RACE,), "= As[ty"),
    Bug("no barrier after the reads", "tiled", "__syncthreads();   // everyone", "//", (RACE,), "As[a_m][a_k] ="),
    Bug("rows up to and with the last", "tiled", "row < rows && col < cols ?", "row <= rows && col < cols ?",
        (GLOBAL_OUT,), "b_view.read_or_zero"),
    Bug("columns up to and with the last", "tiled", "row < rows && col < cols ?", "row < rows && col <= cols ?",
        (GLOBAL_OUT,), "read_or_zero"),
    Bug("no guard on loads", "tiled", "return row < rows && col < cols ?", "return true ?", (GLOBAL_OUT,)),
    Bug("no guard on stores, rows", "tiled", "if (row < rows && col < cols) data",
        "if (col < cols) data", (GLOBAL_OUT,), "c_tile.write"),
    Bug("no guard on stores, columns", "tiled", "if (row < rows && col < cols) data",
        "if (row < rows) data", (GLOBAL_OUT, "race on global memory"), "c_tile.write"),
    Bug("columns of another row", "naive", "row >= c_tile.rows || col >= c_tile.cols", "row >= c_tile.rows",
        (GLOBAL_OUT, "race on global memory"), tile=None),
    Bug("rows too narrow", "tiled", "Sum As[BM][BK];", "Sum As[BM][BK - 1];", (SUBSCRIPT,), "As[a_m][a_k] ="),
    Bug("one row too few", "tiled", "Sum Bs[BK][BN];", "Sum Bs[BK - 1][BN];", (SUBSCRIPT,), "Bs["),
    Bug("index transposed", "tiled", "= As[ty][k]", "= As[k][ty]", ()),
    Bug("one step of k too many", "tiled", "k < BK; ++k", "k <= BK; ++k", (SUBSCRIPT,), "frag_"),
    Bug("one step of k too few", "tiled", "k < BK; ++k", "k < BK - 1; ++k", ()),
    Bug("half of the tile loaded", "tiled", "Bs[b_k][b_n] = b_view", "if (b_k < BK / 2) Bs[b_k][b_n] = b_view",
        (UNINITIALISED,), "frag_b = Bs"),
    Bug("no wait for copies", "double_buffered", "wait_for_copies();\n    };", "};",
        (NOT_WAITED,), "= As["),
    Bug("no wait for copies, NT", "double_buffered", "wait_for_copies();\n    };", "};",
        (NOT_WAITED,), "= Bs[", layout="NT"),
    Bug("wait in the prologue alone", "double_buffered", "if (more) store_shared(stage ^ 1);", "",
        (NOT_WAITED,), "= As["),
    Bug("no barrier in the loop", "double_buffered", "store_shared(stage ^ 1);\n        __syncthreads();",
        "store_shared(stage ^ 1);", (RACE, UNINITIALISED, NOT_WAITED)),
    Bug("no barrier in the loop, through registers", "double_buffered",
        "store_shared(stage ^ 1);\n        __syncthreads();", "store_shared(stage ^ 1);",
        (RACE, UNINITIALISED), target="sm_75"),
    Bug("the buffer in use is loaded", "double_buffered", "fetch(stage ^ 1,", "fetch(stage,", (RACE, NOT_WAITED)),
    Bug("buffers not swapped", "double_buffered", "stage ^= 1;", "", ()),
    Bug("a result read before it is written", "coalesced", "Sum sum = {};", "Sum sum = c[0];",
        ("uninitialised result",), "c[0]", tile=None),
    Bug("one k too many", "naive", "k < block.k; ++k", "k <= block.k; ++k", (GLOBAL_OUT,), "A.read", tile=None),
    Bug("blocks overlap", "tiled", "(row) * bm, ", "(row) * (bm / 2), ", ("race on global memory",), "write"),
    Bug("writes to A", "naive", "c_tile.write(row, col, sum);", "c_tile.write(row, col, sum); *(TA*)a = {};",
        ("write to an operand",), "*(TA*)a", tile=None),
    Bug("some threads leave before a barrier", "tiled", "const int ty = threadIdx.y;",
        "const int ty = threadIdx.y; if (tx == 3) return;", ("uninitialised shared memory",), "As[ty]"),
    Bug("a barrier in a branch", "tiled", "__syncthreads();   // both",
        "if (tx < 8) __syncthreads(); else __syncwarp(); //", ("barrier not reached by all", "warp not converged")),
    Bug("a wide load at an odd address", "naive", "Sum sum = {};", "Sum sum = *(const double*)(a + 1) > 1e300;",
        ("misaligned access",), "double*", tile=None, sizes=(8, 8, 8)),
    Bug("shared memory past the end of the block's", "tiled", "frag_a = As[ty", "frag_a = (&As[0] + 100000)[ty",
        (SHARED_OUT, GLOBAL_OUT), "frag_a"),
    Bug("runs into the next array", "tiled", "As[a_m][a_k] =", "(&As[0])[a_m + (a_m == 15)][a_k] =",
        (SHARED_OUT,), "a_m == 15"),
    Bug("one element of a thread too many", "tiled", "j < TN; ++j) acc", "j <= TN; ++j) acc", (SUBSCRIPT,),
        "acc[i][j] =", tile=64),
)  # fmt: skip


def plant(bug: Bug, folder: Path) -> Path:
    """Write the broken kernel to a file and return its path.

    Raises:
        ValueError: If the kernel no longer contains the text to replace.
    """
    text = tiledmm.source(bug.variant, tile=bug.tile, layout=bug.layout, dtype=bug.dtype)
    if bug.old not in text:
        raise ValueError(f"{bug.name}: the template no longer has {bug.old!r}")
    path = folder / "broken.cu"
    path.write_text(text.replace(bug.old, bug.new, 1))
    return path


def operands(bug: Bug) -> tuple[np.ndarray, np.ndarray]:
    """Return A and B with small integers, in the bug's layout."""
    m, n, k = bug.sizes
    rng = np.random.default_rng(0)
    pair = (rng.integers(-4, 5, shape).astype(bug.dtype) for shape in ((m, k), (k, n)))
    left, right = (np.asfortranarray(x) if letter == "T" else x for x, letter in zip(pair, bug.layout, strict=True))
    return left, right


def simulate(bug: Bug, folder: Path, **keywords: Any) -> tuple[bool, simulator.Report]:
    """Simulate the broken kernel; return whether the result is right despite the bug, and the report."""
    from tiledmm import simulator  # the bugs also serve without a C++ compiler

    a, b = operands(bug)
    source = plant(bug, folder)
    c, report = simulator.run(
        a, b, variant=bug.variant, tile=bug.tile, source=source, target=bug.target, counts=False, **keywords
    )
    return np.array_equal(c, a @ b), report
