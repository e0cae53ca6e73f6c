"""Compilation by NVRTC, for a device or without a GPU for any target.

In: a ``KernelSpec`` or CUDA C. Out: a ``cupy.RawKernel``, a cubin, registers and spills, SASS. May import
``codegen``, ``hardware``, and the simulator's locks of folders. ``compilation`` and ``cubins`` import CuPy;
``disk_cache``, ``inspection`` and ``disassembly`` never.
"""
