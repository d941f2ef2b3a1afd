"""The helpers of the tests: `refused` must be able to fail."""

from __future__ import annotations

import pytest

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
