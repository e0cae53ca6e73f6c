"""Planted bugs: small edits of correct Hopper kernels, and the lines at which a finding should point.

The files in ``bugs/`` were written before any of the checks; those in ``held_out/`` by an author who saw neither the
checks nor ``bugs/``. An edit replaces tokens of a kernel in one of the two folders ``kernels/``, or of a kernel that
this package renders; or the kernel is right, and its launch or a tensor map is wrong.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tests.simulator.hopper.case import Case, TensorMap
from tests.simulator.hopper.cases import CASES
from tests.simulator.hopper.held_out.cases import HELD_OUT_CASES
from tiledmm.codegen.rendering import render
from tiledmm.kernels.spec import KernelSpec
from tiledmm.kernels.variants import kernel_spec
from tools.bugs.edits import edit_cuda
from tools.bugs.fates import tomllib

BUGS = Path(__file__).parent / "bugs"
HELD_OUT = Path(__file__).parent / "held_out"

_ASM = re.compile(r"\basm\s+(?:volatile\s*)?\(.*?\);", re.DOTALL)

_INCLUDE = '#include "hopper.cuh"\n'


@dataclass(frozen=True)
class RenderedKernel:
    """A kernel that this package renders.

    Attributes:
        variant, tile, dtype, layout: Arguments of ``kernel_spec``.
        partitions: Blocks of a cluster that each sum a part of K.
        sizes: m, n and k of a product that shows the bugs, in elements.
        blocks: Blocks of the launch, few enough that a block computes several tiles.
    """

    variant: str
    tile: int | None = None
    dtype: str = "float32"
    layout: str = "NN"
    partitions: int = 1
    sizes: tuple[int, int, int] = (1, 1, 1)
    blocks: int = 1

    @functools.cached_property
    def spec(self) -> KernelSpec:
        """Specification of the kernel."""
        spec = kernel_spec(self.variant, tile=self.tile, dtype=self.dtype, layout=self.layout)
        if self.partitions == 1:
            return spec.kernel
        config = spec.variant.hopper.in_cluster(spec.config, self.partitions, spec.compute)
        return replace(spec, config=config).kernel

    @functools.cached_property
    def text(self) -> str:
        """Rendered text."""
        return render(self.spec)


@dataclass(frozen=True)
class HopperBug:
    """An edit that plants a bug in a kernel.

    Attributes:
        kernel: Name of a file in ``kernels/`` without ``.cu``, or of a rendered kernel in the bug's own file.
        name: Short description of the bug.
        cause: Kind of mistake.
        why: Reason why it is wrong on hardware.
        lines: Parts of the edited text's lines at which a finding should point; empty only if the launch is refused.
        also: Parts of other lines that a finding may name instead.
        old, new: Tokens of the kernel, and their replacement; both empty if only the launch or a map is wrong.
        which: Number of the occurrence of ``old``, from 1, and the number of all.
        case: Name of the case that shows the bug; by default the one that is named as the kernel.
        maps: Fields of tensor maps that differ from the case's, by map; "offset": bytes from the array to the address.
        launch: Fields of the case that differ.
        refused: Whether the tensor map cannot be encoded, or the launch fails, so that no line is at fault.
        template: Name of the template with the edited lines, for a rendered kernel.
        rendered: The kernel, if this package renders it.
    """

    kernel: str
    name: str
    cause: str
    why: str
    lines: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    old: str = ""
    new: str = ""
    which: tuple[int, int] = (1, 1)
    case: str = ""
    maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)
    refused: bool = False
    template: str = ""
    rendered: RenderedKernel | None = None

    @property
    def id(self) -> str:
        """Kernel and name, which identify the bug."""
        return f"{self.kernel}: {self.name}"

    @property
    def group(self) -> str:
        """Kind of mistake."""
        return self.cause

    @property
    def unedited_case(self) -> Case:
        """Case that shows a bug of the corpus, without the bug."""
        case = next(each for each in (*CASES, *HELD_OUT_CASES) if each.name == (self.case or self.kernel))
        if case.file != self.kernel:
            raise ValueError(f"{self.id}: {case.name} is a case of {case.file}")
        return case

    @property
    def shown_by(self) -> Case:
        """Case that shows a bug of the corpus, with the bug's launch and without its maps' offsets."""
        case = self.unedited_case
        maps = dict(case.maps)
        for name, changes in self.maps.items():
            changed = {key: _frozen(value) for key, value in changes.items() if key != "offset"}
            if unknown := changed.keys() - {each.name for each in fields(TensorMap)}:
                raise ValueError(f"{self.id}: a tensor map has no {min(unknown)!r}")
            maps[name] = replace(maps[name], **changed)
        return replace(case, maps=maps, **{key: _frozen(value) for key, value in self.launch.items()})

    @property
    def text(self) -> str:
        """Text of the kernel without the bug."""
        return self.rendered.text if self.rendered else self.shown_by.path.read_text("utf-8")

    def planted(self) -> tuple[str, set[int], set[int]]:
        """Return the text with the bug, the numbers of lines to point at (from 1), and of others that are accepted.

        An asm statement is named by its first line, as in the line table of a compiler.

        Raises:
            ValueError: If ``old`` occurs more or less often, or if a part of a line does not occur.
        """
        text = self.text
        if self.old:
            try:
                text, _ = edit_cuda(text, self.old, self.new, self.which)
            except ValueError as error:
                raise ValueError(f"{self.id}: {error}") from None
        for part in (*self.lines, *self.also):
            if part not in text:
                raise ValueError(f"{self.id}: the edited kernel has no {part!r}")
        first, others = (
            {number for number, line in enumerate(text.splitlines(), 1) if any(part in line for part in parts)}
            for parts in (self.lines, self.also)
        )
        for statement in _ASM.finditer(text):
            begin, end = (text.count("\n", 0, at) + 1 for at in statement.span())
            for lines in (first, others):
                if lines & set(range(begin, end + 1)):
                    lines.add(begin)
        return text, first, others - first

    def source(self) -> str:
        """Return the text with the bug as it is compiled: with the header, lines numbered as in the kernel's file."""
        text, _, _ = self.planted()
        if self.rendered:
            return text
        _, include, after = self.text.partition(_INCLUDE)
        if not include:
            return text
        return self.shown_by.source.removesuffix(after) + text.partition(_INCLUDE)[2]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@functools.cache
def every_bug() -> tuple[HopperBug, ...]:
    """Return the bugs of all files in ``bugs/``."""
    return _bugs(BUGS)


@functools.cache
def held_out_bugs() -> tuple[HopperBug, ...]:
    """Return the bugs of all files in ``held_out/``."""
    return _bugs(HELD_OUT)


def _bugs(folder: Path) -> tuple[HopperBug, ...]:
    bugs: list[HopperBug] = []
    for path in sorted(folder.glob("*.toml")):
        rows = tomllib.loads(path.read_text("utf-8"))
        rendered = {
            name: RenderedKernel(**{key: _frozen(value) for key, value in row.items()})
            for name, row in rows.get("kernels", {}).items()
        }
        for row in rows["bug"]:
            frozen = {key: _frozen(value) for key, value in row.items()}
            bugs.append(HopperBug(rendered=rendered.get(row["kernel"]), **frozen))
    return tuple(bugs)
