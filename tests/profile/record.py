"""Record the output of ncu for tests of its parsers: ``python -m tests.profile.record --out FOLDER``. Needs a GPU.

``raw.csv`` and ``source.csv`` describe two small kernels and belong in ``tests/profile/recorded/``. ``ncu.txt`` has
ncu's version and messages, for inspection.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tiledmm.bench.sizes import Size
from tiledmm.bench.variant_tiles import VariantTile
from tiledmm.errors import ProfilingError
from tiledmm.profile import ncu
from tiledmm.profile.collection import command_of

#: Folder of the recorded pages.
FOLDER = Path(__file__).parent / "recorded"

#: What is recorded: bank conflicts of ``tiled``, none of ``tiled_padded``, which was counted before
#: (``benchmarks/results/bank_conflicts.json``).
RUNGS, SIZE, LAYOUT = (VariantTile("tiled", 32), VariantTile("tiled_padded", 32)), Size(512, 512, 512), "NT"

_UNREAD = re.compile(r"\(Not Issued\)|Explicit|Divergent|Predicated")


def main() -> None:
    """Record the output of ncu."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the files go")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    found = ncu.find_ncu()
    if found is None:
        sys.exit("ncu is not installed here")
    said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "recorded.ncu-rep")
            command = ncu.profile(command_of(RUNGS, SIZE, "float32", LAYOUT), report)
            said += f"\nasked for, and had: {command_of(RUNGS, SIZE, 'float32', LAYOUT) == command}\n"
            (out / "raw.csv").write_text(ncu.page(report, *ncu.RAW), encoding="utf-8")
            (out / "source.csv").write_text(_needed(ncu.page(report, *ncu.SOURCE)), encoding="utf-8")
    except ProfilingError as error:
        said += f"\n{error}\n"
    (out / "ncu.txt").write_text(said, encoding="utf-8")


def _needed(page: str) -> str:
    """Remove the columns of a source page that nothing here reads, which are two thirds of it."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    kept: list[int] = []
    for row in csv.reader(io.StringIO(page)):
        if "Address" in row and "Source" in row:
            kept = [i for i, heading in enumerate(row) if not _UNREAD.search(heading)]
        writer.writerow([row[i] for i in kept if i < len(row)] if kept and len(row) > 3 else row)
    return text.getvalue()


if __name__ == "__main__":
    main()
