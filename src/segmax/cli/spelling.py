"""How errors name options in a shell: `--num-clusters 512` where Python has `num_clusters=512`.

The parser of a command knows its flags by their Python names (`dest`). Where these differ, the module of the command
has a mapping `NAMES`, from an option as Python spells it to what the shell shows: `{"path": "OUT"}`. A key may include
a value, `{"format=...": "--to FORMAT"}`, for a name that means two things.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping


class Spelling:
    """Spells options for `SegmaxError.text`.

    Parameters
    ----------
    parser
        The parser of the command.
    names
        What the shell calls options that the parser does not know by their Python name.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--num-clusters", metavar="N")
    >>> spelling = Spelling(parser, {})
    >>> spelling("num_clusters", ""), spelling("num_clusters", "..."), spelling("num_clusters", "512")
    ('--num-clusters', '--num-clusters N', '--num-clusters 512')
    """

    def __init__(self, parser: argparse.ArgumentParser, names: Mapping[str, str]) -> None:
        by_values = sorted(parser._actions, key=lambda action: action.nargs != 0)  # --dtype is named, and not --exact
        self._actions = {action.dest: action for action in by_values}
        self._names = names

    def __call__(self, name: str, value: str) -> str:
        """Return an option as it is typed; one that the command does not have stays as Python spells it."""
        whole = f"{name}={value}" if value else name
        if whole in self._names:
            return self._names[whole]
        flag = self._names.get(name) or self._flag(name, value)
        return whole if flag is None else " ".join([flag, *self._value(name, value)])

    def _flag(self, name: str, value: str) -> str | None:
        action = self._actions.get(name)
        if action is None:
            return None
        if not action.option_strings:
            return str(action.metavar or name)
        if isinstance(action, argparse.BooleanOptionalAction):
            return action.option_strings[value == "False"]
        return action.option_strings[-1]

    def _value(self, name: str, value: str) -> list[str]:
        if value in ("", "True", "False"):
            return []
        action = self._actions.get(name)
        if value == "..." and action is not None and action.metavar is not None:
            return [str(action.metavar)]
        return [value.strip("'\"")]
