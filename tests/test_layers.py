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
    "search",
    "building paper",
    "text",
    "evaluation inspection",
    "front",  # the modules beside the rooms: `segmax` itself, `segmax.errors`, `segmax.pruning`, ...
    "experiments integrations",
    "cli",
    "demo",
]
CPP_LAYERS = ["base", "kernels io", "index", "search"]


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
    """Yield (file, its room, a room that it includes)."""
    for folder in ("cpp/include/segmax", "cpp/src"):
        for file in (ROOT / folder).rglob("*.*"):
            for name in re.findall(r'#include "(?:segmax/)?(\w+)/', file.read_text()):
                yield str(file.relative_to(ROOT)), file.relative_to(ROOT / folder).parts[0], name


@pytest.mark.parametrize(("arrows", "layers"), [(python_arrows, LAYERS)])
def test_arrows_point_down(arrows: Callable[[], Iterator[tuple[str, str, str]]], layers: list[str]) -> None:
    """No room imports from a room of its own layer or of one above."""
    level = {room: depth for depth, layer in enumerate(layers) for room in layer.split()}
    wrong = [arrow for arrow in arrows() if arrow[1] != arrow[2] and level[arrow[2]] >= level[arrow[1]]]
    assert wrong == []
