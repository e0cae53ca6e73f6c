"""``matmul``, ``explain`` and ``variants``: what users call first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiledmm.elements import ELEMENTS, SCHEMES
from tiledmm.errors import ConfigError
from tiledmm.hardware.data_sheets import find_gpu
from tiledmm.lazy import device_module
from tiledmm.problem.keywords import KernelKeywords, Precision, UfuncKeywords, VariantName, only_entry
from tiledmm.problem.operands import begin_together, describe, of_shape
from tiledmm.registry.config import ConfigOverrides
from tiledmm.registry.variants import VARIANTS
from tiledmm.selection.choice import Choice
from tiledmm.selection.front_end import Call, choose, choose_within, resolve_call
from tiledmm.selection.model import Model
from tiledmm.selection.select import AUTO, may_decompose
from tiledmm.selection.tuned import table_of

if TYPE_CHECKING:
    from tiledmm.selection.explanation import Explanation

#: Most plans that are kept; the oldest goes first.
MAX_PLANS = 4096

_plans: dict[Any, Any] = {}
_plans_lock = threading.Lock()


def matmul(
    x1: Any,
    x2: Any,
    /,
    *,
    out: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    axes: Any = None,
    axis: Any = None,
    keepdims: Any = False,
    signature: Any = None,
    variant: VariantName | str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: Precision = "full",
) -> Any:
    """Matrix product of two CuPy arrays: ``cupy.matmul`` by a kernel of your choice.

    Runs on the current device and stream. Any strides are read in place; batches broadcast.

    Args:
        x1: Left operand, ``(..., m, k)`` or ``(k,)``. float16, bfloat16, float32, float64, complex64, complex128, bool
            or an integer type.
        x2: Right operand, ``(..., k, n)`` or ``(k,)``.
        out: Array for the result, ``(..., m, n)`` less the axes that 1-D operands lack; of any strides, and of any type
            that ``casting`` lets the result become. It may overlap the operands.
        casting: How freely operands become the product's type and the result becomes ``out``'s: ``"no"``, ``"equiv"``,
            ``"safe"``, ``"same_kind"`` or ``"unsafe"``.
        order: Memory order of a new result: ``"C"``, ``"F"``, ``"A"`` or ``"K"``.
        dtype: Computation type; the operands' common type if None. (CuPy only allocates the result in it.)
            A wider integer than int8 or uint8 operands, such as int32, is as fast as their own type.
        axes: List of three tuples: the matrices' axes in ``x1``, ``x2`` and the result.
        axis, keepdims: For other ufuncs; they raise as NumPy and CuPy do.
        signature: The computation type as a ufunc signature, such as ``"ff->f"``.
        variant: A name out of ``variants()``, or ``"auto"`` for the fastest kernel of this package. ``"cublas"`` is
            ``cupy.matmul`` itself.
        tile: Tile size of the variant; None for its default.
        config: Fields that replace the tile's own, such as ``{"bk": 16, "split_k": 4}``: any of
            ``tiledmm.registry.config.Config`` and ``LaunchConfig``. Only with a named variant. For one that decomposes
            operands, ``{"scheme": "tf32x3"}`` is the same as ``precision="tf32x3"``.
        precision: What products of floats and complex numbers may use. ``"full"``, of which ``"float32"`` is another
            name: anything that keeps the type's accuracy (large float32 and complex64 products go to ``split_float32``
            on Hopper, to ``split_tensor_core`` elsewhere). ``"ieee"``: the type's own multiply-adds only, so neither
            these nor ``split_float64``. ``"tf32"``, for float32: these, or tensor cores that round operands to 11
            significant bits, whichever is faster. ``"fp16x3"``, ``"bf16x6"``, ``"bf16x9"`` or ``"tf32x3"``, for float32
            and complex64: that many products of limbs of that type, by the first of the two variants that runs on the
            device. Integers ignore it.

    Returns:
        ``out``, or a new ``cupy.ndarray``; 0-d for two vectors.

    Raises:
        ShapeError, AxisError, KeywordError, OperandTypeError, UnsupportedTypeError, AlignmentError: see
            ``tiledmm.errors``. Each is also the builtin error that NumPy raises.
        UnknownVariantError, ConfigError: No such variant, or no such tile.
        cupy.cuda.memory.OutOfMemoryError: No memory for the result, or for the workspace of a named kernel. ``"auto"``
            takes kernels that need less.

    Example:
        >>> c = tiledmm.matmul(a, b, variant="tiled_padded", tile=16)
    """
    if isinstance(out, tuple):
        out = only_entry(out)
    ufunc = casting, order, dtype, axes, axis, keepdims, signature
    return plan_of(x1, x2, out, ufunc, (variant, tile, config, precision)).run(x1, x2, out)


def plan_of(x1: Any, x2: Any, out: Any, ufunc: tuple[Any, ...], kernel: tuple[Any, ...]) -> Any:
    """The plan of a call, made when it is first needed, then kept.

    Args:
        x1, x2, out: CuPy arrays; ``out`` may be None.
        ufunc: The fields of ``UfuncKeywords``, in order.
        kernel: The fields of ``KernelKeywords``, in order.

    Raises:
        As ``matmul``.
    """
    devices = _devices or _find_devices(kernel)
    array = devices.ndarray
    if not (isinstance(x1, array) and isinstance(x2, array) and (out is None or isinstance(out, array))):
        return _make_plan(x1, x2, out, UfuncKeywords(*ufunc), KernelKeywords(*kernel))  # raises, as a rule
    variant, tile, config, precision = kernel
    casting, order, dtype, axes, axis, keepdims, signature = ufunc
    try:
        key = (
            type(x1), x1.shape, x1.strides, x1.dtype, x1.dtype.num, x1.data.device_id,
            type(x2), x2.shape, x2.strides, x2.dtype, x2.dtype.num, x2.data.device_id,
            None if out is None else (type(out), out.shape, out.strides, out.dtype, out.data.device_id),
            casting, order, dtype, None if axes is None else (type(axes), str(axes)), axis, keepdims, signature,
            variant, tile, None if config is None else _frozen(config), precision, devices.current_device(),
            x1.data.ptr == x2.data.ptr,
        )  # fmt: skip
        plan = _plans.get(key)
    except TypeError:  # a keyword that cannot be hashed: making the plan tells what is wrong with it
        key, plan = None, None
    if plan is None:
        plan = _make_plan(x1, x2, out, UfuncKeywords(*ufunc), KernelKeywords(*kernel))
        if key is not None:
            _keep(key, plan)
    return plan


def _frozen(config: Any) -> Any:
    return frozenset(config.items()) if isinstance(config, Mapping) else config


def explain(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    precision: Precision = "full",
    target: str | None = None,
    **keywords: Any,
) -> Explanation:
    """The kernels that ``matmul(x1, x2)`` takes, and their rivals. Print it. Needs no GPU.

    CuPy arrays are explained for the current device, others for an H100, or for the target.

    Args:
        x1, x2, out: CuPy or NumPy arrays, or anything else with ``shape``, ``strides`` and ``dtype``; no data is read.
            Or shapes, ``(m, k)`` and ``(k, n)``: row-major arrays of ``dtype=``, or of float32.
        precision: As for ``matmul``.
        target: A compute capability such as ``"sm_86"``, or a GPU's name such as ``"A10"``
            (``tiledmm.hardware.data_sheets.DATA_SHEETS``): what ``auto`` takes there. None for the device.
        **keywords: Those of ``matmul``, except those that name a kernel.

    Returns:
        The explanation: ``.variant``, ``.tile``, ``.config``, ``.expected_us`` and ``.bound_us`` (the roofline) of what
        ``auto`` takes, and ``.choices``.

    Raises:
        TiledmmError: As ``matmul``, for the same mistakes.
        ConfigError: If there is no such target.

    Example:
        >>> tiledmm.explain((512, 300), (300, 400)).variant
        'warp_tiled'
        >>> print(tiledmm.explain(a, b))
        (64 x 4096) @ (4096 x 64), float32, layout NN
        tiledmm_warp_tiled_f32_64x64x8_nn, split-K 96: 10.4 us expected on H100 SXM 80 GB
        ...
    """
    from tiledmm.selection.explanation import explanation

    decomposes = may_decompose(precision)
    if precision in SCHEMES:
        raise ConfigError(f"precision {precision!r} names a kernel: there is nothing for auto to choose")
    ufunc = UfuncKeywords.of("explain", keywords)
    x1, x2, out = (of_shape(x, ufunc.dtype) if isinstance(x, tuple) else x for x in (x1, x2, out))
    arrays = describe(x1), describe(x2), None if out is None else describe(out)
    product = resolve_call(*arrays, ufunc, precision, begin_together(x1, x2)).multiplied
    if target is not None or not type(x1).__module__.startswith("cupy"):
        return explanation(product, Model(find_gpu(target or "sm_90"), decomposes=decomposes), {})
    model = device_module("devices").device_model(decomposes)
    return explanation(product, model, table_of(model.gpu.name))


def forget_plans() -> None:
    """Drops all plans: a name may mean another kernel now."""
    with _plans_lock:
        _plans.clear()


def variants() -> tuple[str, ...]:
    """The names that ``variant=`` takes besides ``"auto"``, in ladder order."""
    return tuple(VARIANTS)


class _Baseline:
    """``cupy.matmul`` itself, for ``variant="cublas"``."""

    def __init__(self, ufunc: UfuncKeywords) -> None:
        self.keywords = ufunc.given()

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        return device_module("devices").cupy_matmul(x1, x2, out=out, **self.keywords)


class _Converted:
    """A product with conversions that no kernel does: CuPy does them, before and after it.

    Attributes:
        choice: The kernels that multiply the converted arrays.
    """

    def __init__(self, call: Call, choice: Choice, ufunc: UfuncKeywords, kernel: KernelKeywords) -> None:
        self.product, self.dtype, self.choice = call.product, call.product.compute.result.dtype, choice
        self.ufunc, self.kernel = ufunc, kernel

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        left, right = self.product.convert
        x1 = x1 if left is None else x1.astype(left)
        x2 = x2 if right is None else x2.astype(right)
        cupy = device_module("launch").cupy
        target = cupy.empty(out.shape, self.dtype) if self.product.via_temporary else out
        result = plan_of(x1, x2, target, self.ufunc, self.kernel).run(x1, x2, target)
        if not self.product.via_temporary:
            return result
        cupy.copyto(out, result, casting=self.ufunc.casting)
        return out


def _make_plan(x1: Any, x2: Any, out: Any, ufunc: UfuncKeywords, kernel: KernelKeywords) -> Any:
    may_decompose(kernel.precision)
    row = VARIANTS.get(kernel.variant) if isinstance(kernel.variant, str) else None
    if row is not None and row.is_baseline:
        row.config(kernel.tile, ELEMENTS["float32"])
        if kernel.config is not None:
            raise ConfigError(f"variant {row.name!r} has no config; leave config= out")
        return _Baseline(ufunc)
    devices = device_module("devices")
    devices.check_array(x1, "x1")
    devices.check_array(x2, "x2")
    if out is not None:
        devices.check_array(out, "out")
    described = None if out is None else describe(out)
    call = resolve_call(describe(x1), describe(x2), described, ufunc, kernel.precision, begin_together(x1, x2))
    choice = choose(call, kernel, devices.device_model)
    if call.product.converts:
        return _Converted(call, choice, ufunc, kernel)
    return device_module("launch").Plan(choice, functools.partial(choose_within, call, kernel, devices.device_model))


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
