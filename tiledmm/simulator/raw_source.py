"""The text of a kernel or module of the user's: its compile options, its kernels and its variables."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.hardware.architectures import find_target
from tiledmm.simulator.compile_options import CompileOptions
from tiledmm.simulator.compiled_kernel import CompiledKernel, ModuleState
from tiledmm.simulator.settings import Settings
from tiledmm.simulator.translation.declarations import has_c_linkage, kernels_in, short_name

FILE = "kernel.cu"


class RawSource:
    """A text with its compile options, its kernels and the values of its variables."""

    def __init__(
        self, code: str, options: tuple[str, ...], backend: str, names: Sequence[str], unsupported: Mapping[str, bool]
    ) -> None:
        if not isinstance(code, str):
            raise OperandTypeError(f"code is a string with CUDA C; got {type(code).__name__}")
        if backend not in ("nvrtc", "nvcc"):
            raise ConfigError(f"backend is 'nvrtc' or 'nvcc'; got {backend!r}")
        for keyword, given in unsupported.items():
            if given:
                raise ConfigError(f"the simulator does not support {keyword}=True")
        self.code, self.options, self.backend, self.names = code, options, backend, tuple(names)
        self._parsed = CompileOptions.of(options)
        self._kernels: dict[tuple[str, str, str], CompiledKernel] = {}
        self.state: ModuleState = {}

    @functools.cached_property
    def _text(self) -> Any:
        return self._parsed.text(self.code, FILE)

    def reset(self) -> None:
        """Forgets what the kernels have written to the variables."""
        self.state = {}
        for kernel in self._kernels.values():
            self._initialize(kernel)

    def kernel(self, name: str, settings: Settings) -> CompiledKernel:
        """A kernel, compiled.

        Raises:
            ConfigError: If there is none of this name, or none that CuPy finds.
            CompilationError: If it does not compile.
        """
        target = find_target(self._parsed.target or settings.target)
        key = (name, target.name, settings.built)
        if key not in self._kernels:
            text, places = self._text
            known = kernels_in(text)
            if known and short_name(name) not in known:
                raise ConfigError(f"{FILE} has no kernel {name!r}; its kernels are {', '.join(known)}")
            if name not in self.names and ("<" in name or not has_c_linkage(text, name)):
                raise ConfigError(
                    f'{name!r} is a name of C++, which CuPy does not find: write extern "C" before __global__, or '
                    f"RawModule(code=..., name_expressions=[{name!r}]).get_function({name!r})"
                )
            kernel = CompiledKernel(text, places, name, target, build=settings.built)
            self._initialize(kernel)
            self._kernels[key] = kernel
        return self._kernels[key]

    def any_kernel(self, settings: Settings) -> CompiledKernel:
        """Some kernel: all have the same variables."""
        for kernel in self._kernels.values():
            return kernel
        text, _ = self._text
        names = (*self.names, *(name for name in kernels_in(text) if has_c_linkage(text, name)))
        if not names:
            raise ConfigError(f'{FILE} has no kernel that CuPy finds: extern "C" __global__, or name_expressions=')
        return self.kernel(names[0], settings)

    def _initialize(self, kernel: CompiledKernel) -> None:
        for name, values in kernel.new_state().items():
            self.state.setdefault(name, values)
