"""CuPy's names for matrix products, and the functions that replace them.

``cupy.ndarray`` is an ordinary class: ``@`` calls the function that is assigned to its ``__matmul__``. CuPy has no
``__imatmul__``, so ``a @= b`` is ``a = a @ b``. ``cupy.dot`` calls ``ndarray.dot``. ``numpy.matmul``, ``cupy.einsum``,
``cupy.linalg.matrix_power`` and ``pinv`` look up ``cupy.matmul`` by name at each call. Products of arrays of
``cupyx.distributed`` look up ``matmul`` in the module that defines it. CuPy's compiled code calls cuBLAS directly, so
its products are not replaced.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tiledmm.errors import TiledmmError, device_module
from tiledmm.kernels.variants import find_variant
from tiledmm.launch.plans import plan_of
from tiledmm.problem.keywords import AUTO, KernelKeywords, UfuncKeywords
from tiledmm.replacement.products import Products

# Keywords of cupy.matmul.
_KEYWORDS = {"out", "casting", "order", "dtype", "axes", "axis", "keepdims", "signature"}

# CuPy's products that are counted but not replaced.
_COUNTED = ("inner", "tensordot", "vdot")


class Replacement:
    """A replacement of CuPy's products by a kernel.

    Args:
        kernel: Keywords ``variant``, ``tile``, ``config`` and ``precision``, as for ``tiledmm.matmul``.

    Attributes:
        is_baseline: Whether the variant is ``"cublas"``, so that CuPy computes all products.
        products: Count of the products.
    """

    def __init__(self, kernel: KernelKeywords) -> None:
        self.kernel = kernel
        self.is_baseline = kernel.variant != AUTO and find_variant(kernel.variant).is_baseline
        self.products = Products()

    def multiply(self, own: Callable[..., Any], x1: Any, x2: Any, **keywords: Any) -> Any:
        """Return the product of two CuPy arrays, computed by the kernel if it supports the product, else by CuPy.

        The product is counted.

        Args:
            own: CuPy's function. It is called for products that this package rejects. Its errors are raised.
            x1, x2: Operands.
            **keywords: Keywords of ``cupy.matmul``.
        """
        reason = self._reason(x1, x2, keywords.get("out"))
        if not reason:
            try:
                out = keywords.get("out")
                ufunc = UfuncKeywords(**{name: value for name, value in keywords.items() if name != "out"})
                plan = plan_of(x1, x2, out, ufunc, self.kernel)
                result = plan.run(x1, x2, out)
            except (TiledmmError, MemoryError) as error:  # nothing is written yet, or CuPy overwrites it
                reason = str(error).partition("\n")[0] or type(error).__name__
            else:
                self.products.took(plan, x1, x2)
                return result
        result = own(x1, x2, **keywords)
        self.products.left(x1, x2, reason)
        return result

    def _reason(self, *arrays: Any) -> str:
        """Return why a product is left to CuPy without trying a kernel; an empty string if a kernel may be tried.

        Args:
            *arrays: Operands, and the array for the result or None.
        """
        if self.is_baseline:
            return f"variant {self.kernel.variant!r} was requested"
        array = _array_class()
        for x in arrays:
            if x is not None and type(x) is not array and isinstance(x, array):
                return f"{type(x).__module__}.{type(x).__qualname__} is a subclass of cupy.ndarray"
        return ""


@functools.cache
def _array_class() -> Any:
    return device_module("launch.devices").ndarray


# Replacements in force, of which the last one computes the products. The tuple is replaced as a whole, so a thread that
# reads it needs no lock.
_in_force: tuple[Replacement, ...] = ()
_restore: list[Callable[[], None]] = []
_lock = threading.Lock()


def begin(replacement: Replacement) -> None:
    """Replace CuPy's products in all threads from now on. An earlier replacement is suspended until this one ends."""
    global _in_force
    with _lock:
        if not _in_force:
            _restore.extend(_assign(*each) for each in _stand_ins())
        _in_force = (*_in_force, replacement)


def end(replacement: Replacement) -> None:
    """End a replacement of CuPy's products. If there is no earlier one, restore CuPy's functions."""
    global _in_force
    with _lock:
        _in_force = tuple(each for each in _in_force if each is not replacement)
        if not _in_force:
            while _restore:
                _restore.pop()()


def _assign(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Set an attribute of a module or class, and return a function that restores the attribute.

    That function does nothing if the attribute has been set to something else since.
    """
    before = vars(owner).get(name, _assign)  # ``_assign`` marks a missing attribute
    setattr(owner, name, value)

    def restore() -> None:
        if vars(owner).get(name) is not value:
            return
        if before is _assign:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    return restore


def _stand_ins() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return the functions that replace CuPy's, as triples.

    A triple has the module or class that holds CuPy's function, the name of the function there, and the function that
    replaces it.
    """
    devices = device_module("launch.devices")
    cupy = devices.cupy
    ndarray, own_matmul = cupy.ndarray, devices.cupy_matmul
    own_operator, own_dot = ndarray.__matmul__, ndarray.dot

    @functools.wraps(own_matmul)
    def matmul(*operands: Any, **keywords: Any) -> Any:
        replacements = _in_force
        if replacements and _are_arrays(ndarray, *operands) and keywords.keys() <= _KEYWORDS:
            out = keywords.get("out")
            if isinstance(out, tuple) and len(out) == 1:
                keywords["out"] = out[0]
            return replacements[-1].multiply(own_matmul, *operands, **keywords)
        return own_matmul(*operands, **keywords)

    @functools.wraps(own_operator)
    def operator(self: Any, other: Any) -> Any:
        replacements = _in_force
        if replacements and _are_arrays(ndarray, self, other):
            return replacements[-1].multiply(own_operator, self, other)
        return own_operator(self, other)

    @functools.wraps(own_dot)
    def dot(self: Any, b: Any, out: Any = None) -> Any:
        replacements = _in_force
        if not replacements or not _are_arrays(ndarray, self, b) or not isinstance(out, (ndarray, type(None))):
            return own_dot(self, b, out)
        if reason := _unlike_matmul(self, b, out):
            result = own_dot(self, b, out)
            replacements[-1].products.left(self, b, reason, matmul=False)
            return result
        return replacements[-1].multiply(own_dot, self, b, **({} if out is None else {"out": out}))

    def counted(name: str) -> Callable[..., Any]:
        own = getattr(cupy, name)

        @functools.wraps(own)
        def stand_in(a: Any, b: Any, *others: Any, **keywords: Any) -> Any:
            result = own(a, b, *others, **keywords)
            if (replacements := _in_force) and _are_arrays(ndarray, a, b):
                replacements[-1].products.left(a, b, f"cupy.{name} is not replaced", matmul=False)
            return result

        return stand_in

    places: list[tuple[Any, str, Callable[..., Any]]]
    places = [(cupy, "matmul", matmul), (ndarray, "__matmul__", operator), (ndarray, "dot", dot)]
    places += [(cupy, name, counted(name)) for name in _COUNTED]
    places += [(cupy.linalg, name, made) for _, name, made in places if hasattr(cupy.linalg, name)]
    return [*places, (cupy.linalg._product, "matmul", matmul)]


def _are_arrays(ndarray: Any, *operands: Any) -> bool:
    return len(operands) == 2 and isinstance(operands[0], ndarray) and isinstance(operands[1], ndarray)


def _unlike_matmul(a: Any, b: Any, out: Any) -> str:
    """Return the reason why ``a.dot(b, out)`` differs from ``tiledmm.matmul(a, b, out=out)``.

    It is an empty string if they are the same.
    """
    if not a.ndim or not b.ndim:
        return "cupy.dot of a 0-d array is an elementwise product"
    if b.ndim > 2:
        return "cupy.dot with more than two dimensions on the right is not a batched matmul"
    shape = a.shape[:-1] + b.shape[1:]
    if out is None or (out.shape == shape and out.dtype == np.result_type(a.dtype, b.dtype) and out.flags.c_contiguous):
        return ""
    return f"cupy.dot needs an out of shape {shape}, of the operands' type and in C order"
