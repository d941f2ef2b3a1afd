"""Test the sdist of dist/: it builds in isolation, its tests pass, and its Makefile finds what it calls."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from docker_steps import timed
from wheels import DIST, expect, find_what_is_called, quietly, unpack_sdist
from wheels_test import test_packages

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "sdist"
TESTS = ("tests/core/test_arithmetic.py", "tests/deploy", "tests/search/test_api.py", "tests/test_layers.py")


def main() -> int:
    """Run every check; the first that fails ends the run."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    [sdist] = DIST.glob("segmax-*.tar.gz")
    folder = unpack_sdist(WORK)
    find_what_is_called(folder)
    venv.create(WORK / "env", with_pip=True)
    python = str(WORK / "env" / "bin" / "python")
    with timed(f"pip install {sdist.name}"):
        quietly([python, "-m", "pip", "install", str(sdist)])
    with timed("packages for its tests"):
        quietly([python, "-m", "pip", "install", "-q", *test_packages(quick=True)])
    with timed("its tests"):
        code = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=folder).returncode
    expect(code == 0, "the tests of the sdist failed")
    with timed("make lint, with the packages of this checkout"):
        (folder / ".venv").symlink_to(ROOT / ".venv")
        quietly(["make", "-C", str(folder), "lint"])
    shutil.rmtree(WORK)
    return 0


if __name__ == "__main__":
    sys.exit(main())
