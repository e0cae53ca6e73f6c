"""``matmul``, ``gemm``, ``explain`` and ``variants``: what users call first."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tiledmm.elements import SCHEMES
from tiledmm.errors import ConfigError, OperandTypeError, device_module
from tiledmm.hardware.data_sheets import find_gpu
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.kernels.variants import VARIANTS
from tiledmm.launch.plans import are_cupys, plan_of
from tiledmm.problem.arrays import is_array, of_shape
from tiledmm.problem.call import resolve_call
from tiledmm.problem.casting import loop_type
from tiledmm.problem.epilogue import EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import AUTO, Precision, UfuncKeywords, is_ieee, only_entry
from tiledmm.selection.choose import with_precision
from tiledmm.selection.model import Model
from tiledmm.selection.tuned import table_of

if TYPE_CHECKING:
    from tiledmm.selection.explanation import Explanation


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
    precision: Precision = "full",
) -> Any:
    """Compute the matrix product of two CuPy arrays: ``cupy.matmul`` by a kernel of your choice.

    Runs on the current device and stream. Any strides are read in place; batches broadcast. Arrays of other libraries
    that speak DLPack or the CUDA array interface are taken too, on the first operand's device and its library's stream.

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
            ``tiledmm.kernels.config.Config`` and ``LaunchConfig``. Only with a named variant. For one that decomposes
            operands, ``{"scheme": "tf32x3"}`` is the same as ``precision="tf32x3"``.
        precision: What products of floats and complex numbers may use. ``"full"``, of which ``"float32"`` is another
            name: anything that keeps the type's accuracy (large float32 and complex64 products go to ``split_float32``
            on Hopper, to ``split_tensor_core`` elsewhere). ``"ieee"``: the type's own multiply-adds only, so neither
            these nor ``split_float64``. ``"tf32"``, for float32: these, or tensor cores that round operands to 11
            significant bits, whichever is faster. ``"fp16x3"``, ``"bf16x6"``, ``"bf16x9"`` or ``"tf32x3"``, for float32
            and complex64: that many products of limbs of that type, by the first of the two variants that runs on the
            device. Integers ignore it.

    Returns:
        ``out``, or a new ``cupy.ndarray``, of the library of ``x1`` if that is another; 0-d for two vectors.

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
    ufunc, kernel = (casting, order, dtype, axes, axis, keepdims, signature), (variant, tile, config, precision)
    if are_cupys(x1, x2, out, kernel):
        return plan_of(x1, x2, out, ufunc, kernel).run(x1, x2, out)
    return _interchange().matmul(x1, x2, out, ufunc, kernel)


def gemm(
    a: Any,
    b: Any,
    /,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    bias: Any = None,
    activation: str | None = None,
    out: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: Precision = "full",
) -> Any:
    """Compute ``activation(alpha * (a @ b) + beta * c + bias)`` of CuPy arrays, without another pass over memory.

    Sums, factors and activation are computed in the accumulator's type and rounded once, to the result's. Arrays of
    other libraries are taken as by ``matmul``.

    Args:
        a: Left operand, ``(..., m, k)`` or ``(k,)``, of the types that ``matmul`` takes except bool.
        b: Right operand, ``(..., k, n)`` or ``(k,)``.
        c: Array that broadcasts to the result, of any strides. It is not read if ``beta`` is 0. It may be ``out``.
        alpha: A number, or an array that broadcasts to the result, such as a factor for each column; one without
            dimensions is read on the device, without synchronization. Where it is 0, the product does not count,
            whatever it is; the number 0 leaves the operands unread.
        beta: A number, or an array without dimensions.
        bias: Array that broadcasts to the result: ``(n,)`` for one for each column, ``(m, 1)`` for each row.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, ``"sigmoid"`` or ``"tanh"``. Integers have the
            first only, complex numbers none.
        out, variant, tile, config, precision: As for ``matmul``. ``"cublas"`` is ``cupy.matmul`` and CuPy's elementwise
            kernels.
        dtype, casting: As for ``matmul``; ``c``, ``bias`` and arrays of factors are cast likewise. Integers wrap.

    Returns:
        ``out``, or a new ``cupy.ndarray``, as of ``matmul``.

    Raises:
        KeywordError: ``beta`` without ``c``, no such activation.
        UnsupportedTypeError: A product in bool, or an activation or a factor that the type does not have.
        TiledmmError: As ``matmul``.

    Example:
        >>> hidden = tiledmm.gemm(x, weights, bias=bias, activation="relu")
        >>> tiledmm.gemm(u, v, c, beta=1, out=c)   # c += u @ v
    """
    out = only_entry(out) if isinstance(out, tuple) else out
    ufunc, kernel = UfuncKeywords(casting=casting, dtype=dtype), (variant, tile, config, precision)

    def product(a: Any, b: Any, c: Any, alpha: Any, beta: Any, bias: Any, out: Any, allocate: Any = None) -> Any:
        keywords = EpilogueKeywords(c, alpha, beta, bias, activation)
        epilogue = resolve_epilogue(loop_type(a.dtype, b.dtype, dtype), casting, keywords)
        plan = plan_of(a, b, out, tuple(ufunc), kernel, epilogue)
        return plan.run(a, b, out, epilogue, allocate)

    if are_cupys(a, b, out, kernel, (c, alpha, beta, bias)):
        return product(a, b, c, alpha, beta, bias, out)
    others = {"c": c, "alpha": alpha, "beta": beta, "bias": bias}
    return _interchange().interchanged(product, {"a": a, "b": b}, others, out)


@functools.cache
def _interchange() -> Any:
    return device_module("interchange.calls")


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
    """Return the kernels that ``matmul(x1, x2)`` selects, and their rivals. Print the explanation. Needs no GPU.

    CuPy arrays are explained for the current device, others for an H100, or for the target.

    Args:
        x1, x2, out: CuPy or NumPy arrays, arrays of other libraries on a GPU, or anything else with ``shape``,
            ``strides`` and ``dtype``; no data is read.
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
        >>> print(tiledmm.explain((64, 4096), (4096, 64)))
        (64 x 4096) @ (4096 x 64), float32, layout NN
        tiledmm_warp_tiled_f32_64x64x8_nn, split-K 96: 9.58 us expected on H100 SXM 80 GB
        ...
    """
    from tiledmm.selection.explanation import explanation

    ieee = is_ieee(precision)
    if precision in SCHEMES:
        raise ConfigError(f"precision {precision!r} names a kernel: there is nothing for auto to choose")
    ufunc = UfuncKeywords.of("explain", keywords)
    x1, x2, out = (_to_be_described(x, name, ufunc.dtype) for name, x in (("x1", x1), ("x2", x2), ("out", out)))
    product = with_precision(resolve_call(x1, x2, out, ufunc).multiplied, precision)
    if target is not None or not type(x1).__module__.startswith("cupy"):
        return explanation(product, Model(find_gpu(target or "sm_90"), ieee=ieee), {})
    model = device_module("launch.devices").device_model(ieee)
    return explanation(product, model, table_of(model.gpu.name))


def _to_be_described(x: Any, name: str, dtype: Any) -> Any:
    if isinstance(x, tuple):
        return of_shape(x, dtype)
    if not (hasattr(x, "shape") or is_array(x) or (x is None and name == "out")):
        raise OperandTypeError(f"{name} is an array, or a shape such as (512, 300); got {x!r}")
    # Some libraries' arrays have no strides, or have them as a method.
    foreign = x is not None and not isinstance(getattr(x, "strides", None), tuple)
    return _interchange().viewed(x, name) if foreign else x


def variants() -> tuple[str, ...]:
    """Return the names of variants, in ladder order: what ``variant=`` takes besides ``"auto"``."""
    return tuple(VARIANTS)
