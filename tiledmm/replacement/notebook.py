"""The cell magic ``%%tiledmm``, for IPython and programs based on it. ``%load_ext tiledmm`` imports this module."""

from __future__ import annotations

import ast
import contextlib
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from tiledmm.errors import TiledmmError
from tiledmm.problem.keywords import AUTO, PRECISIONS
from tiledmm.replacement import replacing


def load(shell: Any) -> None:
    """Register the cell magic ``%%tiledmm`` in an IPython shell."""
    parser = MagicArgumentParser("%%tiledmm", description="Compute CuPy's matrix products in this cell with tiledmm.")
    parser.add_argument("--variant", default=AUTO, help="a name from tiledmm.variants(), or 'auto'")
    parser.add_argument("--tile", type=int, help="tile size of the variant")
    parser.add_argument("--precision", default=PRECISIONS[0], help=f"one of {', '.join(PRECISIONS)}")

    def tiledmm(line: str, cell: str) -> Any:
        with contextlib.ExitStack() as block:
            try:
                products = block.enter_context(replacing(**vars(parser.parse_argstring(line))))
            except TiledmmError as error:
                raise UsageError(str(error)) from None
            block.callback(lambda: print(products))  # also if the cell raises
            return _run(shell, cell)

    tiledmm.__doc__ = parser.format_help()
    shell.register_magic_function(tiledmm, magic_kind="cell")


def _run(shell: Any, cell: str) -> Any:
    """Run a cell in the user's namespace, and return the value of its last statement; None if it is not an expression.

    Exceptions of the cell are raised; ``shell.run_cell`` would show them and let the notebook go on.

    Args:
        shell: IPython shell.
        cell: Source code of the cell.
    """
    source = shell.transform_cell(cell)
    name = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    return None if last is None else eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
