"""Schedules: the launches of one product, which prepare the operands, multiply, and add the partial sums of split-K.

In: a ``KernelSpec`` and a ``Problem``. Out: a ``Schedule``. May import ``codegen`` and below; needs no CuPy.
"""
