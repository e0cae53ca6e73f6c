"""Hand-written CUDA C matrix multiplication for CuPy arrays: a ladder of kernels, chosen by name.

    import cupy, tiledmm
    c = tiledmm.matmul(a, b)                                      # the fastest kernel for this product
    c = tiledmm.matmul(a, b, variant="tiled_padded", tile=16)     # one rung of the ladder

Importing this package needs no CuPy, no GPU and no driver; rendering and inspecting kernels never does.
"""

from tiledmm import errors
from tiledmm._version import __version__
from tiledmm.api import kernel, matmul, precompile, source, variants
from tiledmm.errors import TiledmmError

__all__ = [
    "TiledmmError",
    "__version__",
    "errors",
    "kernel",
    "matmul",
    "precompile",
    "source",
    "variants",
]
