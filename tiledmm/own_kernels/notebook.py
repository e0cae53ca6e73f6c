"""The cell magic ``%%cuda``: a cell of CUDA C, checked. ``%load_ext tiledmm`` registers it."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from tiledmm.errors import TiledmmError


def load(shell: Any) -> None:
    """Register the cell magic ``%%cuda`` in an IPython shell."""
    parser = MagicArgumentParser("%%cuda", description="Check the kernels of this cell on the CPU.")
    parser.add_argument("kernel", nargs="?", help="name of the kernel, with template arguments; default: all kernels")
    parser.add_argument("--grid", default="", help="number of blocks along x, y, z; may be expressions of M, N and K")
    parser.add_argument("--block", default="", help="number of threads per block along x, y, z")
    parser.add_argument("--shared", default="", help="dynamic shared memory per block, in bytes")
    parser.add_argument("--args", default="", help="arguments: 'A:f32[M,K], B:f32[K,N], C:f32[M,N], M, N, K'")
    parser.add_argument("--size", default="", help="M,N,K, or one number for all three")
    parser.add_argument(
        "--expect", default="", help="'matmul', the name of a function in this notebook, or FILE.py:function"
    )
    parser.add_argument("--define", "-D", action="append", default=[], help="macro, such as N=64")
    parser.add_argument("--include", "-I", action="append", default=[], help="folder of headers")
    parser.add_argument("--target", default="sm_90", help="target architecture")

    def cuda(line: str, cell: str) -> Any:
        from tiledmm.own_kernels.api import check

        options = vars(parser.parse_argstring(line))
        for name in ("kernel", "grid", "block", "shared", "args", "size", "expect"):
            options[name] = (options[name] or "").strip("'\"")  # IPython leaves quotes
        if callable(function := shell.user_ns.get(options["expect"])):
            options["expect"] = function
        try:
            return check(cell, options.pop("kernel") or None, **options)
        except TiledmmError as error:
            raise UsageError(str(error)) from None

    cuda.__doc__ = parser.format_help()
    shell.register_magic_function(cuda, magic_kind="cell")
