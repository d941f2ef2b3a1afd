"""The version stands in one place, from which everything else takes it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import segmax

ROOT = Path(__file__).resolve().parent.parent
#: Files that say what held for a version: they keep it when the next one comes.
HISTORY = re.compile(r"CHANGELOG\.md|docs/(versions|benchmarks|building)\.md|benchmarks/results/.*|.*/figures\.json")


def tracked() -> list[str]:
    """The files that git knows."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    return done.stdout.splitlines()


def test_the_version_is_one_of_semantic_versioning() -> None:
    """Three numbers, and a pre-release at most."""
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?", segmax.__version__)


def test_the_package_has_the_version_of_the_module() -> None:
    """The build reads `segmax.__version__` from the source, and no file of the build repeats it."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in config["project"]
    assert config["project"]["dynamic"] == ["version"]
    assert config["tool"]["scikit-build"]["metadata"]["version"]["input"] == "src/segmax/__init__.py"
    assert version("segmax") == segmax.__version__
    assert re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) is None


def test_no_other_file_repeats_the_version() -> None:
    """Not behind "segmax" or "version", and not quoted; files about the past may."""
    number = re.escape(segmax.__version__)
    repeated = re.compile(rf"(?i)(segmax|version)[\W_]{{1,6}}v?{number}(?![\d.]*\d)|[\"']{number}[\"']")
    found = []
    for name in tracked():
        if HISTORY.fullmatch(name) or not (ROOT / name).is_file():
            continue
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [name for _ in repeated.finditer(text)]
    assert found == ["src/segmax/__init__.py"]
