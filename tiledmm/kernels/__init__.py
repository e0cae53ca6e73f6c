"""What a kernel is: ``Variant``, ``Config``, ``KernelSpec``, the table of variants, and the operands that kernels read.

In: a variant's name, a tile, types and a layout. Out: a checked ``KernelSpec``; and, for the stages above, what one
launch of it consists of. ``variants`` is the table that everything else iterates. ``cuda_cores``, ``tensor_cores`` and
``split_variants`` hold the parameters and shared memory of each family, ``rules`` what CUDA-core templates require,
``operands/`` one class per format of operands, ``launches`` and ``tensor_maps`` the arguments of a launch. May import
``problem`` and below.
"""
