"""Write measured tables into the documentation: ``python -m benchmarks.readme [--check]``.

In README.md, docs/*.md and results/README.md, the text between ``<!-- table:NAME -->`` and ``<!-- /table -->`` is
generated from ``results/*.json``. A small line says on which machine and when a result was measured: once, below the
last of a page's tables that are made from it. On a page with the block ``<!-- table:measured -->``, at its end, that
block says it for all tables of the page instead.

``--check`` writes nothing and exits with 1 if something would change. ``--older`` also writes nothing: it lists the
results whose kernels have changed since they were measured, with the commands that measure them again, and exits with
1 if there are any. ``results/README.md`` lists them, too.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import distributed, layers, multi_gpu, out_of_core, random_shapes, splits
from benchmarks.batches import batches_table
from benchmarks.counts import COUNTED, counts_table
from benchmarks.first_call import first_call_table
from benchmarks.gemm import gemm_table
from benchmarks.layouts import DOUBLE, OTHERS, layouts_table
from benchmarks.libraries import support_table, times_table
from benchmarks.newcomer import newcomer_table
from benchmarks.prepared import prepared_table, solvers_table
from benchmarks.selection import selection_table
from benchmarks.shapes import shapes_table, summary
from benchmarks.simulator import speed_table
from benchmarks.sizes import TYPES as CHARTED
from benchmarks.squares import squares_table
from benchmarks.studies import scaling
from benchmarks.studies.agreement import agreement_table
from benchmarks.studies.bank_conflicts import conflicts_table
from benchmarks.studies.choices import choices_table
from benchmarks.studies.latencies import latencies_table
from benchmarks.studies.stalls import printed
from benchmarks.studies.tensor_pipes import of_variant, pipes_table
from benchmarks.studies.wgmma_steps import steps_table
from benchmarks.support import front_page
from benchmarks.support.chart_tables import roofline_table, speed_up_table, throughput_table, tiles_table
from benchmarks.support.ladder_tables import bounds_table, variant_table
from benchmarks.support.power import load_table
from benchmarks.support.results import FOLDER, PAGE, ROOT, changed_kernels, details, origins
from benchmarks.support.rung_results import NOT_TIMED, file_of, result
from benchmarks.support.runs import extremes
from benchmarks.symmetric import summary_table as symmetric_summary
from benchmarks.symmetric import symmetric_table
from tiledmm.bench.comparison_tables import calls_table, ladder_table, padding_table
from tiledmm.bench.results import ComparisonReport, from_json
from tiledmm.kernels.variants import general_variants, kernel_variants
from tiledmm.problem.keywords import AUTO
from tiledmm.report.cells import NONE
from tiledmm.report.tables import Table


def _of_report(table: Callable[[ComparisonReport], Table]) -> Callable[[str], str]:
    """Wrap a function that formats a report's table, so that it reads the report's text and returns Markdown."""
    return lambda text: table(from_json(text)).markdown(title=False)


#: Kernels whose extremes over several runs are shown below the tables of the ladder.
SPREAD = ("warp_tiled 256", AUTO)


def _machine(text: str) -> str:
    """Format how far the runs of the ladder differ."""
    return extremes(json.loads(text), SPREAD)


def _with_parts(**tables: Callable[[Any], Table]) -> Callable[[str], str]:
    """Return a function that formats parts of a run's results, each with its table."""

    def render(text: str) -> str:
        results = json.loads(text)
        return "\n\n".join(table(results[part]).markdown(title=False) for part, table in tables.items())

    return render


def _variant(name: str) -> Callable[[str], str]:
    """Return a function that formats the measured results of one variant."""

    def render(text: str) -> str:
        timed = any(row.variant == name for row in from_json(text).comparisons[0].rows)
        return _of_report(lambda report: variant_table(report, name))(text) if timed else NOT_TIMED

    return render


def _result(name: str) -> Callable[[str], str]:
    """Return a function that formats the result of one variant as its page quotes it at the top."""
    return lambda text: result(name, text)


def _scaling(part: str) -> Callable[[str], str]:
    """Return a function that formats one table of predicted products on many GPUs."""
    return lambda text: scaling.scaling_tables(json.loads(text))[part].markdown(title=False)


def _counts(name: str) -> Callable[[str], str]:
    """Return a function that formats the simulator's counts for one variant."""

    def render(text: str) -> str:
        found = counts_table(json.loads(text), name)
        return found.markdown(title=False) if found.rows else "It has not been counted yet."

    return render


def _pipes(name: str) -> Callable[[str], str]:
    """Return a function that formats how busy one variant keeps the tensor cores."""

    def render(text: str) -> str:
        if not of_variant(json.loads(text)["kernels"], name):
            return "It has not been profiled yet."
        return _with_parts(kernels=lambda kernels: pipes_table(of_variant(kernels, name)))(text)

    return render


def _promises(text: str) -> str:
    results = json.loads(text)
    return splits.promise_table({name: results[name] for name in splits.TYPES if name in results}).markdown(title=False)


def _in_tf32(table: Callable[[Any, str], Table]) -> Callable[[str], str]:
    """Return a function that formats the results of products in tf32, if there are any."""

    def render(text: str) -> str:
        if "tf32" not in json.loads(text):
            return "This has not been measured yet."
        return _with_parts(tf32=functools.partial(table, dtype="tf32"))(text)

    return render


def _shapes_summary(text: str) -> str:
    return summary(json.loads(text))


@functools.cache  # each takes seconds
def _choices(text: str) -> str:
    """Format how well the tables of rates choose kernels on one GPU."""
    return choices_table(json.loads(text)).markdown(title=False)


def _random_shapes(text: str) -> str:
    """Format the summary of ``auto`` on random products, and the worst of them."""
    products = json.loads(text)["products"]
    tables = random_shapes.summary_table(products), random_shapes.worst_table(products)
    return "\n\n".join(table.markdown(title=False) for table in tables)


def _mutation(text: str) -> str:
    """Format how many mutants of the kernels met each outcome, per kind of edit."""
    results = json.loads(text)
    ends = ("found", "wrong result", "does not compile", "equivalent", "same code", "survived")
    counts = [(name, *(count.get(end, 0) for end in ends)) for name, count in results["groups"].items()]
    counts.append(("all", *(sum(row[i] for row in counts) for i in range(1, len(ends) + 1))))
    rows = tuple((row[0], *(f"{count:,}" if count else NONE for count in row[1:])) for row in counts)
    return Table("", ("<edit", *ends), rows).markdown(title=False)


def _bug_rows(results: dict[str, Any], *columns: Callable[[str, Counter[str]], int]) -> tuple[tuple[str, ...], ...]:
    """Return a row for each group of bugs and for all: their number, and a count for each column."""
    groups = {group: Counter(ends) for group, ends in results["groups"].items()}
    groups["all"] = sum(groups.values(), Counter())
    counts = {group: (ends.total(), *(column(group, ends) for column in columns)) for group, ends in groups.items()}
    return tuple((group, *(f"{count:,}" if count else NONE for count in row)) for group, row in counts.items())


def _sanitizer(text: str) -> str:
    """Format how many planted bugs per cause compute-sanitizer reports, and each of its tools."""
    results = json.loads(text)
    tools = ("racecheck", "memcheck", "initcheck", "synccheck")

    def reported_by(*wanted: str) -> Callable[[str, Counter[str]], int]:
        return lambda _, ends: sum(count for end, count in ends.items() if set(wanted) & set(end.split(", ")))

    rows = _bug_rows(results, reported_by(*tools), *map(reported_by, tools))
    return Table("", ("<cause", "bugs", "reported", *tools), rows).markdown(title=False)


def _simulator_bugs(text: str) -> str:
    """Format how many planted bugs per cause the simulator found in its first run and finds now."""
    now = json.loads(text)
    first = json.loads((FOLDER / "simulator_bugs_first_run.json").read_text(encoding="utf-8"))
    before = {group: ends.get("found", 0) for group, ends in first["groups"].items()}
    before["all"] = sum(before.values())
    rows = _bug_rows(now, lambda group, _: before.get(group, 0), lambda _, ends: ends["found"])
    then = first["machine"]["date"][:10]
    table = Table("", ("<cause", "bugs", f"found on {then}", "found now"), rows)
    return table.markdown(title=False)


def _held_out(text: str) -> str:
    """Format how many bugs per cause the simulator found, of those whose authors did not know it."""
    now = json.loads(text)
    rows = _bug_rows(now, lambda _, ends: ends["found"], lambda _, ends: ends["warned"])
    return Table("", ("<cause", "bugs", "found", "warning only"), rows).markdown(title=False)


def _hopper_bugs(text: str) -> str:
    """Format how many bugs per cause are found at a planted line, and how the others end."""

    def count(*wanted: str) -> Callable[[str, Counter[str]], int]:
        return lambda _, ends: sum(ends[end] for end in wanted)

    columns = count("found"), count("accepted", "refused"), count("warned"), count("wrong result")
    header = ("<cause", "bugs", "at the line", "accepted line, or refused", "warning only", "wrong result only")
    return Table("", header, _bug_rows(json.loads(text), *columns)).markdown(title=False)


#: Tables that a marker may name: the results (``results/<run>.json``), and the function that formats them.
TABLES: dict[str, tuple[str, Callable[[str], str]]] = {
    "newcomer": ("newcomer_cpu", _with_parts(rows=newcomer_table)),
    "newcomer-gpu": ("newcomer_gpu", _with_parts(rows=newcomer_table)),
    "machine": ("ladder", _machine),
    "ladder-facts": ("ladder", front_page.ladder_facts),
    "wins": ("layouts", front_page.wins_table),
    "ladder": ("ladder", _of_report(lambda r: ladder_table(r, r.comparisons[0].size))),
    "padding": ("ladder", _of_report(lambda r: padding_table(r, r.comparisons[0].size))),
    "bounds": ("ladder", _of_report(bounds_table)),
    **{f"result-{row.name}": (file_of(row.name), _result(row.name)) for row in kernel_variants()},
    **{f"rung-{row.name}": ("ladder", _variant(row.name)) for row in general_variants()},
    **{f"counts-{name}": ("counts", _counts(name)) for name in COUNTED},
    **{f"throughput-{dtype}": (f"sizes_{dtype}", _of_report(throughput_table)) for dtype in CHARTED},
    **{f"roofline-{dtype}": (f"sizes_{dtype}", _of_report(roofline_table)) for dtype in CHARTED},
    "speed-up": (f"sizes_{CHARTED[0]}", _of_report(speed_up_table)),
    "tiles": (f"sizes_{CHARTED[0]}", _of_report(tiles_table)),
    "calls": ("ladder", _of_report(calls_table)),
    "selection": ("selection", _with_parts(products=selection_table)),
    "choices-h100": ("choices-nvidia-h100-80gb-hbm3", _choices),
    "choices-h200": ("choices-nvidia-h200", _choices),
    "shapes": ("shapes", _with_parts(shapes=shapes_table)),
    "shapes-summary": ("shapes", _shapes_summary),
    "layouts": ("layouts", _of_report(functools.partial(layouts_table, dtypes=OTHERS))),
    "layouts-double": ("layouts", _of_report(functools.partial(layouts_table, dtypes=DOUBLE))),
    "squares": ("squares", _with_parts(products=squares_table)),
    "layers": ("layers", _with_parts(products=layers.layers_table)),
    "layers-worst": ("layers", _with_parts(products=layers.worst_table)),
    "layers-others": ("layers", _with_parts(products=layers.others_table)),
    "random-shapes": ("random_shapes", _random_shapes),
    "libraries": ("libraries", _with_parts(support=support_table)),
    "libraries-times": ("libraries", _with_parts(rows=times_table)),
    "first-calls": ("first_call", _with_parts(first_calls=first_call_table)),
    "conflicts": ("bank_conflicts", _with_parts(kernels=conflicts_table)),
    "agreement": ("agreement", _with_parts(kernels=agreement_table)),
    "splits-speed": ("splits_speed", _with_parts(float32=splits.speed_table)),
    "splits-complex-speed": (
        "splits_speed",
        _with_parts(complex64=functools.partial(splits.speed_table, dtype="complex64")),
    ),
    "splits-tf32-speed": ("splits_speed", _in_tf32(splits.speed_table)),
    "splits-loads": ("splits_loads", _with_parts(loads=load_table)),
    "splits-loads-double": ("splits_loads", _with_parts(double=load_table)),
    "splits-promise": ("splits_accuracy", _promises),
    "splits-accuracy": ("splits_accuracy", _with_parts(float32=splits.accuracy_table)),
    "splits-tf32-accuracy": ("splits_accuracy", _in_tf32(splits.accuracy_table)),
    "shapes-float32-summary": ("shapes_float32", _shapes_summary),
    "shapes-float32": ("shapes_float32", _with_parts(shapes=shapes_table)),
    "stalls-conflicts": ("stalls", lambda text: printed(json.loads(text), 0)),
    "stalls-rungs": ("stalls", lambda text: printed(json.loads(text), 1)),
    "batches": ("batches", _with_parts(batches=batches_table)),
    "gemm": ("gemm", _with_parts(rows=gemm_table)),
    "symmetric": ("symmetric", _with_parts(products=symmetric_summary)),
    "symmetric-all": ("symmetric", _with_parts(products=symmetric_table)),
    "prepared": ("prepared", _with_parts(rows=prepared_table)),
    "prepared-solvers": ("prepared", _with_parts(solvers=solvers_table)),
    "tensor_pipes": ("tensor_pipes", _with_parts(kernels=pipes_table)),
    "latencies": ("latencies", _with_parts(rows=latencies_table)),
    "multi-gpu": ("multi_gpu", _with_parts(rows=multi_gpu.multi_gpu_table)),
    "multi-gpu-h200": ("multi_gpu-nvidia-h200", _with_parts(rows=multi_gpu.multi_gpu_table)),
    "distributed": ("distributed", _with_parts(rows=distributed.distributed_table)),
    "distributed-h200": ("distributed-nvidia-h200", _with_parts(rows=distributed.distributed_table)),
    **{f"scaling-{part}": ("distributed", _scaling(part)) for part in scaling.TABLES},
    "out-of-core": ("out_of_core", _with_parts(rows=out_of_core.out_of_core_table)),
    "wgmma-steps": ("wgmma_steps", _with_parts(rows=steps_table)),
    **{f"pipes-{row.name}": ("tensor_pipes", _pipes(row.name)) for row in kernel_variants() if row.tensor_cores},
    "sanitizer": ("sanitizer", _sanitizer),
    "mutation": ("mutation", _mutation),
    "simulator-bugs": ("simulator_bugs", _simulator_bugs),
    "held-out": ("simulator_bugs_held_out", _held_out),
    "hopper-bugs": ("hopper_bugs", _hopper_bugs),
    "hopper-held-out": ("hopper_bugs_held_out", _hopper_bugs),
    "simulator": ("simulator", lambda text: speed_table(json.loads(text)).markdown(title=False)),
}

#: Results that a table reads beside its own.
BESIDE = {"wins": ("layers",)}

#: Two tables of the page of all results: where each was measured; and those that are older than today's kernels, which
#: changes with the kernels and not with the results, so no check compares it.
DETAILS, OLDER = "details", "older"

#: A block at the end of a page: where and when all its tables were measured.
MEASURED = "measured"

_MARKER = re.compile(r"<!-- (?P<tag>table:(?P<name>[\w-]+)|/table) -->")


def rewrite(text: str, render: Callable[[str], str | None]) -> str:
    """Return a document with every marked block replaced.

    Args:
        text: The document.
        render: A function from a block's name to its new content; None leaves the block as it is.

    Raises:
        ValueError: If markers are not in pairs.
    """
    parts: list[str] = []
    position, opened = 0, None
    for marker in _MARKER.finditer(text):
        name = marker["name"]
        if (name is None) == (opened is None):
            line = text.count("\n", 0, marker.start()) + 1
            raise ValueError(f"line {line}: <!-- {marker['tag']} --> where the other kind of marker belongs")
        if name is None:
            block = render(str(opened))
            parts.append(text[position : marker.end()] if block is None else f"\n{block}\n{marker[0]}")
        else:
            parts.append(text[position : marker.end()])
        position, opened = marker.end(), name
    if opened is not None:
        raise ValueError(f"<!-- table:{opened} --> is never closed by <!-- /table -->")
    return "".join(parts) + text[position:]


def table(name: str, results: Path = FOLDER) -> str:
    """Return the Markdown of one table, made from a folder of results.

    Raises:
        ValueError: If there is no such table, or there are no results.
    """
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}; the tables are {', '.join(TABLES)}")
    run, render = TABLES[name]
    return render(_text(run, results))


def _text(run: str, results: Path) -> str:
    """Read the file of a result."""
    path = results / f"{run}.json"
    if not path.exists():
        raise ValueError(f"{path} does not exist; {FOLDER.name}/README.md says what writes it")
    return path.read_text(encoding="utf-8")


def documents(root: Path = ROOT) -> list[Path]:
    """Return the files that may contain marked blocks."""
    pages = (root / "README.md", *sorted((root / "docs").glob("**/*.md")), root / PAGE)
    return [path for path in pages if path.exists()]


def shown(path: Path, name: str, root: Path = ROOT, results: Path = FOLDER) -> str:
    """Return the Markdown of one block of a document, and below it where and when it was measured if it is to say that.

    Raises:
        ValueError: If there is no such table, or there are no results.
    """
    if name in (DETAILS, OLDER):
        return (older_table if name == OLDER else details_table)(results).markdown(title=False)
    parts = [] if name == MEASURED else [table(name, results)]
    if told := _told(name, _names(path) or [name]):
        link = os.path.relpath(root / PAGE, path.parent)
        found = {run: json.loads(_text(run, results)) for run in told}
        parts.append(f"<small>{origins(found)} [Details]({link}).</small>")
    return "\n\n".join(filter(None, parts))


def _told(name: str, names: list[str]) -> list[str]:
    """Return the results of which one of a page's blocks says where and when they were measured."""
    tables = [each for each in names if each in TABLES]
    told_by = {run: MEASURED if MEASURED in names else each for each in tables for run in _runs(each)}
    return [run for run, block in told_by.items() if block == name]


def _runs(name: str) -> tuple[str, ...]:
    """Return the results from which a table is made."""
    return TABLES[name][0], *BESIDE.get(name, ())


def _names(path: Path) -> list[str]:
    """Return the names of a document's blocks, in order."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [marker["name"] for marker in _MARKER.finditer(text) if marker["name"]]


def all_results(results: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Read all result files that name the machine they were measured on, and return their contents by name."""
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    # A first run of planted bugs cannot be repeated.
    return {run: found for run, found in files.items() if "machine" in found and not run.endswith("_first_run")}


def details_table(results: Path = FOLDER) -> Table:
    """Format the table of all results: machine and software, commit, runs."""
    rows = tuple((f"`{run}`", *details(found)) for run, found in all_results(results).items())
    return Table("", ("<result", "<machine", "<commit", "<runs"), rows)


def older(results: Path = FOLDER) -> dict[str, list[str]]:
    """Return, per outdated result, the kernels that have changed since it was measured."""
    found = {run: changed_kernels(each) for run, each in all_results(results).items()}
    return {run: names for run, names in found.items() if names}


def older_table(results: Path = FOLDER) -> Table:
    """Format one row per result whose kernels have changed, with the command that measures it again."""
    rows = tuple((f"`{run}`", _variants(names), f"`{command_of(run)[0]}`") for run, names in older(results).items())
    return Table("", ("<result", "<kernels that have changed", "<measured again by"), rows or ((NONE,) * 3,))


def _variants(names: list[str]) -> str:
    """Return the variants among the given kernel names, separated by commas."""
    return ", ".join(dict.fromkeys(name.split()[0] for name in names))


def commands() -> list[tuple[str, str, str]]:
    """Read from ``results/README.md`` each pattern of result names, the command that writes them, and what it needs."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)\.json`[^|]*\| `([^`]+)`[^|]*\| ([^|]*) ?\|$", text, re.MULTILINE)
    return [(re.sub("<.*?>", "*", name), command, needs.strip()) for name, command, needs in rows]


def command_of(run: str) -> tuple[str, str]:
    """Return the command that writes a result, and what it needs."""
    pattern, command, needs = next(row for row in commands() if fnmatch.fnmatch(run, row[0]))
    return command.replace("<gpu>", run.removeprefix(pattern.removesuffix("*"))), needs


def _block(path: Path, root: Path, results: Path, check: bool, name: str) -> str | None:
    """Return the content of a block in a document; None for the list of older results when checking."""
    return None if check and name == OLDER else shown(path, name, root, results)


def _list_older(results: Path) -> int:
    found = older(results)
    for run, names in found.items():
        print(f"{run}.json: {command_of(run)[0]}\n    changed: {_variants(names)}")
    return 1 if found else 0


def main(arguments: list[str] | None = None, root: Path = ROOT, results: Path = FOLDER) -> int:
    """Write or check the documents, or list older results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    parser.add_argument("--older", action="store_true", help="list results of kernels that have changed; fail if any")
    options = parser.parse_args(arguments)
    if options.older:
        return _list_older(results)
    check = options.check
    stale = []
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        try:
            written = rewrite(text, functools.partial(_block, path, root, results, check))
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        if written != text:
            stale.append(path)
            if not check:
                path.write_text(written, encoding="utf-8")
    for path in stale:
        print(f"{path}: {'differs from the results' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
