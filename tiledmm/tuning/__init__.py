"""Measures kernels on the device at hand, and writes the tables that ``selection`` reads."""
