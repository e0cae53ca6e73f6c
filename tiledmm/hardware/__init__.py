"""What is known of GPUs: architectures and their limits, reference machines by their data sheets, shared-memory banks.

In: a target such as ``"sm_90"``, or CUDA's device properties. Out: rates, limits, occupancy, wavefronts.
Imports ``elements`` and ``errors`` only.
"""
