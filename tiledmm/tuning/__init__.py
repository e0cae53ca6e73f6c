"""Measures kernels on the current device, and writes the tables that ``selection`` reads."""
