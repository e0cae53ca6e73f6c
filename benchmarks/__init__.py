"""Benchmarks, and the commands that write tables and charts into the documentation.

- This folder: runs that are repeated whenever kernels change, each a command (``python -m benchmarks.ladder``), and
  what writes documents from their results (``readme``, ``charts``). ``pytest benchmarks/`` compares all variants in
  pytest-benchmark's tables.
- ``studies/``: experiments behind one page each, most of them counts by Nsight Compute
  (``python -m benchmarks.studies.stalls``).
- ``support/``: what runs and studies share: operands, accesses, timers, errors, power, other libraries' products,
  result files, tables.
- ``results/``: what the last run of each has written.

Runs and studies import ``support`` and ``tiledmm``, but not each other; ``readme`` and ``charts`` import their tables.
"""
