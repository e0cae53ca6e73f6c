"""Values that a program gives variables outside of functions, and those that it gets back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.build.debug import layouts
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.structures import structure_bytes


def state_with(kernel: NativeKernel, values: Mapping[str, Any]) -> ModuleState:
    """Return the bytes of a kernel's variables: their initial ones, or those of given values.

    Args:
        kernel: The kernel.
        values: Values by the names of variables: NumPy arrays, numbers, and structures as dicts, sequences or NumPy
            scalars. A variable that is a pointer gets the address of an array.

    Raises:
        ConfigError: If the kernel has no such variable.
        OperandTypeError: If a value does not fit its variable.
    """
    if not isinstance(values, Mapping):
        raise OperandTypeError(f"variables must be a dict of values by name; got {type(values).__name__}")
    state = kernel.new_state()
    for name, value in values.items():
        if name not in state:
            known = f"its variables are {', '.join(state)}" if state else "it has none"
            raise ConfigError(f"{kernel.name} has no variable {name!r} in __constant__ or __device__ memory; {known}")
        layout = kernel.variable_layout(name)
        if layout is None:
            layout = layouts.Layout("variable", layouts.OTHER, state[name].size)
        state[name][:] = np.frombuffer(structure_bytes(layout, value, name), np.uint8)
    return state


def copy_back(kernel: NativeKernel, state: ModuleState, values: Mapping[str, Any]) -> None:
    """Copy variables in ``__device__`` memory to the NumPy arrays that gave them their values.

    Args:
        kernel: The kernel.
        state: The bytes of its variables.
        values: The values, as for ``state_with``. Arrays that are read-only are left as they are, and so is the array
            that a pointer points to.
    """
    for variable in kernel.variables:
        value = values.get(variable.name)
        is_array = isinstance(value, np.ndarray) and value.flags.writeable and value.nbytes == variable.bytes
        layout = kernel.variable_layout(variable.name) if is_array and variable.writable else None
        if value is not None and layout is not None and layout.kind != layouts.POINTER:
            value[...] = state[variable.name].view(value.dtype).reshape(value.shape)
