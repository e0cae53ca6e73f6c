"""From CUDA C to a native kernel: the C++ compiler, its flags and its cache, translation, debug information.

In: CUDA C, a source map, compile options, the architecture. Out: a ``NativeKernel`` (its loaded library, parameters,
variables and source lines), or a ``CompilationError`` in the words of the kernel's text. ``program`` tells kernels from
the host code around them; ``native`` holds the C++ that kernels and the runtime are compiled with. May import
``hardware`` and ``errors``.
"""
