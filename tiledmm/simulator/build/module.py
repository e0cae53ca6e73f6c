"""A module: CUDA C with its compile options, its kernels and the values of its variables."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tiledmm.errors import ConfigError
from tiledmm.hardware.architectures import find_compile_target
from tiledmm.simulator.build.compile_options import CompileOptions
from tiledmm.simulator.build.native_kernel import ModuleState, NativeKernel
from tiledmm.simulator.build.source_map import SourceMap
from tiledmm.simulator.build.translation.syntax import (
    has_c_linkage,
    kernels_in,
    short_name,
    without_comments,
    written_names,
)

FILE = "kernel.cu"

_NO_KERNEL = 'extern "C" __global__ void tiledmm_nothing() {}'


class Module:
    """CUDA C with its compile options, its kernels and the values of its variables.

    Args:
        code: CUDA C.
        options: Options of NVRTC.
        names: Names of the kernels that are not ``extern "C"``, with their template arguments.
        translates_cucomplex: Whether the types of ``cuComplex.h`` are those of CuPy's ``complex.cuh``.

    Attributes:
        state: Values of the variables outside of functions, as bytes by name.
    """

    def __init__(
        self, code: str, options: tuple[str, ...], names: Sequence[str], *, translates_cucomplex: bool = False
    ) -> None:
        self.code, self.options, self.names = code, options, tuple(names)
        self._parsed = CompileOptions.of(options)
        if translates_cucomplex:
            self._parsed = CompileOptions.of((*options, "-DTILEDMM_TRANSLATES_CUCOMPLEX"))
        self._kernels: dict[tuple[str, str, str], NativeKernel] = {}
        self.state: ModuleState = {}

    @functools.cached_property
    def _text(self) -> tuple[str, SourceMap]:
        return self._parsed.text(self.code, FILE)

    def reset(self) -> None:
        """Set the variables outside of functions to their initial values in the source."""
        self.state = {}
        for kernel in self._kernels.values():
            self._initialize(kernel)

    def kernel(self, name: str, target: str, build: str) -> NativeKernel:
        """Return a kernel of the module, which is compiled when it is first asked for.

        Args:
            name: Name of the kernel, with its template arguments.
            target: The target architecture, unless the options name one.
            build: The kernel's build, one of ``kernel_flags.BUILDS``.

        Raises:
            ConfigError: If the module has no kernel of this name, or if CuPy would not find it because it is not
                ``extern "C"``.
            CompilationError: If the kernel does not compile.
        """
        architecture = find_compile_target(self._parsed.target or target)
        key = (name, architecture.name + architecture.features, build)
        if key not in self._kernels:
            text, places = self._text
            known = kernels_in(text)
            if known and not set(known) & set(written_names(without_comments(text), short_name(name))):
                raise ConfigError(f"{FILE} has no kernel {name!r}; its kernels are {', '.join(known)}")
            if name not in self.names and ("<" in name or not has_c_linkage(text, name)):
                raise ConfigError(
                    f'CuPy does not find {name!r}, which is a C++ name: write extern "C" before __global__, or use '
                    f"RawModule(code=..., name_expressions=[{name!r}]).get_function({name!r})"
                )
            kernel = NativeKernel(text, places, name, architecture, build=build)
            self._initialize(kernel)
            self._kernels[key] = kernel
        return self._kernels[key]

    def any_kernel(self, target: str, build: str) -> NativeKernel:
        """Return one of the module's kernels, all of which contain the module's variables.

        A kernel is compiled if none is yet. If the module has variables alone, it is one that does nothing.

        Args:
            target: The target architecture, unless the options name one.
            build: The build of a kernel that is compiled now.

        Raises:
            ConfigError: If the module has kernels, and CuPy finds none of them.
            CompilationError: If the kernel does not compile.
        """
        for kernel in self._kernels.values():
            return kernel
        text, _ = self._text
        names = (*self.names, *(name for name in kernels_in(text) if has_c_linkage(text, name)))
        if not kernels_in(text):
            return self._variables_alone(target, build)
        if not names:
            raise ConfigError(
                f'{FILE} has no kernel that CuPy finds: write extern "C" before __global__, or pass name_expressions='
            )
        return self.kernel(names[0], target, build)

    def _variables_alone(self, target: str, build: str) -> NativeKernel:
        """Compile the module's text, which has no kernel, with one that does nothing behind it."""
        text, places = self._text
        architecture = find_compile_target(self._parsed.target or target)
        kernel = NativeKernel(f"{text}\n{_NO_KERNEL}", places, "tiledmm_nothing", architecture, build=build)
        self._initialize(kernel)
        self._kernels["", architecture.name, build] = kernel
        return kernel

    def _initialize(self, kernel: NativeKernel) -> None:
        for name, values in kernel.new_state().items():
            self.state.setdefault(name, values)
