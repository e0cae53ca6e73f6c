"""Rendering of CUDA C: a ``KernelSpec`` (variant, config, element types, layout) is rendered from its template.

In: the specification of a kernel. Out: source that compiles by itself. Needs no GPU and no CuPy. May import
``kernels`` and ``problem``.
"""
