"""Hand-written CUDA C matrix multiplication for CuPy arrays, by a kernel that is chosen automatically or by name.

    import cupy, tiledmm
    c = tiledmm.matmul(a, b)                                      # the fastest kernel for this product
    c = tiledmm.matmul(a, b, variant="tiled_padded", tile=16)     # a variant by name

Importing this package needs no CuPy, GPU or driver. Neither does rendering or inspecting kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

#: The version of the package.
__version__ = "0.1.0"

if TYPE_CHECKING:
    from tiledmm import dask as dask
    from tiledmm import errors, multi_gpu, out_of_core, simulator
    from tiledmm import torch as torch
    from tiledmm.api import explain, gemm, matmul, prepare, variants
    from tiledmm.errors import TiledmmError
    from tiledmm.launch.ahead_of_time import kernel, precompile, source
    from tiledmm.own_kernels.api import check
    from tiledmm.own_kernels.registration import register, unregister
    from tiledmm.problem.prepared import PreparedOperand
    from tiledmm.replacement import replacing
    from tiledmm.simulated.tracing import explain_conflicts
    from tiledmm.tuning.calibrate import calibrate
    from tiledmm.tuning.tune import tune

__all__ = [
    "PreparedOperand",
    "TiledmmError",
    "__version__",
    "calibrate",
    "check",
    "errors",
    "explain",
    "explain_conflicts",
    "gemm",
    "kernel",
    "matmul",
    "multi_gpu",
    "out_of_core",
    "precompile",
    "prepare",
    "register",
    "replacing",
    "simulator",
    "source",
    "tune",
    "unregister",
    "variants",
]

# Module of each public name, which is imported at first access, so that the command line's help needs no NumPy.
_HOMES = {
    **dict.fromkeys(("explain", "gemm", "matmul", "prepare", "variants"), "tiledmm.api"),
    **dict.fromkeys(("kernel", "precompile", "source"), "tiledmm.launch.ahead_of_time"),
    **dict.fromkeys(("register", "unregister"), "tiledmm.own_kernels.registration"),
    "PreparedOperand": "tiledmm.problem.prepared",
    "TiledmmError": "tiledmm.errors",
    "replacing": "tiledmm.replacement",
    "calibrate": "tiledmm.tuning.calibrate",
    "check": "tiledmm.own_kernels.api",
    "tune": "tiledmm.tuning.tune",
    "explain_conflicts": "tiledmm.simulated.tracing",
}
_MODULES = ("errors", "multi_gpu", "out_of_core", "simulator")

# Modules that need an extra. ``dir`` lists them and ``__all__`` does not, so that ``from tiledmm import *`` works
# without the extras, and with them does not import PyTorch and Dask.
_OF_EXTRAS = ("dask", "torch")


if not TYPE_CHECKING:  # otherwise type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"tiledmm.{name}")
        if name in _OF_EXTRAS:
            return _of_extra(name)
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # the next access does not call this function
        return value


def _of_extra(name: str) -> Any:
    """Import and return a module of this package that needs an extra, such as ``"dask"``.

    Raises:
        MissingModuleError: If the extra is not installed. The message is that of the error which the import raised.
    """
    from tiledmm.errors import MissingDependencyError, MissingModuleError

    try:
        return importlib.import_module(f"tiledmm.{name}")
    except MissingDependencyError as error:
        # An AttributeError, as NumPy raises for modules that a Python version lacks: ``hasattr``,
        # ``inspect.getmembers``, ``pickle`` and other code that walks attributes expect no other error. ``import`` and
        # ``from tiledmm import`` try to import the module once more, and so raise the ImportError.
        raise MissingModuleError(str(error), name=name) from error


def __dir__() -> list[str]:
    """Return the sorted names of the public attributes, including the modules that need an extra."""
    return sorted([*__all__, *_OF_EXTRAS])


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magics ``%%tiledmm`` and ``%%cuda`` to IPython, which calls this for ``%load_ext tiledmm``."""
    importlib.import_module("tiledmm.replacement.notebook").load(shell)
    importlib.import_module("tiledmm.own_kernels.notebook").load(shell)
