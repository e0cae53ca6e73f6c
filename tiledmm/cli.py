"""The command ``tiledmm``. Heavy imports wait until a command runs, so that help is quick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tiledmm.bench.records import Rung, Size
    from tiledmm.bench.tables import Table
    from tiledmm.bench.without_gpu import Compiled

DEFAULT_SIZES = ("256", "1024", "4096")

# Wide enough for every table where no terminal says how wide it is.
_PIPED_WIDTH = 160

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _tiledmm() -> None:
    """Hand-written CUDA C matrix multiplication for CuPy, from naive to tuned."""


@app.command()
def compare(
    sizes: Annotated[
        list[str] | None,
        typer.Argument(help=f"Products, each N or MxNxK. [default: {' '.join(DEFAULT_SIZES)}]"),
    ] = None,
    variants: Annotated[str, typer.Option(help="Variants, with commas; 'auto' may be one.", show_default="all")] = "",
    tiles: Annotated[
        str, typer.Option(help="Tile sizes, with commas, or 'all'.", show_default="each variant's own")
    ] = "",
    dtypes: Annotated[str, typer.Option(help="Element types, with commas, or 'all'; tf32, too.")] = "float32",
    layouts: Annotated[
        str, typer.Option(help="How A and B lie in memory: N rows contiguous, T columns, G neither.")
    ] = "NN",
    seconds: Annotated[float, typer.Option(min=0.0, help="About how long to time each rival.")] = 0.4,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Also write all results to FILE."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables as Markdown.")] = False,
    no_gpu: Annotated[
        bool, typer.Option("--no-gpu", help="Show what is known without a GPU, even if there is one.")
    ] = False,
    target: Annotated[str, typer.Option(help="Without a GPU: the target shown in detail.")] = "sm_90",
) -> None:
    """Compare the kernels with each other and with cupy.matmul.

    Every result is checked against float64 before anything is timed; a mismatch makes the exit status 1.

    With no GPU: each kernel run on the simulator, checked and counted (products of more than 256^3 are too large: then
    smaller ones), compiled for every target, and bounded on a reference machine. Exit status 1 if one is wrong, does
    not compile or spills.
    """
    from tiledmm.architectures import find_target
    from tiledmm.bench.records import expand, multiplying, parse_size
    from tiledmm.codegen import specialize
    from tiledmm.elements import ELEMENTS
    from tiledmm.errors import TiledmmError

    try:
        products = [parse_size(text) for text in sizes or DEFAULT_SIZES]
        rungs = expand(_names(variants) or None, "all" if tiles == "all" else _tiles(tiles) or None)
        kinds = list(ELEMENTS) if dtypes == "all" else _names(dtypes)
        orders = [layout.upper() for layout in _names(layouts)]
        for kind in kinds:
            multiplying(rungs, kind)
        for layout in orders:
            specialize("naive", layout=layout)
        find_target(target)
    except TiledmmError as error:
        raise typer.BadParameter(str(error)) from None
    if not kinds or not orders:
        raise typer.BadParameter("there is nothing to compare: name at least one type and one layout")

    show = _printer(markdown=markdown)
    reason = "--no-gpu" if no_gpu else missing_gpu()
    if reason:
        if json_file:
            raise typer.BadParameter(f"there are no measurements to write: no GPU ({reason})")
        show(f"No GPU ({reason}): the kernels run on a simulator, which counts what they do. No times below.\n")
        ok = _without_gpu(show, rungs, products, kinds, orders, target, asked=bool(sizes))
    else:
        try:
            ok = _on_gpu(show, rungs, products, kinds, orders, seconds, json_file)
        except (ImportError, MemoryError) as error:  # a CUDA library that CuPy lacks, or a product that is too large
            show(f"\nStopped: {type(error).__name__}: {error}")
            ok = False
    raise typer.Exit(0 if ok else 1)


@app.command()
def tune(
    sizes: Annotated[list[str], typer.Argument(help="Products, each N or MxNxK.")],
    dtypes: Annotated[str, typer.Option(help="Element types, with commas.")] = "float32",
    layouts: Annotated[str, typer.Option(help="How A and B lie in memory, with commas.")] = "NN",
    trials: Annotated[int, typer.Option(min=1, help="Kernels to time for a product, at most.")] = 32,
    seconds: Annotated[float, typer.Option(min=0.0, help="Time for each.")] = 0.03,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what was measured before.")] = False,
) -> None:
    """Search for the fastest kernels of given products on this GPU, for 'auto' to take from then on."""
    from tiledmm import tuning
    from tiledmm.bench.records import parse_size
    from tiledmm.errors import TiledmmError

    if reason := missing_gpu():
        raise typer.BadParameter(f"kernels are timed on a GPU, and there is none: {reason}")
    try:
        products = [parse_size(text) for text in sizes]
        entries = tuning.tune(
            products, dtypes=_names(dtypes), layouts=[each.upper() for each in _names(layouts)], trials=trials,
            seconds=seconds, again=again,
        )  # fmt: skip
    except TiledmmError as error:
        raise typer.BadParameter(str(error)) from None
    for entry in entries:
        gain = entry.model_microseconds / entry.microseconds
        took = f"{entry.microseconds:.4g} us, {gain:.3g} times as fast as what the model takes"
        typer.echo(f"{entry.product}: {entry.variant} {entry.numbers}, {took}")


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="tiledmm")


def missing_gpu() -> str | None:
    """Why no kernel can run here, in a few words; None if one can."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy does not import: {_first_line(error)}"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "CUDA finds no device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return _first_line(error)


def _on_gpu(
    show: Callable[[Any], None],
    rungs: list[Rung],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    seconds: float,
    json_file: Path | None,
) -> bool:
    from tiledmm.bench.comparison import compare as compare_rivals
    from tiledmm.bench.machine import this_machine
    from tiledmm.bench.records import Report, to_json
    from tiledmm.bench.tables import comparison_table

    machine = this_machine()
    show(f"{machine}\n")
    comparisons = []
    for kind in kinds:
        for layout in orders:
            for size in products:
                with _status() as tell:
                    doing = f"{size} {kind} {layout}: "
                    found = compare_rivals(
                        size,
                        dtype=kind,
                        layout=layout,
                        rungs=rungs,
                        seconds=seconds,
                        progress=lambda text, doing=doing: tell(doing + text),  # type: ignore[misc]
                    )
                comparisons.append(found)
                show(comparison_table(found))
    report = Report(machine, tuple(comparisons))
    show(_METHOD)
    if json_file:
        json_file.write_text(to_json(report), encoding="utf-8")
    if not report.ok:
        show("\nMISMATCH: at least one kernel gave a wrong result or did not run.")
    return report.ok


_METHOD = (
    "Device time, median of rounds in which the rivals take turns; ratios are medians within rounds. "
    "TFLOP/s counts 2MNK (complex: 8MNK), GB/s each operand read and C written once. "
    "Error: largest |C - R| / (|A||B|) against float64."
)


def _without_gpu(
    show: Callable[[Any], None],
    rungs: list[Rung],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    target: str,
    *,
    asked: bool,
) -> bool:
    from tiledmm.bench import without_gpu
    from tiledmm.errors import MissingDependencyError

    ok = _simulate(show, rungs, products if asked else [], kinds, orders, target)
    no_compiler = ""
    for kind in kinds:
        for layout in orders:
            specs = without_gpu.specializations(rungs, kind, layout)
            if not specs:
                show("auto chooses among kernels for a product on a GPU: it has none of its own to show.")
                return True
            if not no_compiler:
                try:
                    kernels = _compile(specs)
                except MissingDependencyError as error:
                    no_compiler = str(error)
                    show(f"Registers, spills and occupancy are not known here: {no_compiler}\n")
                else:
                    ok = ok and all(kernel.ok for kernel in kernels)
                    show(without_gpu.resource_table(kernels, target))
                    show(without_gpu.matrix_table(kernels))
            for size in products:
                show(without_gpu.bounds_table(specs, size, target))
    show(without_gpu.BOUNDS_NOTE)
    if not ok:
        show("\nFAILED: at least one kernel is wrong, does not compile or spills registers.")
    return ok


def _simulate(
    show: Callable[[Any], None],
    rungs: list[Rung],
    products: list[Size],
    kinds: list[str],
    orders: list[str],
    target: str,
) -> bool:
    """Runs every kernel on the simulator. True if all are right, or if there is nothing to run them with."""
    from tiledmm.bench import simulated
    from tiledmm.errors import MissingDependencyError

    ok = True
    try:
        for kind in kinds:
            for layout in orders:
                for size in simulated.sizes_to_simulate(products):
                    with _progress() as tell:
                        rows = simulated.simulate_all(
                            rungs, size, dtype=kind, layout=layout, target=target, progress=tell
                        )
                    ok = ok and all(row.ok for row in rows)
                    show(simulated.simulated_table(rows, size, dtype=kind, layout=layout, target=target))
    except MissingDependencyError as error:
        show(f"Not simulated: {error}\n")
    return ok


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal, once something takes more than a second."""
    from rich.progress import Progress

    console = _console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bars: dict[str, Any] = {}
        begun = time.monotonic()

        def tell(name: str, done: int, of: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, visible=False)
            progress.update(bars[name], completed=done, total=of, visible=time.monotonic() - begun > 1)

        yield tell


def _compile(specs: list[Any]) -> list[Compiled]:
    """Compiles for every target, with a progress bar on a terminal once it takes more than a second."""
    from rich.progress import Progress

    from tiledmm.architectures import TARGETS
    from tiledmm.bench.without_gpu import compile_all

    console = _console(stderr=True)
    begun = time.monotonic()
    total = len(specs) * len(TARGETS)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"compiling {total} kernels", total=total, visible=False)
        return compile_all(
            specs,
            done=lambda: progress.update(task, advance=1, visible=time.monotonic() - begun > 1),
        )


def _printer(*, markdown: bool) -> Callable[[Table | str], None]:
    """Prints a table or a paragraph."""
    console = _console()

    def show(item: Table | str) -> None:
        if isinstance(item, str):
            console.print(item, markup=False, highlight=False, soft_wrap=markdown)
        elif markdown:
            console.print(item.markdown() + "\n", markup=False, highlight=False, soft_wrap=True)
        else:
            console.print(item.rich())

    return show


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_PIPED_WIDTH)


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that says what is going on; nothing where there is no terminal."""
    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _tiles(text: str) -> list[int]:
    try:
        return [int(name) for name in _names(text)]
    except ValueError:
        raise typer.BadParameter(f"tiles are whole numbers, with commas, or 'all'; got {text!r}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
