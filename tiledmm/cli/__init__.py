"""The command line ``tiledmm``, with one module per command.

In: a command line. Out: tables and documents. May import everything; nothing imports it. Commands import heavy modules
only when they run, so that ``--help`` is fast.

Exit status: 0 for success; 1 if a kernel is wrong, or something that the command needs is missing; 2 if the command
line is invalid; 74 if the output cannot be written; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tiledmm import __version__
from tiledmm.cli import (
    calibrate,
    check,
    compare,
    doctor,
    exercise,
    explain,
    grade,
    inspect,
    precompile,
    profile,
    run,
    source,
    tiles,
    trace,
    tune,
    validate,
    variants,
)
from tiledmm.cli.arguments import normalized
from tiledmm.cli.device import missing_gpu
from tiledmm.cli.exit_status import guard_stdout, report_errors

# Exit status that a shell reports for a process that SIGINT ended.
_INTERRUPTED = 128 + 2

__all__ = ["app", "main", "missing_gpu"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # For a default that is not a bool, typer imports pydantic, which would make --help 1.5 times as slow.
    context_settings={
        "default_map": {"help": False, "install_completion": False, "show_completion": False},
        "token_normalize_func": normalized,
    },
    rich_markup_mode="rich",
    epilog="Exit status: 0 success; 1 a kernel is wrong, or something that the command needs is missing; 2 the command "
    "line is invalid; 74 the output cannot be written.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tiledmm {__version__}")
        raise typer.Exit()


@app.callback()
def _tiledmm(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hand-written CUDA C matrix multiplication for CuPy, from naive to tuned."""


# Commands by purpose, in the order of --help.
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Use": (run.run, precompile.precompile),
    "Measure": (compare.compare, profile.profile, tiles.tiles, tune.tune, calibrate.calibrate),
    "Check": (check.check, trace.trace, validate.validate, doctor.doctor),
    "Read": (variants.variants, source.source, inspect.inspect, explain.explain),
}


def _help(command: Callable[..., None]) -> str:
    """Return a command's docstring in rich markup, for ``--help``.

    A paragraph becomes one line; the lines of indented paragraphs stay as they are.
    """
    text = (getdoc(command) or "").replace("[", r"\[")
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        "\n".join(f"[cyan]{line}[/]" for line in each.splitlines()) if each.startswith(" ") else each.replace("\n", " ")
        for each in paragraphs
    )


class _Command(TyperCommand):
    """A command that raises an error if an option is repeated, unless the option may be repeated.

    click would use the last value only.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and return those that are left, as ``click.Command.parse_args`` does.

        Raises:
            typer.BadParameter: If an option is repeated that may not be repeated.
        """
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter[Any](given).items():
            if times > 1 and option.param_type_name == "option" and not (option.multiple or option.is_flag):
                raise typer.BadParameter("it is given twice; separate several values with commas", ctx, option)
        return super().parse_args(ctx, args)


def _add(group: typer.Typer, command: Callable[..., None], panel: str | None = None) -> None:
    context = run.CONTEXT if command is run.run else None
    added = group.command(cls=_Command, help=_help(command), rich_help_panel=panel, context_settings=context)
    added(report_errors(command))


for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        _add(app, _command, _panel)

_exercise = typer.Typer(rich_markup_mode="rich")
_exercise.callback(invoke_without_command=True, help=_help(exercise.exercise))(report_errors(exercise.exercise))
for _command in (exercise.start, exercise.check, exercise.hint, exercise.solution, exercise.export):
    _add(_exercise, _command)
app.add_typer(_exercise, name="exercise", rich_help_panel="Learn")
_add(app, grade.grade, "Learn")


def main() -> None:
    """Run the command line ``tiledmm``. This is the entry point of the console script."""
    guard_stdout()
    try:
        app(prog_name="tiledmm")
    except KeyboardInterrupt:  # typer handles it only once a command runs
        raise SystemExit(_INTERRUPTED) from None
    finally:
        sys.stdout.flush()  # here, because an error at interpreter exit could not be reported
