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
from tiledmm.simulator.report.events import ACCESSES, Event
from tiledmm.simulator.report.requests import WARP, Request, requests


@dataclass(frozen=True, slots=True)
class Trace:
    """The accesses of one block.

    Attributes:
        symbol: Name of the kernel.
        sizes: m, n and k.
        grid, block: Number of blocks, and of threads per block, along x, y and z.
        traced_block: Number of the block in the grid.
        text: The kernel's source.
        locations: Template and line that each line of ``text`` comes from: ``"tiled.cu.j2:57"``.
        events: Accesses of the block. The accesses of one thread are in the order in which it made them.
        barriers: Source line of each barrier of the block, in the order in which it waited: the first ends step 0, the
            second step 1, and so on.
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
        """Yield the number and the events of each step.

        Step 0 ends at the first barrier of the block, step 1 at the second, and so on.
        """
        last = max((event.step for event in self.events), default=-1)
        for step in range(last + 1):
            yield step, tuple(event for event in self.events if event.step == step)

    def requests(self, warp: int = 0) -> tuple[Request, ...]:
        """Return the requests of one warp: accesses and operations that its lanes execute together, in order.

        Args:
            warp: Number of the warp in the block.

        Example:
            >>> recorded = trace("tiled", tile=32, layout="NT")
            >>> [(request.array, request.units) for request in recorded.requests() if request.kind == "load"][2:4]
            [('As', 1), ('Bs', 32)]
        """
        width, height, _ = self.block
        events = (event for event in self.events if event.kind in ACCESSES)
        numbered = ((x + width * (y + height * z), event) for event in events for x, y, z in [event.thread])
        return requests((number % WARP, event) for number, event in numbered if number // WARP == warp)

    def json(self) -> str:
        """Return a JSON object with all attributes, as a string."""
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
        variant, tile, dtype: The kernel's variant, tile and element type.
        layout: One letter for A and one for B: N if its rows are contiguous, T if its columns are.
        sizes: m, n and k; None for one block tile and two K steps.
        products: Number of products. If there are several, they are a batch, and the first index of an element is the
            number of its matrix.
        block: Number of the block to record.
        arithmetic: Whether floating-point operations are also recorded.
        target: The target architecture.

    Example:
        >>> recorded = trace("tiled", tile=8)
        >>> sorted({event.array for event in recorded.events})
        ['A', 'As', 'B', 'Bs', 'C']

    Raises:
        SimulationError: If the kernel is wrong.
        TiledmmError: If ``tiledmm.simulator.run`` raises it for such arguments.
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
    """Return which lanes access which bank, for each source line that accesses shared memory.

    Args:
        variant, tile, dtype: The kernel's variant, tile and element type.
        layout: One letter for A and one for B: N if its rows are contiguous, T if its columns are.
        target: The target architecture.
        sass: Whether contiguous accesses are vectorized as in the machine code (SASS) of ``target``; otherwise each
            element is one access. Needs the extra ``inspect``.

    Returns:
        The first access of the first warp, for each source line, array, and kind of access (load, store or copy), in
        source order.

    Example:
        >>> for access in explain_conflicts("tiled", tile=32, layout="NT"):
        ...     print(access.array, access.kind, access.wavefronts)
        As store 1
        Bs store 1
        As load 1
        Bs load 32

    Raises:
        SimulationError: If the kernel is wrong.
        TiledmmError: If ``tiledmm.simulator.run`` raises it for such arguments.
    """
    recorded = trace(variant, tile=tile, dtype=dtype, layout=layout, target=target)
    widths = {}
    if sass:
        code = disassemble(recorded.text, recorded.symbol, target)
        widths = access_widths(code.accesses, first_line_of_page(recorded.text))
    events = tuple(event for event in recorded.events if event.kind in ACCESSES)
    return bank_accesses(events, recorded.block, recorded.text, recorded.locations, widths)


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
