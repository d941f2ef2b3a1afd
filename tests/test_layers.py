"""The rooms of the house: dependencies point one way, in Python and in C++."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "segmax"

#: Lower layers first. A room may use what is below its layer; rooms of one layer do not know each other.
LAYERS = [
    "_core",
    "base",
    "drawing vectors",
    "encoders io storage",
    "metadata",
    "search",
    "building paper",
    "text",
    "collection",
    "shards",
    "evaluation inspection planning ray remote",
    "front",  # the modules beside the rooms: `segmax` itself, `segmax.errors`, `segmax.pruning`, ...
    "experiments integrations serve",
    "bench",
    "cli",
    "demo",
]
CPP_LAYERS = ["base", "kernels io", "index text", "search", "bindings"]


def room(path: str) -> str:
    """Return the room of a module, by its dotted name without `segmax`."""
    first = path.split(".")[0]
    return first if first == "_core" or ((SOURCE / first).is_dir() and first) else "front"


def python_arrows() -> Iterator[tuple[str, str, str]]:
    """Yield (file, its room, a room that it imports), wherever in the file the import is."""
    for file in SOURCE.rglob("*.py"):
        here = room(".".join(file.relative_to(SOURCE).with_suffix("").parts))
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name}" for name in names]
            for name in names:
                if name.split(".")[0] == "segmax":
                    yield str(file.relative_to(SOURCE)), here, room(name.removeprefix("segmax").lstrip("."))


def cpp_arrows() -> Iterator[tuple[str, str, str]]:
    """Yield (file, its room, the room of a header of ours that it includes), however the include is spelled."""
    folders = [ROOT / "cpp/include/segmax", ROOT / "cpp/src", ROOT / "bindings"]
    rooms = {file: file.relative_to(folder).parts[0] for folder in folders[:2] for file in folder.rglob("*.*")}
    rooms |= dict.fromkeys(folders[2].rglob("*.*"), "bindings")
    for file, here in rooms.items():
        for name in re.findall(r'^\s*#\s*include\s*["<](.+)[">]', file.read_text(), re.MULTILINE):
            bases = (file.parent, folders[0].parent, folders[1])
            found = [path for base in bases if (path := (base / name).resolve()) in rooms]
            assert found or "<" + name + ">" in file.read_text(), f"{file} includes {name}, which is not there"
            if found:
                yield str(file.relative_to(ROOT)), here, rooms[found[0]]


def test_every_include_of_cpp_is_seen() -> None:
    """The arrows that everybody can name are found: by path, beside the file, and from the bindings."""
    arrows = set(cpp_arrows())
    assert ("cpp/src/search/context.hpp", "search", "kernels") in arrows
    assert ("cpp/src/kernels/avx2.cpp", "kernels", "kernels") in arrows
    assert ("bindings/register_search.cpp", "bindings", "search") in arrows


@pytest.mark.parametrize(("arrows", "layers"), [(python_arrows, LAYERS), (cpp_arrows, CPP_LAYERS)])
def test_arrows_point_down(arrows: Callable[[], Iterator[tuple[str, str, str]]], layers: list[str]) -> None:
    """No room imports from a room of its own layer or of one above."""
    level = {room: depth for depth, layer in enumerate(layers) for room in layer.split()}
    wrong = [arrow for arrow in arrows() if arrow[1] != arrow[2] and level[arrow[2]] >= level[arrow[1]]]
    assert wrong == []
