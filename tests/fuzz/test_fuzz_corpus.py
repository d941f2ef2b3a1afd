"""The corpus of the fuzz targets as tests: seeds are read, and what was found once is refused for good.

tests/core/test_cpp.py and `make sanitize` replay the inputs of the targets in C++.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.__main__ import LEAST_SECONDS, shares
from tests.fuzz.mutation import changed_json, json_mutation
from tests.fuzz.native import NATIVE
from tests.fuzz.target import CORPUS, OutsideError, inside_scratch, scratch
from tests.fuzz.targets import all_targets, find_target

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(all_targets()))
def test_the_corpus_of_a_target(name: str) -> None:
    """Every input of the corpus meets errors of segmax at most, and nothing is written elsewhere."""
    target = find_target(name)
    target.seeds()  # makes what the target needs
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for path in inputs:
        with inside_scratch():
            target.run(path.read_bytes())


def test_every_folder_of_the_corpus_has_a_target() -> None:
    """No input lies where nobody replays it, and all of them are small."""
    folders = {path.name for path in CORPUS.iterdir()}
    assert folders == {*all_targets(), *NATIVE}
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < 1 << 20


def test_writes_elsewhere_are_noticed(tmp_path: Path) -> None:
    """A target that writes, renames or starts something outside of its folder is stopped."""
    (tmp_path / "here").write_bytes(b"")
    with inside_scratch():
        (scratch() / "mine").write_bytes(b"x")
        for call in (
            lambda: (tmp_path / "new").write_bytes(b"x"),
            lambda: (tmp_path / "here").unlink(),
            lambda: (tmp_path / "here").rename(scratch() / "there"),
            lambda: (tmp_path / "folder").mkdir(),
            lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        ):
            with pytest.raises(OutsideError):
                call()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_changed_json_is_json() -> None:
    """Mutations of JSON nearly always give JSON, and something else than it was."""
    value = {"a": [1, 2, {"b": None}], "c": "text", "d": 2.5}
    rng = random.Random(0)
    changed = [json.dumps(changed_json(value, rng)) for _ in range(200)]
    assert sum(one != json.dumps(value) for one in changed) > 150
    mutated = [json_mutation(json.dumps(value).encode(), seed) for seed in range(200)]
    assert sum(_is_json(one) for one in mutated) > 120


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def test_targets_take_turns() -> None:
    """Where the time is too short for all targets, every one has its turn within some hours."""
    names = [f"t{number}" for number in range(20)]
    now, seconds = shares(names, 30, 2, hour=0)
    assert len(now) == int(60 / LEAST_SECONDS)
    assert seconds * -(-len(now) // 2) <= 30
    seen = {name for hour in range(20) for name in shares(names, 30, 2, hour)[0]}
    assert seen == set(names)
    assert shares(names, 2000, 2, hour=3)[1] == 200
    assert len(shares(names[:1], 3600, 2, hour=3)[0]) == 1


def test_one_target_runs_without_an_engine(tmp_path: Path) -> None:
    """Where Atheris is missing, inputs are changed at random; a broken promise ends the run and leaves its input."""
    command = [sys.executable, "-m", "tests.fuzz.one", "filters", "-plain=1", "-max_total_time=1"]
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/", str(CORPUS / "filters")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 10
    assert not list(tmp_path.iterdir())
