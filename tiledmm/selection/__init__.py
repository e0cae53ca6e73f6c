"""Selection of the kernels for a product: those asked for by name, measured on the device, or expected to be fastest.

In: a ``Call`` and the keywords that name a kernel. Out: a ``Choice``. ``choose`` is the entry point for every product.
``model`` searches among all kernels and cuts C into ``parts``. ``cost`` computes how long a kernel takes from measured
``rates``. ``tuned`` holds the fastest kernels that were found for single products, and ``explanation`` lists
the kernels that ``auto`` compares, with their expected times. May import ``schedule`` and below; needs no CuPy.
"""
