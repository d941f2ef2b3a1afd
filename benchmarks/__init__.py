"""Benchmarks: they inform, and are never tests. `python -m benchmarks.engine --help`."""
