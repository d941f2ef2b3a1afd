"""The Dockerfile, and the reader that `make docker-test` executes it with."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("dockerfile", ROOT / ".ci" / "dockerfile.py")
assert SPEC is not None
assert SPEC.loader is not None
dockerfile = importlib.util.module_from_spec(SPEC)
sys.modules["dockerfile"] = dockerfile  # dataclasses look their module up
SPEC.loader.exec_module(dockerfile)

STAGES = dockerfile.read_stages((ROOT / "Dockerfile").read_text())
PATTERNS = dockerfile.read_ignore((ROOT / ".dockerignore").read_text())


def last(name: str) -> list[str]:
    """The command of the last stage's step with a name."""
    return [step for step in STAGES[-1].steps if step.name == name][-1].command()


def test_the_image_ends_as_another_user_than_root() -> None:
    """The last stage sets a user before it says what to start."""
    names = [step.name for step in STAGES[-1].steps]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert [step.text for step in STAGES[-1].steps if step.name == "USER"] == ["segmax"]


def test_the_health_check_asks_the_port_of_the_service() -> None:
    """ENTRYPOINT, EXPOSE and HEALTHCHECK name the same port."""
    entry = last("ENTRYPOINT")
    port = entry[entry.index("--port") + 1]
    assert f":{port}/health" in " ".join(last("HEALTHCHECK"))
    assert [step.text for step in STAGES[-1].steps if step.name == "EXPOSE"] == [port]


def test_the_runtime_stage_has_no_compiler() -> None:
    """Only the builder installs what builds."""
    assert "g++" in " ".join(step.text for step in STAGES[0].steps)
    assert "g++" not in " ".join(step.text for step in STAGES[-1].steps)


def test_the_context_has_the_sources_and_nothing_else() -> None:
    """.dockerignore keeps out what was built here, what git keeps, and data."""
    kept = ["src/segmax/cli/main.py", "cpp/src/index/index.cpp", "pyproject.toml", ".ci/requirements.py"]
    left_out = [".git/config", ".venv/bin/python", "build/x", "src/segmax/_core.so", "src/segmax/__pycache__/a.pyc"]
    left_out += ["segmax-demo/x", ".ci/run", "tests/conftest.py", "keys"]
    assert [path for path in kept + left_out if not dockerfile.is_ignored(path, PATTERNS)] == kept


@pytest.mark.parametrize(
    "text",
    [
        "RUN true\n",
        "# syntax=docker/dockerfile:1\nFROM debian\n",
        "FROM --platform=linux/amd64 debian\n",
        "FROM debian\nADD a b\n",
        "FROM debian\nMAINTAINER me\n",
        "FROM debian\nCOPY --chown=1 a b\n",
        "FROM debian\nRUN --mount=type=cache,target=/x true\n",
        "FROM debian\nRUN <<END\ntrue\nEND\n",
        'FROM debian\nRUN ["true"]\n',
        "FROM debian\nrun true\n",
    ],
)
def test_what_the_reader_does_not_know_is_an_error(text: str) -> None:
    """No step is left out silently."""
    with pytest.raises(dockerfile.UnknownStep):
        dockerfile.read_stages(text)


def test_commands_are_arrays() -> None:
    """A shell would not pass signals on, so commands in its form are errors."""
    with pytest.raises(dockerfile.UnknownStep, match="JSON array"):
        dockerfile.read_stages("FROM debian\nENTRYPOINT segmax serve\n")[0].steps[0].command()


def test_variables_have_values() -> None:
    """ENV and ARG are read as Docker reads them; the old form with a blank is an error."""
    [stage] = dockerfile.read_stages('FROM debian\nENV A=1 B="two words"\nENV C 3\n')
    assert stage.steps[0].pairs() == {"A": "1", "B": "two words"}
    with pytest.raises(dockerfile.UnknownStep, match="NAME=value"):
        stage.steps[1].pairs()


def test_comments_may_interrupt_a_command() -> None:
    """Comments and empty lines between the lines of a step are not part of it."""
    [stage] = dockerfile.read_stages("# first\nFROM debian AS x\n\nRUN a \\\n# why\n\n  && b # kept\n")
    assert [(step.name, step.text) for step in stage.steps] == [("RUN", "a   && b # kept")]


def test_the_last_pattern_decides() -> None:
    """A pattern matches what is inside a folder, too, and a later exception takes it back."""
    patterns = ["docs", "!docs/keep.md", "**/*.tmp", "a?c"]
    paths = ["docs/x.md", "docs/keep.md", "docs/keep.md.tmp", "x.tmp", "y/z.tmp", "abc", "abbc", "x/abc"]
    assert [path for path in paths if not dockerfile.is_ignored(path, patterns)] == ["docs/keep.md", "abbc", "x/abc"]
