"""Findings: what is wrong with a kernel, in sentences that name source lines, blocks and threads.

Accesses are checked while the kernel runs, by the runtime (``build/native/checks.cpp``). This folder turns what was
found there into findings. It also compares results with what is expected, and runs kernels in other builds, which show
what the first build does not.

In: a launch and its ``Outcome``. Out: ``Finding``s. May import ``execute`` and ``build``.
"""
