"""Measurement of kernels on the current device, for the tuned tables and tables of rates that ``selection`` reads.

In: products or kernels. Out: a row of a table for each. May import ``bench`` and everything below.
"""
