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
        out: Array for the result, ``(m, n)``, of the product's type, where the operands are: on their device, or in
            host memory; None for a new array.
        devices: Numbers of the devices that compute. The device that holds the CuPy arrays may be among them or not.
            Every other device needs memory for its rows of A and C, and for all of B. A device that is named twice
            computes two shares.
        precision: Precision, as for ``tiledmm.matmul``.

    Returns:
        ``out``, or a new array where the operands are. A CuPy array is ordered on the current stream of its device, as
        in any product. A NumPy array is complete when the call returns.

    Raises:
        KeywordError: If a device does not exist.
        ShapeError, OperandTypeError, UnsupportedTypeError: If shapes or types do not fit together, or the arrays are
            not all on one device or all in host memory.
        cupy.cuda.memory.OutOfMemoryError: If a device has too little memory.

    Example:
        >>> c = tiledmm.multi_gpu.matmul(a, b, devices=range(cupy.cuda.runtime.getDeviceCount()))
    """
    return device_module("distributed.several").matmul(a, b, out, list(devices), precision)
