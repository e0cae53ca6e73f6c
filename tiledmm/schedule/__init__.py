"""The launches of one product: tiles, auxiliary kernels before and after, split-K, tensor maps, scratch memory.

In: a ``Specialization`` and a ``Problem``. Out: a ``Schedule``. May import ``codegen`` and below.
"""
