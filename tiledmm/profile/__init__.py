"""Profiles of one product by Nsight Compute, as figures, tables and sentences that explain what limits a kernel.

In: variants and a product. Out: ``Profile`` data, tables, a diagnosis. May import everything below ``profile``.
"""
