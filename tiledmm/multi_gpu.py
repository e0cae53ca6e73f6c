"""``matmul`` on several GPUs of one process.

    import tiledmm.multi_gpu
    c = tiledmm.multi_gpu.matmul(a, b, devices=[0, 1])   # a and b on one of them, or in host memory

Each device computes rows of C, while panels of the right operand are copied to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledmm.errors import device_module
from tiledmm.problem.keywords import Precision

__all__ = ["matmul"]


def matmul(a: Any, b: Any, /, out: Any = None, *, devices: Sequence[int], precision: Precision = "full") -> Any:
    """Compute the product of two matrices on several GPUs of this machine.

    Args:
        a: Left operand, ``(m, k)``, a CuPy array of any strides, or a NumPy array.
        b: Right operand, ``(k, n)``, a CuPy array on the same device, or a NumPy array if ``a`` is one.
        out: Array for the result, ``(m, n)``, of the product's type and in the place of the operands; None for a new
            array.
        devices: Numbers of the devices, with or without the one that holds CuPy arrays. Every other device needs memory
            for its rows of A and C, and for all of B. A device that is named twice computes two shares.
        precision: Precision, as for ``tiledmm.matmul``.

    Returns:
        ``out``, or a new array in the place of the operands. A CuPy array is computed on the current stream of its
        device, as in any product. A NumPy array is complete when the call returns.

    Raises:
        KeywordError: If there are no such devices.
        ShapeError, OperandTypeError, UnsupportedTypeError: If the arrays do not fit, or are not all in one place.
        cupy.cuda.memory.OutOfMemoryError: If a device has too little memory.

    Example:
        >>> c = tiledmm.multi_gpu.matmul(a, b, devices=range(cupy.cuda.runtime.getDeviceCount()))
    """
    return device_module("distributed.several").matmul(a, b, out, list(devices), precision)
