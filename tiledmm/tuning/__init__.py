"""Measurement of kernels on the current device: tuned tables and tables of rates, which ``selection`` reads.

In: products, or kernels. Out: a row of a table for each. May import ``bench`` and everything below.
"""
