"""Plain CUDA versions on the variants' pages: the text of each, and the changes from one to another."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from tiledmm.kernels.variants import find_variant, kernel_variants

RUNGS = Path(__file__).resolve().parents[1] / "rungs"

_SECTION = re.compile(r"^## In plain CUDA\n\n```cuda\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

#: Launch of a variant's plain CUDA, as options of ``tiledmm check``. Those left out are sketches, or take limbs,
#: residues, batches or integers that are not too large.
CHECKS = {
    "naive": "--grid '(M+31)/32,(N+15)/16' --block 32,16",
    "coalesced": "--grid '(N+31)/32,(M+15)/16' --block 32,16",
    **dict.fromkeys(("tiled", "tiled_padded", "double_buffered"), "--grid N/32,M/32 --block 32,32"),
    **dict.fromkeys(("register_tiled", "vectorized"), "--grid N/128,M/128 --block 16,16"),
    "warp_tiled": "--grid N/128,M/128 --block 256",
    "thin": "--grid N/128 --block 32 --size 8,256,80",
    "dot_products": "--grid N/4,M --block 32,4 --size 3,20,260",
    "block_dot_products": "--grid N,M --block 256 --size 3,20,1300",
    "axpy": "--grid N/32,M --block 32,8 --size 3,64,100",
    "outer_products": "--grid N/32,M/32 --block 32,4 --size 64,96,3",
    "narrow_outer_products": "--grid '(M+63)/64' --block 256 --size 99,30,3",
    "tensor_core": "--grid N/8,M/16 --block 32",
    **dict.fromkeys(("split_float32", "split_integer"), "--grid N/16,M/16 --block 16,16"),
}

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


def how_to_edit(rung: str) -> str:
    """Say how to run an edited copy of a variant's plain CUDA; empty if nothing runs it."""
    if rung not in CHECKS:
        return ""
    return (
        "To try a change, paste this code into a file `mine.cu`, edit it there and check it, without a GPU: "
        f"`tiledmm check mine.cu {CHECKS[rung]}` ([what it prints](../own_kernels.md#check-a-cu-file)).\n"
    )


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
