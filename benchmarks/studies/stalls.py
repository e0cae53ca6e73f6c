"""Record the output of ``tiledmm profile`` for a few variants: ``python -m benchmarks.studies.stalls``.

Needs a GPU and Nsight Compute. The documents quote the recorded output unchanged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.support.command import options_on_gpu
from benchmarks.support.kernels import of_auto, of_variants
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.kernels.variants import VARIANTS

RESULTS = FOLDER / "stalls.json"

#: Arguments of the commands that are run.
COMMANDS = (
    "tiled tiled_padded warp_tiled auto cublas --size 2048 --layout NT",
    "naive coalesced double_buffered --size 1024",
)

#: The variants among them, which another process launches.
NAMED = tuple(word for command in COMMANDS for word in command.split() if word in VARIANTS and word != "cublas")


def printed(results: dict[str, Any], number: int) -> str:
    """Format one command and its output as Markdown."""
    command, shown = COMMANDS[number], results["shown"][COMMANDS[number]]
    return f"```text\n$ tiledmm profile {command}\n{shown.rstrip()}\n```"


def main() -> int:
    """Profile all variants, print the output and save it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    shown = {}
    for command in COMMANDS:
        line = [sys.executable, "-m", "tiledmm", "profile", *command.split()]
        done = subprocess.run(line, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            return done.returncode
        print(done.stdout)
        shown[command] = "\n".join(text.rstrip() for text in done.stdout.replace(sys.executable, "python").splitlines())
    save(options.out, measured(this_machine(), {"shown": shown}, names=[*of_variants(*NAMED), *of_auto("float32")]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
