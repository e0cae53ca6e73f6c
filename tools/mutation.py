"""Check that the tests notice small edits of the host code: run a sample of mutants, each with the tests of its line.

    python -m tools.mutation                            # 450 of all modules
    python -m tools.mutation launch 'cli/*' --limit 50  # of modules whose paths contain these
    python -m tools.mutation --seed 3 -j 4

This tool edits the host code, and the tests judge it. ``tools.kernel_mutation`` edits the text of kernels, and the
simulator judges them.

``tools/mutation.toml`` lists the modules, the tests, and the known survivors with their reasons. ``tools.mutants``
makes the mutants. The tests run once without a mutant to record the lines that each runs; a cache keeps the record
until a file changes that tests may read. Parametrized tests run at most ``--cases`` cases. Then each mutant is written
to a scratch copy of the tree, and the tests that run its line run there until one fails, starting with one case of
each. For a line that runs on import, the tests are those that run anything in its module. They stop after ``--budget``
seconds of tests; a mutant that only later tests would kill has survived.

A mutant is *killed* if a test fails, *timed out* if the tests do not end, *survived* if all pass, and *not covered* if
no test runs its line. The score is the fraction of the first two among the mutants that the list does not call
equivalent, since no test can notice these. Five of the mutants change nothing and must survive. The exit status is 1 if
the score is below 92%, or if a survivor is not in the list.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import coverage
import platformdirs
from rich.console import Console
from rich.table import Table

from tools.mutants import Mutant, mutants
from tools.trees import ROOT, Copies, listed, pytest, written

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LEAST = 0.92
CONTROLS = 5
FATES = ("killed", "timed out", "survived", "not covered")


def modules(patterns: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the Python files that patterns name: files, and all files in folders."""
    found = []
    for pattern in patterns:
        path = root / pattern
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path.relative_to(root).as_posix() for path in found]


# ---- which tests run a line ----


@dataclass
class Recorded:
    """A record of the lines that each test runs.

    Attributes:
        seconds: Seconds that each test takes.
        lines: Tests that run each line of each file.
        first: Prefixes of the names of the tests that check most and run before the others.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=lambda: defaultdict(dict))
    first: tuple[str, ...] = ()

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests to run with a mutant: ``first``, then by speed, one case per test before a second of any."""
        lines = self.lines.get(mutant.file, {})
        names = set(lines.get(mutant.line) or lines.get(mutant.statement) or ())
        if mutant.imported:
            names = {name for each in lines.values() for name in each}
        turn: Counter[str] = Counter()
        ranks = {}
        for name in sorted(names, key=lambda name: (self.seconds[name], name)):
            ranks[name] = turn[name.partition("[")[0]]
            turn[name.partition("[")[0]] += 1
        return sorted(names, key=lambda name: (not name.startswith(self.first), ranks[name], self.seconds[name], name))

    def stages(self, names: Sequence[str], budget: float, first: float = 4.0) -> Iterator[list[str]]:
        """Yield the first few seconds of tests, then the rest, since collecting many modules takes time as well."""
        parts: tuple[list[str], list[str]] = [], []
        spent = 0.0
        for name in names:
            spent += self.seconds[name]
            if spent > budget and any(parts):
                break
            parts[spent > first and bool(parts[0])].append(name)
        yield from filter(None, parts)


def record(copy: Path, words: Sequence[str], cases: int, workers: int) -> Recorded:
    """Run all tests, which must pass, and record the lines that each runs."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"TILEDMM_RECORD": folder, "TILEDMM_CASES": str(cases)}
        print("Running the tests without a mutant, some minutes ...", flush=True)
        spread = [f"-n{workers}", "--dist=worksteal"] if workers > 1 else []
        status, printed = pytest(copy, ["-p", "tools.covering", "--tb=short", *spread, *words], None, environment)
        print(printed.rstrip().rpartition("\n")[2])
        if status != 0:
            raise SystemExit(f"{printed[-6000:]}\nThe tests fail without a mutant.")
        tests = Recorded()
        for path in Path(folder).glob("*.json"):
            tests.seconds.update(json.loads(path.read_text("utf-8")))
        for path in Path(folder).glob("lines.*"):
            data = coverage.CoverageData(str(path))
            data.read()
            for file in data.measured_files():
                known = tests.lines[Path(file).relative_to(copy.resolve()).as_posix()]
                for line, names in data.contexts_by_lineno(file).items():
                    known[line] = sorted({*known.get(line, ()), *names} & tests.seconds.keys())
    return tests


def recorded(copy: Path, words: Sequence[str], cases: int, workers: int) -> Recorded:
    """Return the record of the tests, from the cache if no file has changed since."""
    digest = hashlib.sha256(repr((sys.version, words, cases)).encode())
    for name in listed(ROOT):
        ours = name.startswith(("tools/", "tests/tools/")) and name != "tools/kernel_bugs.py"  # which other tests read
        if not ours and not name.endswith((".md", "Makefile")):
            digest.update(b"%s\0%s\0" % (name.encode(), (copy / name).read_bytes()))
    path = Path(platformdirs.user_cache_dir("tiledmm")) / "mutation" / f"{digest.hexdigest()[:20]}.json"
    if not path.exists():
        tests = record(copy, words, cases, workers)
        place = {name: i for i, name in enumerate(tests.seconds)}
        lines = {
            file: {line: [place[name] for name in found] for line, found in of.items()}
            for file, of in tests.lines.items()
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([tests.seconds, lines]), "utf-8")
    seconds, lines = json.loads(path.read_text("utf-8"))
    names = list(seconds)
    return Recorded(
        seconds,
        {file: {int(line): [names[i] for i in found] for line, found in of.items()} for file, of in lines.items()},
    )


# ---- the fate of a mutant ----


def fate_of(mutant: Mutant, copies: Copies, tests: Recorded, budget: float) -> str:
    """Run the tests of a mutant's line in a copy, and return one of FATES."""
    if not (names := tests.of(mutant)):
        return "not covered"
    with copies.one() as copy, written(copy / mutant.file, mutant.text):
        for stage in tests.stages(names, budget):
            select = copy.with_suffix(".tests")
            select.write_text("\n".join(stage), "utf-8")
            words = ["-x", "--tb=no", "-p", "tools.covering", *sorted({name.partition("::")[0] for name in stage})]
            limit = 30 + 5 * sum(tests.seconds[name] for name in stage)
            status, _ = pytest(copy, words, limit, {"TILEDMM_SELECT": str(select)})
            if status is None:
                return "timed out"
            if status not in (0, 5):  # 5: the mutant makes other cases, and none of those
                return "killed"
    return "survived"


def reasons(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], str]:
    """Return the known reasons why mutants survive, by their place and change."""
    return {(row["where"], row["before"], after): row["reason"] for row in rows for after in row["after"]}


def main() -> int:
    """Run the selected mutants and print the survivors and a row per module; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="parts of modules' paths, such as launch or cli/*")
    parser.add_argument("--limit", type=int, default=450, help="mutants (450); 0: all")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("--cases", type=int, default=24, help="cases of a test that take part, at most (24)")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for a mutant, at most (60)")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    arguments = parser.parse_args()
    settings = tomllib.loads((ROOT / "tools" / "mutation.toml").read_text("utf-8"))
    known = reasons(settings.get("survivor", ()))

    files = modules(settings["modules"])
    if arguments.modules:
        files = [file for file in files if any(fnmatch.fnmatch(file, f"*{each}*") for each in arguments.modules)]
    found = [mutant for file in files for mutant in mutants(ROOT, file)]
    chosen = random.Random(arguments.seed).sample(found, min(arguments.limit or len(found), len(found)))
    controls = [replace(mutant, operator="") for mutant in chosen[:CONTROLS]]

    print(f"{len(chosen)} of {len(found)} mutants, and {len(controls)} that change nothing", flush=True)
    with tempfile.TemporaryDirectory(prefix="tiledmm-mutants-") as folder, ThreadPoolExecutor(arguments.j) as pool:
        copies = Copies(Path(folder), arguments.j)
        with copies.one() as copy:
            tests = recorded(copy, settings["pytest"], arguments.cases, arguments.j)
            tests.first = tuple(settings["first"])
        work = pool.map(lambda mutant: fate_of(mutant, copies, tests, arguments.budget), [*controls, *chosen])
        fates = []
        for mutant, fate in zip([*controls, *chosen], work, strict=True):
            fates.append(fate)
            print(f"{len(fates)} of {len(controls) + len(chosen)}: {mutant.file}:{mutant.line} {fate}", flush=True)
    if any(fate in ("killed", "timed out") for fate in fates[: len(controls)]):
        print("Tests fail on copies without a mutant: no fate means anything.")
        return 1
    return report(list(zip(chosen, fates[len(controls) :], strict=True)), known)


def report(fates: Sequence[tuple[Mutant, str]], known: dict[tuple[str, str, str], str]) -> int:
    """Print the mutants' fates; return the exit status."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    unknown = equivalent = 0
    for mutant, fate in sorted(fates, key=lambda each: (each[0].file, each[0].line)):
        rows[mutant.file][fate] += 1
        if fate in ("survived", "not covered"):
            reason = known.get((mutant.where, *mutant.change))
            unknown += reason is None
            equivalent += reason is not None and reason.startswith("equivalent")
            print(f"\n{mutant.file}:{mutant.line} {mutant.where}: {fate} ({mutant.operator})", *mutant.hunk, sep="\n")
            print(f"known: {reason}" if reason else "NOT IN THE LIST")
    table = Table("module", "mutants", *FATES, title="Mutants of the host code")
    for file, row in rows.items():
        table.add_row(file, *map(str, (row.total(), *(row[fate] for fate in FATES))))
    total = sum(rows.values(), Counter())
    Console().print(table)
    seen = total["killed"] + total["timed out"]
    score = seen / max(1, total.total() - equivalent)
    counts = ", ".join(f"{total[fate]} {fate}" for fate in FATES)
    print(f"{total.total()} mutants: {counts}; {equivalent} of these are equivalent, {unknown} are not in the list.")
    print(f"{seen / max(1, total.total()):.1%} killed, {score:.1%} of those that are not equivalent.")
    return 0 if score >= LEAST and not unknown else 1


if __name__ == "__main__":
    sys.exit(main())
