"""The command ``tiledmm``. One module per command. Commands import heavy modules when they run, so that help is quick.

In: a command line. Out: tables and documents. May import everything; nothing imports it.

Exit status: 0 if all is well; 1 if a kernel is wrong, or something that the command needs is missing; 2 if the command
cannot be carried out as it was given; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tiledmm._version import __version__
from tiledmm.cli import (
    calibrate,
    compare,
    doctor,
    explain,
    inspect,
    precompile,
    profile,
    run,
    source,
    tiles,
    tune,
    validate,
    variants,
)
from tiledmm.cli.arguments import normalized
from tiledmm.cli.device import missing_gpu
from tiledmm.cli.failures import told
from tiledmm.cli.stdout import guard

# As a shell reports a process that SIGINT ended.
_INTERRUPTED = 128 + 2

__all__ = ["app", "main", "missing_gpu"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Typer does not convert a bool. For any other type it imports pydantic, which takes half as long again as help.
    context_settings={
        "default_map": {"help": False, "install_completion": False, "show_completion": False},
        "token_normalize_func": normalized,
    },
    rich_markup_mode="rich",
    epilog="Exit status: 0 all is well, 1 a kernel is wrong or something is missing, 2 the command line is wrong, "
    "74 the output cannot be written.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tiledmm {__version__}")
        raise typer.Exit()


@app.callback()
def _tiledmm(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Hand-written CUDA C matrix multiplication for CuPy, from naive to tuned."""


# By purpose, as help lists them.
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Use": (run.run, precompile.precompile),
    "Measure": (compare.compare, profile.profile, tiles.tiles, tune.tune, calibrate.calibrate),
    "Check": (validate.validate, doctor.doctor),
    "Read": (variants.variants, source.source, inspect.inspect, explain.explain),
}


def _help(command: Callable[..., None]) -> str:
    """A docstring as rich shows it: paragraphs as wide as the terminal, lines that are indented as they are."""
    text = (getdoc(command) or "").replace("[", r"\[")
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        "\n".join(f"[cyan]{line}[/]" for line in each.splitlines()) if each.startswith(" ") else each.replace("\n", " ")
        for each in paragraphs
    )


class _Command(TyperCommand):
    """A command whose options are given once, if they do not take several: else the last value would count alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As of ``click.Command``.

        Raises:
            typer.BadParameter: An option is given again.
        """
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter[Any](given).items():
            if times > 1 and option.param_type_name == "option" and not (option.multiple or option.is_flag):
                raise typer.BadParameter("it is given twice; where it takes several, commas separate them", ctx, option)
        return super().parse_args(ctx, args)


for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        _context = run.CONTEXT if _command is run.run else None
        _added = app.command(cls=_Command, help=_help(_command), rich_help_panel=_panel, context_settings=_context)
        _added(told(_command))


def main() -> None:
    """Entry point of the console script."""
    guard()
    try:
        app(prog_name="tiledmm")
    except KeyboardInterrupt:  # while typer imports or looks for the command
        raise SystemExit(_INTERRUPTED) from None
    finally:
        sys.stdout.flush()  # here, where an error can still be told
