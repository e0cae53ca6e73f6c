"""Comparisons of kernels, which are timed on a GPU, or simulated on the CPU.

In: variants, tiles, products. Out: results as data, files and tables. ``matmul`` does not import this folder. May
import everything below it, including the simulator.
"""
