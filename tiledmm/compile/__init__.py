"""NVRTC: a kernel compiled and loaded on a device; or compiled for any target without a GPU, and looked at.

In: a ``KernelSpec`` or CUDA C. Out: a ``cupy.RawKernel``, a cubin, registers and spills, SASS. May import
``codegen``, ``hardware``, and the simulator's locks of folders. ``compilation`` and ``cubins`` import CuPy;
``disk_cache``, ``kernel_text``, ``inspection`` and ``disassembly`` never.
"""
