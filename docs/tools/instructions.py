"""Write the machine code of the variants' mainloops for their pages. Needs the extra ``inspect``, but no GPU.

    python -m docs.tools.instructions            # writes docs/rungs/instructions/
    python -m docs.tools.instructions --check    # writes nothing; exit status 1 if something would change

The mainloop is the innermost loop with the most multiplications, in the usual kernel of a variant.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from docs.tools import plain
from tiledmm.codegen.rendering import render
from tiledmm.kernels.variants import find_variant, kernel_spec

FOLDER = Path(__file__).resolve().parents[1] / "rungs" / "instructions"

#: Instructions of a loop that are shown; the rest is counted.
MOST = 120

#: Instructions that multiply.
MULTIPLIES = re.compile(r"[FDH]FMA2?|[HIDB]MMA|[HIQ]GMMA")

_LABEL = re.compile(r"^(?P<label>\.L_x_\d+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?P<text>(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z]\w*)[^;]*?)\s*;")
_TARGET = re.compile(r"BRA(?:\.\w+)* .*`\((?P<label>\.L_x_\d+)\)")


def listing(variant: str) -> str:
    """Return a variant's mainloop: a heading, the number of each instruction, and the instructions."""
    from tiledmm.compile.disassembly import sass

    spec = kernel_spec(variant).kernel
    target = find_variant(variant).hopper.arch or "sm_90"
    loop = mainloop(sass(render(spec), spec.symbol, target))
    counts = Counter(opcode for opcode, _ in loop)
    counted = ", ".join(f"{count} {opcode}" for opcode, count in counts.most_common())
    lines = [f"// {spec.symbol}, {target}: the mainloop, {len(loop)} instructions", f"// {counted}"]
    lines += [text for _, text in loop[:MOST]]
    if len(loop) > MOST:
        lines.append(f"// and {len(loop) - MOST} more: tiledmm source {variant} --sass")
    return "\n".join(lines) + "\n"


def folded(variant: str) -> str:
    """Return a variant's mainloop for its page: folded, under its size and its most frequent instructions.

    Empty if the mainloop was not written yet.
    """
    if not is_written(variant):
        return ""
    summary = f"Its machine code: {_counts(variant)}"
    return (
        f'<details markdown="1">\n<summary>{summary}</summary>\n\n````{{ .text }}\n{_file(variant)}````\n\n</details>'
    )


def sentence(variant: str) -> str:
    """Say which instructions the mainloop of a variant's usual kernel has; empty if it was not written yet."""
    if not is_written(variant):
        return ""
    return f"This kernel's [machine code](#the-kernel) has {_counts(variant)}."


def is_written(variant: str) -> bool:
    """Return whether a variant's mainloop is in a file; writing it needs the compiler of the extra ``inspect``."""
    return (FOLDER / f"{variant}.txt").exists()


def _counts(variant: str) -> str:
    first, counted = _file(variant).splitlines()[:2]
    most = ", ".join(counted.removeprefix("// ").split(", ")[:3])
    return f"{first.rpartition(', ')[2]} in the mainloop, {most}"


def _file(variant: str) -> str:
    return (FOLDER / f"{variant}.txt").read_text(encoding="utf-8")


def mainloop(text: str) -> list[tuple[str, str]]:
    """Return the instructions of the mainloop in nvdisasm's listing, each with its name without modifiers."""
    code: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label["label"]] = len(code)
        elif found := _INSTRUCTION.match(line):
            code.append((found["opcode"], " ".join(found["text"].split())))
            target = _TARGET.search(found["text"])
            if target and target["label"] in labels:
                loops.append((labels[target["label"]], len(code)))

    def multiplies(loop: tuple[int, int]) -> int:
        return sum(MULTIPLIES.fullmatch(opcode) is not None for opcode, _ in code[slice(*loop)])

    of_use = [loop for loop in loops if multiplies(loop)]
    innermost = [
        loop
        for loop in of_use
        if not any(loop != other and loop[0] <= other[0] and other[1] <= loop[1] for other in of_use)
    ]
    if not innermost:
        raise ValueError("no loop of this kernel multiplies")
    # A loop for whole tiles multiplies about as much as one with guards, in fewer instructions.
    most = max(map(multiplies, innermost))
    return code[
        slice(*max(innermost, key=lambda loop: (2 * multiplies(loop) > most) * multiplies(loop) / (loop[1] - loop[0])))
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args(arguments).check
    stale = 0
    for rung in plain.rungs():
        if check and not is_written(rung):
            continue
        path, text = FOLDER / f"{rung}.txt", listing(rung)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{path}: {'differs' if check else 'written'}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
