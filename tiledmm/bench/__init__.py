"""Comparisons of kernels: each is verified, then timed against the others; or compiled and simulated without a GPU.

In: variants, tiles, products. Out: results as data, files and tables. No call of ``matmul`` needs it. May import
everything below it, the simulator too.
"""
