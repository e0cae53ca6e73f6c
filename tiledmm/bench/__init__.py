"""Compares the kernels: verifies them, then times them against each other. No call of ``matmul`` needs it."""
