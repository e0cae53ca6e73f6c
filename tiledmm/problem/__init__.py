"""From arrays and ufunc keywords to a product.

In: descriptions of arrays (shape, strides, dtype) and ``matmul``'s keywords. Out: a ``Product``: sizes, strides in
elements, element types, and what has to be converted first; or the error that NumPy raises for the same mistake.
Imports ``elements`` and ``errors`` only; no data is read.
"""
