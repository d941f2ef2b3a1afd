"""CMakePresets.json: what the Makefile builds, and what others may."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRESETS: dict[str, Any] = json.loads((ROOT / "CMakePresets.json").read_text())
WITHOUT_PYTHON = ("core", "aarch64", "fuzz")
NAMES = [preset["name"] for preset in PRESETS["configurePresets"] if not preset.get("hidden")]


def tool(name: str) -> str:
    """The path of a tool, which may be beside Python without being on the path; skips the test where it is not."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed")


def configured(preset: str, folder: Path) -> dict[str, str]:
    """The cache of a folder that was configured by the preset."""
    command = [tool("cmake"), "--preset", preset, "-B", str(folder), f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    if preset not in WITHOUT_PYTHON:
        command.append(f"-DPython_EXECUTABLE={sys.executable}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (folder / "CMakeCache.txt").read_text().splitlines()
    return {name: value for line in lines for name, value in re.findall(r"^(\w+):\w+=(.*)$", line)}


def test_the_core_is_configured_without_python(tmp_path: Path) -> None:
    """It needs a compiler and nothing else, and builds no tests."""
    tool("c++")
    cache = configured("core", tmp_path)
    assert (cache["SEGMAX_BUILD_PYTHON"], cache["SEGMAX_BUILD_TESTS"]) == ("OFF", "OFF")
    assert cache["CMAKE_BUILD_TYPE"] == "Release"
    assert "Python_EXECUTABLE" not in cache


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_can_be_configured(name: str, tmp_path: Path) -> None:
    """Where its compiler is installed."""
    tool("aarch64-linux-gnu-g++" if name == "aarch64" else "c++")
    assert configured(name, tmp_path)["CMAKE_BUILD_TYPE"] == "Release"


def test_presets_set_options_that_exist() -> None:
    """Every option of ours is one of CMakeLists.txt: CMake itself would accept a misspelled one."""
    options = set(re.findall(r"^option\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE))
    used = {name for preset in PRESETS["configurePresets"] for name in preset.get("cacheVariables", {})}
    assert {name for name in used if name.startswith("SEGMAX")} <= options


def test_the_makefile_uses_presets_that_exist() -> None:
    """And all but those for others are used by it."""
    used = set(re.findall(r"--preset (\w+)", (ROOT / "Makefile").read_text()))
    assert used | {"release", "core"} == set(NAMES)
