"""Progress: silent unless asked, bars, calls of a function, and the log."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from conftest import refused
from segmax.base.progress import BuildProgress, ProgressOption, progress_of
from segmax.errors import ConfigError


def two_stages(option: ProgressOption) -> None:
    """Go through a stage of known length and one of unknown length."""
    with progress_of(option) as progress:
        with progress.stage("read", 3, "documents") as stage:
            stage.advance(1)
            stage.advance(2)
        with progress.stage("write", None, "postings") as stage:
            stage.advance(5)


@pytest.mark.parametrize("option", [None, False])
def test_silent_unless_asked(
    option: bool | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where standard error is a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    two_stages(option)
    assert capfd.readouterr() == ("", "")


def test_a_function_receives_updates() -> None:
    """At the start of a stage, at every step, and at the end, when the total is known."""
    seen: list[BuildProgress] = []
    two_stages(seen.append)
    assert [(update.stage, update.done, update.total) for update in seen] == [
        *[("read", 0, 3), ("read", 1, 3), ("read", 3, 3), ("read", 3, 3)],
        *[("write", 0, None), ("write", 5, None), ("write", 5, 5)],
    ]


def test_bars_are_drawn_on_request(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, a line per stage."""
    monkeypatch.setenv("COLUMNS", "100")
    two_stages(True)
    out, err = capfd.readouterr()
    assert out == ""
    for stage, count in (("read", "3/3"), ("write", "5/5")):
        assert any(line.startswith(stage) and count in line for line in err.splitlines())


@pytest.mark.parametrize("option", ["yes", 1, []])
def test_invalid_options_are_refused(option: Any) -> None:
    """Words and numbers."""
    with refused(ConfigError, option="progress", expected="a function"), progress_of(option):
        pass


def test_an_interrupted_stage_does_not_finish() -> None:
    """The last update has what was done."""
    seen: list[BuildProgress] = []

    def fail() -> None:
        with progress_of(seen.append) as progress, progress.stage("read", 3, "rows") as stage:
            stage.advance(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen[-1] == BuildProgress("read", 1, 3, "rows")


def test_stages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Applications that configure logging see how long each stage took."""
    with caplog.at_level(logging.INFO, "segmax"):
        two_stages(None)
    assert [record.name for record in caplog.records] == ["segmax.progress"] * 2
    assert caplog.messages[0].startswith("read: 3 documents in ")


def test_the_log_is_quiet_by_default() -> None:
    """A library installs no handler but the one that does nothing."""
    assert [type(handler) for handler in logging.getLogger("segmax").handlers] == [logging.NullHandler]
