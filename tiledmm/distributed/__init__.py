"""Products larger than one device's memory, and products computed by several devices.

In: checked matrices, in host memory or as blocks on several devices. Out: C, written where the caller asked for it.
``tiledmm.api`` computes the products of tiles and panels. ``tiling`` and ``journal`` import no CuPy. Modules import
what stands below this folder, and nothing of ``cli``, ``bench`` or ``torch``.
"""
