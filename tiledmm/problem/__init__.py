"""Resolution of a call's arrays and keywords to a product.

In: descriptions of arrays (shape, strides, dtype) and ``matmul``'s keywords. Out: a ``Product`` with sizes, strides in
elements, element types and the conversions that come first; or the error that NumPy raises for the same mistake. No
data is read. Imports ``elements`` and ``errors`` only.
"""
