"""Other libraries' arrays on a GPU: which types, ``out=`` and streams products of them support."""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import cupy
import ml_dtypes
import numpy as np

import tiledmm
from tiledmm.bench.timing import DeviceClock
from tiledmm.elements import ELEMENTS
from tiledmm.errors import TiledmmError
from tiledmm.interchange.calls import stream_at

# Seconds that a stream is held back: a product that does not wait reads what was there before.
_HELD = 0.02


@dataclass(frozen=True, slots=True)
class Library:
    """A library with arrays on a GPU.

    Attributes:
        name: Name of the library.
        of: Function that returns its array over the memory of a CuPy array, and raises if it lacks the type.
        kind: Class of its arrays.
        back: Function that returns a CuPy array over the memory of its array.
        stream: Context manager that returns the handle of a non-default stream, and a function that makes arrays that
            use this stream; None for a library that manages its streams itself.
    """

    name: str
    of: Callable[[Any], Any]
    kind: type
    back: Callable[[Any], Any]
    stream: Callable[[], AbstractContextManager[tuple[int, Callable[[Any], Any]]]] | None


def installed() -> Iterator[Library]:
    """Yield CuPy, and those of PyTorch, JAX and Numba that are installed and find a GPU."""
    yield Library("CuPy", lambda x: x, cupy.ndarray, lambda x: x, _cupys_stream)
    for package, library in (("torch", _torch), ("jax", _jax), ("numba", _numba)):
        if importlib.util.find_spec(package) is not None and (found := library()) is not None:
            yield found


def supported(library: Library) -> dict[str, Any]:
    """Try which types, ``out=`` and streams work with products of a library's arrays."""
    types = [dtype for dtype in ELEMENTS if _multiplies(library, dtype)]
    out = _refused(lambda: _product(library, "float32", with_out=True))
    stream = None if library.stream is None else _is_ordered(library)
    return {"library": library.name, "types": types, "out": not out, "stream": stream}


def _refused(function: Callable[[], bool]) -> bool:
    try:
        if not function():
            raise AssertionError("a product is wrong")
    except TiledmmError:
        return True
    return False


def _multiplies(library: Library, dtype: str) -> bool:
    x = _integers(1, 3, 3, dtype)
    try:
        made = library.of(x)
    except Exception:  # any: whatever a library says of a type that it does not have
        return False
    if library.back(made).dtype != x.dtype:
        return False  # taken for a narrower one
    return not _refused(lambda: _product(library, dtype))


def _integers(seed: int, rows: int, columns: int, dtype: str) -> Any:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return cupy.asarray(np.random.default_rng(seed).integers(0, 5, (rows, columns)).astype(kind))


def _product(library: Library, dtype: str, with_out: bool = False) -> bool:
    """Return whether a product is right and is returned in the expected array."""
    a, b = _integers(1, 70, 50, dtype), _integers(2, 50, 60, dtype)
    wide = np.complex128 if dtype.startswith("complex") else np.float64
    wanted = (a.get().astype(wide) @ b.get().astype(wide)).astype(a.dtype)
    out = library.of(cupy.zeros((70, 60), a.dtype)) if with_out else None
    found = tiledmm.matmul(library.of(a), library.of(b), out=out)
    same = found is out if with_out else isinstance(found, library.kind)
    return same and bool((library.back(found).get() == wanted).all())


def _is_ordered(library: Library) -> bool:
    """Return whether a product on a busy stream runs after earlier writes to its operand and before later ones."""
    assert library.stream is not None
    source, memory = _integers(1, 200, 200, "float32"), cupy.zeros((200, 200), "float32")
    wanted, clock = source.get() @ source.get(), DeviceClock()
    tiledmm.matmul(library.of(memory), library.of(source))  # compiled: nothing below waits for that
    cupy.cuda.runtime.deviceSynchronize()
    with library.stream() as (handle, of):
        x, y = of(memory), of(source)
        with stream_at(handle):
            clock.hold(_HELD)
            cupy.copyto(memory, source)
        found = tiledmm.matmul(x, y)
        with stream_at(handle):
            memory.fill(0)
    cupy.cuda.runtime.deviceSynchronize()
    return bool((library.back(found).get() == wanted).all())


@contextlib.contextmanager
def _cupys_stream() -> Iterator[tuple[int, Callable[[Any], Any]]]:
    with cupy.cuda.Stream(non_blocking=True) as stream:
        yield stream.ptr, lambda x: x


def _torch() -> Library | None:
    import torch

    from tiledmm.interchange import torch_

    @contextlib.contextmanager
    def stream() -> Iterator[tuple[int, Callable[[Any], Any]]]:
        with torch.cuda.stream(torch.cuda.Stream()) as _:
            yield torch.cuda.current_stream().cuda_stream, lambda x: torch_.native(x, None)

    if not torch.cuda.is_available():
        return None
    return Library("PyTorch", lambda x: torch_.native(x, None), torch.Tensor, lambda x: torch_.view(x, "x"), stream)


def _jax() -> Library | None:
    import jax

    from tiledmm.interchange import jax_

    if jax.default_backend() != "gpu":
        return None
    return Library("JAX", lambda x: jax_.native(x, None), jax.Array, lambda x: jax_.view(x, "x"), None)


def _numba() -> Library | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what NumPy says of Numba's use of it
        from numba import cuda
        from numba.cuda.cudadrv.devicearray import DeviceNDArray

    @contextlib.contextmanager
    def stream() -> Iterator[tuple[int, Callable[[Any], Any]]]:
        ours = cupy.cuda.Stream(non_blocking=True)

        def of(x: Any) -> Any:
            with ours:  # CuPy's interface tells its current stream
                return cuda.as_cuda_array(x)

        yield ours.ptr, of

    return Library("Numba", cuda.as_cuda_array, DeviceNDArray, cupy.asarray, stream)
