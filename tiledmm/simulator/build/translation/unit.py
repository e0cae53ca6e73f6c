"""The C++ unit of a kernel: its text, with the headers of the simulator that it needs.

Each header of ``native/`` other than ``cuda.h`` costs several milliseconds.
"""

from __future__ import annotations

import re
from pathlib import Path

from tiledmm.simulator.build.translation import inline_ptx
from tiledmm.simulator.build.translation.syntax import cluster_dims, launch_bounds

#: Functions of C, each with one for float (``sinf``), and other names that ``functions.h`` defines.
_WITH_FLOAT = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv
erfcx erfinv exp exp10 exp2 expm1 fdim fdivide floor fmod frexp hypot ilogb j0 j1 jn ldexp lgamma log log10 log1p log2
logb modf nan nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow rcbrt remainder remquo rhypot rint rnorm
rnorm3d rnorm4d round rsqrt scalbln scalbn sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc y0 y1 yn
"""
_ALONE = """
fabs fma fmax fmin isfinite isinf isnan isnormal signbit __cosf __exp10f __expf __fdividef __log10f __log2f __logf
__powf __saturatef __sincosf __sinf __tanf __tanhf
"""
FUNCTIONS = frozenset([*_WITH_FLOAT.split(), *(f"{name}f" for name in _WITH_FLOAT.split()), *_ALONE.split()])

#: The headers, each with a pattern of the names that it defines, in the order in which they are included.
HEADERS = {
    "atomics.h": re.compile(r"atomic[A-Z]\w*"),
    "cluster_functions.h": re.compile(
        r"__cluster(Dim(IsSpecified)?|Idx|RelativeBlock(Idx|Rank)|GridDimInClusters|SizeInBlocks)"
        r"|__cluster_((map|query)_shared_rank|barrier_(arrive(_relaxed)?|wait))|__threadfence_cluster"
    ),
    "casts.h": re.compile("tiledmm_detail"),
    "dpx.h": re.compile(r"__vi(add|b)?(max|min)3?_[su](32|16x2)(_relu)?"),
    "functions.h": re.compile("|".join(sorted(FUNCTIONS))),
    "inline_asynchronous.h": re.compile(
        r"tiledmm_(asynchronous|has_cluster|store_async|window_address|proxy_fence|(barrier|cluster|wgmma)_\w+"
        r"|(arrive|wait)_at_cluster|(commit|wait_for)_bulk)"
    ),
    "packed.h": re.compile(r"__v[a-z]+[24]"),
    "rounding.h": re.compile(
        r"__\w+_r[zud]|__\w+2(int|uint|ll|ull|float|double)_rn|__[fd](rcp|sqrt|rsqrt)_rn|ll?r(int|ound)f?"
    ),
    "warps.h": re.compile(r"__(shfl|ballot|any|all|uni|match|reduce|activemask|fns)\w*"),
}


# ``new (address) T``, which NVRTC knows without a header.
_PLACEMENT_NEW = re.compile(r"\bnew\s*\(")


def needed(text: str) -> list[str]:
    """Return the simulator's headers that a text needs: those that define a name in it.

    A header is also returned if the text uses one of its names for something else.
    """
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    return [header for header, pattern in HEADERS.items() if any(pattern.fullmatch(name) for name in names)]


def write_unit(source: str, symbol: str, folder: Path) -> None:
    """Write a kernel's C++ to ``unit.cpp``, which includes its translated text and the simulator's headers.

    Args:
        source: CUDA C.
        symbol: Name of the kernel, with its template arguments.
        folder: Folder to write to. The translated text is written there as ``kernel.cu``.
    """
    text = inline_ptx.translate(source)
    (folder / "kernel.cu").write_text(text, encoding="utf-8")
    asm = ["inline_ptx.h"] if text != source else []
    placement = ["<new>"] if _PLACEMENT_NEW.search(text) else []
    headers = [*placement, "cuda.h", *needed(text), *asm, "kernel.cu", "entry.h"]
    # The package's own functions (add, store) are visible to texts that say so: others may define the same names.
    own = "" if "tiledmm" in source.lower() else "#define TILEDMM_OTHER_TEXT\n"
    quoted = (each if each.startswith("<") else f'"{each}"' for each in headers)
    unit = own + "".join(f"#include {each}\n" for each in quoted)
    unit += launch_bounds(text, symbol) + cluster_dims(text, symbol)
    (folder / "unit.cpp").write_text(unit, encoding="utf-8")
