"""Plant bugs, one at a time, and see whether the tests, the simulator or compute-sanitizer notices each.

    python -m tools.bugs host                                   # bugs that the tests once missed
    python -m tools.bugs host-mutants --limit 450 --seed 3      # small edits of the host code, half an hour
    python -m tools.bugs kernels held-out                       # bugs in kernels, which the simulator must find
    python -m tools.bugs kernels -k reduce                      # those with "reduce" in their names or causes
    python -m tools.bugs hopper --fates FILE                    # Hopper's, with what became of each in a file
    python -m tools.bugs kernel-mutants -k 'tiled 64' --limit 100
    python -m tools.bugs sanitizer                              # on a GPU

A table has a row per group of each set, and a list follows of the bugs that were missed. Edits that nobody can notice
do not count. The exit status is 1 if a bug was missed that is not known to be.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tools.bugs.fates import AnyBug, Fate, Options


class BugSet(NamedTuple):
    """A set of bugs: a module of this package, imported only if its set is run, and its function that returns them.

    A module imports what its set needs: Cosmic Ray, a C++ compiler, or a GPU. Its function ``judge`` takes bugs, a
    number of workers and a progress function, and returns a fate for each bug.
    """

    module: str
    bugs: str = "every_bug"


SETS = {
    "host": BugSet("host"),
    "host-mutants": BugSet("host_mutants"),
    "kernels": BugSet("kernels"),
    "held-out": BugSet("kernels", "held_out_bugs"),
    "hopper": BugSet("hopper"),
    "hopper-held-out": BugSet("hopper", "held_out_bugs"),
    "kernel-mutants": BugSet("kernel_mutants"),
    "sanitizer": BugSet("sanitizer"),
}

Judged = Sequence[tuple[AnyBug, Fate]]


def score(fates: Iterable[Fate]) -> float:
    """Return the fraction of bugs that were noticed, among those that count."""
    counting = [fate.caught for fate in fates if fate.caught is not None]
    return sum(counting) / len(counting) if counting else 1.0


def table(judged: Mapping[str, Judged]) -> Table:
    """Format a row for each group of each set, with a column for each outcome."""
    outcomes = Counter((not fate.caught, fate.outcome) for pairs in judged.values() for _, fate in pairs)
    columns = [outcome for _, outcome in sorted(outcomes, key=lambda each: (each[0], -outcomes[each]))]
    made = Table("set", "group", "bugs", *columns, "noticed", title="Planted bugs")
    for column in made.columns[2:]:
        column.justify = "right"
    for name, pairs in judged.items():
        groups: dict[str, list[Fate]] = defaultdict(list)
        for bug, fate in pairs:
            groups[bug.group].append(fate)
        for group, fates in [*sorted(groups.items()), ("all", [fate for _, fate in pairs])]:
            counts = Counter(fate.outcome for fate in fates)
            cells = [str(counts[column] or "-") for column in columns]
            style = "bold" if group == "all" else None
            made.add_row(name, group, str(len(fates)), *cells, f"{score(fates):.1%}", style=style)
    return made


def missed(judged: Mapping[str, Judged]) -> Iterator[str]:
    """Yield a line for each bug that was missed, those that are known to be last."""
    for known in (False, True):
        for name, pairs in judged.items():
            for bug, fate in pairs:
                if fate.caught is False and fate.expected is known:
                    why = f" ({fate.detail})" if fate.detail else ""
                    yield f"{name}, {fate.outcome}{', as is known' if known else ''}: {bug.id}{why}"


def results(pairs: Judged) -> dict[str, Any]:
    """Return the contents of a result file: the number of each outcome per group, and what became of those missed."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for bug, fate in pairs:
        groups[bug.group][fate.outcome] += 1
    return {
        "groups": {group: dict(counts) for group, counts in sorted(groups.items())},
        "missed": {bug.id: fate.outcome for bug, fate in pairs if fate.caught is False},
    }


def fates(pairs: Judged) -> dict[str, Any]:
    """Return the contents of a file of fates: for each bug its group, its outcome, and whether it counts as noticed."""
    return {
        bug.id: {"group": bug.group, "outcome": fate.outcome, "noticed": fate.caught, "detail": fate.detail}
        for bug, fate in pairs
    }


def _judge(name: str, module: Any, bugs: Sequence[Any], workers: int, console: Console) -> Judged:
    """Judge the bugs of a set by its module, and show how many have been judged."""
    begun, done = time.perf_counter(), 0
    with console.status(name) as status:

        def progress(bug: str) -> None:
            nonlocal done
            done += 1
            status.update(f"{name}: {done} of {len(bugs)}: {bug}")

        fates = module.judge(bugs, workers, progress)
    print(f"{name}: {len(bugs)} bugs in {time.perf_counter() - begun:.0f} s", flush=True)
    return list(zip(bugs, fates, strict=True))


def _save(path: Path, name: str, pairs: Judged, workers: int) -> None:
    """Write the results of a set, with the machine that they depend on: the GPU of ``sanitizer``, else the CPU."""
    from benchmarks.support.results import measured, save, simulating_machine
    from tiledmm.bench.environment import this_machine

    machine = this_machine() if name == "sanitizer" else simulating_machine(workers)
    save(path, measured(machine, results(pairs), names=()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected bugs and print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bugs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", choices=list(SETS), metavar="SET", help=", ".join(SETS))
    parser.add_argument("-k", default="", metavar="WORDS", help="bugs whose name or group has these words in it")
    parser.add_argument("--limit", type=int, default=0, help="no more bugs of a set than this, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results of one set to a file")
    parser.add_argument("--fates", type=Path, metavar="FILE", help="write what became of each bug of one set to a file")
    options = parser.parse_args(arguments)
    if (options.json or options.fates) and len(options.sets) != 1:
        parser.error("--json and --fates take the results of one set")
    selection = Options(tuple(options.k.split()), options.limit, options.seed)
    console = Console(width=None if sys.stdout.isatty() else 180)
    judged: dict[str, Judged] = {}
    for name in options.sets:
        module = importlib.import_module(f"tools.bugs.{SETS[name].module}")
        if bugs := selection.chosen(getattr(module, SETS[name].bugs)()):
            judged[name] = _judge(name, module, bugs, options.j, console)
    if not judged:
        parser.error(f"no bug of these sets has {options.k!r} in its name or group")
    console.print(table(judged))
    print(*missed(judged), sep="\n")
    if options.json:
        (name,) = options.sets
        _save(options.json, name, judged[name], options.j)
    if options.fates:
        ((_, pairs),) = judged.items()
        options.fates.write_text(json.dumps(fates(pairs), indent=1) + "\n", "utf-8")
    unknown = [fate for pairs in judged.values() for _, fate in pairs if fate.caught is False and not fate.expected]
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
