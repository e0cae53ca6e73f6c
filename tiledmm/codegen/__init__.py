"""CUDA C text: a ``KernelSpec`` (variant, config, element types, layout) rendered from its template.

In: what names a kernel. Out: source that is complete in itself. Needs no GPU and no CuPy. May import ``kernels`` and
``problem``.
"""
