"""Kernels in which bugs are planted: their texts, and how to run an edited text."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator.held_out.kernels import HELD_OUT_KERNELS
from tests.simulator.kernels import KERNELS
from tiledmm import simulator
from tiledmm.codegen.rendering import render
from tiledmm.kernels.launches import Launch, Scratch
from tiledmm.kernels.variants import find_variant
from tiledmm.problem.call import resolve_call
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.schedule.schedule import schedule
from tiledmm.selection.choose import choose
from tiledmm.selection.model import H100, Model
from tiledmm.simulator.check.findings import Finding

#: The kind of a finding that an element is wrong.
WRONG = "wrong result"

# A kernel that waits forever must be a finding long before the process is ended.
_TIMEOUT = 10

_LEARNERS = {**KERNELS, **HELD_OUT_KERNELS}


@dataclass(frozen=True)
class Found:
    """A finding or warning of the simulator: its kind, source lines and message."""

    kind: str
    line: int
    other_line: int
    message: str
    also: frozenset[int] = frozenset()

    @property
    def lines(self) -> set[int]:
        """All lines that it names."""
        return {self.line, self.other_line, *self.also}


@dataclass(frozen=True)
class Outcome:
    """Result of one run of a kernel."""

    right: bool
    findings: tuple[Found, ...] = ()
    warnings: tuple[Found, ...] = ()
    error: str = ""

    @property
    def sound(self) -> bool:
        """Whether the result is right, without findings or errors."""
        return self.right and not self.findings and not self.error


@dataclass(frozen=True)
class LearnersKernel:
    """A kernel of ``KERNELS`` or ``HELD_OUT_KERNELS``."""

    name: str

    def text(self) -> str:
        """Return the text of the kernel's file."""
        return _LEARNERS[self.name].path.read_text("utf-8")

    def run(self, text: str, keywords: dict[str, Any]) -> Outcome:
        """Launch the kernel with an edited text and with some keywords of ``simulator.launch`` replaced."""
        launch = _LEARNERS[self.name].prepare()
        call: dict[str, Any] = {
            "grid": launch.grid, "block": launch.block, "name": launch.name, "shared_bytes": launch.shared_bytes,
            "expected": launch.expected, "rtol": launch.rtol, "counts": False, "workers": 1, "timeout": _TIMEOUT,
        }  # fmt: skip
        arguments = list(launch.arguments)
        for position, value in keywords.pop("arguments", {}).items():
            arguments[int(position)] = value
        call |= {key: tuple(value) if isinstance(value, list) else value for key, value in keywords.items()}
        report = simulator.launch(text, call.pop("grid"), call.pop("block"), arguments, **call)
        right = all(
            np.array_equal(np.sort(launch.arguments[position]), np.sort(values))
            for position, values in launch.any_order.items()
        )
        findings = _found(report.findings)
        return Outcome(right and all(each.kind != WRONG for each in findings), findings, _found(report.warnings))


@dataclass(frozen=True)
class OwnKernel:
    """A kernel that this package renders.

    Attributes:
        variant, tile, dtype, layout, target, config: Arguments of the call that runs it.
        sizes: m, n and k, in elements.
        auxiliary: Variant name of the auxiliary kernel to edit instead of the main one; empty for the main one.
    """

    variant: str
    tile: int | None = None
    dtype: str = "float32"
    layout: str = "NN"
    target: str = "sm_90"
    config: dict[str, int] = field(default_factory=dict, hash=False)
    sizes: tuple[int, int, int] = (40, 50, 37)
    auxiliary: str = ""

    def text(self) -> str:
        """Return the rendered text."""
        return render(planned(self)[0].spec)

    def run(self, text: str, keywords: dict[str, Any]) -> Outcome:
        """Compute a product with an edited text; if only the result is wrong, also launch the kernel by itself."""
        a, b = self.operands()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "broken.cu"
            path.write_text(text, "utf-8")
            c, report = simulator.run(
                a, b, variant=self.variant, tile=self.tile, target=self.target, config=self.config or None,
                source=path, counts=False, workers=1, **keywords,
            )  # fmt: skip
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        exact = a @ b if a.dtype.kind in "iub" else a.astype(wide) @ b.astype(wide)
        right = bool(np.array_equal(c, exact.astype(c.dtype)))
        findings = _found(report.findings) or (() if right else self._wrong_elements(text))
        return Outcome(right, findings, _found(report.warnings))

    def operands(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return A and B with small integers, in the layout."""
        m, n, k = self.sizes
        rng = np.random.default_rng(0)
        low = 0 if np.dtype(self.dtype).kind in "bu" else -4
        pair = (rng.integers(low, 5, shape).astype(self.dtype) for shape in ((m, k), (k, n)))
        left, right = (np.asfortranarray(x) if way == "T" else x for x, way in zip(pair, self.layout, strict=True))
        return left, right

    def _wrong_elements(self, text: str) -> tuple[Found, ...]:
        """Launch the edited kernel by itself; return findings where its result differs from the original's."""
        launch, scratch = planned(self)
        if launch.scan or any(launch.begins):
            return ()
        m, n, _ = self.sizes
        a, b = self.operands()
        arrays = {"A": a, "B": b, "C": np.zeros((m, n), a.dtype)}
        rng = np.random.default_rng(1)
        for each in scratch:
            shape = (*each.shape[:-1], each.pitch)
            arrays[each.name] = rng.integers(0, 5, shape).astype(each.element.dtype)
        spec = launch.spec
        last = len(launch.operands) - 1

        def run(edited: str, expected: dict[int, Any]) -> tuple[Any, Any]:
            operands = [arrays[name].copy(order="K") for name in launch.operands]
            numbers = launch.kernel_args.view(f"V{launch.kernel_args.nbytes}")[0]
            report = simulator.launch(
                edited, launch.blocks, spec.block, [*operands, numbers], target=self.target,
                shared_bytes=spec.dynamic_shared_bytes, expected=expected, counts=False, workers=1,
                timeout=_TIMEOUT,
            )  # fmt: skip
            return operands[last], report

        right, _ = run(self.text(), {})
        return _found(run(text, {last: right})[1].findings)


AnyKernel = OwnKernel | LearnersKernel


def _found(findings: Iterable[Finding]) -> tuple[Found, ...]:
    return tuple(
        Found(each.kind, each.line or 0, each.other_line or 0, each.message, frozenset(each.also)) for each in findings
    )


@functools.cache
def planned(kernel: OwnKernel) -> tuple[Launch, tuple[Scratch, ...]]:
    """Return the launch of the kernel to edit, and the scratch memory of the whole schedule."""
    a, b = kernel.operands()
    keywords = KernelKeywords(kernel.variant, kernel.tile, kernel.config or None, "float32")
    call = resolve_call(a, b, None, UfuncKeywords())
    part = choose(call, keywords, _model, tuned=False).parts[0]
    planned = schedule(part.spec, part.product.problem)
    name = kernel.auxiliary or kernel.variant
    launch = next(each for each in planned.launches if each.spec.variant.name == name)
    return launch, tuple(planned.scratch)


def _model(ieee: bool) -> Model:
    """Return the cost model of the kernels that can be simulated."""
    rates = H100.rates.only(lambda variant: find_variant(variant).simulated)
    return Model(H100.gpu, rates, ieee=ieee)
