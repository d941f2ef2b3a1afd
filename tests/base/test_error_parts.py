"""Errors are made of parts: how they read, how a shell shows options, and that they survive pickling."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import segmax
from segmax import errors
from segmax.errors import ConfigError, SegmaxError

SOURCE = Path(segmax.__file__).parent
KINDS = [kind for name in errors.__all__ if issubclass(kind := getattr(errors, name), SegmaxError)]
PARTS = {"where": "a.toml, line 3", "option": "mu", "expected": "at most 1", "got": "2", "hint": "pass {mu=1} or {eta}"}


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (PARTS, "a.toml, line 3: expected mu to be at most 1, got 2; pass mu=1 or eta"),
        ({"expected": "an id", "got": 7}, "expected an id, got 7"),
        ({"message": "no room", "where": "disk"}, "disk: no room"),
        ({"message": "it exists", "hint": "pass {overwrite=True}"}, "it exists; pass overwrite=True"),
    ],
)
def test_parts_make_a_sentence(parts: dict[str, str], text: str) -> None:
    """Whichever parts there are."""
    assert str(ConfigError(**parts)) == text


def test_a_shell_spells_options_its_own_way() -> None:
    """The option itself, and those of a hint."""
    error = ConfigError(option="num_clusters", expected="at least 1", got=0, hint="leave {num_clusters} out, {force=1}")
    shown = error.text(lambda name, value: f"--{name.replace('_', '-')}{' ' + value if value else ''}")
    assert shown == "expected --num-clusters to be at least 1, got 0; leave --num-clusters out, --force 1"


@pytest.mark.parametrize("part", ["message", "where", "expected", "got"])
def test_data_is_never_taken_for_an_option(part: str) -> None:
    """Braces mean something in hints only."""
    error = ConfigError(**{"expected": "x", part: "{overwrite=True}"})
    assert "{overwrite=True}" in error.text(lambda name, value: "FLAG")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [PARTS, {"message": "all in one"}])
def test_errors_survive_pickling_and_copying(kind: type[SegmaxError], parts: dict[str, str]) -> None:
    """Processes hand them to each other: every part arrives."""
    error = kind(**parts)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert vars(other) == vars(error)
        assert other.text(lambda name, value: "FLAG") == error.text(lambda name, value: "FLAG")


def hints() -> Iterator[tuple[str, ast.expr]]:
    """Yield what is passed as `hint`, and what is assigned to variables that are, with its file."""
    for file in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        passed = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "hint"]
        names = {value.id for value in passed if isinstance(value, ast.Name)}
        for node in nodes:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(node, ast.Assign | ast.AugAssign) and names & {getattr(each, "id", "") for each in targets}:
                passed.append(node.value)
        yield from ((str(file.relative_to(SOURCE)), value) for value in passed)


#: Where hints have names of packages, commands, options or poolings in them: segmax's own words, and no data.
OWN_WORDS = {
    "base/optional.py",
    "building/given_texts.py",
    "building/reading.py",
    "cli/config_file.py",
    "cli/parser.py",
    "metadata/schema.py",
    "metadata/where.py",
    "storage/config.py",
    "storage/tables.py",
    "text/pipeline.py",
}


def test_hints_hold_no_data() -> None:
    """A hint is a literal: data with braces of its own would be shown as an option."""
    found = {place for place, hint in hints() if any(isinstance(part, ast.FormattedValue) for part in ast.walk(hint))}
    assert found <= OWN_WORDS
