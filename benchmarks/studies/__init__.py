"""Experiments, each for one page of the documentation: ``python -m benchmarks.studies.NAME``."""
