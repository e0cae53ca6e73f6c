"""The launches of one product: grids, auxiliary kernels, split-K, tensor maps, scratch memory.

In: a ``KernelSpec`` and a ``Problem``. Out: a ``Schedule``. May import ``codegen`` and below.
"""
