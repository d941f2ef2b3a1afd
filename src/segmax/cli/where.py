"""The option --where: which documents a command is about, by their metadata."""

from __future__ import annotations

import argparse
import json
from typing import Any

from segmax.base.checks import shown
from segmax.base.errors import ConfigError


def add_where(parser: argparse.ArgumentParser, help: str) -> None:
    """Add --where to a command."""
    parser.add_argument("--where", metavar="JSON", help=f'{help}: {{"year": {{"$gte": 2020}}}} (docs/filters.md)')


def where_of(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return what was given as --where; None if nothing was."""
    text = getattr(args, "where", None)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(option="where", expected="JSON", got=f"{shown(text)} ({error})") from error
    if not isinstance(found, dict):
        raise ConfigError(option="where", expected="a JSON object", got=shown(text))
    return found
