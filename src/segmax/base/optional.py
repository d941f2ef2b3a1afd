"""Packages that are imported when they are needed: optional ones, and those that are slow to import."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from segmax.base.errors import MissingPackageError


def need(module: str, who: str, extra: str = "", *, package: str = "", oldest: int = 0) -> Any:
    """Import an optional module, or raise an error that shows how to install it.

    Parameters
    ----------
    module
        The module to import.
    who
        What needs it: the subject of the message.
    extra
        The extra of segmax that installs it; by default it is in none.
    package
        The name to install it by; by default the first part of `module`.
    oldest
        The oldest major version that works.

    Raises
    ------
    MissingPackageError
        If the module cannot be imported, or is too old.

    Examples
    --------
    >>> need("json", "this example").dumps([1])
    '[1]'
    """
    package = package or module.partition(".")[0]
    with needing(package, who, extra):
        found = importlib.import_module(module)
    if major_version(found) < oldest:
        msg = f"{who} needs {package} {oldest} or newer, got {getattr(found, '__version__', 'none')}"
        raise MissingPackageError(msg, hint=f"run: pip install -U {_requirement(package, extra)}")
    return found


@contextlib.contextmanager
def needing(package: str, who: str, extra: str = "") -> Iterator[None]:
    """Turn an ImportError inside the context into one that shows how to install the package; see `need`."""
    try:
        yield
    except MissingPackageError:
        raise
    except ImportError as error:
        msg = f"{who} needs {package}, which cannot be imported ({error})"
        raise MissingPackageError(msg, hint=f"run: pip install {_requirement(package, extra)}") from error


def _requirement(package: str, extra: str) -> str:
    return f"'segmax[{extra}]'" if extra else package


def major_version(module: Any) -> int:
    """Return the first number of a module's version, 0 where it has none."""
    first = str(getattr(module, "__version__", "0")).split(".")[0]
    return int(first) if first.isdecimal() else 0


class _Later(ModuleType):
    """Stands for a module: its first use loads the module, and what was used once is kept."""

    def __init__(self, load: Callable[[], Any], name: str) -> None:
        super().__init__(name)
        self._load = load

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._load(), name)
        setattr(self, name, value)
        return value


#: scipy.sparse, which takes longer to import than all of segmax, and which only those need who have such matrices or
#: want them. Where it is used:
#: `if TYPE_CHECKING: import scipy.sparse as sp`, `else: from segmax.base.optional import scipy_sparse as sp`.
scipy_sparse = _Later(lambda: need("scipy.sparse", "a sparse matrix", "scipy"), "scipy.sparse")
#: The core, for modules that encoders share: models also run on machines where nothing is compiled.
core = _Later(lambda: importlib.import_module("segmax._core"), "segmax._core")


def on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its names when they are first used.

    Parameters
    ----------
    package
        The package, `__name__`.
    names
        The modules of the package, each with its names, separated by spaces.
    """
    module_of = {name: module for module, some in names.items() for name in some.split()}

    def load(name: str) -> Any:
        if name not in module_of:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
