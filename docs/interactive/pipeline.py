"""Record the data of the pipeline page: ``python -m docs.interactive.pipeline [--check]``.

The simulator runs ``pipeline.cu``, and variants with one error each, and records one block, which is written to
``pipeline_recorded.js`` beside this file. ``--check`` writes nothing and exits with 1 if something would change.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiledmm.own_kernels.pipeline_recording import record_pipeline
from tiledmm.simulator import tensor_map
from tiledmm.simulator.api import compile_kernel
from tiledmm.simulator.check.kernel_findings import KernelFindings
from tiledmm.simulator.execute.launch import Launch
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.events import events_of

KERNEL = Path(__file__).with_name("pipeline.cu")
DATA = Path(__file__).with_name("pipeline_recorded.js")

#: m, n and k: one tile of C, and each stage is used twice.
SIZES = (128, 8, 192)

_BLOCK = 288
_BOX_K = 32

# The first line that the page shows is the kernel's own.
_FUNCTION = 'extern "C" __global__'

_HEAD = "// Written by python -m docs.interactive.pipeline from what the simulator recorded.\n"


@dataclass(frozen=True, slots=True)
class Variant:
    """A version of the kernel.

    Attributes:
        name: What the page calls it.
        replaced, by: Text of the kernel that is replaced, and by what; empty for the kernel as it is.
        note: One sentence on what is different.
    """

    name: str
    replaced: str = ""
    by: str = ""
    note: str = ""


VARIANTS = (
    Variant("correct"),
    Variant(
        "missing arrival",
        "init(empty[s], CONSUMER_WARPS);",
        "init(empty[s], CONSUMER_WARPS + 1);   // wrong",
        "empty expects nine arrivals per phase, but only the eight consumer warps arrive.",
    ),
    Variant(
        "wrong parity",
        "wait(full[s], parity);",
        "wait(full[s], 0);   // wrong in round 1",
        "Consumers always wait for parity 0, also in the second round.",
    ),
)


def arguments() -> tuple[Any, ...]:
    """Return the arguments of the launch: tensor maps of A and B, C, and its sizes."""
    m, n, k = SIZES
    a = (np.arange(m * k) % 5 - 2).reshape(m, k).astype(np.float16)
    b = (np.arange(n * k) % 7 - 3).reshape(n, k).astype(np.float16)
    maps = [tensor_map(each, (_BOX_K, len(each)), swizzle=64) for each in (a, b)]
    return (*maps, np.zeros((m, n), np.float32), n, k)


def record(variant: Variant) -> dict[str, Any]:
    """Run a variant, and return the recording of its block.

    Raises:
        ValueError: If the kernel does not have the text that the variant replaces.
    """
    text = KERNEL.read_text(encoding="utf-8")
    if variant.replaced:
        if text.count(variant.replaced) != 1:
            raise ValueError(f"{KERNEL.name} has {text.count(variant.replaced)} times: {variant.replaced}")
        text = text.replace(variant.replaced, variant.by)
    settings = Settings(counts=False, target="sm_90a", workers=1, traced_block=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, KERNEL.name)
        path.write_text(text, encoding="utf-8")
        kernel = compile_kernel(path, None, settings)
    launch = Launch(kernel, 1, _BLOCK, arguments(), 0, exact=False)
    outcome = launch.run(kernel, settings, None)
    findings = KernelFindings(kernel).of([outcome], launch.placed, 0)
    events = list(events_of(kernel, outcome, launch.placed, launch.block))
    places = kernel.places.places

    def line_of(line: int) -> int:
        place = places[line - 1] if 0 < line <= len(places) else None
        return place[1] if place and place[0] == KERNEL.name else 0

    data = record_pipeline(events, launch.block, kernel.text, findings, line_of)
    lines = text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(_FUNCTION)) + 1
    changed = [at for at, line in enumerate(lines, 1) if variant.by and variant.by in line]
    return {
        "name": variant.name, "note": variant.note, "file": KERNEL.name, "first": first, "changed": changed,
        "source": lines[first - 1 :], **data,
    }  # fmt: skip


def render(recordings: list[dict[str, Any]]) -> str:
    """Return the contents of ``pipeline_recorded.js``, one line per step."""
    parts = []
    for each in recordings:
        steps = ",\n".join(json.dumps(step, separators=(",", ":"), ensure_ascii=False) for step in each["steps"])
        rest = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in each.items()
            if key != "steps"
        )
        parts.append(f'{{\n{rest},\n"steps": [\n{steps}\n]}}')
    return f"{_HEAD}const RECORDED = [\n{','.join(parts)}\n];\n"


def main() -> int:
    """Write the data, or check that it is up to date; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file would change")
    check = parser.parse_args().check
    text = render([record(each) for each in VARIANTS])
    if check:
        same = DATA.exists() and DATA.read_text(encoding="utf-8") == text
        print(f"{DATA.name}: {'up to date' if same else 'python -m docs.interactive.pipeline would change it'}")
        return 0 if same else 1
    DATA.write_text(text, encoding="utf-8")
    print(f"{DATA}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
