"""The table of variants: what a ``Variant`` is, a row for each kernel, and the parameters of its tiles.

In: a variant's name, a tile, a computation type. Out: a checked ``Config``. ``variants`` is the table that everything
else iterates; ``cuda_cores``, ``tensor_cores`` and ``split_variants`` hold the parameters and shared memory of each
family, ``rules`` what CUDA-core templates require, ``auxiliary_kernels`` the kernels before and after those that
multiply. Imports ``hardware``, ``elements`` and ``errors`` only.
"""
