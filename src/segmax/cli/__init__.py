"""The command line: a module per command."""

from segmax.cli.main import main

__all__ = ["main"]
