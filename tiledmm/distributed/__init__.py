"""Products beyond one device's memory or one device: tiles of C, one after the other or on several devices.

In come matrices that are checked already, in host memory or in blocks; out goes C, written where it was asked for. The
products of tiles are those of ``tiledmm.api``. ``tiling`` and ``journal`` import no CuPy. Modules import what stands
below this folder, and nothing of ``cli``, ``bench`` or ``torch``.
"""
