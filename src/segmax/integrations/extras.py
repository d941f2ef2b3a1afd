"""What to say where an optional package is missing."""

from __future__ import annotations


def cannot_import(package: str, extra: str, error: ImportError) -> ImportError:
    """Return the error that tells which extra brings a package."""
    return ImportError(f"this needs {package}, which cannot be imported ({error}); pip install 'segmax[{extra}]'")
