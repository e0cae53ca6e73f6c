"""Count wavefronts and sectors of single accesses: ``python -m benchmarks.studies.wavefronts --out FILE.json``.

Performs each access of ``benchmarks/support/access_patterns.py`` REPEATS times in a kernel of one warp under Nsight
Compute: loads and stores of shared and global memory of 1 to 16 bytes per lane, and ``cp.async``.
``tiledmm/hardware/banks.py`` reproduces these counts. Needs a GPU, ``ncu`` on PATH and permission to read its counters.
Accesses for which there is no time left (``--budget``) or no counter are null in the results. FILE-metrics.txt, beside
FILE.json, lists ncu's metrics that concern memory, and the contents of ncu's own sections for a few accesses.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.support.access_kernels import REPEATS, launch
from benchmarks.support.access_patterns import accesses
from benchmarks.support.results import FOLDER, ROOT, measured
from tiledmm.cli import missing_gpu
from tiledmm.profile import ncu

RESULTS = FOLDER / "wavefronts.json"

BATCH = 200  # launches under one ncu
START_S = 15.0  # taken for what one ncu needs besides its launches, until that is known
PROBED = 12

_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared"

# Metrics that must be there, first.
REQUIRED = {
    "shared": (
        "smsp__sass_inst_executed_op_shared_ld.sum",
        "smsp__sass_inst_executed_op_shared_st.sum",
        f"{_WAVEFRONTS}_op_ld.sum",
        f"{_WAVEFRONTS}_op_st.sum",
        "memory_l1_wavefronts_shared",
        "memory_l1_wavefronts_shared_ideal",
    ),
    "global": (
        "smsp__sass_inst_executed_op_global_ld.sum",
        "smsp__sass_inst_executed_op_global_st.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    ),
    "async": (
        f"{_WAVEFRONTS}.sum",
        "memory_l1_wavefronts_shared",
        "memory_l1_wavefronts_shared_ideal",
        "smsp__sass_inst_executed_op_shared_st.sum",
        "smsp__sass_inst_executed_op_global_ld.sum",
    ),
}
# Metrics that are counted where ncu knows them. It may know names that begin with memory_ without listing them.
WANTED = {
    "shared": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "smsp__sass_thread_inst_executed_op_memory_pred_on.sum",
    ),
    "global": (
        "memory_l1_tag_requests_global",
        "memory_l2_theoretical_sectors_global",
        "memory_l2_theoretical_sectors_global_ideal",
        "smsp__sass_data_bytes_mem_global_op_ld.sum",
        "smsp__sass_data_bytes_mem_global_op_st.sum",
        "smsp__sass_l1tex_t_sectors_mem_global_op_ld.sum",
        "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_st.sum",
    ),
    "async": (
        "memory_l2_theoretical_sectors_global",
        "memory_l2_theoretical_sectors_global_ideal",
        "memory_l1_tag_requests_global",
        f"{_WAVEFRONTS}_op_ld.sum",
        f"{_WAVEFRONTS}_op_st.sum",
        "smsp__sass_inst_executed_op_shared_ld.sum",
        "smsp__sass_inst_executed_op_global_st.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    ),
}
LISTED = re.compile(
    r"sass.*shared|sass.*global|bank_conflict|wavefronts|ldgsts|barrier|ffma|thread_inst_executed|^memory_|t_sectors_pipe"
    r"|t_requests_pipe"
)
ASYNC_ONLY = re.compile(r"^(smsp__sass_|smsp__inst_executed_op_|l1tex__t_(sectors|requests)_pipe).*ldgsts")
SECTIONS = ("SourceCounters", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "InstructionStats")


def parse(output: str, metrics: Sequence[str]) -> list[tuple[str, list[float | None]]]:
    """Parse the output of ``ncu --csv --page raw`` into kernel names and counts; a count is None if it is no number."""
    return [
        (launch.name.partition("(")[0].strip(), [launch.values.get(metric) for metric in metrics])
        for launch in ncu.parse_raw(output)
    ]


class Profiler:
    """A runner of ncu with a budget in seconds."""

    def __init__(self, budget_s: float) -> None:
        self.ncu = ncu.find_ncu() or "ncu"
        self.deadline = time.monotonic() + budget_s
        self.listed: set[str] = set()
        self.notes: list[str] = []
        self.complaints: list[str] = []

    @property
    def left_s(self) -> float:
        """Seconds until the budget is spent."""
        return self.deadline - time.monotonic()

    def run(self, arguments: Sequence[str], limit_s: float) -> str:
        """Run ncu and return both its output streams; note its complaints, and kill it after ``limit_s`` seconds."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            process = subprocess.Popen(
                [self.ncu, *arguments], stdout=said, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
            )
            try:
                status: int | str = process.wait(timeout=max(limit_s, 1))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # ncu and the Python that it runs
                process.wait()
                status = "out of time"
            said.seek(0)
            output = said.read()
        said_so = [line for line in output.splitlines() if line.startswith("==") and "PROF==" not in line]
        self.complaints = list(dict.fromkeys(said_so))
        if status:
            self.notes.append(f"ncu {' '.join(arguments)[-60:]}: {status}: {' | '.join(self.complaints)[:500]}")
        return output

    def list_metrics(self, path: Path) -> None:
        """Write the names of the metrics that may matter to a file, and remember all names."""
        texts = [f"$ ncu --version\n{self.run(['--version'], 20)}"]
        lines = self.run(["--help"], 20).splitlines()
        at = [i for i, line in enumerate(lines) if "query-metrics" in line]
        texts.append("$ ncu --help\n" + "\n".join(lines[i] for i in sorted({j for i in at for j in range(i, i + 6)})
                                                  if i < len(lines)))  # fmt: skip
        for arguments in (["--query-metrics"], ["--query-metrics", "--query-metrics-collection", "source"]):
            output = self.run(arguments, 60)
            names = {line.split()[0] for line in output.splitlines() if re.match(r"\w+__\w+\s|memory_\w+\s", line)}
            self.listed |= names
            kept = [line.rstrip() for line in output.splitlines() if LISTED.search(line.split(" ")[0])]
            texts.append(f"$ ncu {' '.join(arguments)}  ({len(names)} names; those that may matter)")
            texts.append("\n".join(kept) if kept else output[:600])
        path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")

    def list_sections(self, path: Path, cases: Sequence[tuple[str, int]]) -> None:
        """Append the contents of ncu's own sections for a few accesses, without metrics that are zero for all."""
        options = [word for section in SECTIONS for word in ("--section", section)]
        output = self.run([*self._common(), *options, *self._command(cases)], min(90, self.left_s))
        lines = output.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
        rows = list(csv.reader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))
        texts = [f"sections {', '.join(SECTIONS)} of {cases}"]
        for column in zip(*rows, strict=False):
            if any(ncu.number(cell) != 0 for cell in column[2:]):
                texts.append(" ; ".join(cell[:100] for cell in column))
        with path.open("a", encoding="utf-8") as file:
            file.write("\n\n" + "\n".join(texts if len(rows) > 2 else [*texts, output[-1500:]]) + "\n")

    def count(
        self, cases: Sequence[tuple[str, int]], metrics: Sequence[str], limit_s: float
    ) -> list[list[float | None]] | None:
        """Count every case by ncu; return None if ncu did not report exactly these kernels."""
        output = self.run([*self._common(), "--metrics", ",".join(metrics), *self._command(cases)], limit_s)
        if "ERR_NVGPUCTRPERM" in output:
            raise PermissionError("ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM): run as root")
        rows, every = parse(output, metrics), accesses()
        expected = [every[group][number].symbol for group, number in cases]
        if [name for name, _ in rows] != expected:
            tail = " | ".join(line for line in output.splitlines()[-12:] if not line.startswith('"'))
            self.notes.append(f"{len(rows)} kernels of {len(expected)} for {cases[0]}...: {tail[-700:]}")
            return None
        return [counts for _, counts in rows]

    def choose_metrics(self, group: str) -> tuple[list[str], float, float]:
        """Return the metrics of a group that yield numbers, and the seconds per launch and per start with them."""
        wanted = [*REQUIRED[group], *WANTED[group]]
        if group == "async":
            wanted += sorted(f"{name}.sum" for name in self.listed if ASYNC_ONLY.match(name))[:24]
        if self.listed:
            known = {f"{name}.sum" for name in self.listed} | {*REQUIRED[group]}
            wanted = [m for m in wanted if m in known or m.startswith("memory_")]
        few = [(group, number) for number in range(3)]
        for attempt in range(5):
            started = time.monotonic()
            first = self.count(few, wanted, min(90, self.left_s))
            took = time.monotonic() - started
            numbers = [first is not None and any(row[i] is not None for row in first) for i in range(len(wanted))]
            if any(numbers):
                kept = [metric for metric, number in zip(wanted, numbers, strict=True) if number]
                self.notes += [f"no number: {m}" for m in wanted if m not in kept]
                started = time.monotonic()
                more = self.count([(group, number) for number in range(PROBED)], kept, min(90, self.left_s))
                again = time.monotonic() - started
                per_launch = max((again - took) / (PROBED - 3), 0.02) if more else 0.5
                return kept, per_launch, max(took - 3 * per_launch, 2.0)
            # Without those that ncu complains about, then with fewer and fewer of its own choice.
            blamed = " ".join(line for line in self.complaints if "rror" in line or "ERR" in line or "WARN" in line)
            words = set(re.findall(r"\w+", blamed))
            left = [m for m in wanted if m.removesuffix(".sum") not in words]
            if left == wanted or not left:
                left = (
                    [m for m in wanted if m in REQUIRED[group]] if attempt < 2 else wanted[: max(len(wanted) // 2, 1)]
                )
            self.notes.append(f"{group}: tried without {[m for m in wanted if m not in left]}")
            wanted = left
        return list(REQUIRED[group]), 0.5, START_S

    def _common(self) -> list[str]:
        return [
            "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", "none",
            "--kernel-name", "regex:^wavefronts_",
        ]  # fmt: skip

    def _command(self, cases: Sequence[tuple[str, int]]) -> list[str]:
        text = ",".join(f"{group}:{number}" for group, number in cases)
        return [sys.executable, "-m", "benchmarks.studies.wavefronts", "--launch", text]


def profile(profiler: Profiler, save: Any) -> dict[str, Any]:
    """Count as many accesses as the budget allows, in batches that advance all groups equally.

    Args:
        profiler: Runs ncu.
        save: Called with the results so far, after each batch.
    """
    every = accesses()
    chosen = {group: profiler.choose_metrics(group) for group in every}
    counts: dict[str, list[list[float | None] | None]] = {group: [None] * len(cases) for group, cases in every.items()}
    done = dict.fromkeys(every, 0)
    failed: Counter[str] = Counter()
    while True:
        save(results := _results(chosen, counts, profiler))
        open_ = [group for group in every if done[group] < len(every[group]) and failed[group] < 3]
        if not open_:
            return results
        group = min(open_, key=lambda group: done[group] / len(every[group]))
        metrics, per_launch, start = chosen[group]
        size = min(
            BATCH // (1 + 3 * failed[group]),
            len(every[group]) - done[group],
            int((profiler.left_s - start - 3) / per_launch),
        )
        if size < 10 and size < len(every[group]) - done[group]:
            profiler.notes.append("the budget is spent")
            return results
        cases = [(group, number) for number in range(done[group], done[group] + size)]
        started = time.monotonic()
        found = profiler.count(cases, metrics, min(2.5 * (start + size * per_launch) + 10, profiler.left_s + 20))
        if found is None:
            failed[group] += 1
        else:
            counts[group][done[group] : done[group] + size] = found
            chosen[group] = metrics, max((time.monotonic() - started - start) / size, 0.005), start
        done[group] += size


def _results(
    chosen: dict[str, tuple[list[str], float, float]], counts: dict[str, Any], profiler: Any
) -> dict[str, Any]:
    """Return every access with its counts per execution, and how they were measured."""
    rows = []
    for group, cases in accesses().items():
        for access, counted in zip(cases, counts[group], strict=True):
            row = {key: value for key, value in asdict(access).items() if value is not None}
            row["counts"] = counted and [None if c is None else _whole(c / REPEATS) for c in counted]
            rows.append(row)
    return {
        "repeats": REPEATS,
        "metrics": {group: metrics for group, (metrics, *_) in chosen.items()},
        "seconds": {group: [round(s, 3) for s in times] for group, (_, *times) in chosen.items()},
        "notes": profiler.notes,
        "accesses": rows,
    }


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def write(results: dict[str, Any], path: Path) -> None:
    """Write the results to a file, one access per line."""
    head = {key: value for key, value in results.items() if key != "accesses"}
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in results["accesses"])
    text = json.dumps(head, indent=1)[:-2] + f',\n "accesses": [\n{rows}\n ]\n}}\n'
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def summary(results: dict[str, Any]) -> str:
    """Summarize the counts in a few lines."""
    lines = []
    for group, metrics in results["metrics"].items():
        rows = [row for row in results["accesses"] if row["kind"].startswith(group)]
        counted = [row["counts"] for row in rows if row["counts"]]
        lines.append(f"{group}: {len(counted)} of {len(rows)} counted, seconds {results['seconds'][group]}")
        for i, metric in enumerate(metrics):
            values = [counts[i] for counts in counted]
            missing, split = values.count(None), sum(v is not None and v != int(v) for v in values)
            numbers = [v for v in values if v is not None]
            extent = f"{min(numbers)} to {max(numbers)}" if numbers else "-"
            lines.append(f"  {metric}: {extent}, {missing} missing, {split} not whole")
    return "\n".join(lines)[:5000] + "\nnotes:\n" + "\n".join(results["notes"])[:2000]


def main() -> int:
    """Count, save the results and print a summary; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--budget", type=float, default=220, help="seconds that may be spent")
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch([(group, int(number)) for group, number in (case.split(":") for case in options.launch.split(","))])
        return 0
    if reason := missing_gpu():
        print(f"no GPU: {reason}", file=sys.stderr)
        return 1
    if ncu.find_ncu() is None:
        print("ncu (Nsight Compute) is not on PATH; it comes with the CUDA toolkit", file=sys.stderr)
        return 1
    from tiledmm.bench.environment import this_machine

    machine = this_machine()
    names = options.out.with_name(f"{options.out.stem}-metrics.txt")
    profiler = Profiler(options.budget)
    profiler.list_metrics(names)
    try:
        results = profile(profiler, lambda results: write(measured(machine, results), options.out))
    except PermissionError as error:
        print(error, file=sys.stderr)
        return 1
    if profiler.left_s > 15:
        few = {group: range(min(2, len(cases))) for group, cases in accesses().items()}
        profiler.list_sections(names, [(group, number) for group, numbers in few.items() for number in numbers])
    write(measured(machine, results | {"notes": profiler.notes}), options.out)
    print(summary(results))
    return 0 if any(row["counts"] for row in results["accesses"]) else 1


if __name__ == "__main__":
    sys.exit(main())
