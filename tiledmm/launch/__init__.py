"""From the kernels of a product to its launches on the device.

In: a ``Choice``, then arrays. Out: the product. ``plan`` runs it, ``prepared`` has each launch with all its arguments
but the addresses, ``dependent`` launches what may begin before the launch before it has ended. Needs CuPy.
"""
