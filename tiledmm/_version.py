"""The version, in the one place from which packaging, kernels and the API read it."""

__version__ = "0.1.0"
