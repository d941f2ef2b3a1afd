"""The API reference: which names are public, what classes show, and where a name in backticks or a type leads to.

The pages themselves are in docs/api: a page per module, whose tables name everything in it. Classes and functions have
a page each, made by autosummary from docs/_templates; errors and types are shown on the pages of their modules.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import stand_ins  # beside this module

import segmax

#: Modules for users, beside those that `segmax` itself names.
OTHER_MODULES = ("ray", "shards", "planning", "experiments")
#: What each integration is about; the libraries need not be installed.
INTEGRATIONS = {
    "sentence_transformers": ("semantic_search_segmax",),
    "pyterrier": ("SegmaxIndex",),
    "langchain": ("SegmaxRetriever",),
    "llama_index": ("SegmaxRetriever",),
    "haystack": ("SegmaxRetriever",),
}
#: The libraries that they plug into.
_STAND_INS = ("haystack", "langchain_core", "llama_index", "pandas", "pydantic", "pyterrier")
_VALUES = ("attribute", "data", "property")
#: Types of other modules that share their name with a public one: no alias may replace them.
_AMBIGUOUS = {"Queries", "Texts"}


def public_modules() -> list[ModuleType]:
    """Return the modules that the reference documents, but for the integrations."""
    return [segmax, *(importlib.import_module(f"segmax.{name}") for name in (*segmax._MODULES, *OTHER_MODULES))]


@functools.cache
def public_names() -> dict[str, Any]:
    """Return every public name with what it stands for; for integrations None."""
    found = {
        f"{module.__name__}.{name}": getattr(module, name) for module in public_modules() for name in module.__all__
    }
    outside = [f"segmax.integrations.{module}.{name}" for module, names in INTEGRATIONS.items() for name in names]
    return {"segmax.open": segmax.open, **found, **dict.fromkeys(outside)}


def import_integrations() -> None:
    """Import what plugs into other libraries; these need not be installed."""
    with stand_ins.libraries(*_STAND_INS):
        for module in INTEGRATIONS:
            importlib.import_module(f"segmax.integrations.{module}")


def type_aliases() -> dict[str, str]:
    """Return the public names of types that are neither classes nor spelled out where they are used."""
    names = [name for name in segmax.typing.__all__ if not inspect.isclass(getattr(segmax.typing, name))]
    return {name: f"segmax.typing.{name}" for name in names if name not in _AMBIGUOUS}


# --- what the page of a class shows ----------------------------------------------------------------------------------


def kind_of(module: str, name: str) -> str:
    """Return the directive of autodoc for a name."""
    found = getattr(sys.modules.get(module) or importlib.import_module(module), name)
    if inspect.isclass(found):
        return "autoexception" if issubclass(found, BaseException) else "autoclass"
    return "autofunction" if callable(found) else "autodata"


class Member(NamedTuple):
    """What the page of a class says about a member: in its table, and below."""

    name: str
    directive: str
    summary: str


def members_of(module: str, name: str) -> dict[str, list[Member]]:
    """Return the attributes and methods that a class, or a class of segmax below it, defines."""
    found = getattr(sys.modules.get(module) or importlib.import_module(module), name)
    owners = [owner for owner in found.__mro__ if owner.__module__.partition(".")[0] == "segmax"]
    explained = _parameters(found)
    attributes: list[Member] = []
    methods: list[Member] = []
    for owner in owners:
        for member in dict.fromkeys((*_fields(owner), *vars(owner))):
            known = {other.name for other in (*attributes, *methods)}
            if not member.startswith("_") and member not in known:
                made = _member(owner, member, inspect.getattr_static(found, member, None))
                if made.directive == "automethod":
                    methods.append(made)
                elif member not in explained:
                    attributes.append(made)
    return {"Attributes": attributes, "Methods": methods}


def _member(owner: type, name: str, value: Any) -> Member:
    if isinstance(value, property | functools.cached_property):
        return Member(name, "autoproperty", _sentence(inspect.getdoc(value) or ""))
    if inspect.isroutine(value) or isinstance(value, classmethod | staticmethod):
        return Member(name, "automethod", _sentence(inspect.getdoc(getattr(owner, name)) or ""))
    comment = _comments(owner.__module__).get((owner.__qualname__, name), [])
    kind = inspect.get_annotations(owner).get(name, "")
    shown = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    return Member(name, "autoattribute", _sentence("\n".join(comment)) or (f"``{shown}``" if shown else ""))


def _sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    found = re.match(r".*?\.(?=\s|$)", paragraph)
    return found[0] if found else paragraph


def _fields(owner: type) -> list[str]:
    return list(inspect.get_annotations(owner))


def _parameters(found: type) -> set[str]:
    """Return what a docstring explains as parameters or in a table: fields of these names need no entry."""
    text = inspect.getdoc(found) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:^\w+\n-{3,}$|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^(\w.*)$", section[1], flags=re.MULTILINE) if section else []
    table = re.findall(r"^(\w+)  ", text, flags=re.MULTILINE) if "\n=====" in text else []
    return {name.strip() for line in (*lines, *table) for name in line.split(",")}


# --- where names lead ------------------------------------------------------------------------------------------------


@functools.cache
def _public_by_place() -> dict[str, str]:
    """Return public names by where the code defines them: segmax.search.index.Index is segmax.Index."""
    found: dict[str, str] = {}
    for name, value in public_names().items():
        if inspect.isclass(value) or inspect.isfunction(value):
            found.setdefault(f"{value.__module__}.{value.__qualname__}", name)
            found.setdefault(f"{value.__module__}.{name.rpartition('.')[2]}", name)
    for name in segmax.typing.__all__:
        found.setdefault(f"segmax.vectors.types.{name}", f"segmax.typing.{name}")
    return found


def candidates(target: str, *, whole: bool = False) -> Iterator[str]:
    """Yield the public names that a name in a docstring or an annotation may stand for; `whole`: with their modules."""
    places = _public_by_place()
    parts = target.split(".")
    for cut in range(len(parts), 0, -1):
        head, rest = ".".join(parts[:cut]), parts[cut:]
        if head in places:
            yield ".".join([places[head], *rest])
    short = [] if whole else [name for name in public_names() if name.endswith(f".{parts[0]}") and name.count(".") <= 2]
    for name in sorted(short, key=lambda name: name.count(".")):
        yield ".".join([name, *parts[1:]])


def _resolve(app: Any, env: Any, node: Any, shown: Any) -> Any:
    """Lead a reference that Sphinx cannot resolve to a public name, or show it as it is if there is such a thing.

    What is in backticks need not be a name. A type must exist, but need not have a page: it may be of another library,
    whose pages cannot be linked to offline, or internal.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    target = re.sub(r"\(.*\)$", "", node["reftarget"])
    plugged_in = str(node.get("py:module")).startswith("segmax.integrations.")  # `Document` is that of the library
    for name in candidates(target, whole=plugged_in):
        if name in domain.objects:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, shown)
    return shown if node["reftype"] == "obj" or _is_type(target) else None


def _is_type(target: str) -> bool:
    module, _, name = target.rpartition(".")
    if not module:
        ours = [found for place, found in sys.modules.items() if place.partition(".")[0] == "segmax"]
        return any(name in vars(found) or name in _only_for_types(found.__name__) for found in ours)
    return module.partition(".")[0] in _STAND_INS or hasattr(importlib.import_module(module), name)


@functools.cache
def _only_for_types(module: str) -> set[str]:
    """Return the names that a module imports, also where it does so for type checkers alone."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # compiled
        return set()
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


# --- docstrings ------------------------------------------------------------------------------------------------------


def _comments(module: str) -> dict[tuple[str, str], list[str]]:
    """Return the `#:` comments of a module, by class and name."""
    from sphinx.errors import PycodeError
    from sphinx.pycode import ModuleAnalyzer

    try:
        return dict(ModuleAnalyzer.for_module(module).find_attr_docs())
    except PycodeError:
        return {}


def _definition(module: str, name: str) -> tuple[list[str], str]:
    """Return the `#:` comment of a value and its expression, from the module that a public one imports it from."""
    while module:
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
        comment = _comments(module).get(("", name))
        if comment:
            values = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
            found = [node for node in values if ast.unparse(node).startswith((f"{name}:", f"{name} ="))]
            return list(comment), ast.unparse(found[0]).partition(" = ")[2] if found else ""
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        module = next((str(node.module) for node in imports if name in {alias.name for alias in node.names}), "")
    return [], ""


def _improve(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Give values their comments, and take away what NamedTuple says about its fields."""
    if what == "data":
        module, _, short = name.rpartition(".")
        comment, expression = _definition(module, short)
        lines[:] = comment or lines
        if module == "segmax.typing":  # as it is written: what Python makes of it names no other alias
            lines += ["", ".. code-block:: python", "", f"   {short} = {expression}", ""]
    if lines and re.match(r"Alias for field number \d+", lines[0]):
        lines[:] = []
    if what in _VALUES:
        app.values_text = list(lines)


def _restore(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Undo what Napoleon does to values: it takes what comes before a colon for a type."""
    if what in _VALUES:
        lines[:] = app.values_text


def _signature(app: Any, what: str, name: str, value: Any, options: Any, given: str, returned: str) -> Any:
    """Hide how classes are made that users never make: those whose docstring explains no parameter."""
    made_by_us = what == "class" and "__init__" in vars(value) and not dataclasses.is_dataclass(value)
    return ("", None) if made_by_us and not _parameters(value) else None


def _tidy(app: Any, tree: Any) -> None:
    """Correct what Sphinx makes of docstrings.

    Two hyphens between a parameter and its text become a dash, MRR@10 is no address to mail to, and the type of what a
    function returns is named once.
    """
    from docutils import nodes

    for text in list(tree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))
    for link in list(tree.findall(nodes.reference)):
        if link.get("refuri", "").startswith("mailto:"):
            link.replace_self(link.children)
    for fields in tree.findall(nodes.field_list):
        by_name = {field[0].astext(): field for field in fields}
        if {"Returns", "Return type"} <= set(by_name):
            fields.remove(by_name["Return type"])


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    from sphinx.util.inspect import TypeAliasForwardRef

    # What Sphinx shows of an alias inside of a union.
    TypeAliasForwardRef.__repr__ = lambda self: str(self.name)  # type: ignore[method-assign]
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-docstring", _improve, priority=400)  # Napoleon is at 500
    app.connect("autodoc-process-docstring", _restore, priority=600)
    app.connect("doctree-read", _tidy)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
