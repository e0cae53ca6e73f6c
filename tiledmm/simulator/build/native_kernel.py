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
from tiledmm.simulator.build.debug.debug_info import SharedArray, Variable, debug_info
from tiledmm.simulator.build.debug.source_lines import SourceLines
from tiledmm.simulator.build.debug.variables import aggregates_of
from tiledmm.simulator.build.native_library import Library
from tiledmm.simulator.build.parameters import Parameter, parameters_of
from tiledmm.simulator.build.source_map import SourceMap
from tiledmm.simulator.build.translation.syntax import declared_alignments, variables_in

#: The values of a module's variables outside of functions: bytes by name.
ModuleState: TypeAlias = dict[str, np.ndarray[Any, np.dtype[np.uint8]]]

# A line of the kernel's text, as the toolchain calls it.
_LINE = re.compile(r"(?:\./)?\bkernel\.cu:(\d+)")


class NativeKernel:
    """One kernel for one target architecture.

    Args:
        text: CUDA C.
        places: File and line of each of its lines.
        name: The kernel's name, with its template arguments.
        target: The architecture.
        build: How it is compiled, one of ``kernel_flags.BUILDS``.

    Attributes:
        arch: Value of ``__CUDA_ARCH__``.
    """

    def __init__(
        self,
        text: str,
        places: SourceMap,
        name: str,
        target: Architecture,
        *,
        build: str,
    ) -> None:
        self.text, self.places, self.name, self.target = text, places, name, target
        self.arch = target.capability[0] * 100 + target.capability[1] * 10
        try:
            with toolchain.kernel_library(text, name, arch=self.arch, build=build) as path:
                self.native = Library.load(path)
                self.debug = debug_info(path)
        except CompilationError as error:
            raise CompilationError(_LINE.sub(lambda at: places.location(int(at[1])), str(error))) from None
        self.lines = SourceLines(self.debug, text, places)

    def rebuilt(self, build: str) -> NativeKernel:
        """Compile the same kernel in another way, one of ``kernel_flags.BUILDS``."""
        return NativeKernel(self.text, self.places, self.name, self.target, build=build)

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the kernel."""
        return parameters_of(self.native, self.text, self.name)

    @functools.cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables outside of functions: the kernel can write those that are not ``__constant__``."""
        constants = variables_in(self.text, "__constant__")
        return tuple(
            replace(each, writable=each.writable and each.name not in constants) for each in self.debug.variables()
        )

    @functools.cached_property
    def alignments(self) -> dict[str, int]:
        """The declared alignments of static shared arrays in bytes, by name, as far as they are known."""
        return declared_alignments(self.text)

    @functools.cached_property
    def may_be_unset(self) -> list[toolchain.UnsetVariable]:
        """The variables that may be read before they are set, as far as the C++ compiler sees that."""
        return toolchain.unset_variables(self.text, self.name, arch=self.arch)

    @functools.cached_property
    def aggregates(self) -> list[tuple[str, int]]:
        """A thread's own structures and arrays, by name, and the lines that declare them."""
        try:
            library = toolchain.typed_library(self.text, self.name, arch=self.arch)
        except CompilationError:  # asm statements, and what only optimizers fold
            return []
        return aggregates_of(library, "kernel.cu")

    def edited(self, text: str) -> NativeKernel | None:
        """Compile the same kernel with another text; return None if that is no other, or does not compile."""
        if text == self.text:
            return None
        try:
            return NativeKernel(text, self.places, self.name, self.target, build="checked")
        except CompilationError:  # a type that has no such value
            return None

    def new_state(self) -> ModuleState:
        """Return the bytes of each variable as the text initializes it."""
        return {name: np.frombuffer(raw, np.uint8).copy() for name, raw in self.native.initial.items()}

    @functools.cached_property
    def shared_offsets(self) -> list[tuple[int, SharedArray]]:
        """The shared arrays, each with its offset from the first."""
        arrays = self.debug.shared_arrays()
        return [(array.offset - arrays[0].offset, array) for array in arrays]
