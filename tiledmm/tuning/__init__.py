"""Measurement of kernels on the current device, for the tuned tables and tables of rates that ``selection`` reads.

In: products or kernels. Out: one row of a table per product or kernel. May import ``bench`` and everything below.
"""
