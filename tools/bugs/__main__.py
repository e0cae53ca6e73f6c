"""Plant bugs, one at a time, and see whether the tests, the simulator or compute-sanitizer notices each.

    python -m tools.bugs host                                   # bugs that the tests once missed
    python -m tools.bugs host-mutants --limit 450 --seed 3      # small edits of the host code, half an hour
    python -m tools.bugs kernels held-out                       # bugs in kernels, which the simulator must find
    python -m tools.bugs kernels -k reduce                      # those with "reduce" in their names or causes
    python -m tools.bugs kernel-mutants -k 'tiled 64' --limit 100
    python -m tools.bugs sanitizer                              # on a GPU

A table has a row per group of each set, and a list follows of the bugs that were missed. Edits that nobody can notice
do not count. The exit status is 1 if a bug was missed that is not known to be.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.bugs.fates import AnyBug, Fate, Options, Progress


@dataclass(frozen=True)
class BugSet:
    """A set of bugs.

    Attributes:
        bugs: Function that reads or makes the bugs.
        judge: Function of chosen bugs, a number of workers and a progress function; returns a fate for each bug.
        machine: Function of the number of workers that describes the machine that the results depend on.
    """

    bugs: Callable[[], Sequence[Any]]
    judge: Callable[[Sequence[Any], int, Progress], Sequence[Fate]]
    machine: Callable[[int], Any]


def _cpu(workers: int) -> Any:
    from benchmarks.support.results import simulating_machine

    return simulating_machine(workers)


def _gpu(_: int) -> Any:
    from tiledmm.bench.environment import this_machine

    return this_machine()


# Each set imports only what it needs: Cosmic Ray, or a C++ compiler, or a GPU.


def _host() -> BugSet:
    from tools.bugs import host

    return BugSet(host.read, host.judge, _cpu)


def _host_mutants() -> BugSet:
    from tools.bugs import host_mutants

    return BugSet(host_mutants.every_mutant, host_mutants.judge, _cpu)


def _kernels() -> BugSet:
    from tools.bugs import kernels

    return BugSet(kernels.read, kernels.judge, _cpu)


def _held_out() -> BugSet:
    from tools.bugs import kernels

    return BugSet(lambda: kernels.read(kernels.HELD_OUT), kernels.judge, _cpu)


def _kernel_mutants() -> BugSet:
    from tools.bugs import kernel_mutants

    return BugSet(kernel_mutants.every_mutant, kernel_mutants.judge, _cpu)


def _sanitizer() -> BugSet:
    from tools.bugs import sanitizer

    return BugSet(sanitizer.every_bug, sanitizer.judge, _gpu)


#: Functions that return a set, by the set's name.
SETS: dict[str, Callable[[], BugSet]] = {
    "host": _host,
    "host-mutants": _host_mutants,
    "kernels": _kernels,
    "held-out": _held_out,
    "kernel-mutants": _kernel_mutants,
    "sanitizer": _sanitizer,
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
    options = parser.parse_args(arguments)
    if options.json and len(options.sets) != 1:
        parser.error("--json takes the results of one set")
    selection = Options(tuple(options.k.split()), options.limit, options.seed)
    console = Console(width=None if sys.stdout.isatty() else 180)
    judged: dict[str, Judged] = {}
    for name in options.sets:
        each = SETS[name]()
        bugs = selection.chosen(each.bugs())
        if not bugs:
            parser.error(f"no bug of {name} has {options.k!r} in its name or group")
        begun, done = time.perf_counter(), 0
        with console.status(f"{name}: 0 of {len(bugs)}") as status:

            def progress(bug: str, name: str = name, total: int = len(bugs), status: Any = status) -> None:
                nonlocal done
                done += 1
                status.update(f"{name}: {done} of {total}: {bug}")

            judged[name] = list(zip(bugs, each.judge(bugs, options.j, progress), strict=True))
        print(f"{name}: {len(bugs)} bugs in {time.perf_counter() - begun:.0f} s", flush=True)
    console.print(table(judged))
    print(*missed(judged), sep="\n")
    if options.json:
        from benchmarks.support.results import measured, save

        (name,) = options.sets
        save(options.json, measured(SETS[name]().machine(options.j), results(judged[name]), names=()))
    unknown = [fate for pairs in judged.values() for _, fate in pairs if fate.caught is False and not fate.expected]
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
