"""``matmul`` on several GPUs of one process.

    import tiledmm.multi_gpu
    c = tiledmm.multi_gpu.matmul(a, b, devices=[0, 1])   # a and b on one of them, or in host memory

Each device computes rows of C; the other operand's panels are copied to it meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledmm.errors import device_module
from tiledmm.problem.keywords import Precision

__all__ = ["matmul"]


def matmul(a: Any, b: Any, /, out: Any = None, *, devices: Sequence[int], precision: Precision = "full") -> Any:
    """The product of two matrices, computed by several GPUs of this machine.

    Args:
        a: Left operand, ``(m, k)``, a CuPy array of any strides, or a NumPy array.
        b: Right operand, ``(k, n)``, on the same device, or a NumPy array too.
        out: Where the result goes, ``(m, n)``, of the product's type, where the operands are; None for a new array.
        devices: Numbers of the devices, with or without the one that CuPy arrays are on. Each other one needs memory
            for its rows of A and C, and for all of B. One that is named twice computes two shares.
        precision: As for ``tiledmm.matmul``.

    Returns:
        ``out``, or a new array where the operands are. CuPy arrays: on the current stream of their device, as any
        product. NumPy arrays: when it is done.

    Raises:
        KeywordError: If there are no such devices.
        ShapeError, OperandTypeError, UnsupportedTypeError: If the arrays do not fit, or are not all in one place.
        cupy.cuda.memory.OutOfMemoryError: If a device has too little memory.

    Example:
        >>> c = tiledmm.multi_gpu.matmul(a, b, devices=range(cupy.cuda.runtime.getDeviceCount()))
    """
    return device_module("distributed.several").matmul(a, b, out, list(devices), precision)
