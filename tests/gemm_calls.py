"""Hypothesis strategy for any call of ``gemm``, with NumPy or CuPy arrays, and the check of its result.

All values are integers so small that sums are exact, so that each type has one right result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.strategies import Layout, lay_out, layouts, operand_shapes, small_integers

TYPES = ("float32", "float64", "float16", "complex64", "complex128", "int8", "int32", "uint16", "int64")


@dataclass(frozen=True)
class GemmCall:
    """A call of ``gemm``.

    Attributes:
        dtype: Type of all arrays.
        arrays: Values and layouts of a, b, and of c, bias and alpha if they are arrays.
        numbers: alpha and beta if they are numbers.
        beta_array: Whether beta is an array without dimensions.
        relu: Whether the activation is ``"relu"``; otherwise there is none.
        out: Layout of ``out=``; None for no ``out``.
        in_place: Whether ``out`` is c.
        adjoint: Whether a, and b, are conjugated and transposed.
    """

    dtype: str
    arrays: dict[str, tuple[np.ndarray[Any, Any], Layout]]
    numbers: dict[str, Any]
    beta_array: bool
    relu: bool
    out: Layout | None
    in_place: bool
    adjoint: dict[str, bool]

    def result(self) -> np.ndarray[Any, Any]:
        """Compute what ``gemm`` must return, by NumPy."""
        wide = {"f": "f8", "c": "c16"}.get(np.dtype(self.dtype).kind, "i8")
        values = {name: _seen(*each).astype(wide) for name, each in self.arrays.items()}
        a, b = (adjoint(values[name]) if self.adjoint[f"adjoint_{name}"] else values[name] for name in "ab")
        x = {**self.numbers, **values}["alpha"] * np.matmul(a, b)
        if "c" in values:
            x = x + self.numbers["beta"] * values["c"]
        x = x + values.get("bias", 0)
        x = x.astype(self.dtype)  # integers wrap first
        return np.maximum(x, 0).astype(self.dtype) if self.relu else x


def adjoint(x: Any) -> Any:
    """Return an array conjugated, with its last two axes exchanged; a vector is only conjugated."""
    return x.conj() if x.ndim < 2 else x.conj().swapaxes(-1, -2)


def _seen(values: np.ndarray[Any, Any], layout: Layout) -> np.ndarray[Any, Any]:
    """Return the values that an array with that layout shows; along a broadcast axis they repeat."""
    return np.asarray(lay_out(np, values, layout)[0])


@st.composite
def gemm_calls(draw: st.DrawFn, types: tuple[str, ...] = TYPES) -> GemmCall:
    """Draw any call: batches, vectors, layouts, adjoint operands, c, bias and alpha that broadcast, in place or not."""
    dtype = draw(st.sampled_from(types))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    left, right = draw(operand_shapes(max_batch=3))
    shape = np.matmul(np.zeros(left, "i1"), np.zeros(right, "i1")).shape
    arrays = {}

    def add(name: str, of: tuple[int, ...], broadcast: bool = True) -> None:
        layout = draw(layouts(len(of), broadcast=broadcast))
        arrays[name] = small_integers(rng, of, dtype, bound=2), layout

    def broadcast_shape() -> tuple[int, ...]:
        kept = shape[draw(st.integers(0, len(shape))) :]
        return tuple(1 if draw(st.integers(0, 3)) == 0 else size for size in kept)

    adjoints = {"adjoint_a": draw(st.integers(0, 3)) == 0, "adjoint_b": draw(st.integers(0, 3)) == 0}
    for name, of in (("a", left), ("b", right)):
        add(name, adjoint(np.empty(of, "i1")).shape if adjoints[f"adjoint_{name}"] else of)
    in_place = draw(st.booleans())
    numbers: dict[str, Any] = {"alpha": draw(st.sampled_from((0, 1, 2, -3))), "beta": 0}
    if in_place or draw(st.booleans()):
        add("c", shape if in_place else broadcast_shape(), broadcast=not in_place)
        numbers["beta"] = draw(st.sampled_from((0, 1, -2)))
    if draw(st.booleans()):
        add("bias", broadcast_shape())
    if draw(st.booleans()):
        add("alpha", broadcast_shape())
        del numbers["alpha"]
    out = None if in_place or draw(st.booleans()) else draw(layouts(len(shape)))
    relu = np.dtype(dtype).kind != "c" and draw(st.booleans())
    return GemmCall(dtype, arrays, numbers, draw(st.booleans()), relu, out, in_place, adjoints)


def check_gemm(xp: Any, gemm: Callable[..., Any], call: GemmCall, **kernel: Any) -> None:
    """Call ``gemm`` on arrays of ``xp`` in poisoned memory, and check that it writes exactly the result."""
    placed = {name: lay_out(xp, *each, poison=True) for name, each in call.arrays.items()}
    a, b = placed["a"][0], placed["b"][0]
    keywords: dict[str, Any] = {name: placed[name][0] for name in ("bias", "alpha") if name in placed}
    keywords |= {"alpha": call.numbers["alpha"]} if "alpha" in call.numbers else {}
    if "c" in placed:
        beta = call.numbers["beta"]
        keywords |= {"c": placed["c"][0], "beta": xp.array(beta, call.dtype) if call.beta_array and beta >= 0 else beta}
    expected = call.result()
    out, memory = placed["c"] if call.in_place else (None, None)
    if call.out is not None:
        out, memory = lay_out(xp, np.zeros(expected.shape, call.dtype), call.out, poison=True)
    before = None if memory is None else memory.copy()
    result = gemm(a, b, out=out, activation="relu" if call.relu else None, **call.adjoint, **keywords, **kernel)
    assert out is None or result is out
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_array_equal(_on_host(result), expected)
    if memory is not None:  # as it was, once the result is taken back
        result[...] = xp.asarray(call.arrays["c"][0]) if call.in_place else 0
        np.testing.assert_array_equal(_on_host(memory), _on_host(before))


def _on_host(x: Any) -> Any:
    return x.get() if hasattr(x, "get") else x
