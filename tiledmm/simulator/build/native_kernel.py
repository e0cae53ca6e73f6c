"""A kernel compiled for the CPU: its library, its parameters, its variables and the lines of its source."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tiledmm.errors import CompilationError
from tiledmm.hardware.architectures import Architecture
from tiledmm.simulator.build import toolchain
from tiledmm.simulator.build.addresses import Addresses, Range
from tiledmm.simulator.build.debug.debug_info import SharedArray, Variable, debug_info
from tiledmm.simulator.build.debug.layouts import Layout, parameter_layouts, variable_layout
from tiledmm.simulator.build.debug.source_lines import SourceLines
from tiledmm.simulator.build.debug.variables import LocalVariable, local_variables_of
from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.build.parameters import Parameter, parameters_of
from tiledmm.simulator.build.source_map import SourceMap
from tiledmm.simulator.build.translation.syntax import declared_alignments, short_name, variables_in

#: Values of a module's variables outside of functions, as bytes by name.
ModuleState: TypeAlias = dict[str, np.ndarray[Any, np.dtype[np.uint8]]]

# A line of the kernel's text in the compiler's messages.
_LINE = re.compile(r"(?:\./)?\bkernel\.cu:(\d+)")


class NativeKernel:
    """One kernel for a target architecture, compiled so that it runs on the CPU.

    Args:
        text: CUDA C.
        places: File and line of each line of the text.
        name: The kernel's name, with its template arguments.
        target: The target architecture.
        build: The kernel's build, one of ``kernel_flags.BUILDS``.
        title: The name in messages, where it is another one: that of a kernel that this one calls.

    Attributes:
        arch: Value of ``__CUDA_ARCH__``.

    Raises:
        CompilationError: If the kernel does not compile.
    """

    def __init__(
        self,
        text: str,
        places: SourceMap,
        name: str,
        target: Architecture,
        *,
        build: str,
        title: str = "",
    ) -> None:
        self.text, self.places, self.name, self.target, self.build = text, places, name, target, build
        self.title = title or name
        self.arch = target.capability[0] * 100 + target.capability[1] * 10
        try:
            with toolchain.kernel_library(text, name, target=self.target, build=build) as path:
                self.native = Library.load(path)
                self.debug = debug_info(path)
        except CompilationError as error:
            raise CompilationError(_LINE.sub(lambda at: places.location(int(at[1])), str(error))) from None
        self.lines = SourceLines(self.debug, text, places)

    def rebuilt(self, build: str) -> NativeKernel:
        """Return the same kernel in another build, which is compiled first if it is not in the cache.

        Args:
            build: One of ``kernel_flags.BUILDS``.
        """
        return NativeKernel(self.text, self.places, self.name, self.target, build=build, title=self.title)

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the kernel, in order."""
        return parameters_of(self.native, self.text, self.name)

    @functools.cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Variables outside of functions. ``writable`` is False for those that are ``__constant__``."""
        constants = variables_in(self.text, "__constant__")
        return tuple(
            replace(each, writable=each.writable and each.name not in constants) for each in self.debug.variables()
        )

    @functools.cached_property
    def cluster(self) -> tuple[int, int, int]:
        """Number of blocks per cluster along x, y and z, from ``__cluster_dims__``; zeros if the kernel has none."""
        x, y, z = (int(self.native.functions.tiledmm_cluster_dims(at)) for at in range(3))
        return x, y, z

    @functools.cached_property
    def alignments(self) -> dict[str, int]:
        """Declared alignment of each static shared array in bytes, by name, without arrays for which it is unknown."""
        return declared_alignments(self.text)

    @functools.cached_property
    def may_be_unset(self) -> list[toolchain.UnsetVariable]:
        """Variables that may be read before they are set, according to the C++ compiler's warnings."""
        return toolchain.unset_variables(self.text, self.name, target=self.target)

    @functools.cached_property
    def local_variables(self) -> list[LocalVariable]:
        """Variables that are local to a thread.

        Empty if the kernel does not compile without optimization.
        """
        return local_variables_of(self._typed, "kernel.cu") if self._typed else []

    def edited(self, text: str) -> NativeKernel | None:
        """Return the same kernel with an edited text; None if the text is the same, or does not compile."""
        if text == self.text:
            return None
        try:
            return NativeKernel(text, self.places, self.name, self.target, build="checked", title=self.title)
        except CompilationError:  # a type that has no such value
            return None

    def new_state(self) -> ModuleState:
        """Return the initial bytes of each variable outside of functions, by name, in new arrays.

        Addresses of variables in them are those of these arrays.
        """
        state = {name: np.frombuffer(raw, np.uint8).copy() for name, raw in self.native.initial.items()}
        addresses = Addresses(self.ranges_of(state))
        for values in state.values():
            addresses.outward(values)
        return state

    def ranges_of(self, state: ModuleState) -> list[Range]:
        """Return the memory of variables outside of functions: outside of launches their arrays in ``state``."""
        return [
            Range(int(state[each.name].ctypes.data), self.native.base + each.address, each.bytes)
            for each in self.variables
            if each.name in state
        ]

    def parameter_layout(self, at: int) -> Layout | None:
        """Return the layout of a parameter in memory; None if the debug information does not tell it."""
        layouts = self._parameter_layouts
        return layouts[at] if layouts else None

    @functools.cached_property
    def _parameter_layouts(self) -> tuple[Layout, ...]:
        sizes = [each.bytes for each in self.parameters]
        return parameter_layouts(self._typed, short_name(self.name), sizes) if self._typed else ()

    def variable_layout(self, name: str) -> Layout | None:
        """Return the layout of a variable outside of functions; None if the debug information does not tell it."""
        return variable_layout(self._typed, name) if self._typed else None

    def variable_path(self, name: str, offset: int) -> str:
        """Return the name of what is at an offset in a variable outside of functions, such as ``table[2].rows``."""
        layout = self.variable_layout(name)
        return name + (layout.path_at(offset) if layout else f"+{offset}")

    @functools.cached_property
    def _typed(self) -> bytes:
        """The library with the types of its variables; empty if it does not compile without optimization."""
        try:
            return toolchain.typed_library(self.text, self.name, target=self.target)
        except CompilationError:  # asm statements, and what only optimizers fold
            return b""

    @functools.cached_property
    def shared_offsets(self) -> list[tuple[int, SharedArray]]:
        """Shared arrays, each with its offset from the first one, in bytes."""
        arrays = self.debug.shared_arrays()
        return [(array.offset - arrays[0].offset, array) for array in arrays]
