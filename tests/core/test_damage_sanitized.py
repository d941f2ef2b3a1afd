"""Damaged indexes under the address sanitizer: opening one raises, or searches stay inside its arrays (slow)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "tests"

PROGRAM = """
import sys
sys.path[:0] = [{tests!r}, {shared!r}]
from pathlib import Path
import segmax
from test_storage import damaged_indexes, each_damage, survive, tiny, try_to_search
assert Path(segmax.__file__).is_relative_to({package!r}), segmax.__file__
refused, answered = survive(damaged_indexes())
assert refused > 2500, refused
assert answered > 4000, answered
path = Path({path!r})
tiny().save(path)
for file, data in each_damage(path):
    for at in range(len(data)):
        for flipped in {{data[at] ^ 0xFF, data[at] ^ (1 << at % 8)}}:
            file.write_bytes(data[:at] + bytes([flipped]) + data[at + 1 :])
            try_to_search(path)
    for size in range(0, len(data), 3):
        file.write_bytes(data[:size])
        try_to_search(path)
    file.write_bytes(data)
print("survived")
"""


def library_path(name: str) -> str:
    """Return where the compiler has one of its libraries."""
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_damaged_files_never_lead_outside_the_map(tmp_path: Path) -> None:
    """Each byte changed, in every array and in every file: no read or write outside, no undefined behavior.

    Arrays are damaged behind the checksums, which would notice nearly everything before the core sees it.
    """
    built = list((ROOT / "build" / "sanitize").glob("_core*.so"))
    if not built:
        pytest.skip("needs the sanitizer build: make sanitize")
    package = tmp_path / "package"
    shutil.copytree(ROOT / "src" / "segmax", package / "segmax", ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(built[0], package / "segmax")
    # The sanitizer looks for what throws exceptions when it is loaded, and Python itself has no C++ library.
    libraries = [library_path(name) for name in ("libasan.so", "libstdc++.so")]
    program = PROGRAM.format(
        shared=str(ROOT / "tests"),
        tests=str(ROOT / "tests" / "storage"),
        package=str(package),
        path=str(tmp_path / "index"),
    )
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONPATH": str(package),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout == "survived\n"
