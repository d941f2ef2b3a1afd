"""The helpers of the tests: `refused` and the bound on CPU time must be able to fail."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import conftest
from conftest import refused
from segmax.errors import ConfigError, InputError

ERROR = ConfigError(where="a.toml", option="mu", expected="at most 1", got=2, hint="pass {mu=1}")


def test_refused_matches_parts() -> None:
    """All parts are searched, and the error is handed out."""
    with refused(
        ConfigError, where=r"toml$", option="mu", expected="most", got="^2$", hint="mu", message="mu to be"
    ) as info:
        raise ERROR
    assert info.value is ERROR


@pytest.mark.parametrize("part", ["where", "option", "expected", "got", "hint", "message"])
def test_refused_fails_on_a_wrong_part(part: str) -> None:
    """One part that does not match is enough."""
    with (
        pytest.raises(AssertionError, match=f"expected {part} to match"),
        refused(ConfigError, **{part: "another"}),
    ):
        raise ERROR


def test_refused_fails_without_an_error() -> None:
    """Nothing raised is a failure."""
    with pytest.raises(pytest.fail.Exception), refused(ConfigError):
        pass


def test_refused_lets_other_errors_pass() -> None:
    """An error of another kind is not caught."""
    with pytest.raises(ConfigError), refused(InputError):
        raise ERROR


def burn(seconds: float, request: pytest.FixtureRequest) -> None:
    """Run the hook around a test that takes so many CPU seconds."""
    now = iter([10.0, 10.0 + seconds])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conftest, "RANDOM", False)
        patch.setattr(conftest, "TESTED", Path())
        patch.setattr(conftest, "cpu_seconds", lambda: next(now))
        call = conftest.pytest_runtest_call(request.node)
        next(call)
        with contextlib.suppress(StopIteration):
            call.send(None)


def test_much_cpu_time_fails_a_test(request: pytest.FixtureRequest) -> None:
    """More than the bound fails, less does not."""
    burn(1.9, request)
    with pytest.raises(pytest.fail.Exception, match=r"2\.5 CPU seconds"):
        burn(2.5, request)


@pytest.mark.deep
def test_deep_tests_may_take_more(request: pytest.FixtureRequest) -> None:
    """The mark is all it takes; this test has it."""
    burn(100.0, request)
