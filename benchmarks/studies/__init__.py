"""Experiments behind one page each: ``python -m benchmarks.studies.NAME``."""
