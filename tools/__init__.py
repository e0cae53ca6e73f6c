"""Tools that developers run occasionally, from the top of the repository: ``python -m tools.NAME``.

- ``bugs`` plants bugs in the host code and in kernels, and sees whether the tests, the simulator or compute-sanitizer
  notice them.
- ``supported`` runs a short selection of tests with the lowest and the newest versions of the dependencies.
- ``sanitize`` runs all kernels under compute-sanitizer, on a GPU; ``same_sass`` compares their machine code with
  another commit's.
- ``cost_of_a_change`` lists the files that typical changes touch.

No tool changes the tree, except for results that it is told to write. Tools import no tests, but tests import tools.
"""
