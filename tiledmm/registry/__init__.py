"""The table of variants: what a ``Variant`` is, a row for each kernel, and the parameters of its tiles.

In: a variant's name, a tile, an element type. Out: a checked ``Config``. ``variants`` is the table that everything else
iterates; ``cuda_cores`` and ``tensor_cores`` hold the parameters, rules and shared memory of each
family, ``auxiliary`` the kernels before and after those that multiply.
Imports ``hardware``, ``elements`` and ``errors`` only.
"""
