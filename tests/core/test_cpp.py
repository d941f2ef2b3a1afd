"""The tests in C++, one by one beside those in Python, and the corpus of the fuzz targets in C++.

`make test` builds them, from the same objects as the extension that these tests load.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "test"
NAMES = [
    name
    for path in sorted((ROOT / "cpp" / "tests").glob("test_*.cpp"))
    for name in re.findall(r"^TEST\((\w+)\)", path.read_text(), flags=re.MULTILINE)
]
FUZZED = sorted(path.stem for path in (ROOT / "cpp" / "fuzz").glob("fuzz_*.cpp"))


def output_of(program: str, argument: str) -> str:
    """What a program of the test build prints; fails if it fails, skips where it was not built."""
    path = PROGRAMS / program
    if not path.exists():
        pytest.skip("needs the build of `make test`")
    done = subprocess.run([path, argument], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_cpp(name: str) -> None:
    """The test of this name in cpp/tests passes."""
    assert f"ok   {name} (" in output_of("segmax_tests", name)


@pytest.mark.parametrize("name", FUZZED)
def test_the_corpus_in_cpp(name: str) -> None:
    """The target meets every input of its corpus without a crash."""
    output_of(name, f"tests/fuzz/corpus/{name.replace('fuzz_', 'core_')}")
