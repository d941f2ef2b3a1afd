"""The file NAME.json: what an experiment found, and what is known about the run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from segmax.base.errors import InputError
from segmax.experiments.outcome import Outcome
from segmax.io.writing import write_whole

_FORMAT = "segmax-experiment"
_VERSION = 2
#: What a report shows about a run.
_ABOUT = (
    *("name", "place", "title", "command", "date", "seconds", "resumed_steps", "quick", "collections", "commit"),
    *("versions", "machine.cpu", "machine.cores", "machine.memory_bytes", "machine.simd", "machine.system"),
)


def write_outcome(path: Path, about: dict[str, Any], outcome: Outcome, indent: int | None = 1) -> None:
    """Write an outcome and what is known about its run; `read_outcome` reads them back.

    Parameters
    ----------
    path
        The file to write or replace.
    about
        What `segmax.experiments.about.about` returned.
    outcome
        What the experiment found.
    indent
        How far JSON is indented; None: not at all.
    """
    content = {"format": _FORMAT, "version": _VERSION, "about": about, **outcome.to_dict()}
    write_text(path, json.dumps(_finite(content), indent=indent, ensure_ascii=False) + "\n")


def read_outcome(path: Path) -> tuple[dict[str, Any], Outcome] | None:
    """Return what is known about a run, and its outcome; None if the file is something else.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            return None
        return _checked_about(content["about"]), Outcome.from_dict(content)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise InputError(
            where=f"'{path}'",
            expected="the outcome of an experiment",
            got=f"an unreadable file ({error})",
            hint="run it again",
        ) from error


def _checked_about(about: dict[str, Any]) -> dict[str, Any]:
    """Return what is known about a run; ValueError if something is missing that a report shows."""
    found = {**about, **{f"machine.{key}": value for key, value in dict(about.get("machine", {})).items()}}
    missing = [key for key in _ABOUT if key not in found]
    if missing:
        msg = f"it lacks about.{missing[0]}"
        raise ValueError(msg)
    return dict(about)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, or not at all."""
    with write_whole(path, overwrite=True) as file:
        file.write(text.encode("utf-8"))


def _finite(value: Any) -> Any:
    """Return plain values for JSON, with null for nan and infinity."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
