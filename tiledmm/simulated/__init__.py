"""Products on the CPU: the kernels of a schedule, compiled and run by the simulator.

What knows of both this package's kernels and the simulator: ``matmul``, ``gemm``, ``run``, ``trace`` and
``explain_conflicts``, which are public as names of ``tiledmm.simulator``.

In: NumPy arrays and a kernel by its keywords. Out: the product, a ``ProductReport``, a ``Trace``. May import
``compile``, ``selection`` and everything below.
"""
