"""Pictures of what a block, a warp and a thread touch in A, B and C in one iteration along K."""

from __future__ import annotations

from dataclasses import dataclass

from docs.pictures import svg
from docs.pictures.traced import Element, Iteration, Touched, iteration, together
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tiledmm.simulator import Trace, trace
from tiledmm.simulator.report.requests import WARP

# px that the matrices have, with what is between them.
_HEIGHT = 480

# px that the label of a matrix takes.
_LABEL = 110

# Steps along k where a kernel goes on by single ones.
_SINGLE_STEPS = 24


@dataclass(frozen=True)
class Scene:
    """A kernel and the part of its product that a picture shows.

    Attributes:
        variant, tile, dtype, layout: The kernel; without a tile, its default one.
        blocks: Number of blocks down and across C. The last one is followed.
        steps: Number of steps of k; None for as many as the pipeline needs.
        shown: Number of these steps to draw, from the first; None for all.
        lane: Lane whose elements are highlighted.
        number: Index of the iteration along k that is drawn. Pipelines are full in iteration 1.
    """

    variant: str
    tile: int | None = None
    dtype: str = "float32"
    layout: str = "NN"
    blocks: tuple[int, int] = (2, 2)
    steps: int | None = None
    shown: int | None = None
    lane: int = 9
    number: int = 1

    @property
    def kernel(self) -> KernelSpec:
        """The kernel's specialization."""
        return kernel_spec(self.variant, tile=self.tile, dtype=self.dtype, layout=self.layout).kernel

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k, in elements."""
        config, (down, across) = self.kernel.config, self.blocks
        steps = config.bk * max(self.number + 2, self.number + config.stages) if config.bk > 1 else _SINGLE_STEPS
        return down * config.bm, across * config.bn, self.steps or steps

    def recorded(self) -> Trace:
        """Record the last block on the simulator."""
        down, across = self.blocks
        return trace(
            self.variant, tile=self.tile, dtype=self.dtype, layout=self.layout, sizes=self.sizes,
            block=down * across - 1,
        )  # fmt: skip

    def iteration(self, recorded: Trace) -> Iteration:
        """Return what the recorded block and its second warp do in the drawn iteration."""
        kernel = self.kernel
        return iteration(recorded, kernel, self.number, warp=min(1, kernel.threads // WARP - 1), lane=self.lane)


@dataclass(frozen=True)
class Layer:
    """A set of elements drawn alike: their look, its meaning, and the elements."""

    look: str
    words: str
    touched: Touched


def picture(scene: Scene) -> str:
    """Draw the picture of a kernel."""
    recorded = scene.recorded()
    done = scene.iteration(recorded)
    layers = _layers(scene, done)
    m, n, k = scene.sizes
    shown = scene.shown or k
    limbs = scene.kernel.limbs if scene.kernel.variant.operands.schemes else 1
    gaps = limbs * svg.GAP
    scale = min((svg.WIDTH - gaps) / (limbs * shown + n), (_HEIGHT - gaps) / (limbs * shown + m))
    step = shown * scale + svg.GAP  # from a limb of A or B to the next
    corner = limbs * step
    narrow = step < _LABEL  # beside C's label there is no room for A's

    def drawn(name: str, shape: tuple[int, int], x: float, y: float, limb: int | None = None) -> str:
        parts = {layer.look: _part(layer.touched.of(name), shape, limb) for layer in layers}
        label = None if limb is None else f"{('large', 'small')[limb]} parts"
        return svg.matrix(name, shape, (x, y), scale, parts, label=label, below=name == "A" and narrow)

    parts = []
    for number in range(limbs):
        limb = number if limbs > 1 else None
        parts.append(drawn("A", (m, shown), number * step, corner, limb))
        parts.append(drawn("B", (shown, n), corner, number * step, limb))
    parts.append(drawn("C", (m, n), corner, corner))
    below = corner + m * scale + (50 if narrow else 28)
    parts.append(svg.text(caption(scene.kernel), 0, below))
    words, bottom = svg.legend({layer.look: layer.words for layer in layers}, below + 14)
    words.append(svg.text("A shade means the same in A, B and C; each matrix has its own color.", 0, bottom + 12))
    title = f"{recorded.symbol}: what its threads touch"
    return svg.document(title, _description(scene, done), bottom + 20, [*parts, *words])


def caption(kernel: KernelSpec) -> str:
    """Describe the drawn kernel with its tile, since other kernels of the variant have other tiles."""
    config = kernel.config
    step = f", steps of {config.bk} along K" if config.bk > 1 else ""
    return f"A block of {kernel.threads} threads: a tile of {config.bm} x {config.bn} elements of C{step}"


def _part(elements: set[Element], shape: tuple[int, int], limb: int | None) -> set[Element]:
    """Return the elements of a limb, or of the matrix, that are inside the drawn part."""
    front = () if limb is None else (limb,)
    return {(*_, row, col) for *_, row, col in elements if tuple(_) == front and row < shape[0] and col < shape[1]}


def _layers(scene: Scene, done: Iteration) -> list[Layer]:
    config = scene.kernel.config
    own = len(done.thread.C)
    elements = f"{own} element{'s' if own > 1 else ''} of C"
    layers = [Layer("block", "the block's, in this iteration", done.block), Layer("warp", "one warp's", done.warp)]
    if done.block == done.warp:
        layers = [Layer("warp", "the block's, which is one warp", done.warp)]
    if scene.kernel.variant.tensor_cores:
        first = together(done.first)
        rows, cols = {element[-2] for element in first.A}, {element[-1] for element in first.B}
        first.C = {(row, col) for row, col in done.warp.C if row in rows and col in cols}
        layers.append(Layer("once", "one ldmatrix each; their products", first))
        layers.append(Layer("thread", f"one lane's {elements}", Touched(C=done.thread.C)))
    elif config.lanes > 1:
        layers.append(Layer("thread", "one lane's, for a part of each sum", done.thread))
    else:
        layers.append(Layer("thread", f"one thread's, with {elements}", done.thread))
    if done.fetched.A or done.fetched.B:
        layers.append(Layer("fetched", "fetched for a later iteration", done.fetched))
    return layers


def _description(scene: Scene, done: Iteration) -> str:
    block, own = done.block, done.thread.C
    return (
        f"Iteration {scene.number + 1} of a block: {svg.spans('A', block.A)}, times {svg.spans('B', block.B)}. "
        f"The block computes {svg.spans('C', block.C)}; one thread has {len(own)} of them, the first C{list(min(own))}."
    )
