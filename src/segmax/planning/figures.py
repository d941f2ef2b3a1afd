"""The measured figures that every prediction rests on. `python -m benchmarks.planning` measures them again."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from segmax.base.checks import checked_path, shown
from segmax.base.errors import InputError
from segmax.io.read_errors import reading

_NAME = "figures.json"
#: What a file of figures has.
PARTS: Mapping[str, type] = {
    "about": dict,
    "growth": list,
    "calls": dict,
    "rounds": dict,
    "asked": list,
    "max_shards": list,
    "building": dict,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that was measured, as it lies in `figures.json`.

    Examples
    --------
    >>> figures = Figures.measured()
    >>> figures.about["collection"]
    'Wikipedia passages'
    >>> [record["docs"] for record in figures.growth if record["set"] == "large"][-1]
    656250
    """

    about: Mapping[str, Any]  #: machine, versions, collection, commands
    growth: Sequence[Mapping[str, Any]]  #: one shard against its documents: bytes, building, searching
    calls: Mapping[str, Any]  #: a call of a Ray actor
    rounds: Mapping[str, Any]  #: what a search does around its calls
    asked: Sequence[Mapping[str, Any]]  #: which share of the shards a query asks
    max_shards: Sequence[Mapping[str, Any]]  #: which share of the exact results the best few shards have
    building: Mapping[str, Any]  #: building a sharded index

    @classmethod
    def measured(cls) -> Figures:
        """Return the figures that come with segmax."""
        return _own_figures()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Figures:
        """Read figures that `python -m benchmarks.planning` measured on another machine.

        Raises
        ------
        InputError
            If the file cannot be read, or is not one of figures.
        """
        file = checked_path("figures", path)
        with reading(file):
            return cls._from_text(file.read_text(encoding="utf-8"), f"'{file}'")

    @classmethod
    def _from_text(cls, text: str, where: object) -> Figures:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(where=where, expected="figures as JSON", got="something else") from error
        missing = [part for part in PARTS if not isinstance(values, dict) or part not in values]
        if missing:
            raise InputError(
                where=where, expected="figures of benchmarks.planning", got=f"none called {', '.join(missing)}"
            )
        for part, kind in PARTS.items():
            if not isinstance(values[part], kind) or not values[part]:
                what = "members" if kind is dict else "records"
                raise InputError(where=where, expected=f"{what} in {part!r}", got=shown(values[part]))
        return cls(**{part: values[part] for part in PARTS})


@functools.cache
def _own_figures() -> Figures:
    text = importlib.resources.files("segmax.planning").joinpath(_NAME).read_text(encoding="utf-8")
    return Figures._from_text(text, _NAME)
