"""Benchmarks measure release builds only."""

from __future__ import annotations

import pytest

from conftest import refused
from segmax import _core
from segmax.bench import check_release_build
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
