"""Measurement of kernels on the current device, for the tuned tables that ``selection`` reads.

In: products. Out: a row of the table for each. May import ``bench`` and everything below.
"""
