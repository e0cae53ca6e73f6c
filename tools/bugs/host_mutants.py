"""Small edits of the host code, made by Cosmic Ray's operators: each runs with the tests that run its line.

``host_mutants.toml`` lists the modules, the tests, and the known survivors with their reasons. The tests run once
without a mutant to record the lines that each runs; a cache keeps the record until a file changes that tests may read.
Parametrized tests run at most 24 cases. Then each mutant is written to a scratch copy of the tree, and the tests that
run its line run there until one fails, starting with those of the module's own folder and with one case of each. For a
line that runs on import, the tests are those that run anything in its module. They stop after a minute of tests; a
mutant that only later tests would kill has survived. A mutant is *not covered* if no test runs its line.
"""

from __future__ import annotations

import hashlib
import json
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

from tools.bugs.cosmic_ray import Mutant, mutants
from tools.bugs.fates import Fate, Progress, tomllib
from tools.trees import ROOT, Copies, listed, pytest, written

SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

# Mutants that change nothing, and must survive.
_CONTROLS = 5
# Cases of a parametrized test that take part.
_CASES = 24
# Seconds of tests for a mutant.
_BUDGET = 60


def modules(patterns: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the Python files that patterns name: files, and all files in folders."""
    found = []
    for pattern in patterns:
        path = root / pattern
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path.relative_to(root).as_posix() for path in found]


def every_bug() -> list[Mutant]:
    """Return all mutants of all modules."""
    return [mutant for file in modules(SETTINGS["modules"]) for mutant in mutants(ROOT, file)]


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
        """Return the tests to run with a mutant, those that are likely to notice it first.

        They are ``first``, then those of the folder that mirrors the module's, then all others. Of each of these, one
        case per test runs before a second of any, by speed.
        """
        lines = self.lines.get(mutant.file, {})
        names = set(lines.get(mutant.line) or lines.get(mutant.statement) or ())
        if mutant.imported:
            names = {name for each in lines.values() for name in each}
        turn: Counter[str] = Counter()
        ranks = {}
        for name in sorted(names, key=lambda name: (self.seconds[name], name)):
            ranks[name] = turn[name.partition("[")[0]]
            turn[name.partition("[")[0]] += 1
        mirror = mutant.file.replace("tiledmm/", "tests/", 1).rpartition("/")[0] + "/"

        def key(name: str) -> tuple[bool, bool, int, float, str]:
            far = not name.startswith(self.first), not name.startswith(mirror)
            return *far, ranks[name], self.seconds[name], name

        return sorted(names, key=key)

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
        status, printed = pytest(copy, ["-p", "tools.bugs.covering", "--tb=short", *spread, *words], None, environment)
        print(printed.rstrip().rpartition("\n")[2])
        if status != 0:
            raise RuntimeError(f"{printed[-6000:]}\nThe tests fail without a mutant.")
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
        ours = name.startswith(("tools/", "tests/tools/"))
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


def _fate(mutant: Mutant, copies: Copies, tests: Recorded) -> Fate:
    """Run the tests of a mutant's line in a copy, and return its fate."""
    if not (names := tests.of(mutant)):
        return Fate("not covered", False)
    with copies.one() as copy, written(copy / mutant.file, mutant.text):
        for stage in tests.stages(names, _BUDGET):
            select = copy.with_suffix(".tests")
            select.write_text("\n".join(stage), "utf-8")
            words = ["-x", "--tb=no", "-p", "tools.bugs.covering", *sorted({name.partition("::")[0] for name in stage})]
            limit = 30 + 5 * sum(tests.seconds[name] for name in stage)
            status, _ = pytest(copy, words, limit, {"TILEDMM_SELECT": str(select)})
            if status is None:
                return Fate("timed out", True)
            if status not in (0, 5):  # 5: the mutant makes other cases, and none of those
                return Fate("killed", True)
    return Fate("survived", False)


def reasons(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], str]:
    """Return the known reasons why mutants survive, by their place and change."""
    return {(row["where"], row["before"], after): row["reason"] for row in rows for after in row["after"]}


def explained(mutant: Mutant, fate: Fate, known: dict[tuple[str, str, str], str]) -> Fate:
    """Return the fate of a mutant with the known reason why it survives, if there is one."""
    if fate.caught or (reason := known.get((mutant.where, *mutant.change))) is None:
        return fate
    if reason.startswith("equivalent"):
        return Fate("equivalent", None, reason)
    return replace(fate, detail=reason, expected=True)


def judge(chosen: Sequence[Mutant], workers: int, progress: Progress = lambda _: None) -> list[Fate]:
    """Run mutants with the tests of their lines, and return their fates in order.

    Raises:
        RuntimeError: If tests fail without a mutant.
    """
    known = reasons(SETTINGS.get("survivor", ()))
    with tempfile.TemporaryDirectory(prefix="tiledmm-mutants-") as folder, ThreadPoolExecutor(workers) as pool:
        copies = Copies(Path(folder), workers)
        with copies.one() as copy:
            tests = recorded(copy, SETTINGS["pytest"], _CASES, workers)
            tests.first = tuple(SETTINGS["first"])

        def one(mutant: Mutant) -> Fate:
            fate = _fate(mutant, copies, tests)
            progress(mutant.id)
            return explained(mutant, fate, known)

        controls = [replace(mutant, operator="") for mutant in chosen[:_CONTROLS]]
        if any(fate.caught for fate in pool.map(lambda mutant: _fate(mutant, copies, tests), controls)):
            raise RuntimeError("Tests fail on copies without a mutant: no fate means anything.")
        return list(pool.map(one, chosen))
