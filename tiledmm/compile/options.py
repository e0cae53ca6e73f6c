"""NVRTC's options, the same wherever a kernel is compiled: by CuPy, past it, or without a GPU."""

from __future__ import annotations

STANDARD = "c++17"

#: The options of a RawKernel.
COMPILE_OPTIONS = (f"-std={STANDARD}",)

#: What CuPy adds to these for every kernel, besides the architecture and its include path: flushed float32 subnormals
#: in code that asks for no rounding mode (the kernels' own multiply-adds keep them), and ``__device__`` by default.
CUPYS_OPTIONS = ("-ftz=true", "--device-as-default-execution-space")
