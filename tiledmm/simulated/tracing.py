"""The accesses of one block, one by one, by thread and by warp: for drawings and animations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tiledmm.compile.disassembly import disassemble
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.problem.call import dtype_of, precision_of
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.simulated.product import simulate_product
from tiledmm.simulator.build.machine_code import access_widths
from tiledmm.simulator.build.source_map import first_line_of_page
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.conflicts import BankAccess, bank_accesses
from tiledmm.simulator.report.events import Event
from tiledmm.simulator.report.requests import WARP, Request, requests


@dataclass(frozen=True, slots=True)
class Trace:
    """The accesses of one block.

    Attributes:
        symbol: Name of the kernel.
        sizes: m, n, k.
        grid, block: Blocks, and threads of a block, along x, y and z.
        traced_block: Number of the block.
        text: The kernel's source.
        locations: Template and line that each line of ``text`` comes from: ``"tiled.cu.j2:57"``.
        events: Accesses of the block, those of each thread in its own order.
        barriers: The source line of each barrier of the block: the first ends step 0, and so on.
    """

    symbol: str
    sizes: tuple[int, int, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    traced_block: int
    text: str
    locations: tuple[str, ...]
    events: tuple[Event, ...]
    barriers: tuple[int, ...]

    def steps(self) -> Iterator[tuple[int, tuple[Event, ...]]]:
        """Yield the events before the first barrier, between the first and the second, and so on."""
        last = max((event.step for event in self.events), default=-1)
        for step in range(last + 1):
            yield step, tuple(event for event in self.events if event.step == step)

    def requests(self, warp: int = 0) -> tuple[Request, ...]:
        """Return the requests of one warp of the block.

        Example:
            >>> recorded = trace("tiled", tile=32, layout="NT")
            >>> [(request.array, request.units) for request in recorded.requests() if request.kind == "load"][2:4]
            [('As', 1), ('Bs', 32)]
        """
        width, height, _ = self.block
        numbered = ((x + width * (y + height * z), event) for event in self.events for x, y, z in [event.thread])
        return requests((number % WARP, event) for number, event in numbered if number // WARP == warp)

    def json(self) -> str:
        """Return all attributes, as JSON."""
        return json.dumps(asdict(self))


def trace(
    variant: str,
    *,
    tile: int | None = None,
    dtype: str = "float32",
    layout: str = "NN",
    sizes: tuple[int, int, int] | None = None,
    products: int = 1,
    block: int = 0,
    arithmetic: bool = False,
    target: str = "sm_90",
) -> Trace:
    """Run a kernel on a small product and record the accesses of one block.

    Args:
        variant, tile, dtype: The kernel.
        layout: How A and B lie in memory, a letter each: N rows contiguous, T columns contiguous.
        sizes: m, n, k; None for one block tile and two K steps.
        products: Number of products: more than one are a batch, and an element's first index is the matrix.
        block: Number of the block to record.
        arithmetic: Whether floating-point operations are recorded, too.
        target: The target architecture.

    Example:
        >>> recorded = trace("tiled", tile=8)
        >>> sorted({event.array for event in recorded.events})
        ['A', 'As', 'B', 'Bs', 'C']

    Raises:
        TiledmmError: As ``tiledmm.simulator.run``.
    """
    spec = kernel_spec(variant, tile=tile, dtype=dtype, layout=layout)
    m, n, k = sizes or _one_block(spec)
    a, b = (np.stack([each] * products) if products > 1 else each for each in _operands(spec, m, n, k))
    settings = Settings(counts=False, target=target, traced_block=block, traced_arithmetic=arithmetic, workers=1)
    kernel = KernelKeywords(variant, tile, None, precision_of(spec.compute))
    done = simulate_product(a, b, None, UfuncKeywords(dtype=dtype_of(spec.compute)), kernel, settings)
    report = done.report
    report.check()
    return Trace(
        report.symbol, (m, n, k), report.grid, report.block, block, report.text, report.locations, done.events,
        done.barriers,
    )  # fmt: skip


def explain_conflicts(
    variant: str,
    *,
    tile: int | None = None,
    layout: str = "NN",
    dtype: str = "float32",
    target: str = "sm_90",
    sass: bool = False,
) -> tuple[BankAccess, ...]:
    """Return which lanes hit which bank, for each source line that accesses shared memory. Needs no GPU.

    Args:
        variant, tile, dtype: The kernel.
        layout: How A and B lie in memory, a letter each: N rows contiguous, T columns contiguous.
        target: The target architecture.
        sass: Whether contiguous accesses are vectorized as in the machine code (SASS) of ``target``; if not, there is
            one access for each element. Needs the extra ``inspect``.

    Returns:
        One entry for each line, array and direction, in source order.

    Example:
        >>> for access in explain_conflicts("tiled", tile=32, layout="NT"):
        ...     print(access.array, access.kind, access.wavefronts)
        As store 1
        Bs store 1
        As load 1
        Bs load 32

    Raises:
        TiledmmError: As ``tiledmm.simulator.run``.
    """
    recorded = trace(variant, tile=tile, dtype=dtype, layout=layout, target=target)
    widths = {}
    if sass:
        code = disassemble(recorded.text, recorded.symbol, target)
        widths = access_widths(code.accesses, first_line_of_page(recorded.text))
    return bank_accesses(recorded.events, recorded.block, recorded.text, recorded.locations, widths)


def _one_block(spec: KernelSpec) -> tuple[int, int, int]:
    # A matrix of one row or column has no layout of its own.
    return spec.config.bm, spec.config.bn, max(2 * spec.config.bk, 8)


def _operands(spec: KernelSpec, m: int, n: int, k: int) -> list[np.ndarray[Any, Any]]:
    operands: list[np.ndarray[Any, Any]] = []
    for letter, shape in zip(spec.layout, ((m, k), (k, n)), strict=True):
        values = np.arange(m * k + k * n)[: shape[0] * shape[1]].reshape(shape) % 3
        array = values.astype(spec.compute.dtype)
        if letter == "G":
            array = np.repeat(np.repeat(array, 2, 0), 2, 1)[::2, ::2]
        operands.append(np.asfortranarray(array) if letter == "T" else array)
    return operands
