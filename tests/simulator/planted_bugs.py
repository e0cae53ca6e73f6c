"""Planted bugs: a correct kernel, edits of its text, and what the simulator must say of each edit, and where.

A kernel has the arguments ``const T* x, T* out, int n``, and ``S* scratch`` where it asks for one: ``x`` holds 0, 1, 2
and so on, ``out`` what ``simulator.cupy.empty`` holds, and ``scratch`` the same. A bug is *found* if a finding, a
warning or an error message says all of its words, and names one of its lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiledmm import simulator
from tiledmm.errors import TiledmmError
from tiledmm.simulator import cupy as cp

#: Elements of x and of scratch.
SIZE = 256


@dataclass(frozen=True)
class Bug:
    """An edit of a kernel.

    Attributes:
        old, new: Part of the kernel's text, and what replaces it; both empty if only the launch is wrong.
        says: Parts of the message, all of which must be in it.
        at: Parts of lines of the edited text, one of which it must name; if empty, the lines of
            ``new``, and none for a launch that is refused.
        warns: Whether it is a warning.
        launch: Keywords of ``simulator.launch`` that differ from the kernel's.
    """

    old: str
    new: str
    says: tuple[str, ...]
    at: tuple[str, ...] = ()
    warns: bool = False
    launch: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A correct kernel.

    Attributes:
        text: CUDA C.
        expected: Function that computes ``out`` from ``x``.
        bugs: Edits by name.
        block: Threads of the only block.
        n: The kernel's last number.
        dtype: Type of the elements of ``x`` and ``out``.
        scratch: Type of the elements of ``scratch``; empty if there is none.
        launch: Keywords of ``simulator.launch``, and as ``more`` the arguments after the others.
    """

    text: str
    expected: Callable[[Any], Any]
    bugs: Mapping[str, Bug]
    block: int = 32
    n: int = 64
    dtype: str = "int32"
    scratch: str = ""
    launch: Mapping[str, Any] = field(default_factory=dict)

    def planted(self, name: str) -> tuple[str, set[int]]:
        """Return the text with a bug, and the numbers (from 1) of the lines that may be named."""
        bug = self.bugs[name]
        if bug.old and self.text.count(bug.old) != 1:
            raise ValueError(f"{name}: {self.text.count(bug.old)} times {bug.old!r}")
        text = self.text.replace(bug.old, bug.new) if bug.old else self.text
        if missing := [part for part in bug.at if part not in text]:
            raise ValueError(f"{name}: the edited kernel has no {missing[0]!r}")
        if bug.at:
            lines = enumerate(text.splitlines(), 1)
            return text, {number for number, line in lines if any(part in line for part in bug.at)}
        if not bug.old:
            return text, set()
        first = self.text[: self.text.index(bug.old)].count("\n") + 1
        return text, set(range(first, first + bug.new.count("\n") + 1))


@dataclass(frozen=True)
class Said:
    """What the simulator says."""

    words: str

    @property
    def lines(self) -> set[int]:
        """Lines of the text that it names."""
        return set(map(int, re.findall(r"kernel\.cu:(\d+)", self.words)))

    def is_of(self, bug: Bug, lines: set[int]) -> bool:
        """Return whether this says the words of a bug and names one of the lines."""
        return (not lines or bool(self.lines & lines)) and all(each in self.words for each in bug.says)


def run(kernel: Kernel, text: str, launch: Mapping[str, Any] = {}) -> tuple[list[Said], list[Said]]:
    """Run a kernel with full checks; return the errors and findings, and the warnings."""
    x = np.arange(SIZE).astype(kernel.dtype)
    expected = np.asarray(kernel.expected(x)).astype(kernel.dtype)
    arguments: list[Any] = [x, np.asarray(cp.empty(expected.shape, kernel.dtype)), kernel.n]
    if kernel.scratch:
        arguments.append(np.asarray(cp.empty(SIZE, kernel.scratch)))
    keywords = {"name": "k", "counts": False, "workers": 1, "timeout": 20, "checks": "full"}
    keywords |= {"block": kernel.block, **kernel.launch, **launch}
    block = keywords.pop("block")
    arguments += keywords.pop("more", ())
    try:
        report = simulator.launch(text, 1, block, arguments, expected={"out": expected}, **keywords)
    except TiledmmError as error:
        return [Said(str(error))], []
    findings, warnings = ([Said(each.message) for each in some] for some in (report.findings, report.warnings))
    return findings, warnings


def verdict(kernel: Kernel, name: str) -> tuple[str, list[Said]]:
    """Run a bug; return "found", "elsewhere" or "missed", and what the simulator says."""
    bug = kernel.bugs[name]
    text, lines = kernel.planted(name)
    findings, warnings = run(kernel, text, bug.launch)
    if any(each.is_of(bug, lines) for each in (warnings if bug.warns else findings)):
        return "found", findings + warnings
    return ("elsewhere" if findings or warnings else "missed"), findings + warnings
