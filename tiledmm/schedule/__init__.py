"""The launches of one product: operands prepared, the kernel that multiplies, split-K.

In: a ``KernelSpec`` and a ``Problem``. Out: a ``Schedule``. May import ``kernels`` and below.
"""
