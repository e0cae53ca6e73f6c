"""Pictures of a Hopper cluster: which block issues which TMA load, and which warpgroup multiplies the data.

The pictures are computed from the rendered text, its constants and its formulas for the elements of C that each thread
sums.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from docs.pictures import svg
from docs.pictures.traced import Element
from tiledmm.codegen.rendering import render
from tiledmm.kernels.variants import kernel_spec

# px: what the matrices have, with what is between them; from the left to stages and pairs of limbs; such a pair; in a
# stage, a row or column.
_HEIGHT, _LEFT, _PAIR, _PX = 520, 178, 26, 0.13

# Whose sums are shown: of the first block's first warpgroup.
_WARP, _LANE = 1, 9
_ROWS_OF_WARP = 16

# How what is one block's of a cluster is filled.
_LOOKS = ("half", "block")

_CONSTANT = re.compile(r"constexpr int ([A-Z_]+) = ([\w +*/()-]+);")
_SUMS = re.compile(r"of element \((.+), (.+)\) in c\[i\]")


@dataclass(frozen=True)
class Cluster:
    """A kernel, described by its rendered text."""

    symbol: str
    text: str

    @cached_property
    def constants(self) -> dict[str, int]:
        """Values of the kernel's constants that are plain arithmetic, by name."""
        known: dict[str, int] = {}
        for name, expression in _CONSTANT.findall(self.text):
            try:
                known[name] = _value(expression, known)
            except (NameError, SyntaxError):
                continue
        return known

    @property
    def share(self) -> int:
        """Number of columns of B that each block loads."""
        return self.constants["BN"] // self.constants["CLUSTER"]

    @property
    def limbs(self) -> int:
        """Number of limbs or bytes whose sum an element is."""
        return self.constants.get("LIMBS", self.constants.get("BYTES", 1))

    @property
    def called(self) -> str:
        """Name of these parts: "limb" or "byte"."""
        return "byte" if "BYTES" in self.constants else "limb"

    def sums(self, lane: int) -> set[Element]:
        """Return the elements that a lane sums, within its warp's rows of C."""
        (row, col), *_ = _SUMS.findall(self.text)
        count = self.constants["BN"] // 2
        names = [{"row": lane // 4, "quad": lane % 4, "i": i} for i in range(count)]
        return {(_value(row, each), _value(col, each)) for each in names}

    def pairs(self) -> list[Element]:
        """Return the pairs of limbs of A and B in the order of their products: small limbs or high bytes first."""
        count = self.limbs
        first = 2 * count - 2 if self.constants.get("PRODUCTS") == count**2 else count - 1
        pairs = [(limb, both - limb) for both in range(first, -1, -1) for limb in range(count)]
        return [(of_a, of_b) for of_a, of_b in pairs if 0 <= of_b < count]


def _value(expression: str, names: dict[str, int]) -> int:
    """Evaluate an expression of nonnegative integers, for which CUDA C's division equals Python's ``//``."""
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}, dict(names)))


def picture(variant: str) -> str:
    """Draw a cluster's first step along K, in a variant's usual tile and type."""
    kernel = kernel_spec(variant).kernel
    cluster = Cluster(kernel.symbol, render(kernel))
    its = cluster.constants
    m, n, k = its["BM"], its["BN"], its["BK"] * its["STAGES"]
    scale = min((svg.WIDTH - svg.GAP) / (k + n), (_HEIGHT - svg.GAP) / (k + m))
    corner, bottom = k * scale + svg.GAP, (k + m) * scale + svg.GAP
    parts = [
        _operand("A", cluster, (m, k), (0, corner), scale),
        _operand("B", cluster, (k, n), (corner, 0), scale),
        _result(cluster, (corner, corner), scale),
    ]
    told = {look: f"block {block}'s TMA loads and sums" for block, look in enumerate(_LOOKS[: its["CLUSTER"]])}
    told |= {"thread": f"one thread's {n // 2} sums", "fetched": "being loaded meanwhile"}
    legend, end = svg.legend(told, bottom + 18)
    stages, end = _stages(cluster, end + 30)
    pairs, end = _pairs(cluster, end + 26) if cluster.limbs > 1 else ([], end)
    words = "Computed from the kernel's parameters."
    note = svg.text(words, 0, end + 24)
    computes, each, multicast = "A block computes", "", ""
    if its["CLUSTER"] > 1:
        computes, each = f"A cluster of {its['CLUSTER']} blocks computes", f", {its['ROWS']} rows each"
        multicast = f"; each block issues the TMA load of {cluster.share} of them, multicast to both"
    description = (
        f"{computes} {m} by {n} elements of C{each}: "
        f"{its['CONSUMERS']} warpgroups of {its['ROWS'] // its['CONSUMERS']} rows, and a producer. Each of "
        f"{its['STAGES']} stages holds {its['BK']} steps of k of a block's {its['ROWS']} rows of A and of all {n} "
        f"columns of B{multicast}. {words}"
    )
    title = f"{cluster.symbol}: which block issues which TMA loads, and which warpgroup multiplies what"
    return svg.document(title, description, end + 32, [*parts, *legend, *stages, *pairs, note])


def _operand(name: str, cluster: Cluster, shape: tuple[int, int], at: tuple[float, float], scale: float) -> str:
    """Draw A or B: the part being multiplied and the parts being loaded, by step and by the block that loads them."""
    its = cluster.constants
    depth, blocks = its["BK"], range(its["CLUSTER"])

    def loaded(step: int, block: int) -> set[Element]:
        if name == "A":
            return _box(block * its["ROWS"], step * depth, its["ROWS"], depth)
        return _box(step * depth, block * cluster.share, depth, cluster.share)

    later = [loaded(step, block) for step in range(1, its["STAGES"]) for block in blocks]
    count = f", in {cluster.limbs} limbs" if cluster.called == "limb" else f", one of {cluster.limbs} bytes"
    return svg.matrix(
        name, shape, at, scale,
        {_LOOKS[block]: loaded(0, block) for block in blocks},
        label=f"{shape[0]} by {shape[1]}{count if cluster.limbs > 1 else ''}",
        inside=[f'<path class="fetched" d="{svg.path(elements, scale)}"/>' for elements in later],
    )  # fmt: skip


def _result(cluster: Cluster, at: tuple[float, float], scale: float) -> str:
    """Draw C by block and warpgroup, and one thread's sums."""
    its = cluster.constants
    rows, cols = its["ROWS"], its["BN"]
    layers = {_LOOKS[block]: _box(block * rows, 0, rows, cols) for block in range(its["CLUSTER"])}
    layers["thread marks"] = {(_WARP * _ROWS_OF_WARP + row, col) for row, col in cluster.sums(_LANE)}
    high, wide = rows // its["CONSUMERS"] * scale, cols * scale
    inside = []
    for number in range(its["CLUSTER"] * its["CONSUMERS"]):
        block, warpgroup = divmod(number, its["CONSUMERS"])
        words = f"block {block}, warpgroup {warpgroup}"
        inside.append(f'<path class="line" d="M0 {number * high:.2f}h{wide:.2f}"/>' if number else "")
        inside.append(svg.text(words, wide / 2, (number + 0.72) * high + 4, "inside"))
    return svg.matrix("C", (its["BM"], cols), at, scale, layers, inside=inside)


def _box(row: int, col: int, height: int, width: int) -> set[Element]:
    return {(row + i, col + j) for i in range(height) for j in range(width)}


def _stages(cluster: Cluster, top: float) -> tuple[list[str], float]:
    """Draw the contents of each block's shared memory; also return the lower edge."""
    its = cluster.constants
    pitch = (svg.WIDTH - _LEFT) / its["STAGES"]
    limbs = [f" {limb}" for limb in range(cluster.limbs)] if "LIMBS" in its else [""]
    multiply = " and ".join(map(str, range(its["CONSUMERS"])))
    drawn = []
    for stage in range(its["STAGES"]):
        words = f"stage {stage}: {'loading' if stage else 'multiplied'}"
        drawn.append(svg.text(words, _LEFT + (stage + 0.5) * pitch - 4, top - 6, "small"))
    for block in range(its["CLUSTER"]):
        says = (f"Block {block}'s stages:", f"warpgroup {its['CONSUMERS']}: producer,", f"{multiply}: consumers")
        drawn += [svg.text(words, 0, top + 14 + 18 * line) for line, words in enumerate(says)]
        y = top
        for limb in limbs:
            bands = [("A", block, f"A{limb}: {its['ROWS']} rows", its["ROWS"])]
            bands += [("B", issuer, f"B{limb}, by block {issuer}", cluster.share) for issuer in range(its["CLUSTER"])]
            for matrix, issuer, words, size in bands:
                for stage in range(its["STAGES"]):
                    look = "fetched" if stage else _LOOKS[issuer]
                    drawn.append(_band(matrix, look, words, (_LEFT + stage * pitch, y), (pitch - 8, size * _PX)))
                y += size * _PX
        top = max(y, top + 3 * 18) + 14
    return drawn, top - 14


def _band(matrix: str, look: str, words: str, at: tuple[float, float], size: tuple[float, float]) -> str:
    """Draw one part of a stage."""
    (x, y), (wide, high) = at, size
    return (
        f'<g class="{matrix}" transform="translate({x:.1f} {y:.1f})">'
        f'<rect class="ground" width="{wide:.1f}" height="{high:.1f}"/>'
        f'<rect class="{look}" x="1" y="1" width="{wide - 2:.1f}" height="{high - 2:.1f}"/>'
        f"{svg.text(words, wide / 2, high / 2 + 3.5, 'small')}</g>"
    )


def _pairs(cluster: Cluster, top: float) -> tuple[list[str], float]:
    """Draw which limbs are multiplied with which, and in what order; also return the lower edge."""
    count, called, right = cluster.limbs, cluster.called, _LEFT + cluster.limbs * _PAIR
    says = (f"Pairs of {called}s, in the", "order of their products")
    drawn = [svg.text(words, 0, top + 16 + 18 * line) for line, words in enumerate(says)]
    order = {pair: number for number, pair in enumerate(cluster.pairs(), 1)}
    for of_a in range(count):
        y = top + of_a * _PAIR
        drawn.append(svg.text(f"{called} {of_a} of A", right + 10, y + 17))
        for of_b in range(count):
            x, number = _LEFT + of_b * _PAIR, order.get((of_a, of_b), "")
            drawn.append(f'<g class="C"><rect class="cell" x="{x}" y="{y:.1f}" width="{_PAIR}" height="{_PAIR}"/></g>')
            drawn.append(svg.text(number, x + _PAIR / 2, y + 17, "inside"))
    drawn.append(svg.text(f"{called}s 0 to {count - 1} of B", _LEFT, top + count * _PAIR + 16))
    return drawn, top + count * _PAIR + 18
