"""Plans of calls: each plan is made when it is first needed, then kept. CuPy is imported only when a plan is needed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from tiledmm.elements import ELEMENTS
from tiledmm.errors import ConfigError, OperandTypeError, device_module
from tiledmm.kernels.variants import VARIANTS
from tiledmm.problem.arrays import Allocate, is_array, of_shape
from tiledmm.problem.call import Call, resolve_call
from tiledmm.problem.epilogue import EpilogueCall
from tiledmm.problem.keywords import KernelKeywords, UfuncKeywords, is_ieee
from tiledmm.problem.prepared import PreparedOperand
from tiledmm.selection.choice import Choice
from tiledmm.selection.choose import choose, choose_within


class Runnable(Protocol):
    """Product that is ready to run on any arrays of the same description, such as a ``Plan``."""

    def run(
        self, x1: Any, x2: Any, out: Any, epilogue: EpilogueCall | None = None, allocate: Allocate | None = None
    ) -> Any:
        """Compute the product of two arrays.

        Args:
            x1, x2: The operands: CuPy arrays, a ``ForeignArray``, or a ``PreparedOperand``.
            out: The array for the result; None for a new one.
            epilogue: The arrays and numbers that the plan's epilogue reads.
            allocate: Function that allocates a new array; None for CuPy's.

        Returns:
            ``out``, or the new array.
        """


#: Maximum number of plans that are kept; the oldest is dropped first.
MAX_PLANS = 4096

_plans: dict[Any, Runnable] = {}
_plans_lock = threading.Lock()


def plan_of(
    x1: Any,
    x2: Any,
    out: Any,
    ufunc: tuple[Any, ...],
    kernel: tuple[Any, ...],
    epilogue: EpilogueCall | None = None,
) -> Runnable:
    """Return the plan of a call, which is made when it is first needed and then kept.

    Args:
        x1, x2, out: CuPy arrays, or a ``ForeignArray``; ``out`` may be None, and an operand a ``PreparedOperand``.
        ufunc: The fields of ``UfuncKeywords``, in order.
        kernel: The fields of ``KernelKeywords``, in order.
        epilogue: The epilogue of ``gemm``; None for ``matmul``.

    Raises:
        TiledmmError: As for ``matmul``.
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
    except TypeError:  # a keyword cannot be hashed; making the plan raises an error about it
        key, plan = None, None
    if plan is None:
        plan = _make_plan(x1, x2, out, UfuncKeywords(*ufunc), KernelKeywords(*kernel), epilogue)
        if key is not None:
            _keep(key, plan)
    return plan


def make_forms(operand: PreparedOperand, shape: tuple[int, ...], *, is_left: bool, precision: str) -> None:
    """Make the forms of a prepared operand that a product with a matrix of a shape reads, without computing it.

    Args:
        operand: The operand, on the current device.
        shape: Shape of the other operand, a row-major array of the same type.
        is_left: Whether ``operand`` is the left operand.
        precision: Precision, as for ``matmul``.

    Raises:
        TiledmmError: As for ``matmul``.
        MemoryError: CuPy's error, if there is no memory for a form.
    """
    array = of_shape(shape, operand.dtype)
    devices = device_module("launch.devices")
    other = devices.ForeignArray(0, array.shape, array.strides, array.dtype, None, operand.data.device_id)
    x1, x2 = (operand, other) if is_left else (other, operand)
    plan: Any = plan_of(x1, x2, None, tuple(UfuncKeywords()), tuple(KernelKeywords(precision=precision)))
    plan.make_forms(x1, x2)  # operands of one type need no conversion, so this is a ``Plan``


def are_cupys(x1: Any, x2: Any, out: Any, kernel: tuple[Any, ...], others: Sequence[Any] = ()) -> bool:
    """Return whether all arrays of a call are CuPy arrays.

    Args:
        x1, x2, out: The operands, and the array for the result or None.
        kernel: The fields of ``KernelKeywords``, in order. They are checked at the first call.
        others: Other arguments, which may be arrays, numbers or None.
    """
    array = (_devices or _find_devices(kernel)).ndarray
    return (
        isinstance(x1, array) and isinstance(x2, array) and (out is None or isinstance(out, array))
        and not (others and any(_is_foreign(x, array) for x in others))
    )  # fmt: skip


def _is_foreign(x: Any, cupys: type) -> bool:
    """Return whether an argument is an array of another library than CuPy."""
    return not (x is None or isinstance(x, (cupys, int, float, complex))) and is_array(x)


def _described(epilogue: EpilogueCall) -> tuple[Any, ...]:
    """Return the properties of a call of ``gemm`` on which its plan depends, as a tuple for a dict's key."""
    arrays = ((type(x), x.shape, x.strides, x.dtype, x.data.device_id) for x in epilogue.arrays)
    return epilogue.epilogue, epilogue.without_product, epilogue.adjoint, *arrays


def _frozen(config: Any) -> Any:
    return frozenset(config.items()) if isinstance(config, Mapping) else config


def forget_plans() -> None:
    """Drop all plans, because a name may stand for another kernel now."""
    with _plans_lock:
        _plans.clear()


VARIANTS.listeners.append(forget_plans)


class _Converted:
    """Plan of a product with conversions that no kernel does. CuPy converts before and after the product.

    Attributes:
        choice: The kernels that multiply the converted arrays.
    """

    def __init__(self, call: Call, choice: Choice, ufunc: UfuncKeywords, kernel: KernelKeywords) -> None:
        self.product, self.dtype, self.choice = call.product, call.product.compute.result.dtype, choice
        self.ufunc, self.kernel = ufunc, kernel

    def run(
        self, x1: Any, x2: Any, out: Any, epilogue: EpilogueCall | None = None, allocate: Allocate | None = None
    ) -> Any:
        """Convert the operands with CuPy, multiply them, and convert the result.

        The arguments are those of ``Plan.run``.
        """
        as_cupys, (left, right) = device_module("launch.devices").as_cupys, self.product.convert
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
) -> Runnable:
    """Return a new plan for a call. Nothing is computed yet.

    Raises:
        TiledmmError: As for ``matmul``.
    """
    is_ieee(kernel.precision)
    row = VARIANTS.get(kernel.variant) if isinstance(kernel.variant, str) else None
    if row is not None and row.is_baseline:
        row.config(kernel.tile, ELEMENTS["float32"])
        if kernel.config is not None:
            raise ConfigError(f"variant {row.name!r} has no config; leave config= out")
        return cast(Runnable, device_module("launch.by_cupy").Baseline(ufunc))
    devices = device_module("launch.devices")
    arrays = {"x1": x1, "x2": x2, "out": out}
    if epilogue is not None and epilogue.epilogue is not None:
        names = ("c" if name == "addend" else name for name in epilogue.epilogue.names)
        arrays |= dict(zip(names, epilogue.arrays, strict=True))
    for name, x in arrays.items():
        if x is not None:
            _check_device(name, x, devices.current_device())
    call = resolve_call(x1, x2, out, ufunc, epilogue)
    choice = choose(call, kernel, devices.device_model)
    if call.product.converts:
        return _Converted(call, choice, ufunc, kernel)
    plan = device_module("launch.plan").Plan
    return cast(Runnable, plan(choice, functools.partial(choose_within, call, kernel, devices.device_model)))


def _check_device(name: str, x: Any, device: int) -> None:
    """Check that an array is on the current device, or has no elements.

    Args:
        name: Name of the argument, for the message.
        x: The array.
        device: Index of the current device.

    Raises:
        OperandTypeError: If the array is on another device.
    """
    if x.data.device_id != device and x.size:
        raise OperandTypeError(
            f"{name} is on device {x.data.device_id} and the current device is {device}; "
            f"use 'with cupy.cuda.Device({x.data.device_id}):', or copy it"
        )


def _keep(key: Any, plan: Any) -> None:
    with _plans_lock:
        while len(_plans) >= MAX_PLANS:
            del _plans[next(iter(_plans))]
        _plans[key] = plan


_devices: Any = None


def _find_devices(kernel: tuple[Any, ...]) -> Any:
    """Import the module ``launch.devices``, keep it for later calls, and return it.

    The precision is checked first, so that an unknown precision is reported even without CuPy.

    Args:
        kernel: The fields of ``KernelKeywords``, in order.
    """
    global _devices
    is_ieee(KernelKeywords(*kernel).precision)
    _devices = device_module("launch.devices")
    return _devices
