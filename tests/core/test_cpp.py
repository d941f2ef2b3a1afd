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
#: Those that take over half a CPU second.
DEEP = {
    "engine_budget_stops_between_batches",
    "engine_budgets_of_every_size",
    "engine_factors_with_masks_and_floors",
    "engine_gate",
    "engine_masks_and_floors",
    "index_arrays_of_terms",
    "index_layout_of_large_clusters",
    "parts_equal_brute_force",
    "parts_with_floors",
    "query_sums_are_exact",
    "search_after_damage_is_right",
    "search_equals_brute_force_16_bits",
    "search_equals_brute_force_8_bits",
    "search_equals_brute_force_across_zones",
    "search_max_terms",
    "search_survives_damage",
    "search_with_very_many_terms",
}
FUZZED = sorted(path.stem for path in (ROOT / "cpp" / "fuzz").glob("fuzz_*.cpp"))


def output_of(program: str, argument: str) -> str:
    """What a program of the test build prints; fails if it fails, skips where it was not built."""
    path = PROGRAMS / program
    if not path.exists():
        pytest.skip("needs the build of `make test`")
    done = subprocess.run([path, argument], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.deep if name in DEEP else ()) for name in NAMES])
def test_cpp(name: str) -> None:
    """The test of this name in cpp/tests passes."""
    assert f"ok   {name} (" in output_of("segmax_tests", name)


def test_deep_tests_exist() -> None:
    """A name that is no longer one would mark nothing."""
    assert set(NAMES) >= DEEP


@pytest.mark.parametrize("name", FUZZED)
def test_the_corpus_in_cpp(name: str) -> None:
    """The target meets every input of its corpus without a crash."""
    output_of(name, f"tests/fuzz/corpus/{name.replace('fuzz_', 'core_')}")
