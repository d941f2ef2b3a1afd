"""The helpers of the tests: `refused` and the bound on CPU time must be able to fail."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
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
        patch.setattr(conftest, "_CPU_SECONDS", pytest.StashKey[float]())
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


BURNING = """
import subprocess
import sys
import time

import pytest

def burn():
    end = time.process_time() + 2.2
    while time.process_time() < end:
        pass

@pytest.fixture
def before():
    burn()

@pytest.fixture
def after():
    yield
    burn()

@pytest.fixture(scope="module")
def once():
    burn()

def test_in_a_child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 2.2: pass"], check=True)

def test_in_a_fixture(before):
    pass

def test_in_the_end_of_a_fixture(after):
    pass

def test_for_the_module(once):
    pass

@pytest.mark.slow
def test_marked():
    burn()
"""


@pytest.mark.deep
def test_all_that_a_test_takes_counts(tmp_path: Path) -> None:
    """Processes that it waits for count, and its own fixtures; what a module shares does not, nor tests of models."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "build" / "test" / "python").mkdir(parents=True)  # the bound holds where `make test` built
    shutil.copy(conftest.__file__, tests)
    (tests / "test_burning.py").write_text(BURNING)
    of_a_model = BURNING.partition("@pytest.fixture")[0] + "def test_of_a_model():\n    burn()\n"
    (tests / "test_burning_torch.py").write_text(of_a_model)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: slow\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA", "tests"]
    environment = {**os.environ, "SEGMAX_EXAMPLES": ""}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    ended = {name: kind for kind, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", shown, flags=re.MULTILINE)}
    assert ended == {
        "test_in_a_child": "FAILED",
        "test_of_a_model": "PASSED",
        "test_in_a_fixture": "FAILED",
        "test_in_the_end_of_a_fixture": "ERROR",
        "test_for_the_module": "PASSED",
        "test_marked": "PASSED",
    }, shown
