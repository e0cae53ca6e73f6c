"""From what a kernel's threads did to what is wrong with it, in words that name lines, blocks and threads.

In: a launch and its ``Outcome``. Out: ``Finding``s: of the runtime, of results that are not as expected, and of what
only other builds of the kernel show. May import ``execute`` and ``build``.
"""
