"""Stand-ins for the libraries that segmax plugs into, so that its integrations can be documented without them.

Their classes are the bases and decorators of ours. Here each name of such a library is an empty class: it can be
derived from, called as a decorator, indexed and joined to other types, which is all that importing needs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
from collections.abc import Iterable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Names(type):
    """Makes attributes of a stand-in stand-ins, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _named(name, cls.__module__)


class _StandIn(metaclass=_Names):
    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Return what is decorated; otherwise the class, which may be a decorator that was given options."""
        return args[0] if len(args) == 1 and callable(args[0]) else cls

    def __class_getitem__(cls, item: Any) -> Any:
        return item


def _named(name: str, module: str) -> Any:
    made = _Names(name, (_StandIn,), {"__module__": module, "__doc__": None})
    return dataclasses.dataclass(made)  # without fields: importing asks some for theirs


class _Module(ModuleType):
    """A module of which every name is a stand-in."""

    __path__: list[str] = []  # noqa: RUF012  # so that it can have modules inside

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(name, self.__name__)


class _Finder(MetaPathFinder, Loader):
    def __init__(self, libraries: Iterable[str]) -> None:
        self.libraries = set(libraries)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.libraries else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@contextlib.contextmanager
def libraries(*names: str) -> Iterator[None]:
    """Let imports inside the context find stand-ins for these libraries."""
    finder = _Finder(names)
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in finder.libraries}
    for name in kept:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in finder.libraries]:
            del sys.modules[name]
        sys.modules.update(kept)
