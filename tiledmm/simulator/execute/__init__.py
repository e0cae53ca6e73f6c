"""Runs of a kernel on the CPU: its arguments and memory, the blocks of its grid, the workers that run them.

In: a ``NativeKernel`` with a grid, a block and arguments. Out: the arrays that it wrote, and an ``Outcome``: the
runtime's raw findings, counts and events, at places in machine code. May import ``build``.
"""
