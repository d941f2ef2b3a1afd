"""Which C++ files `make tidy SINCE=...` looks at."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("changed_cpp", ROOT / ".ci" / "changed_cpp.py")
assert SPEC is not None
assert SPEC.loader is not None
changed_cpp = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(changed_cpp)

FILES = {
    "cpp/include/segmax/base/types.hpp": "#include <vector>",
    "cpp/include/segmax/io/text.hpp": '#include "segmax/base/types.hpp"',
    "cpp/src/io/text.cpp": '#include "segmax/io/text.hpp"',
    "cpp/src/io/alone.cpp": "#include <vector>",
    "cpp/src/kernels/loops.inc": '#include "kernels/kernels.hpp"',
    "cpp/src/kernels/kernels.hpp": '#include "kernels/kernels.hpp"',  # itself
    "cpp/src/kernels/avx2.cpp": '  #  include "kernels/loops.inc"\n#include "gone.hpp"',
    "cpp/tests/check.hpp": "",
    "cpp/tests/test_text.cpp": '#include "check.hpp"\n#include "segmax/io/text.hpp"',
    "bindings/arrays.hpp": "",
    "bindings/checks.hpp": '#include "arrays.hpp"',
    "bindings/module.cpp": '#include "checks.hpp"',
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("cpp/include/segmax/base/types.hpp", {"cpp/src/io/text.cpp", "cpp/tests/test_text.cpp"}),
        ("cpp/src/kernels/kernels.hpp", {"cpp/src/kernels/avx2.cpp"}),
        ("cpp/src/kernels/loops.inc", {"cpp/src/kernels/avx2.cpp"}),
        ("cpp/src/gone.hpp", {"cpp/src/kernels/avx2.cpp"}),
        ("cpp/tests/check.hpp", {"cpp/tests/test_text.cpp"}),
        ("bindings/arrays.hpp", {"bindings/module.cpp"}),
        ("cpp/src/io/alone.cpp", {"cpp/src/io/alone.cpp"}),
        ("CMakeLists.txt", set()),
    ],
)
def test_what_includes_a_changed_file_changed(tmp_path: Path, changed: str, expected: set[str]) -> None:
    """Through headers of headers and parts of files, those of the bindings, too."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert changed_cpp.touched(tmp_path, {changed}) == sorted(expected)


def test_the_compiler_agrees() -> None:
    """Of one of our own files that includes much, all that it includes is found."""
    compiler = shutil.which("g++") or shutil.which("clang++") or pytest.skip("needs a compiler")
    path = ROOT / "cpp/tests/test_search.cpp"
    folders = [f"-I{ROOT / folder}" for folder in ("cpp/include", "cpp/src")]
    made = subprocess.run([compiler, "-std=c++20", "-MM", *folders, path], capture_output=True, text=True, check=True)
    needed = {os.path.relpath(name, ROOT) for name in re.findall(r"\S+\.(?:[hc]pp|inc)\b", made.stdout)}
    assert len(needed) > 10
    assert {name for name in changed_cpp.parts_of(ROOT, path) if (ROOT / name).is_file()} == needed


def test_tidy_fails_where_its_files_are_not_known(tmp_path: Path) -> None:
    """Rather than look at none."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    rule = subprocess.run(
        ["make", "-n", "tidy", "SINCE=3 days"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (line,) = re.findall(r"^files=.*?$", rule.replace("\\\n", ""), flags=re.MULTILINE)
    stand_in = tmp_path / "python"
    stand_in.write_text('#!/bin/sh\necho "$@" >> called\nexit 3\n')
    stand_in.chmod(0o755)
    ran = subprocess.run(["sh", "-c", line.replace(".venv/bin/python", str(stand_in))], cwd=tmp_path, check=False)
    assert ran.returncode != 0
    assert len((tmp_path / "called").read_text().splitlines()) == 1
