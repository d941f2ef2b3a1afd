"""The configuration of cibuildwheel, for wheels that `make wheels` does not build: those of macOS and Windows."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

MACHINES = {
    "linux": ["manylinux_x86_64", "manylinux_aarch64"],
    "macos": ["macosx_x86_64", "macosx_arm64"],
    "windows": ["win_amd64"],
}


@pytest.mark.parametrize("platform", MACHINES)
def test_cibuildwheel_builds_for_every_machine(platform: str) -> None:
    """The configuration is valid: every machine gets a wheel for 3.11 and one for later versions, tested by two."""
    pytest.importorskip("cibuildwheel", reason="cibuildwheel is in the extra wheels")
    command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", "--platform", platform, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = [f"{python}-{machine}" for python in ("cp311", "cp312", "cp314") for machine in MACHINES[platform]]
    assert sorted(done.stdout.split()) == sorted(expected)


def test_the_stable_abi_follows_the_first_version() -> None:
    """Python 3.11, the oldest that segmax allows, has a wheel of its own; the stable ABI starts right after it."""
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert PROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
