"""What users call: ``matmul``, and what shows how it works."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tiledmm.device import device_module
from tiledmm.elements import ELEMENTS, SCHEMES
from tiledmm.errors import ConfigError
from tiledmm.problem.operands import Product, begin_together, describe, resolve
from tiledmm.registry.config import ConfigOverrides
from tiledmm.registry.variants import VARIANTS, find_variant
from tiledmm.selection.choice import Choice
from tiledmm.selection.explanation import Explanation, explanation
from tiledmm.selection.model import H100, H100_IEEE
from tiledmm.selection.select import AUTO, kernel_of, may_decompose, select, with_precision
from tiledmm.selection.tuned import table_of

if TYPE_CHECKING:
    pass

#: Plans that are kept. The oldest goes first when there are more.
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
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: str = "float32",
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
        dtype: Type the product is taken in; the operands' common type if None. (CuPy only allocates the result in it.)
        axes: List of three tuples: which axes are the matrices' in ``x1``, ``x2`` and the result.
        axis, keepdims: For other ufuncs; given, they raise as NumPy and CuPy do.
        signature: The type as a ufunc signature, such as ``"ff->f"``.
        variant: A name out of ``variants()``, or ``"auto"`` for the fastest kernel of this package. ``"cublas"`` is
            ``cupy.matmul`` itself.
        tile: Tile size of the variant; None for its default.
        config: Parameters of the variant's kernel in place of the tile's own, such as ``{"bk": 16, "split_k": 4}``: any
            field of ``tiledmm.registry.variant.Config``. Only with a variant that is named. For one that splits,
            ``{"scheme": "tf32x3"}`` is the same as ``precision="tf32x3"``.
        precision: What a product of float32 or complex64 may use: ``"float32"``, anything that keeps float32's
            accuracy (large products go to ``split_float32`` on Hopper, to ``split_tensor_core`` elsewhere);
            ``"ieee"``, float32 multiply-adds only; ``"tf32"``, of float32, that or tensor cores that round operands to
            11 significant bits, whichever is faster; or the first of those two variants that runs on the device, by
            the scheme of that name: so many products of pieces of that type, ``"fp16x3"``, ``"bf16x6"``, ``"bf16x9"``
            or ``"tf32x3"``. Products of other types ignore it.

    Returns:
        ``out``, or a new ``cupy.ndarray``; 0-d for two vectors.

    Raises:
        ShapeError, AxisError, KeywordError, OperandTypeError, UnsupportedTypeError, AlignmentError: see
            ``tiledmm.errors``. Each is also the builtin error that NumPy raises.
        UnknownVariantError, ConfigError: No such variant, or no such tile.

    Example:
        >>> c = tiledmm.matmul(a, b, variant="tiled_padded", tile=16)
    """
    if isinstance(out, tuple):
        out = _only_entry(out)
    plan = plan_of(
        x1, x2, out, casting, order, dtype, axes, axis, keepdims, signature, variant, tile, config, precision
    )  # fmt: skip
    return plan.run(x1, x2, out)


def plan_of(
    x1: Any,
    x2: Any,
    out: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    axes: Any = None,
    axis: Any = None,
    keepdims: Any = False,
    signature: Any = None,
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: str = "float32",
) -> Any:
    """What ``matmul`` runs for a call: made when it is first needed, then kept. ``out`` is no tuple here.

    Raises:
        As ``matmul``.
    """
    try:
        key = (
            type(x1), x1.shape, x1.strides, x1.dtype, x1.data.device_id,
            type(x2), x2.shape, x2.strides, x2.dtype, x2.data.device_id,
            None if out is None else (type(out), out.shape, out.strides, out.dtype, out.data.device_id),
            casting, order, dtype, None if axes is None else (type(axes), str(axes)), axis, keepdims, signature,
            variant, tile, None if config is None else tuple(sorted(config.items())), precision, _current_device(),
            x1.data.ptr == x2.data.ptr,
        )  # fmt: skip
        plan = _plans.get(key)
    except (
        AttributeError,
        TypeError,
        ValueError,
    ):  # no CuPy array (NumPy's .data may refuse), or an unhashable keyword
        key, plan = None, None
    if plan is None:
        keywords = {
            "casting": casting, "order": order, "dtype": dtype, "axes": axes,
            "axis": axis, "keepdims": keepdims, "signature": signature,
        }  # fmt: skip
        plan = _make_plan(
            x1, x2, out, keywords, {"variant": variant, "tile": tile, "config": config, "precision": precision}
        )
        if key is not None:
            _keep(key, plan)
    return plan


def explain(x1: Any, x2: Any, /, out: Any = None, *, precision: str = "float32", **keywords: Any) -> Explanation:
    """Which kernel ``matmul(x1, x2)`` takes, and why: print it. Needs no GPU.

    For CuPy arrays that is on the current device, for others on an H100.

    Args:
        x1, x2, out: CuPy or NumPy arrays, or anything else with ``shape``, ``strides`` and ``dtype``; no data is read.
        precision: As for ``matmul``.
        **keywords: ``matmul``'s, but for those that name a kernel.

    Raises:
        TiledmmError: As ``matmul``, for the same mistakes.

    Example:
        >>> print(tiledmm.explain(a, b))
        (64 x 4096) @ (4096 x 64), float32, layout NN
        tiledmm_warp_tiled_f32_64x64x8_nn, split-K 96: 10.4 us expected on H100 SXM 80 GB
        ...
    """
    splits = may_decompose(precision)
    if precision in SCHEMES:
        raise ConfigError(f"precision {precision!r} names a kernel: there is nothing for auto to choose")
    first, second, third = describe(x1), describe(x2), None if out is None else describe(out)
    product = resolve(first, second, third, same_memory=begin_together(x1, x2), **keywords)
    left, right = product.convert
    if product.convert != (None, None):
        first, second = (
            (first if left is None else first.as_type(left)),
            (second if right is None else second.as_type(right)),
        )
        product = resolve(first, second, third, **keywords)
    product = with_precision(product, precision)
    if not type(x1).__module__.startswith("cupy"):
        return explanation(product, H100 if splits else H100_IEEE, {})
    model = device_module("launch").device_model(splits)
    return explanation(product, model, table_of(model.gpu.name))


def forget_plans() -> None:
    """Drops what is kept of earlier calls, for a name that now means another kernel."""
    with _plans_lock:
        _plans.clear()


def variants() -> tuple[str, ...]:
    """The names that ``variant=`` takes besides ``"auto"``, in ladder order."""
    return tuple(VARIANTS)


class _Baseline:
    """``cupy.matmul`` itself, for ``variant="cublas"``."""

    def __init__(self, keywords: dict[str, Any]) -> None:
        self.keywords = {name: value for name, value in keywords.items() if value is not _DEFAULTS[name]}

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        return device_module("launch").cupy_matmul(x1, x2, out=out, **self.keywords)


class _Detour:
    """A product with a conversion that CuPy does in a pass of its own: those that are not same-kind."""

    def __init__(self, product: Product, keywords: dict[str, Any], kernel: dict[str, Any]) -> None:
        self.product = product
        self.keywords = keywords | kernel
        self._plan: Any = None

    @property
    def choice(self) -> Choice:
        """What multiplies. Known once it has run."""
        choice: Choice = self._plan.choice
        return choice

    def run(self, x1: Any, x2: Any, out: Any) -> Any:
        left, right = self.product.convert
        x1 = x1 if left is None else x1.astype(left)
        x2 = x2 if right is None else x2.astype(right)
        cupy = device_module("launch").cupy
        aside = self.product.via_temporary
        target = cupy.empty(out.shape, self.product.compute.dtype) if aside else out
        plan = self._plan = plan_of(x1, x2, target, **self.keywords)
        result = plan.run(x1, x2, target)
        if not aside:
            return result
        cupy.copyto(out, result, casting=self.keywords["casting"])
        return out


_DEFAULTS = {
    "casting": "same_kind", "order": "K", "dtype": None, "axes": None, "axis": None,
    "keepdims": False, "signature": None,
}  # fmt: skip


def _make_plan(x1: Any, x2: Any, out: Any, keywords: dict[str, Any], kernel: dict[str, Any]) -> Any:
    splits = may_decompose(kernel["precision"])
    if kernel["variant"] == "cublas":
        find_variant("cublas").config(kernel["tile"], ELEMENTS["float32"])
        if kernel["config"] is not None:
            raise ConfigError("variant 'cublas' has no numbers to choose; leave config= out")
        return _Baseline(keywords)
    launch = device_module("launch")
    launch.check_array(x1, "x1")
    launch.check_array(x2, "x2")
    if out is not None:
        launch.check_array(out, "out")
    same = begin_together(x1, x2)
    product = resolve(describe(x1), describe(x2), None if out is None else describe(out), same_memory=same, **keywords)
    if product.via_temporary or product.convert != (None, None):
        return _Detour(product, keywords, kernel)
    model = launch.device_model(splits)
    table = table_of(model.gpu.name) if kernel["variant"] == AUTO else None
    return launch.Plan(select(**kernel_of(product, **kernel, model=model), table=table, model=model))


def _only_entry(out: tuple[Any, ...]) -> Any:
    if len(out) != 1:
        raise ConfigError(f"a tuple for out has exactly one entry, for the one result; got {len(out)}")
    return out[0]


def _keep(key: Any, plan: Any) -> None:
    with _plans_lock:
        while len(_plans) >= MAX_PLANS:
            del _plans[next(iter(_plans))]
        _plans[key] = plan


def _current_device() -> int:
    """The device that launches go to. Replaces itself by CuPy's own function once there is a CuPy array."""
    global _current_device
    _current_device = device_module("launch").current_device
    return _current_device()
