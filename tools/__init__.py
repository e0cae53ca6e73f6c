"""Tools that developers run occasionally, from the top of the repository: ``python -m tools.NAME``.

- For the tests: ``mutation`` makes small edits of the host code (``mutants``, ``covering``, ``mutation.toml``), and
  ``planted`` plants bugs that the tests once missed (``bugs/``). Both run pytest in copies of the tree (``trees``).
- For the dependencies: ``supported`` runs a short selection of tests with the lowest and the newest versions.
- For the simulator: ``kernel_mutation`` makes small edits of kernels' text, ``kernel_bugs`` holds bugs planted
  there, and ``sanitize_bugs`` runs these under compute-sanitizer, on a GPU.
- For the kernels: ``sanitize`` runs them under compute-sanitizer, on a GPU; ``same_sass`` compares their machine code
  with another commit's.

No tool changes the tree, except for results that it is told to write. Tools import no tests, but tests import tools.
"""
