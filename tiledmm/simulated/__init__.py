"""Products on the CPU: the kernels of a schedule, compiled and run by the simulator.

The functions that use both this package's kernels and the simulator: ``matmul``, ``gemm``, ``run``, ``trace`` and
``explain_conflicts``. They are public as names of ``tiledmm.simulator``. The folder ``explanation`` says why a product
is wrong, and why a kernel is slow; plain kernels of users are explained, too.

In: NumPy arrays, and the keywords that choose a kernel. Out: the product, a ``ProductReport``, a ``Trace``. May import
``compile``, ``selection`` and everything below.
"""
