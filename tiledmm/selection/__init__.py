"""From a product to the kernels that compute it: asked for by name, measured on the device, or expected by the model.

In: a ``Call`` and the keywords that name a kernel. Out: a ``Choice``. ``choose`` is the way in for every product,
``model`` searches among all kernels, ``cost`` says how long each takes by the measured ``rates``, and ``tuned`` holds
the fastest kernels found for single products. May import ``schedule`` and below.
"""
