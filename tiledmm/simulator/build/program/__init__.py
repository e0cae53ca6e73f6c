"""CUDA programs as people write them: the kernels of a ``.cu`` file, its headers and its host code, told apart.

In: a text or the path of a file, with compile options. Out: a ``Program``: its kernels, the text of each kernel with
all that it names and without the rest, and the host's launches as tokens. The compiler's preprocessor resolves
conditionals, macros and headers first, so that no declaration is hidden in a macro. May import ``translation``,
``compile_options``, ``cxx`` and ``source_map``.
"""
