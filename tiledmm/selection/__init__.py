"""From a product to the kernels that compute it: asked for by name, measured on the device, or expected by the model.

In: a ``Product``, ``variant=``, ``tile=``, ``config=``, ``precision=``. Out: a ``Choice``. May import ``schedule`` and
``hardware``, and below.
"""
