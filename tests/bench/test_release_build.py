"""Benchmarks measure release builds only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import refused
from segmax import _core
from segmax.bench import check_release_build
from segmax.cli.main import main
from segmax.errors import ConfigError


def test_a_build_with_asserts_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is slower. Tests, which have to run on it, are the exception."""
    monkeypatch.setattr(_core, "has_asserts", lambda: True)
    check_release_build()
    monkeypatch.delenv("PYTEST_VERSION")
    with refused(ConfigError, expected="a release build", got="asserts", hint="make demo"):
        check_release_build()
    monkeypatch.setattr(_core, "has_asserts", lambda: False)
    check_release_build()


@pytest.mark.parametrize("command", [("bench", "--generate", "10"), ("experiment", "example")], ids=" ".join)
def test_commands_that_measure_ask(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`segmax bench` and `segmax experiment`, before they do anything."""
    for module in ("bench", "experiment"):
        monkeypatch.setattr(f"segmax.cli.{module}._measured", lambda *_: pytest.fail("it measures"))
    monkeypatch.setattr(_core, "has_asserts", lambda: True)
    monkeypatch.delenv("PYTEST_VERSION")
    assert main([*command]) == 2
    assert "expected a release build" in capsys.readouterr().err


@pytest.mark.deep
def test_benchmarks_ask() -> None:
    """None of them starts on the build of the tests."""
    root = Path(__file__).resolve().parents[2]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_VERSION"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", "--help"], cwd=root, env=environment, capture_output=True, text=True
    )
    assert (done.returncode != 0) == _core.has_asserts()
    assert ("expected a release build" in done.stderr) == _core.has_asserts()
