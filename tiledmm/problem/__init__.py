"""Resolution of a call of ``matmul`` or ``gemm`` to a product, without reading any data.

In: descriptions of arrays (shape, strides, dtype) and ``matmul``'s keywords. Out: a ``Product`` with sizes, strides in
elements, element types and the conversions that come first; or the error that NumPy raises for the same mistake.
Imports ``elements`` and ``errors`` only.
"""
