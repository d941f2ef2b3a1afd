"""Errors name options as they are typed in a shell."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import scipy.sparse as sp

from segmax.base.errors import ConfigError, IndexExistsError
from segmax.cli.commands import COMMANDS
from segmax.cli.main import main
from segmax.cli.spelling import Spelling


@pytest.fixture
def spelling() -> Spelling:
    """The spelling of a command with a flag, a switch and a positional argument."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", metavar="IN ... OUT")
    parser.add_argument("--num-clusters", metavar="N")
    parser.add_argument("--scratch", metavar="DIR")
    parser.add_argument("--from", dest="format", metavar="FORMAT")
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction)
    parser.add_argument("-k", metavar="N")
    return Spelling(parser, {"path": "OUT", "format=...": "--to FORMAT"})


@pytest.mark.parametrize(
    ("name", "value", "typed"),
    [
        ("num_clusters", "", "--num-clusters"),
        ("num_clusters", "512", "--num-clusters 512"),
        ("k", "", "-k"),
        ("overwrite", "True", "--overwrite"),
        ("progress", "True", "--progress"),
        ("progress", "False", "--no-progress"),
        ("scratch", "...", "--scratch DIR"),
        ("format", "'csv-text'", "--from csv-text"),
        ("format", "...", "--to FORMAT"),
        ("path", "", "OUT"),
        ("paths", "", "IN ... OUT"),
        ("terms", "...", "terms=..."),
        ("terms", "", "terms"),
    ],
)
def test_an_option_is_shown_as_it_is_typed(spelling: Spelling, name: str, value: str, typed: str) -> None:
    """Flags and placeholders come from the parser; an option that the command does not have keeps its Python name."""
    assert spelling(name, value) == typed


def test_the_parts_of_an_error_are_spelled(spelling: Spelling) -> None:
    """The option and the options of a hint are spelled for the shell, data that looks like one is not."""
    error = ConfigError(option="num_clusters", expected="at least 1", got="num_clusters=0", hint="see {scratch=...}")
    assert error.text(spelling) == "expected --num-clusters to be at least 1, got num_clusters=0; see --scratch DIR"
    taken = IndexExistsError("'overwrite=True' exists", hint="pass {overwrite=True} to replace it")
    assert taken.text(spelling) == "'overwrite=True' exists; pass --overwrite to replace it"
    assert str(taken) == "'overwrite=True' exists; pass overwrite=True to replace it"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_name_is_of_an_argument(name: str) -> None:
    """`NAMES` refers to flags and placeholders that the command has."""
    module = COMMANDS[name].load()
    parser = module.parser()
    flags = {flag for action in parser._actions for flag in action.option_strings}
    words = {word for action in parser._actions for word in str(action.metavar).split()}
    for typed in getattr(module, "NAMES", {}).values():
        assert typed.split()[0] in flags | words


def test_the_same_command_twice_says_how_to_replace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An existing output is an error that names --overwrite, for every command that writes one."""
    monkeypatch.chdir(tmp_path)
    sp.save_npz("docs.npz", sp.random(20, 10, 0.4, format="csr", random_state=0))
    Path("corpus.jsonl").write_text('{"id": "a", "text": "waveguides"}\n')
    for command in (
        ["build", "docs.npz", "docs.segmax"],
        ["index", "corpus.jsonl", "texts.segmax"],
        ["encode", "corpus.jsonl", "texts.npz"],
        ["convert", "docs.npz", "docs.jsonl"],
    ):
        assert main(command) == 0
        capsys.readouterr()
        assert main(command) == 2
        assert f"'{command[-1]}' exists" in (message := capsys.readouterr().err)
        assert "pass --overwrite to replace" in message
        assert main([*command, "--overwrite"]) == 0
