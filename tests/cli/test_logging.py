"""-v shows what the library logs; progress bars are shown on a terminal."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest
import scipy.sparse as sp

from segmax.cli.commands import COMMANDS
from segmax.cli.log_lines import log_lines
from segmax.cli.main import main
from segmax.cli.parser import shows_progress
from segmax.cli.spelling import Spelling
from segmax.encoders.pace import Pace


@pytest.fixture
def logging_command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command that logs a line to segmax, one below INFO, and one to another logger."""

    def run(_: object) -> None:
        logging.getLogger("segmax.building").info("read\n%d \x1b[2J documents", 3)
        logging.getLogger("segmax.building").debug("details")
        logging.getLogger("other").info("something else")

    monkeypatch.setattr("segmax.cli.completion.run", run)
    return ["completion", "bash"]


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_verbose_shows_log_lines(logging_command: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The INFO lines of the library, one line each and without control characters; nothing without the flag."""
    assert main([*logging_command, flag]) == 0
    assert capsys.readouterr().err == "segmax: read 3 \\x1b[2J documents\n"
    assert main(logging_command) == 0
    assert capsys.readouterr().err == ""


def test_lines_about_encoders_are_shown(
    logging_command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without -v as well, where a command asks for them; once, whether or not -v shows them, too."""

    def run(_: object) -> None:
        with log_lines(Spelling(COMMANDS["index"].load().parser(), {}), "segmax.encoders"):
            logging.getLogger("segmax.encoders").info("int8 on cpu")
            logging.getLogger("segmax.building").info("read")

    monkeypatch.setattr("segmax.cli.completion.run", run)
    assert main(logging_command) == 0
    assert capsys.readouterr().err == "segmax: int8 on cpu\n"
    assert main([*logging_command, "-v"]) == 0
    assert capsys.readouterr().err == "segmax: int8 on cpu\nsegmax: read\n"


@pytest.mark.parametrize("name", ["index", "add", "encode", "inspect"])
def test_lines_about_encoders_name_options_as_they_are_typed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the command has such options; nothing else is changed, not a model that is called like one."""
    with log_lines(Spelling(COMMANDS[name].load().parser(), {}), "segmax.encoders"):
        Pace("my/dtype", lambda: "dtype 'int8', several times as fast; leave batch_size out")._say(
            "documents take long"
        )
    options = ("dtype 'int8'", "batch_size") if name == "inspect" else ("--dtype int8", "--batch-size")
    faster = f"{options[0]}, several times as fast; leave {options[1]} out"
    said = capsys.readouterr().err
    assert said == f"segmax: my/dtype: documents take long; faster: {faster}\n"


def test_logging_is_restored(logging_command: list[str]) -> None:
    """A command leaves the logger as it was."""
    logger = logging.getLogger("segmax")
    before = logger.level, logger.handlers[:]
    assert main([*logging_command, "-v"]) == 0
    assert (logger.level, logger.handlers) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_verbose(name: str) -> None:
    """-v is an option of every command, off by default."""
    flags = {flag: action for action in COMMANDS[name].load().parser()._actions for flag in action.option_strings}
    assert flags["-v"] is flags["--verbose"]
    assert flags["-v"].default is False


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless --progress or --no-progress decides."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert shows_progress(None) is expected
        assert shows_progress(True) is True
        assert shows_progress(False) is False


def test_a_build_logs_its_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`segmax build -v` says what it does."""
    monkeypatch.chdir(tmp_path)
    sp.save_npz("docs.npz", sp.random(20, 10, 0.4, format="csr", random_state=0))
    assert main(["build", "docs.npz", "docs.segmax", "-v"]) == 0
    assert "segmax: " in capsys.readouterr().err
