"""CUDA C text: a ``Specialization`` (variant, config, element types, layout) rendered from its template.

In: what names a kernel. Out: source that is complete in itself. Needs no GPU and no CuPy. May import ``registry`` and
``problem``.
"""
