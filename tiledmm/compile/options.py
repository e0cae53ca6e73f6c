"""Options for NVRTC, the same for all ways to compile a kernel: with CuPy, to a cubin file, or without a GPU."""

from __future__ import annotations

STANDARD = "c++17"

#: Options that the package passes to ``cupy.RawKernel``.
COMPILE_OPTIONS = (f"-std={STANDARD}",)

#: Options that CuPy adds for every kernel, besides the architecture and its include path. The first flushes float32
#: subnormals in code without explicit rounding modes (the kernels' own multiply-adds keep them); the second makes
#: functions ``__device__`` by default.
CUPYS_OPTIONS = ("-ftz=true", "--device-as-default-execution-space")
