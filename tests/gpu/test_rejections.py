"""Tests of mistakes on a GPU: the right error, nothing written, and a device that still works."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest

import tiledmm
from tests.gpu.device import SMALLEST, to_device
from tests.test_operands import CUPY_DIFFERS, MISTAKES, builtins_of
from tiledmm.errors import AlignmentError, OperandTypeError, TiledmmError

# Classes that CuPy raises where it has no message for a mistake.
ACCIDENTS = (AttributeError, AssertionError, RuntimeError, KeyError, NotImplementedError, UnboundLocalError)


def still_works() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(tiledmm.matmul(to_device(x), to_device(x.T)).get(), x @ x.T)


def on_device(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        if 0 in x.strides and x.size > 1:
            return cupy.broadcast_to(cupy.asarray(np.ascontiguousarray(x[:1])), x.shape)
        return cupy.asarray(x)
    return x


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_what_numpy_and_cupy_raise(mistake: str) -> None:
    left, right, keywords = MISTAKES[mistake]
    if any(x.dtype.kind not in "biufc" for x in (left, right)):
        pytest.skip("there are no CuPy arrays of this type")
    x1, x2 = on_device(left), on_device(right)
    keywords = {name: on_device(value) for name, value in keywords.items()}
    out = keywords.get("out")
    before = None if out is None else out.get()
    with pytest.raises(Exception) as numpys:
        np.matmul(left, right, **MISTAKES[mistake][2])
    with pytest.raises(TiledmmError) as ours:
        tiledmm.matmul(x1, x2, **keywords)
    assert builtins_of(ours.type) == builtins_of(numpys.type)
    if out is not None:
        np.testing.assert_array_equal(out.get(), before, "a rejected call wrote to out")
    try:
        cupy.matmul(x1, x2, **keywords)
    except ACCIDENTS:
        pass
    except Exception as error:
        if "Unsupported dtype" in str(error):  # a ValueError, where NumPy raises TypeError
            return
        expected = builtins_of(CUPY_DIFFERS[mistake]) if mistake in CUPY_DIFFERS else builtins_of(ours.type)
        assert builtins_of(type(error)) == expected, f"CuPy raises {error!r}"
    still_works()


@pytest.mark.parametrize(("variant", "tile"), SMALLEST)
@pytest.mark.parametrize("which", ["x1", "x2", "out"])
@pytest.mark.parametrize(("dtype", "offset"), [("f4", 1), ("f4", 2), ("f8", 4), ("c16", 8), ("f2", 1), ("i8", 4)])
def test_misaligned_data(variant: str, tile: int | None, which: str, dtype: str, offset: int) -> None:
    def array(misaligned: bool) -> cupy.ndarray:
        memory = cupy.zeros(1024, np.uint8)
        return cupy.ndarray((4, 4), np.dtype(dtype), memory.data + (offset if misaligned else 0))

    arrays = {name: array(name == which) for name in ("x1", "x2", "out")}
    keywords = {"variant": variant, "tile": tile}
    # A plan for arrays that differ in nothing but their addresses is there already.
    tiledmm.matmul(array(False), array(False), out=array(False), **keywords)
    with pytest.raises(AlignmentError, match=which):
        tiledmm.matmul(arrays["x1"], arrays["x2"], out=arrays["out"], **keywords)
    still_works()


def test_misaligned_data_of_narrower_types_is_only_their_own() -> None:
    # An int8 operand may begin anywhere, whatever the other's type.
    memory = cupy.zeros(64, np.uint8)
    odd = cupy.ndarray((4, 4), np.int8, memory.data + 3)
    odd[...] = 1
    result = tiledmm.matmul(odd, cupy.ones((4, 4), np.float64))
    np.testing.assert_array_equal(result.get(), np.full((4, 4), 4.0))


def test_strides_between_elements() -> None:
    memory = cupy.zeros(128, np.uint8)
    x = cupy.ndarray((4, 3), np.float32, memory.data, strides=(18, 4))
    with pytest.raises(AlignmentError, match="copy"):
        tiledmm.matmul(x, cupy.ones((3, 2), np.float32))
    still_works()


@pytest.mark.parametrize("other", [np.ones((2, 2), "f4"), [[1.0, 2.0], [3.0, 4.0]], 2.0, None, np.float32(1)])
def test_only_cupy_arrays(other: Any) -> None:
    x = cupy.ones((2, 2), np.float32)
    for operands in ((x, other), (other, x)):
        with pytest.raises(OperandTypeError):
            tiledmm.matmul(*operands)
    if other is not None:
        with pytest.raises(TypeError):
            tiledmm.matmul(x, x, out=other)


def test_an_operand_that_is_named_wrongly_leaves_no_plan_behind() -> None:
    x = cupy.ones((2, 2), np.float32)
    for _ in range(2):
        with pytest.raises(ValueError, match="'nope'"):
            tiledmm.matmul(x, x, variant="nope")
        for variant, tile in (("tiled", 5), ("cublas", 16), ("naive", 16)):
            with pytest.raises(ValueError, match="tile"):
                tiledmm.matmul(x, x, variant=variant, tile=tile)
    still_works()


def test_a_kernel_that_does_not_compile_shows_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiledmm.compile import compilation

    monkeypatch.setattr(compilation, "_raw_kernels", {})
    monkeypatch.setattr(compilation, "find_text", lambda spec, target: None)
    monkeypatch.setattr(compilation, "_rendered", lambda spec: 'extern "C" __global__ void k() { int nonsense = ; }')
    with pytest.raises(tiledmm.errors.CompilationError, match="nonsense"):
        tiledmm.kernel("tiled", tile=8)
