"""The functions that users call first: ``matmul``, ``gemm``, ``prepare``, ``explain`` and ``variants``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tiledmm.elements import SCHEMES
from tiledmm.errors import ConfigError, OperandTypeError, device_module
from tiledmm.hardware.data_sheets import find_gpu
from tiledmm.kernels.config import ConfigOverrides
from tiledmm.kernels.variants import VARIANTS
from tiledmm.launch.plans import are_cupys, make_forms, plan_of
from tiledmm.problem.arrays import is_array, of_shape
from tiledmm.problem.call import resolve_call
from tiledmm.problem.casting import loop_type
from tiledmm.problem.epilogue import EpilogueCall, EpilogueKeywords, resolve_epilogue
from tiledmm.problem.keywords import AUTO, Precision, UfuncKeywords, is_ieee, only_entry
from tiledmm.problem.prepared import PreparedOperand, array_of
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
    """Compute the matrix product of two CuPy arrays as ``cupy.matmul`` does, with a kernel of this package.

    The kernel runs on the current device and stream. It reads operands of any strides in place, and batches
    broadcast. Operands may also be arrays of other libraries that support DLPack or the CUDA array interface. The
    product is then computed on the first operand's device and its library's stream. Either operand may be prepared by
    ``prepare``.

    Args:
        x1: Left operand, ``(..., m, k)`` or ``(k,)``. float16, bfloat16, float32, float64, complex64, complex128,
            bool or an integer type.
        x2: Right operand, ``(..., k, n)`` or ``(k,)``.
        out: Array for the result, ``(..., m, n)`` without the axes that 1-D operands lack; None for a new array. It
            may have any strides, and any type that ``casting`` lets the result be converted to. It may overlap the
            operands.
        casting: Which conversions are allowed, of operands to the computation type and of the result to the type of
            ``out``: ``"no"``, ``"equiv"``, ``"safe"``, ``"same_kind"`` or ``"unsafe"``, as in NumPy.
        order: Memory order of a new result: ``"C"``, ``"F"``, ``"A"`` or ``"K"``.
        dtype: Computation type; the operands' common type if None. (In ``cupy.matmul``, it is only the type of the
            result.) If the operands are int8 or uint8, a wider integer type such as int32 is as fast as their own type.
        axes: List of three tuples: the matrices' axes in ``x1``, ``x2`` and the result.
        axis, keepdims: Keywords of other ufuncs. If they are given, this function raises an error, as NumPy and CuPy
            do.
        signature: The computation type as a ufunc signature, such as ``"ff->f"``.
        variant: A name from ``variants()``, or ``"auto"`` for the fastest kernel of this package. ``"cublas"`` calls
            ``cupy.matmul`` itself.
        tile: Tile size of the variant; None for its default.
        config: Values of config fields that replace those of the tile, such as ``{"bk": 16, "split_k": 4}``. The
            fields are those of ``tiledmm.kernels.config.Config`` and ``LaunchConfig``. Name a variant if you pass them.
            For a variant that decomposes operands, ``{"scheme": "tf32x3"}`` is the same as ``precision="tf32x3"``.
        precision: Arithmetic that products of floating-point and complex numbers may use. ``"full"``, or its other
            name ``"float32"``: anything that keeps the type's accuracy (large float32 and complex64 products use
            ``split_float32`` on Hopper, and ``split_tensor_core`` on other GPUs). ``"ieee"``: only multiply-adds in
            the type itself, so neither these two variants nor ``split_float64``. ``"tf32"``, for float32: tensor
            cores that round operands to 11 significant bits, as tf32 or as scaled float16, or what ``"full"`` allows,
            whichever is faster. ``"fp16x1"``, for float32: only scaled float16 with the accuracy of tf32.
            ``"fp16x3"``, ``"bf16x6"``, ``"bf16x9"`` or ``"tf32x3"``, for float32 and complex64: operands are
            decomposed into limbs of the type that begins the name, and the number that ends it is the number of
            products of limbs per product of two elements. ``split_float32`` computes this if it runs on the device,
            else ``split_tensor_core``. Products of integers ignore ``precision``.

    Returns:
        ``out``, or a new array of the library of ``x1`` (of ``x2`` if only ``x1`` is prepared), usually a
        ``cupy.ndarray``. The product of two vectors is a 0-d array.

    Raises:
        ShapeError, AxisError, KeywordError, OperandTypeError, UnsupportedTypeError, AlignmentError: See
            ``tiledmm.errors``. Each is also the builtin error that NumPy raises for the same mistake.
        UnknownVariantError, ConfigError: If the variant or the tile does not exist.
        PreparedOperandError: If a prepared operand cannot be used (see ``prepare``).
        cupy.cuda.memory.OutOfMemoryError: If there is no memory for the result, or for the workspace of a named
            kernel. ``"auto"`` instead chooses kernels that need less workspace.

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
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    out: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    variant: str = AUTO,
    tile: int | None = None,
    config: ConfigOverrides | None = None,
    precision: Precision = "full",
) -> Any:
    """Compute ``activation(alpha * (a @ b) + beta * c + bias)`` of CuPy arrays, without another pass over memory.

    Sums, factors and the activation are computed in the accumulator's type and rounded once, to the result's type.
    Arrays of other libraries are accepted as by ``matmul``.

    Args:
        a: Left operand, ``(..., m, k)`` or ``(k,)``, of any type that ``matmul`` accepts except bool.
        b: Right operand, ``(..., k, n)`` or ``(k,)``.
        c: Array that broadcasts to the result, of any strides. It is not read if ``beta`` is 0. It may be ``out``.
        alpha: A number, or an array that broadcasts to the result, such as one factor per column. A 0-d array is read
            on the device, without synchronization. Where ``alpha`` is 0, the product is ignored even if it is not
            finite. If it is the number 0, the operands are not read.
        beta: A number, or a 0-d array.
        bias: Array that broadcasts to the result: ``(n,)`` for one value per column, ``(m, 1)`` for one value per
            row.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, ``"sigmoid"`` or ``"tanh"``. Integers support
            only ``"relu"``, and complex numbers none.
        adjoint_a: Whether ``a`` is conjugated, and its last two dimensions exchanged, before it is multiplied.
            Nothing is copied, since the kernels conjugate. ``gemm(a, a, adjoint_a=True)`` is ``a.conj().T @ a``. Its
            result is Hermitian, and kernels compute half of it (see ``docs/symmetric.md``). A vector is only
            conjugated, and real numbers are only transposed.
        adjoint_b: The same for ``b``: ``gemm(a, a, adjoint_b=True)`` is ``a @ a.conj().T``.
        out, variant, tile, config, precision: As for ``matmul``. ``"cublas"`` is ``cupy.matmul`` followed by CuPy's
            elementwise kernels.
        dtype, casting: As for ``matmul``. ``c``, ``bias`` and arrays of factors are cast likewise. Integers wrap.

    Returns:
        ``out``, or a new array, as for ``matmul``.

    Raises:
        KeywordError: If ``beta`` is given without ``c``, or the activation does not exist.
        UnsupportedTypeError: If the product is in bool, the type does not support the activation or a factor, or a
            kernel of your own is named to multiply conjugates.
        TiledmmError: As for ``matmul``.

    Example:
        >>> hidden = tiledmm.gemm(x, weights, bias=bias, activation="relu")
        >>> tiledmm.gemm(u, v, c, beta=1, out=c)   # c += u @ v
        >>> overlaps = tiledmm.gemm(states, states, adjoint_a=True)   # states.conj().T @ states
    """
    out = only_entry(out) if isinstance(out, tuple) else out
    ufunc, kernel = UfuncKeywords(casting=casting, dtype=dtype), (variant, tile, config, precision)

    def product(a: Any, b: Any, c: Any, alpha: Any, beta: Any, bias: Any, out: Any, allocate: Any = None) -> Any:
        keywords = EpilogueKeywords(c, alpha, beta, bias, activation, adjoint_a, adjoint_b)
        epilogue = resolve_epilogue(loop_type(a.dtype, b.dtype, dtype), casting, keywords)
        plan = plan_of(a, b, out, tuple(ufunc), kernel, epilogue)
        return plan.run(a, b, out, epilogue, allocate)

    if are_cupys(a, b, out, kernel, (c, alpha, beta, bias)):
        return product(a, b, c, alpha, beta, bias, out)
    others = {"c": c, "alpha": alpha, "beta": beta, "bias": bias}
    return _interchange().interchanged(product, {"a": a, "b": b}, others, out)


def prepare(
    b: Any,
    /,
    *,
    left: Any = None,
    right: Any = None,
    precision: Precision = "full",
    check: bool = False,
) -> PreparedOperand:
    """Return an operand whose limbs, residues or packed copy are made once, for many products with the same array.

    Kernels such as ``split_float32`` and ``split_float64`` decompose their operands before they multiply, and others
    pack them. The first product that needs a form of ``b`` makes it, and later products reuse it. ``"auto"`` does not
    count the time of making it, so it may choose another kernel than for ``b`` itself. A kernel that reads ``b`` in
    place has no form of it.

    The operand refers to ``b`` and does not copy it. Do not write to ``b`` as long as you use the operand: products
    would be those of old and new elements. Prepare ``b`` again after it was written. Forms need memory (see
    ``held_bytes``), which is freed with the operand. If there is no memory for a form, the product is computed without
    it. All threads and streams may use the operand without synchronization. As with every CuPy array, products on
    other streams than that of the first product must have ended before the operand is deleted.

    Args:
        b: Array on a GPU, ``(..., rows, columns)`` or ``(k,)``, of any type, strides and library that ``matmul``
            accepts.
        left: Shape ``(..., m, rows)`` of a left operand, or an array of this shape, to make the forms for ``left @ b``
            now; None to make them in the first product. Products with left operands of similar shapes usually read the
            same forms.
        right: Shape ``(..., columns, n)`` of a right operand, likewise, to make the forms for ``b @ right`` now.
        precision: Precision of the products for which forms are made now.
        check: Whether every product checks that ``b`` has not changed, for debugging. It compares a sum over all
            elements, for which the host waits.

    Returns:
        The operand. ``matmul``, ``gemm``, ``explain`` and ``@`` accept it on either side, beside arrays of any library.

    Raises:
        OperandTypeError: If ``b`` is not an array on a GPU, or ``left`` or ``right`` is neither a shape nor an array.
        ShapeError: If ``b`` has no dimensions, or ``left`` or ``right`` does not fit.
        UnsupportedTypeError: If products of its element type are not supported.
        PreparedOperandError: If a graph is being captured. Products raise it if ``b`` is checked and has changed, or
            if they would make a form while a graph is captured.
        cupy.cuda.memory.OutOfMemoryError: If there is no memory for the forms of ``left`` or ``right``.

    Example:
        >>> weights = tiledmm.prepare(w)
        >>> for x in batches:
        ...     y = tiledmm.gemm(x, weights, bias=bias)   # only x is decomposed
    """
    operand: PreparedOperand = _interchange().prepared_operand(b, check, matmul)
    for name, other in (("left", left), ("right", right)):
        if other is not None:
            shape = _to_be_described(other, name, operand.dtype).shape
            make_forms(operand, shape, is_left=name == "right", precision=precision)
    return operand


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
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    **keywords: Any,
) -> Explanation:
    """Return an ``Explanation``: the kernel that ``matmul(x1, x2)`` selects, and its alternatives with expected times.

    Print the returned object to read it. This function needs no GPU. It explains the product of CuPy arrays on the
    current device, and that of other arrays on an H100, unless ``target`` names another GPU.

    Args:
        x1, x2, out: CuPy or NumPy arrays, arrays of other libraries on a GPU, prepared operands, or any other objects
            with ``shape``, ``strides`` and ``dtype``; no data is read. A shape such as ``(m, k)`` stands for a
            row-major array of type ``dtype=``, or of float32.
        precision: Precision, as for ``matmul``.
        target: GPU for which kernels are selected: a compute capability such as ``"sm_86"``, or a GPU's name such as
            ``"A10"`` (see ``tiledmm.hardware.data_sheets.DATA_SHEETS``); None for the current device, or for an H100
            if the arrays are not CuPy's.
        adjoint_a, adjoint_b: Whether ``x1``, and ``x2``, are conjugated and transposed, as for ``gemm``.
        **keywords: Other keywords of ``matmul``, except those that name a kernel.

    Returns:
        The explanation. ``.variant``, ``.tile``, ``.config``, ``.expected_us`` and ``.bound_us`` (the roofline)
        describe the kernel that ``auto`` selects; ``.choices`` are all kernels that it compared. ``.prepared``
        describes the forms of prepared operands, and how many bytes they hold.

    Raises:
        TiledmmError: As for ``matmul``, for the same mistakes.
        ConfigError: If the target does not exist, or ``precision`` names a kernel.

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
        raise ConfigError(f"precision={precision!r} names a kernel, so there is nothing for 'auto' to choose")
    ufunc = UfuncKeywords.of("explain", keywords)
    x1, x2, out = (_to_be_described(x, name, ufunc.dtype) for name, x in (("x1", x1), ("x2", x2), ("out", out)))
    adjoint = EpilogueCall(EpilogueKeywords(adjoint_a=adjoint_a, adjoint_b=adjoint_b))
    product = with_precision(resolve_call(x1, x2, out, ufunc, adjoint).multiplied, precision)
    held = _held_bytes(x1), _held_bytes(x2)
    if target is not None or not type(array_of(x1)).__module__.startswith("cupy"):
        return explanation(product, Model(find_gpu(target or "sm_90"), ieee=ieee), {}, held)
    model = device_module("launch.devices").device_model(ieee)
    return explanation(product, model, table_of(model.gpu.name), held)


def _held_bytes(x: Any) -> int:
    """Return the size of the forms that a prepared operand holds, in bytes; 0 for any other operand."""
    return x.held_bytes if isinstance(x, PreparedOperand) else 0


def _to_be_described(x: Any, name: str, dtype: Any) -> Any:
    if isinstance(x, tuple):
        return of_shape(x, dtype)
    if not (hasattr(x, "shape") or is_array(x) or (x is None and name == "out")):
        raise OperandTypeError(f"{name} must be an array, or a shape such as (512, 300); got {x!r}")
    # Some libraries' arrays have no strides, or have them as a method.
    foreign = x is not None and not isinstance(getattr(x, "strides", None), tuple)
    return _interchange().viewed(x, name) if foreign else x


def variants() -> tuple[str, ...]:
    """Return the names of the variants in ladder order: the values of ``variant=`` other than ``"auto"``."""
    return tuple(VARIANTS)
