"""Compare ``gemm`` with a product followed by elementwise kernels: ``python -m benchmarks.gemm``.

Also timed are ``gemm`` without ``out=``, ``matmul`` of this package without an epilogue, ``cupy.matmul`` with CuPy's
elementwise kernels, the same with one fused elementwise kernel, and, if PyTorch is installed, its functions with an
epilogue (cuBLASLt). Times are those on the device alone, except those of calls in a loop, with and without ``out=``,
which show what the host adds. Needs a GPU; the exit status is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.support.beside_cupy import set_count
from benchmarks.support.command import options_on_gpu, show
from benchmarks.support.results import FOLDER, measured, save
from tiledmm.elements import element
from tiledmm.report.cells import significant
from tiledmm.report.tables import Table

RESULTS = FOLDER / "gemm.json"

# Batch (0 for none), m, n and k, and the layout of B: T for the weights of a layer, x @ W.T.
SHAPES = (
    (0, 4096, 4096, 4096, "N"), (0, 64, 4096, 4096, "T"), (0, 8192, 4096, 1024, "T"), (0, 512, 11008, 4096, "T"),
    (32, 512, 512, 512, "N"),
)  # fmt: skip
TYPES = ("float32", "float16", "bfloat16")
EPILOGUES = ("bias", "bias, relu", "bias, gelu", "alpha, beta, c in place")

# Largest error of a result, as a fraction of the largest element.
_TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def calls(epilogue: str, sets: list[Any]) -> dict[str, Callable[[int], Any]]:
    """Return each rival's function by name; call ``i`` uses the next of the sets of operands (A, B, C and bias)."""
    import cupy

    import tiledmm
    from tiledmm.launch.by_cupy import ACTIVATIONS

    activation, in_place = epilogue.partition(", ")[2] or None, epilogue == EPILOGUES[-1]
    keywords: dict[str, Any] = {"alpha": 2, "beta": 0.5} if in_place else {"activation": activation}
    act = ACTIVATIONS[activation] if activation and not in_place else lambda x: x

    def elementwise(x: Any, y: Any) -> Any:
        return 2 * x + 0.5 * y if in_place else act(x + y)

    fused = cupy.fuse(elementwise)

    def gemm(i: int, **kernel: Any) -> Any:
        a, b, c, bias = sets[i % len(sets)]
        return tiledmm.gemm(a, b, **({"c": c} if in_place else {"bias": bias}), out=c, **keywords, **kernel)

    def allocating(i: int) -> Any:
        a, b, c, bias = sets[i % len(sets)]
        return tiledmm.gemm(a, b, **({"c": c} if in_place else {"bias": bias}), **keywords)

    def product(i: int) -> Any:
        a, b, c, _ = sets[i % len(sets)]
        return tiledmm.matmul(a, b, out=c)

    def cupys_fused(i: int) -> Any:
        a, b, c, bias = sets[i % len(sets)]
        return fused(cupy.matmul(a, b), c if in_place else bias)

    cupys = functools.partial(gemm, variant="cublas")
    own = {"gemm": gemm, "gemm, no out": allocating, "matmul": product}
    if sets[0][0].dtype.kind == "V":  # CuPy's elementwise kernels do not know bfloat16
        return {**own, **_torch(epilogue, sets)}
    return {**own, "cupy": cupys, "cupy, fused": cupys_fused, **_torch(epilogue, sets)}


def _torch(epilogue: str, sets: list[Any]) -> dict[str, Callable[[int], Any]]:
    """Return PyTorch's function for an epilogue, if PyTorch is installed and has one for plain matrices."""
    if sets[0][0].ndim > 2:
        return {}
    try:
        import torch

        from tiledmm.bench.peers.torch_ import current_stream, tensor
    except ImportError:
        return {}
    tensors = [tuple(map(tensor, each)) for each in sets]

    def call(i: int) -> Any:
        a, b, c, bias = tensors[i % len(tensors)]
        with torch.cuda.stream(current_stream()):
            if epilogue == "bias":
                return torch.addmm(bias, a, b)
            if epilogue == EPILOGUES[-1]:
                return c.addmm_(a, b, beta=0.5, alpha=2)
            return torch._addmm_activation(bias, a, b, use_gelu="gelu" in epilogue)

    return {"torch": call}


def measure(dtype: str, shape: tuple[int, int, int, int, str], epilogue: str, seconds: float) -> dict[str, Any]:
    """Check ``gemm`` against float64, time all rivals, and return a row with their microseconds."""
    import cupy

    import tiledmm
    from tiledmm.bench import timing

    batch, m, n, k, layout = shape
    rng = cupy.random.default_rng(m + n + k)
    before = (batch,) if batch else ()
    sizes = ((*before, m, k), (*before, n, k) if layout == "T" else (*before, k, n), (*before, m, n), (n,))
    kind = element(dtype).dtype
    count = set_count(sum(math.prod(size) for size in sizes) * kind.itemsize)
    sets = [[rng.standard_normal(size, dtype=cupy.float32).astype(kind) for size in sizes] for _ in range(count)]
    if layout == "T":
        sets = [[a, b.swapaxes(-1, -2), c, bias] for a, b, c, bias in sets]
    a, b, c, bias = (x.astype("f4").astype("f8") for x in sets[0])
    keywords: dict[str, Any] = {"bias": bias, "activation": epilogue.partition(", ")[2] or None}
    if epilogue == EPILOGUES[-1]:
        keywords = {"c": c, "alpha": 2, "beta": 0.5}
    wanted = tiledmm.gemm(a, b, variant="cublas", **keywords)
    rivals = calls(epilogue, sets)
    found = rivals["gemm"](0)
    ok = bool(abs(found.astype("f4") - wanted).max() <= _TOLERANCE[dtype] * abs(wanted).max())
    samples = timing.measure(rivals, timing.DeviceClock(), seconds=seconds)
    times = {name: each.seconds * 1e6 for name, each in samples.items()}
    own = {name: rivals[name] for name in ("gemm", "gemm, no out")}
    loop = {name: each.seconds * 1e6 for name, each in timing.measure(own, timing.HostClock(), seconds=seconds).items()}
    return {
        "type": dtype, "batch": batch, "m": m, "n": n, "k": k, "layout": f"N{layout}", "epilogue": epilogue, "ok": ok,
        "us": times, "loop_us": loop,
    }  # fmt: skip


def gemm_table(rows: list[dict[str, Any]]) -> Table:
    """Format one row per product: the time of ``gemm`` in microseconds, and each rival's as a multiple of it.

    The last column is the time of a call of ``gemm`` without ``out=`` in a loop, as a multiple of one with it.
    """
    names = ("matmul", "cupy", "cupy, fused", "torch")
    cells = []
    for row in rows:
        times = f"{row['batch']} x " if row["batch"] else ""
        ratios = [significant(row["us"][name] / row["us"]["gemm"]) if name in row["us"] else "-" for name in names]
        size = f"{times}{row['m']} x {row['n']} x {row['k']}{' NT' if row.get('layout') == 'NT' else ''}"
        loop = row.get("loop_us", {})  # earlier results have none
        without = significant(loop["gemm, no out"] / loop["gemm"]) if loop else "-"
        cells.append((size, row["type"], row["epilogue"], significant(row["us"]["gemm"]), *ratios, without))
    columns = (
        "<m x n x k",
        "<type",
        "<epilogue",
        "gemm (us)",
        *(f"{name}: x gemm" for name in names),
        "gemm without out=: x gemm",
    )
    return Table("gemm beside a product and elementwise kernels", columns, tuple(cells))


def main() -> int:
    """Measure all products, print the table and save the results; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--seconds", type=float, default=0.05, help="time for each rival")
    options = options_on_gpu(parser)
    from tiledmm.bench.environment import this_machine

    rows: list[dict[str, Any]] = []
    for dtype in TYPES:
        for shape in SHAPES:
            rows += [measure(dtype, shape, epilogue, options.seconds) for epilogue in EPILOGUES]
            save(options.out, measured(this_machine(), {"rows": rows}))
    show(gemm_table(rows))
    wrong = [row for row in rows if not row["ok"]]
    print(f"{len(wrong)} of {len(rows)} results are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
