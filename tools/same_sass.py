"""Check that kernels compile to the same machine code as at another commit, after changes that only move text.

    python -m tools.same_sass 8132d6d                    # every variant, tile and type, and auxiliary kernels
    python -m tools.same_sass HEAD~1 -k 'tiled*' --every 5

Renders the kernels of both trees, and compiles those whose text changed for compute capability 9.0, some of them also
for 8.0 and 7.5. Compares instructions, constants, parameters and shared memory, but no names. The exit status is 1 if a
kernel differs or is in one tree only. Needs the extra ``inspect``, but no GPU.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = ("NN", "NT", "TN", "TT", "GG")

#: Other targets, by the interval N: every N-th kernel is also compiled for them.
OTHER_TARGETS = {"sm_80": 4, "sm_75": 12}

#: Mixed types of A, B, the computation and C.
MIXED = (
    ("int8", "float32", "float32", "float32"),
    ("float64", "bool", "float16", "float64"),
    ("float16", "float16", "float16", "float32"),
    ("bfloat16", "uint8", "bfloat16", "complex64"),
    ("float32", "complex64", "complex128", "complex64"),
    ("int64", "uint16", "int8", "int64"),
    ("bool", "bool", "bool", "int32"),
    ("uint64", "float32", "float64", "bfloat16"),
)

Kernel = tuple[str, str, str, list[str]]  # identity, name, text, target architectures


def kernels() -> Iterator[Kernel]:
    """Yield the kernels of the imported tree: each tile and type in at least one layout."""
    from tiledmm.codegen.rendering import render
    from tiledmm.elements import ELEMENTS, compute_element
    from tiledmm.kernels.variants import general_variants, kernel_spec, kernel_variants
    from tiledmm.schedule.schedule import required_kernels

    found = {}
    for variant in kernel_variants():
        for i, tile in enumerate(variant.tiles or (None,)):
            usual = tile in (None, variant.default_tile)
            for j, dtype in enumerate(dict(variant.types) or ELEMENTS):
                every = LAYOUTS if usual and dtype == variant.default_type else [LAYOUTS[(i + j) % len(LAYOUTS)]]
                for layout in every:
                    spec = kernel_spec(variant, tile=tile, dtype=dtype, layout=layout)
                    found.update(dict.fromkeys(sorted(required_kernels(spec, (8,), by_auto=True), key=str)))
        for dtype in dict(variant.types):
            for scheme in variant.operands.schemes_of(compute_element(dtype)):
                spec = kernel_spec(variant, dtype=dtype, layout="TT", config={"scheme": scheme})
                found.update(dict.fromkeys(sorted(required_kernels(spec), key=str)))
    for variant in general_variants():
        for a, b, compute, c in MIXED:
            found[kernel_spec(variant, dtype=compute, a_dtype=a, b_dtype=b, out_dtype=c).kernel] = None
    for number, spec in enumerate(found):
        types = (spec.a.dtype_name, spec.b.dtype_name, spec.compute.name, spec.c.name)
        key = json.dumps([spec.variant.name, *types, spec.layout, spec.condition, spec.config.as_dict()])
        targets = [spec.variant.hopper.arch or "sm_90"]
        for target, every in OTHER_TARGETS.items():
            capability = int(target[3]), int(target[4])
            if number % every == 0 and not spec.variant.hopper.arch and spec.variant.runs_on(capability, spec.compute):
                targets.append(target)
        yield key, spec.symbol, render(spec), targets


def code_of(symbol: str, text: str, target: str) -> str:
    """Return a digest of a kernel's machine code, which is cached between runs."""
    from elftools.elf.elffile import ELFFile

    from tiledmm.compile.inspection import compile_for

    kept = Path(tempfile.gettempdir()) / "same_sass" / hashlib.sha256(f"{target} {symbol}\n{text}".encode()).hexdigest()
    if kept.exists():
        return kept.read_text()
    digest = hashlib.sha256()
    for section in ELFFile(io.BytesIO(compile_for(text, symbol, target).cubin)).iter_sections():
        # Not .nv.constant4: addresses of constants of the source, which no instruction reads.
        if re.match(r"\.text|\.nv\.(?:constant[0-3]|shared|local)", section.name):
            digest.update(f"{section.name.replace(symbol, '')} {section['sh_size']}".encode())
            digest.update(section.data() if section["sh_type"] != "SHT_NOBITS" else b"")
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(digest.hexdigest())
    return digest.hexdigest()


def compare(before: tuple[str, str], after: tuple[str, str], target: str) -> str:
    """Compare two kernels, given by name and text: ``"same text"``, ``"same code"``, ``"differs"``, or an error."""
    if before == after:
        return "same text"
    try:
        return "same code" if code_of(*before, target) == code_of(*after, target) else "differs"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def rendered(tree: Path) -> dict[str, Kernel]:
    """Render the kernels of a tree, by identity, with that tree's own copy of this file, because names change."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, str(tree / "tools" / "same_sass.py"), "--render"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the kernels of {tree} cannot be rendered:\n{done.stderr}")
    return {kernel[0]: kernel for kernel in map(json.loads, done.stdout.splitlines())}


def main() -> int:
    """Compare the kernels and print those that differ; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_sass", description=__doc__.split("\n")[0])
    parser.add_argument("revision", nargs="?", default="HEAD", help="the commit to compare with")
    parser.add_argument("-k", metavar="NAME", default="*", help="kernels whose name matches: * and ? allowed")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th of these")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--render", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.render:
        for kernel in kernels():
            print(json.dumps(kernel))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", options.revision], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder)
        before = rendered(Path(folder))
    after = rendered(ROOT)
    alone = sorted(before.keys() ^ after.keys())
    both = [key for key in after if key in before and fnmatch.fnmatch(after[key][1], f"*{options.k}")][:: options.every]
    pairs = [(tuple(before[key][1:3]), tuple(after[key][1:3]), target) for key in both for target in after[key][3]]
    with ProcessPoolExecutor(options.workers) as pool:
        ends = list(pool.map(compare, *zip(*pairs, strict=True), chunksize=4)) if pairs else []
    for (_, (symbol, _), target), end in zip(pairs, ends, strict=True):
        if not end.startswith("same"):
            print(f"{symbol} for {target}: {end}")
    for key in alone:
        print(f"only {'before' if key in before else 'after'}: {key}")
    counts = Counter((target, end.partition(":")[0]) for (*_, target), end in zip(pairs, ends, strict=True))
    for (target, end), count in sorted(counts.items()):
        print(f"{target:8} {end:10} {count:6,}")
    print(f"{len(both):,} kernels, {len(pairs):,} compiled")
    return int(bool(alone) or any(not end.startswith("same") for end in ends))


if __name__ == "__main__":
    sys.exit(main())
