"""``RawModule``: CUDA C with several kernels or with variables, with CuPy's interface, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tiledmm.errors import ConfigError, OperandTypeError
from tiledmm.simulator.build.module import FILE
from tiledmm.simulator.cupy.memory import MemoryPointer
from tiledmm.simulator.cupy.raw_kernel import RawKernel, kernel_of, module_of


class RawModule:
    """CUDA C with several kernels or with variables, with the signature of ``cupy.RawModule``, on the CPU.

    Args:
        code: CUDA C.
        path: Not supported, because CuPy reads machine code or PTX from it.
        options, backend, translate_cucomplex, enable_cooperative_groups, jitify: Keywords that are explained at
            ``RawKernel``.
        name_expressions: Names of the kernels that are not ``extern "C"``, with their template arguments.

    Example:
        >>> text = "template <class T> __global__ void twice(T* x) { x[threadIdx.x] *= 2; }"
        >>> twice = RawModule(code=text, name_expressions=["twice<float>"]).get_function("twice<float>")
    """

    _kernel_class: ClassVar[type[RawKernel]] = RawKernel

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool | None = None,
    ) -> None:
        if path is not None:
            raise ConfigError("path= names machine code or PTX, which the simulator does not run: pass code=")
        if code is None:
            raise OperandTypeError("RawModule needs code=, a string with CUDA C")
        self._module = module_of(
            code,
            options,
            backend,
            name_expressions or (),
            translates=translate_cucomplex,
        )
        self.code, self.options, self.backend = code, options, backend
        self.name_expressions = None if name_expressions is None else tuple(name_expressions)
        self.file_path, self.enable_cooperative_groups = None, enable_cooperative_groups

    def get_function(self, name: str) -> RawKernel:
        """Compile a kernel of the module, and return it.

        Args:
            name: Name of the kernel, or one of ``name_expressions``.

        Raises:
            ConfigError: If the module has no such kernel.
            CompilationError: If it does not compile.
        """
        return kernel_of(
            self._kernel_class, self._module, name, self.backend, cooperates=self.enable_cooperative_groups
        )

    def get_global(self, name: str) -> MemoryPointer:
        """Return a pointer to a variable outside of functions, for ``cupy.ndarray(shape, dtype, pointer)``.

        ``np.frombuffer(pointer.bytes, dtype)`` makes a NumPy array of its values.

        Raises:
            ConfigError: If there is no such variable.
        """
        self._compile()
        state = self._module.state
        if name not in state:
            known = f"its variables are {', '.join(state)}" if state else "it has none"
            raise ConfigError(f"{FILE} has no variable {name!r}; {known}")
        return MemoryPointer(state[name])

    def compile(self, log_stream: Any = None) -> None:
        """Compile the module unless it has already been compiled, and reset its variables to their initial values.

        Args:
            log_stream: Stream to which CuPy writes the compiler's output; the simulator writes nothing.

        Raises:
            ConfigError: If the module has no kernel that CuPy finds.
            CompilationError: If it does not compile.
        """
        self._compile()
        self._module.reset()

    def _compile(self) -> None:
        settings = self._kernel_class.settings
        self._module.any_kernel(settings.target, settings.built)
