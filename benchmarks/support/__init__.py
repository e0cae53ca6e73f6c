"""Code that benchmarks and studies share. Nothing in this folder is a command."""
