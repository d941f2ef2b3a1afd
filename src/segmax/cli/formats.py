"""Options about file formats."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from segmax.io import SCALES, WRITTEN_FORMATS


def add_from(parser: argparse.ArgumentParser, formats: Iterable[str]) -> None:
    """Add --from."""
    names = list(formats)
    parser.add_argument(
        "--from",
        dest="format",
        metavar="FORMAT",
        choices=names,
        help=f"format of IN: {', '.join(names)} (default: recognized by content)",
    )


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add --to."""
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        choices=WRITTEN_FORMATS,
        help=f"format of OUT: {', '.join(WRITTEN_FORMATS)} (default: by the name of OUT)",
    )


def add_scale(parser: argparse.ArgumentParser) -> None:
    """Add --scale."""
    names = "; ".join(f"{name}: {text}" for name, (_, text) in SCALES.items())
    text = f"what to do with weights (default: none). {names}"
    parser.add_argument("--scale", metavar="NAME|FACTOR", help=text.replace("%", "%%"))
