"""From a native kernel to what its threads did: arguments, memory, the blocks of a grid, the workers that run them.

In: a ``NativeKernel`` with a grid, a block and arguments. Out: the arrays it wrote, and an ``Outcome``: the runtime's
raw findings, counts and events, at places in machine code. May import ``build``.
"""
