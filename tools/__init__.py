"""What developers run now and then, from the top of the repository: ``python -m tools.NAME``.

- The tests, judged: ``mutation`` makes small edits of the host code (``mutants``, ``covering``, ``mutation.toml``),
  ``planted`` brings back bugs that they once missed (``bugs/``). Both run pytest in copies of the tree (``trees``).
- The dependencies, judged: ``supported`` runs a short selection of tests with the lowest and the newest versions.
- The simulator, judged: ``kernel_mutation`` makes small edits of kernels' text, ``kernel_bugs`` holds bugs planted
  there, and ``sanitize_bugs`` asks compute-sanitizer about them, on a GPU.
- The kernels, judged: ``sanitize`` runs them for compute-sanitizer to watch, on a GPU; ``same_sass`` compares their
  machine code with another commit's.

No tool changes the tree, but for results that it is told to write. None imports a test, though tests import tools.
"""
