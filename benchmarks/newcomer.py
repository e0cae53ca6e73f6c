"""Time the first steps with a fresh checkout: ``python -m benchmarks.newcomer``.

Clones the committed state of this repository and follows the README: installs what is needed, checks a kernel in a
``.cu`` file, runs ``make compare`` twice, then a program on the simulator. ``--tests`` also runs ``make test``.
``--python`` uses that interpreter and installs nothing, for machines without a package index. The exit status is 1 if a
step fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.support.results import FOLDER, ROOT, measured, save, simulating_machine
from docs.tools import plain
from tiledmm.cli import missing_gpu
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

#: Paths of the results, by whether there is a GPU.
RESULTS = {True: FOLDER / "newcomer_gpu.json", False: FOLDER / "newcomer_cpu.json"}

# The README's program without a GPU.
_PROGRAM = """
import numpy as np
from tiledmm import simulator
x, y = np.random.default_rng(0).standard_normal((2, 64, 64), dtype=np.float32)
z, report = simulator.run(x, y, variant="tiled", tile=16)
report.check()
print(report.listing())
"""


def steps(python: str | None, tests: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the description and command of each step."""
    make = ["make", *([f"PYTHON={python}"] if python else [])]
    if not python:
        yield "`make install`", [*make, "install"]
    yield "`tiledmm check tiled.cu`", [python or ".venv/bin/python", "-m", "tiledmm", "check", "tiled.cu"]
    yield "`make compare`, the first time", [*make, "compare"]
    yield "`make compare`, again", [*make, "compare"]
    yield "a kernel on the simulator", [python or ".venv/bin/python", "-c", _PROGRAM]
    if tests:
        yield "`make test`", [*make, "test"]


def newcomer_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per step, in seconds."""
    return Table("", ("<step", "seconds"), tuple((row["step"], significant(row["seconds"])) for row in rows))


def main() -> int:
    """Run all steps, print the table and, if none failed, save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--python", help="this interpreter, as it is")
    parser.add_argument("--tests", action="store_true", help="make test, too")
    options = parser.parse_args()
    has_gpu, rows, status = not missing_gpu(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "tiledmm"
        begin = time.perf_counter()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
        rows.append({"step": "`git clone`, from a disk", "seconds": time.perf_counter() - begin})
        (checkout / "tiled.cu").write_text(plain.text("tiled"), encoding="utf-8")
        places = {"CUPY_CACHE_DIR": f"{folder}/cupy", "XDG_CACHE_HOME": f"{folder}/cache", "PYTHONPATH": "."}
        for step, command in steps(options.python, options.tests):
            begin = time.perf_counter()
            with open(Path(folder) / "output", "w", encoding="utf-8") as output:
                done = subprocess.run(command, cwd=checkout, env={**os.environ, **places}, stdout=output, stderr=output)
            rows.append({"step": step, "seconds": time.perf_counter() - begin})
            if done.returncode:
                print((Path(folder) / "output").read_text(encoding="utf-8")[-3000:], file=sys.stderr)
                print(f"{step}: exit status {done.returncode}", file=sys.stderr)
                status = 1
    if has_gpu:
        from tiledmm.bench.environment import this_machine

        results = measured(this_machine(), {"rows": rows}, names=())
    else:
        results = measured(simulating_machine(os.cpu_count() or 1), {"rows": rows}, names=())
    print(newcomer_table(rows).markdown(title=False))
    if not status:
        save(options.out or RESULTS[has_gpu], results)
    return status


if __name__ == "__main__":
    sys.exit(main())
