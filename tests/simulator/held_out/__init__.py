"""Kernels and bugs that the simulator was not made with: what it finds of them, it finds of others."""
