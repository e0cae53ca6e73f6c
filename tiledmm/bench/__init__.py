"""Comparisons of kernels: timed on a GPU, or simulated without one.

In: variants, tiles, products. Out: results as data, files and tables. ``matmul`` does not import this folder. May
import everything below it, including the simulator.
"""
