"""What a kernel is: ``Variant``, ``Config``, ``KernelSpec``, the table of variants, and the operands that kernels read.

In: the name of a variant, a tile, types and a layout. Out: a checked ``KernelSpec``, and the parts of one launch of it
for the stages above. ``variants`` holds the table of variants, which everything else iterates. ``cuda_cores``,
``tensor_cores`` and ``split_variants`` hold the config and shared memory of each family of variants, ``rules`` the
requirements of CUDA-core templates, ``operands/`` one class per format of operands, and ``launches`` and
``tensor_maps`` the arguments of a launch. May import ``problem`` and below; needs no CuPy.
"""
