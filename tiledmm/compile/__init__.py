"""Compilation by NVRTC: for the current device, or for any target without a GPU.

In: a ``KernelSpec`` or CUDA C. Out: a ``cupy.RawKernel``, a cubin, registers and spills, SASS. May import
``codegen``, ``hardware``, and the simulator's locks of folders. ``compilation`` and ``cubins`` import CuPy. The other
modules (``disk_cache``, ``inspection`` and ``disassembly``) do not need it.
"""
