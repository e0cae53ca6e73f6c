"""From a product to the kernels that compute it: asked for by name, measured on the device, or expected by the model.

``front_end`` is the way in for every product: descriptions of arrays and keywords in, a ``Choice`` out. ``select``
finds the kernel, ``model`` searches among all of them, ``cost`` and ``candidates`` hold what each costs, ``tuned`` what
was measured. May import ``schedule`` and below.
"""
