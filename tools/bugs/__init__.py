"""Bugs that are planted to see whether somebody notices: ``python -m tools.bugs``.

A set has a way to plant bugs, and somebody who must notice them:

- ``host`` (by hand) and ``host-mutants`` (Cosmic Ray): edits of the package's Python, which the tests must notice.
- ``kernels`` and ``held-out`` (by hand), and ``kernel-mutants``: edits of CUDA C, which the simulator must find.
- ``hopper`` and ``hopper-held-out`` (by hand): edits of kernels with Hopper's asynchronous instructions, which the
  simulator must find.
- ``sanitizer``: those of ``kernels`` in this package's kernels, which compute-sanitizer may find on a GPU.
"""
