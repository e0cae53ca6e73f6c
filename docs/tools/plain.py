"""Plain CUDA versions on the variants' pages: the text of each, and the changes from one to another."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from tiledmm.kernels.variants import find_variant, kernel_variants

RUNGS = Path(__file__).resolve().parents[1] / "rungs"

_SECTION = re.compile(r"^## In plain CUDA\n\n```cuda\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

#: Unchanged lines around changed ones in a diff.
_AROUND = 1

#: Most lines of a diff that is not folded.
_UNFOLDED = 24


def rungs() -> list[str]:
    """Return the names of the variants that have a page, in ladder order: the rungs of the teaching ladder."""
    return [row.name for row in kernel_variants() if (RUNGS / f"{row.name}.md").exists()]


def groups() -> dict[str, list[str]]:
    """Return the variants that have a page by where the navigation lists them, each group in ladder order.

    ``cuda_cores`` and ``tensor_cores`` are the ladder: kernels for any shape that multiply the operands' own elements.
    ``special_shapes`` are fast on some shapes only, and ``decomposed`` multiply numbers that are decomposed first.
    """
    found: dict[str, list[str]] = {"cuda_cores": [], "tensor_cores": [], "special_shapes": [], "decomposed": []}
    for name in rungs():
        row = find_variant(name)
        if row.is_for_few_shapes:
            found["special_shapes"].append(name)
        elif not row.operands.reads_elements:
            found["decomposed"].append(name)
        else:
            found["tensor_cores" if row.tensor_cores else "cuda_cores"].append(name)
    return found


def text(rung: str) -> str:
    """Read the plain CUDA version on a variant's page.

    Raises:
        ValueError: If the page has none.
    """
    found = _SECTION.search((RUNGS / f"{rung}.md").read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"docs/rungs/{rung}.md has no section 'In plain CUDA' that begins with a block of cuda")
    return found["text"]


def diff(old: str, new: str) -> str:
    """Return the changes from one variant's plain CUDA to another's as a Markdown block, folded if it is long.

    Differences in the kernel's name are ignored.
    """
    before = re.sub(rf"\b{old}\b", new, text(old)).splitlines()
    lines = list(difflib.unified_diff(before, text(new).splitlines(), n=_AROUND, lineterm=""))[2:]
    shown = ["" if line.startswith("@@") else line for line in lines]
    block = "\n".join(["````{ .diff }", *shown[1:], "````", ""])
    if len(lines) <= _UNFOLDED:
        return block
    return f'<details markdown="1">\n<summary>{len(shown) - 1} lines</summary>\n\n{block}\n</details>\n'
