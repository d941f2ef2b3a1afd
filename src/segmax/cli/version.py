"""`segmax --version --verbose`: what a bug report should say about an installation."""

from __future__ import annotations

import os
import platform
import re
import textwrap
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version

import segmax
from segmax.base.system import cpu_name, num_cores

_WIDTH = 80
_INDENT = 15
#: Extras that only those who work on segmax install.
_FOR_DEVELOPERS = frozenset({"browser", "dev", "docs", "fuzz", "interop", "rivals", "test", "tidy", "wheels"})
_NO_BREAK = "\N{NO-BREAK SPACE}"  # between a package and its version
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)")
_EXTRA = re.compile(r"extra *== *[\"']([^\"']+)")


def installation() -> str:
    """Return the version of segmax and everything that its behavior may depend on, in lines of at most 80 columns."""
    installed, missing = _packages()
    rows = {
        "kernels": _kernels(),
        "formats": _formats(),
        "Python": [f"{platform.python_implementation()} {platform.python_version()}"],
        "platform": [platform.platform()],
        "CPU": [cpu_name(), f"{num_cores()} cores"],
        "packages": installed,
        "not installed": missing,
    }
    lines = [f"segmax {segmax.__version__}", *(_row(name, parts) for name, parts in rows.items() if parts)]
    return "\n".join(lines) + "\n"


def _row(name: str, parts: Sequence[str]) -> str:
    return textwrap.fill(
        ", ".join(parts),
        _WIDTH,
        initial_indent=f"{name + ':':{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
    ).replace(_NO_BREAK, " ")


def _kernels() -> list[str]:
    """Return which kernels are in use, and which could be; whatever keeps the core from loading is worth reporting."""
    try:
        from segmax import _core

        available = f"available: {', '.join(_core.simd_levels())}"
        forced = os.environ.get("SEGMAX_SIMD")
        try:
            slow = ["built with asserts, for tests: slow"] if _core.has_asserts() else []
            return [f"{_core.simd_level()}{f' by SEGMAX_SIMD={forced}' if forced else ''} ({available})", *slow]
        except ValueError as error:
            return [f"none: {error} ({available})"]
    except ImportError as error:
        return [f"none: the core cannot be imported ({error})"]


def _formats() -> list[str]:
    """Return the versions of our file formats: those written, and which older ones can be read or upgraded."""
    try:
        from segmax.collection.manifest import MANIFEST_VERSION
        from segmax.shards.manifest import MANIFEST_VERSION as SHARDED_VERSION
        from segmax.storage.meta import FORMAT_VERSION, OLDEST_UPGRADABLE_VERSION
    except ImportError:  # `_kernels` shows why
        return []
    return [
        f"index {FORMAT_VERSION} (opens {_span(OLDEST_UPGRADABLE_VERSION, FORMAT_VERSION)}, "
        f"upgrades {_span(OLDEST_UPGRADABLE_VERSION, FORMAT_VERSION - 1)})",
        f"collection {MANIFEST_VERSION}",
        f"sharded index {SHARDED_VERSION}",
    ]


def _span(first: int, last: int) -> str:
    return str(last) if first == last else f"{first} to {last}"


def _packages() -> tuple[list[str], list[str]]:
    """Return the packages that segmax uses: those that are installed, with their versions, and the others."""
    try:
        requirements = requires("segmax") or []
    except PackageNotFoundError:
        return ["unknown: segmax is not installed, but imported from its sources"], []
    installed, missing = [], []
    for name in sorted(_used(requirements), key=str.lower):
        try:
            installed.append(f"{name}{_NO_BREAK}{version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return installed, missing


def _used(requirements: Sequence[str]) -> set[str]:
    """Return the names of the packages that segmax or one of its extras for users requires."""
    names = set()
    for requirement in requirements:
        name, extra = _REQUIREMENT.match(requirement), _EXTRA.search(requirement)
        if name is not None and name[1] != "segmax" and (extra is None or extra[1] not in _FOR_DEVELOPERS):
            names.add(name[1])
    return names
