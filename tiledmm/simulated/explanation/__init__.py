"""Explanations of kernels that compute products: why a result is wrong, and why a kernel is slow.

A wrong result is compared with the results of common mistakes: the last step along K missing, a factor transposed, a
tile that does not advance. A mistake is named only if it gives all elements that the kernel wrote. A slow kernel is
explained from its counts, with the ladder's terms.

In: operands, results and a simulator's ``Report``. Out: ``Resemblance``s and ``Advice``. May import ``report``,
``kernels`` and everything below.
"""
