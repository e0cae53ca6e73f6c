"""The timings that a shipped table of rates was fitted to, which are kept in ``results/timings-GPU.json``.

    python -m benchmarks.timings --begin   # on a GPU: tiledmm calibrate goes on from what is kept of it
    tiledmm calibrate
    python -m benchmarks.timings --keep    # keeps what that has measured, and ships its table

After a change of the cost model, or of how rates are fitted, a shipped table is fitted again, without a GPU:

    python -m benchmarks.timings --refit nvidia-h100-80gb-hbm3
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.results import FOLDER
from tiledmm.cli import missing_gpu
from tiledmm.selection import rates as tables
from tiledmm.tuning import calibrate as calibration
from tiledmm.tuning.fit import fit


def kept(stem: str) -> Path:
    """Where timings are kept, by the name of a shipped table."""
    return FOLDER / f"timings-{stem}.json"


def refitted(shipped: tables.Rates, timings: dict[str, Any]) -> tables.Rates:
    """A shipped table as its timings give it today; what it says of when and with what they were measured stays."""
    known = timings["known"]
    rows = [row for row in calibration.kernels_of(shipped) if calibration.name_of(row) in known]
    found = fit(shipped.gpu, tables.DeviceRates(**known["device"]), calibration.timed(rows, known))
    return replace(shipped, device=found.device, rows=found.rows)


def _compact(timings: dict[str, Any]) -> str:
    """JSON with a kernel a line, times to four digits."""
    lines = []
    for name, found in timings["known"].items():
        cases = [(case, time and float(f"{time:.4g}")) for case, time in found.get("cases", ())]
        text = json.dumps(found | ({"cases": cases} if cases else {}), separators=(",", ":"))
        lines.append(f"{json.dumps(name)}: {text}")
    head = json.dumps({name: value for name, value in timings.items() if name != "known"})
    return f'{head[:-1]}, "known": {{\n' + ",\n".join(lines) + "\n}}\n"


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--begin", action="store_true", help="copy kept timings to where tiledmm calibrate keeps its own"
    )
    action.add_argument("--keep", action="store_true", help="keep those of tiledmm calibrate, and ship its table")
    action.add_argument("--refit", metavar="TABLE", help="fit a shipped table to its timings again")
    options = parser.parse_args(arguments)
    if options.refit:
        path = tables.shipped_path(options.refit)
        timings = json.loads(kept(options.refit).read_text(encoding="utf-8"))
        tables.write(path, refitted(tables.read(path), timings))
        print(path)
        return 0
    if reason := missing_gpu():
        print(f"this needs a GPU: {reason}", file=sys.stderr)
        return 1
    from tiledmm.devices import device_model

    own = tables.own_path(device_model().gpu.name)
    timings_path = own.with_suffix(".timings.json")
    if options.begin:
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept(own.stem), timings_path)
        print(timings_path)
        return 0
    kept(own.stem).write_text(_compact(json.loads(timings_path.read_text(encoding="utf-8"))), encoding="utf-8")
    shutil.copyfile(own, tables.shipped_path(own.stem))
    print(kept(own.stem), tables.shipped_path(own.stem), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
