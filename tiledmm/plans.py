"""The plans of calls: each is made when it is first needed, then kept."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiledmm.elements import ELEMENTS
from tiledmm.errors import ConfigError, device_module
from tiledmm.kernels.variants import VARIANTS
from tiledmm.problem.arrays import Allocate, begin_together, describe, is_array
from tiledmm.problem.epilogue import EpilogueCall, EpilogueKeywords
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords
from tiledmm.selection.choice import Choice
from tiledmm.selection.front_end import Call, choose, choose_within, resolve_call
from tiledmm.selection.select import may_decompose

#: Most plans that are kept; the oldest goes first.
MAX_PLANS = 4096

_plans: dict[Any, Any] = {}
_plans_lock = threading.Lock()


def plan_of(
    x1: Any,
    x2: Any,
    out: Any,
    ufunc: tuple[Any, ...],
    kernel: tuple[Any, ...],
    epilogue: EpilogueCall | None = None,
) -> Any:
    """The plan of a call, made when it is first needed, then kept.

    Args:
        x1, x2, out: CuPy arrays, or a ``ForeignArray``; ``out`` may be None.
        ufunc: The fields of ``UfuncKeywords``, in order.
        kernel: The fields of ``KernelKeywords``, in order.
        epilogue: The epilogue of ``gemm``.

    Raises:
        TiledmmError: As ``matmul``.
    """
    devices = _devices or _find_devices(kernel)
    variant, tile, config, precision = kernel
    casting, order, dtype, axes, axis, keepdims, signature = ufunc
    try:
        key = (
            type(x1), x1.shape, x1.strides, x1.dtype, x1.dtype.num, x1.data.device_id,
            type(x2), x2.shape, x2.strides, x2.dtype, x2.dtype.num, x2.data.device_id,
            None if out is None else (type(out), out.shape, out.strides, out.dtype, out.data.device_id),
            casting, order, dtype, None if axes is None else (type(axes), str(axes)), axis, keepdims, signature,
            variant, tile, None if config is None else _frozen(config), precision, devices.current_device(),
            x1.data.ptr == x2.data.ptr, None if epilogue is None else _described(epilogue),
        )  # fmt: skip
        plan = _plans.get(key)
    except TypeError:  # a keyword that cannot be hashed: making the plan tells what is wrong with it
        key, plan = None, None
    if plan is None:
        plan = _make_plan(x1, x2, out, UfuncKeywords(*ufunc), KernelKeywords(*kernel), epilogue)
        if key is not None:
            _keep(key, plan)
    return plan


def are_cupys(x1: Any, x2: Any, out: Any, kernel: tuple[Any, ...], others: Sequence[Any] = ()) -> bool:
    """Whether operands and result are CuPy arrays, and so are the other arguments, as far as they are arrays."""
    array = (_devices or _find_devices(kernel)).ndarray
    return (
        isinstance(x1, array) and isinstance(x2, array) and (out is None or isinstance(out, array))
        and not any(x is not None and not isinstance(x, (array, int, float, complex)) and is_array(x) for x in others)
    )  # fmt: skip


def _described(epilogue: EpilogueCall) -> tuple[Any, ...]:
    """What a plan depends on of an epilogue."""
    arrays = ((type(x), x.shape, x.strides, x.dtype, x.data.device_id) for x in epilogue.arrays)
    return epilogue.epilogue, epilogue.without_product, *arrays


def _frozen(config: Any) -> Any:
    return frozenset(config.items()) if isinstance(config, Mapping) else config


def forget_plans() -> None:
    """Drops all plans: a name may mean another kernel now."""
    with _plans_lock:
        _plans.clear()


class _Baseline:
    """``cupy.matmul`` itself, for ``variant="cublas"``; with an epilogue, and CuPy's elementwise kernels."""

    def __init__(self, ufunc: UfuncKeywords) -> None:
        self.ufunc, self.keywords = ufunc, ufunc.given()

    def run(
        self, x1: Any, x2: Any, out: Any, epilogue: EpilogueCall | None = None, allocate: Allocate | None = None
    ) -> Any:
        devices = device_module("devices")
        x1, x2, out = map(devices.as_cupys, (x1, x2, out))
        if epilogue is None:
            return devices.cupy_matmul(x1, x2, out=out, **self.keywords)
        keywords = EpilogueKeywords(*map(devices.as_cupys, epilogue.keywords))
        return devices.cupy_gemm(x1, x2, replace(epilogue, keywords=keywords), out, self.ufunc)


class _Converted:
    """A product with conversions that no kernel does: CuPy does them, before and after it.

    Attributes:
        choice: The kernels that multiply the converted arrays.
    """

    def __init__(self, call: Call, choice: Choice, ufunc: UfuncKeywords, kernel: KernelKeywords) -> None:
        self.product, self.dtype, self.choice = call.product, call.product.compute.result.dtype, choice
        self.ufunc, self.kernel = ufunc, kernel

    def run(
        self, x1: Any, x2: Any, out: Any, epilogue: EpilogueCall | None = None, allocate: Allocate | None = None
    ) -> Any:
        as_cupys, (left, right) = device_module("devices").as_cupys, self.product.convert
        x1 = x1 if left is None else as_cupys(x1).astype(left)
        x2 = x2 if right is None else as_cupys(x2).astype(right)
        cupy = device_module("launch.plan").cupy
        target = cupy.empty(out.shape, self.dtype) if self.product.via_temporary else out
        result = plan_of(x1, x2, target, self.ufunc, self.kernel, epilogue).run(x1, x2, target, epilogue, allocate)
        if not self.product.via_temporary:
            return result
        cupy.copyto(as_cupys(out), result, casting=self.ufunc.casting)
        return out


def _make_plan(
    x1: Any, x2: Any, out: Any, ufunc: UfuncKeywords, kernel: KernelKeywords, epilogue: EpilogueCall | None
) -> Any:
    may_decompose(kernel.precision)
    row = VARIANTS.get(kernel.variant) if isinstance(kernel.variant, str) else None
    if row is not None and row.is_baseline:
        row.config(kernel.tile, ELEMENTS["float32"])
        if kernel.config is not None:
            raise ConfigError(f"variant {row.name!r} has no config; leave config= out")
        return _Baseline(ufunc)
    devices = device_module("devices")
    devices.check_device(x1, "x1")
    devices.check_device(x2, "x2")
    if out is not None:
        devices.check_device(out, "out")
    if epilogue is not None and epilogue.epilogue is not None:
        for name, x in zip(epilogue.epilogue.names, epilogue.arrays, strict=True):
            devices.check_device(x, "c" if name == "addend" else name)
    described = None if out is None else describe(out)
    together = begin_together(x1, x2)
    call = resolve_call(describe(x1), describe(x2), described, ufunc, kernel.precision, together, epilogue)
    choice = choose(call, kernel, devices.device_model)
    if call.product.converts:
        return _Converted(call, choice, ufunc, kernel)
    return device_module("launch.plan").Plan(
        choice, functools.partial(choose_within, call, kernel, devices.device_model)
    )


def _keep(key: Any, plan: Any) -> None:
    with _plans_lock:
        while len(_plans) >= MAX_PLANS:
            del _plans[next(iter(_plans))]
        _plans[key] = plan


_devices: Any = None


def _find_devices(kernel: tuple[Any, ...]) -> Any:
    """The module that asks CuPy, imported at the first call. Mistakes are reported without CuPy, too."""
    global _devices
    may_decompose(KernelKeywords(*kernel).precision)
    _devices = device_module("devices")
    return _devices
