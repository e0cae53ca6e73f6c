"""From a product to the kernels that compute it: asked for by name, measured on the device, or expected by the model.

``front_end`` is the way in for every product: descriptions of arrays and keywords in, a ``Choice`` out. ``select``
finds the kernel, ``model`` searches among all of them, ``cost`` says how long each takes by the measured ``rates``, and
``tuned`` holds the fastest kernels found for single products. May import ``schedule`` and below.
"""
