"""``RawKernel``: a kernel of the user, with CuPy's interface, on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.api import launch_kernel
from tiledmm.simulator.build.module import Module
from tiledmm.simulator.build.native_kernel import NativeKernel
from tiledmm.simulator.build.parameters import POINTER, Parameter
from tiledmm.simulator.build.source_text import is_path
from tiledmm.simulator.build.translation.syntax import kernels_in, variables_in
from tiledmm.simulator.cupy.memory import MemoryPointer
from tiledmm.simulator.execute.settings import Settings
from tiledmm.simulator.report.report import Report

# Attributes of a function on a GPU that follow from its machine code.
_OF_MACHINE_CODE = ("cache_mode_ca", "local_size_bytes", "num_regs")


class RawKernel:
    """A kernel of your own, with the signature of ``cupy.RawKernel``, that runs on the CPU with checks.

    Args:
        code: CUDA C.
        name: The kernel's name; the kernel must be ``extern "C"``.
        options: A tuple of NVRTC's options. Macros (``-DN=4``), folders of headers (``-I``) and the architecture
            (``-arch=sm_80``) have an effect; standards, optimization and diagnostics have none.
        backend: ``"nvrtc"`` or ``"nvcc"``, which have the same effect here.
        translate_cucomplex: Whether the types of ``cuComplex.h`` are those of CuPy's ``complex.cuh``.
        enable_cooperative_groups: Whether launches are cooperative: all blocks are resident, so that they can wait for
            each other at ``this_grid().sync()``.
        jitify: Ignored: the C++ compiler finds its headers.

    Attributes:
        report: Counts and findings of the last launch; None before the first.
        settings: Settings of its launches, such as checks, counts and the order of threads.

    Example:
        >>> text = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
        >>> x = np.ones(32, np.float32)
        >>> RawKernel(text, "twice")((1,), (32,), (x,))
        >>> float(x[0])
        2.0
    """

    settings: Settings = Settings()

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        *,
        enable_cooperative_groups: bool = False,
        jitify: bool | None = None,
    ) -> None:
        module = module_of(code, options, backend, (), translates=translate_cucomplex)
        self._begin(module, name, backend, cooperates=enable_cooperative_groups)

    def _begin(self, module: Module, name: str, backend: str, *, cooperates: bool) -> None:
        self._module, self.name, self._backend = module, name, backend
        self.report: Report | None = None
        self.file_path, self.enable_cooperative_groups = None, cooperates
        self.preferred_shared_memory_carveout = -1
        self._dynamic_limit: int | None = None

    @property
    def code(self) -> str:
        """CUDA C as it was given, as in CuPy."""
        return self._module.code

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC's compile options of the kernel."""
        return self._module.options

    @property
    def backend(self) -> str:
        """The compiler that CuPy would use: ``"nvrtc"`` or ``"nvcc"``."""
        return self._backend

    @property
    def kernel(self) -> RawKernel:
        """This object; its kernel is compiled first if it was not yet."""
        self.compile()
        return self

    def compile(self, log_stream: Any = None) -> None:
        """Compile the kernel unless it has already been compiled.

        Args:
            log_stream: Stream to which CuPy writes the compiler's output; the simulator writes nothing.

        Raises:
            ConfigError: If the code has no kernel of this name.
            CompilationError: If the kernel does not compile.
        """
        self._compiled()

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        """Run the kernel on the CPU, and return when it has ended. The output of ``printf`` goes to ``sys.stdout``.

        Args:
            grid: Number of blocks along x, y and z.
            block: Number of threads per block along x, y and z.
            args: One argument for each parameter. Arrays are written in place. Numbers have the sizes that CuPy passes:
                a Python float is a double, a Python int has 8 bytes, a NumPy scalar has its own size.
            shared_mem: Size of dynamic shared memory, in bytes. If it exceeds 48 KiB together with static shared
                memory, set ``max_dynamic_shared_size_bytes`` first.
            stream: Ignored: a launch ends before the call returns.

        Raises:
            SimulationError: If the simulator finds an error in the kernel. Arrays have been written nevertheless, and
                ``report`` has the findings.
            ConfigError: If grid, block or shared memory exceed the limits of the target architecture.
            OperandTypeError: If an argument does not fit its parameter.
            CompilationError: If the kernel does not compile.
        """
        for what, value in (("grid", grid), ("block", block), ("args", args)):
            if not isinstance(value, (tuple, list) if what == "args" else tuple):
                raise OperandTypeError(f"{what} must be a tuple, such as (n,); got {type(value).__name__}")
        kernel = self._compiled()
        self._check_shared(kernel, shared_mem)
        parameters = kernel.parameters
        if len(args) == len(parameters):
            args = tuple(self._argument(*each) for each in zip(parameters, args, strict=True))
        # CuPy launches at least one block, of at least one thread.
        blocks, threads = (tuple(max(1, each) for each in sizes) for sizes in (grid, block))
        settings = replace(self.settings, cooperative=self.enable_cooperative_groups)
        self.report = launch_kernel(
            kernel, blocks, threads, args, shared_mem, settings, exact=True, state=self._module.state, prints=True
        )
        self.report.check()

    def _argument(self, parameter: Parameter, value: Any) -> Any:
        """Convert an argument that CuPy accepts, such as ``x.data``, to one that the simulator's launch accepts.

        Raises:
            OperandTypeError: If ``value`` is a pointer, and the parameter is not.
        """
        if isinstance(value, MemoryPointer):
            if parameter.kind != POINTER:
                raise OperandTypeError(f"parameter {parameter.name} of type {parameter.type} got a pointer to memory")
            return ctypes.c_void_p(int(value))
        is_word = isinstance(value, (int, np.int64, np.uint64)) and not isinstance(value, bool)
        return ctypes.c_void_p(int(value)) if parameter.kind == POINTER and is_word else value

    @property
    def max_threads_per_block(self) -> int:
        """Maximum number of threads per block, from ``__launch_bounds__`` or else from the target architecture.

        On a GPU the kernel's registers may allow fewer.
        """
        kernel = self._compiled()
        return int(kernel.native.functions.tiledmm_max_threads()) or kernel.target.max_threads_per_block

    @property
    def shared_size_bytes(self) -> int:
        """Static shared memory per block, in bytes; 0 if the code has several kernels."""
        return _static_shared(self._compiled())

    @property
    def const_size_bytes(self) -> int:
        """Size of the ``__constant__`` variables, in bytes."""
        kernel = self._compiled()
        constants = variables_in(kernel.text, "__constant__")
        return sum(each.bytes for each in kernel.variables if each.name in constants)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Maximum dynamic shared memory of a launch in bytes.

        It is 48 KiB minus the static shared memory, unless it was set.
        """
        if self._dynamic_limit is not None:
            return self._dynamic_limit
        kernel = self._compiled()
        return max(0, kernel.target.static_shared_bytes - _static_shared(kernel))

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        kernel = self._compiled()
        most = kernel.target.max_shared_bytes - _static_shared(kernel)
        if not 0 <= size <= most:
            raise ConfigError(
                f"max_dynamic_shared_size_bytes of {self.name} must be from 0 to {most} on {kernel.target.name}; got "
                f"{size}"
            )
        self._dynamic_limit = int(size)

    @property
    def binary_version(self) -> int:
        """Compute capability of the target architecture, times ten: 90 for 9.0."""
        major, minor = self._compiled().target.capability
        return 10 * major + minor

    ptx_version = binary_version

    @property
    def attributes(self) -> dict[str, int]:
        """Values of the kernel's attributes that CuPy has, by name.

        Attributes that follow from machine code, such as ``num_regs``, are missing: the simulator makes none.
        """
        names = (
            "binary_version", "const_size_bytes", "max_dynamic_shared_size_bytes", "max_threads_per_block",
            "preferred_shared_memory_carveout", "ptx_version", "shared_size_bytes",
        )  # fmt: skip
        return _Attributes((name, getattr(self, name)) for name in names)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            _not_told(name) if name in _OF_MACHINE_CODE else f"the simulator's RawKernel has no attribute {name!r}"
        )

    def _compiled(self) -> NativeKernel:
        return self._module.kernel(self.name, self.settings.target, self.settings.built)

    def _check_shared(self, kernel: NativeKernel, size: int) -> None:
        most, largest = self.max_dynamic_shared_size_bytes, kernel.target.max_shared_bytes - _static_shared(kernel)
        if most < size <= largest:
            raise ConfigError(
                f"{self.name} may use up to {most} bytes of dynamic shared memory; got shared_mem={size}: set "
                f"kernel.max_dynamic_shared_size_bytes = {size} before the launch, as on a GPU"
            )


def module_of(code: str, options: tuple[str, ...], backend: str, names: Sequence[str], *, translates: bool) -> Module:
    """Check arguments of ``RawKernel`` or ``RawModule``, and return the module that they describe.

    Args:
        code, options, backend: Arguments, explained at ``RawKernel``.
        names: Names of the kernels that are not ``extern "C"``, with their template arguments.
        translates: Whether the types of ``cuComplex.h`` are CuPy's.

    Raises:
        OperandTypeError: If ``code`` is not a string.
        ConfigError: If there is no such backend, or if ``code`` is the name of a file.
    """
    if not isinstance(code, str):
        raise OperandTypeError(f"code must be a string with CUDA C; got {type(code).__name__}")
    if is_path(code) and code.strip().endswith((".cu", ".cuh")):
        raise ConfigError(f"code must be CUDA C; got the name of a file: pass open({code!r}).read()")
    if backend not in ("nvrtc", "nvcc"):
        raise ConfigError(f"backend must be 'nvrtc' or 'nvcc'; got {backend!r}")
    return Module(code, options, names, translates_cucomplex=translates)


def kernel_of(kind: type[RawKernel], module: Module, name: str, backend: str, *, cooperates: bool) -> RawKernel:
    """Compile one of a module's kernels, and return it.

    Args:
        kind: Class of the result.
        module: The module.
        name: Name of the kernel, with its template arguments.
        backend: ``"nvrtc"`` or ``"nvcc"``.
        cooperates: Whether its launches are cooperative.
    """
    kernel = kind.__new__(kind)
    kernel._begin(module, name, backend, cooperates=cooperates)
    kernel.compile()
    return kernel


class _Attributes(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise KeyError(_not_told(name) if name in _OF_MACHINE_CODE else name)


def _not_told(name: str) -> str:
    return f"the simulator does not know {name}, which depends on machine code: compile the kernel with NVRTC"


def _static_shared(kernel: NativeKernel) -> int:
    """Return a kernel's static shared memory per block, in bytes.

    It is 0 if the text has several kernels, because the share of each is not known.
    """
    if len(kernels_in(kernel.text)) > 1:
        return 0
    return sum(each.bytes for each in kernel.debug.shared_arrays() if not each.dynamic)
