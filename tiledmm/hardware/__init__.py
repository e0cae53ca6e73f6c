"""Facts about GPUs: architectures, data sheets, occupancy, memory banks.

In: a target such as ``"sm_90"``, or the properties of a device. Out: rates, limits, occupancy, wavefronts; and the
driver's library (``device``). Imports ``elements`` and ``errors`` only.
"""
