"""Compilation by NVRTC: kernels that run on a device, and machine code and resource use for any target without a GPU.

In: a ``KernelSpec`` or CUDA C. Out: a ``cupy.RawKernel``, a cubin, registers and spills, SASS. May import
``codegen`` and ``hardware``. ``compilation`` and ``cubins`` import CuPy; ``disk_cache``, ``kernel_text``,
``inspection`` and ``disassembly`` never do.
"""
