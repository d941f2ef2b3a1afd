"""Benchmarks: they inform, and are never tests. `python -m benchmarks.engine --help`."""

from segmax.bench import check_release_build

check_release_build()
