"""segmax: fast top-k retrieval over learned sparse vectors, with guarantees.

Everyday names are here. More is in `segmax.errors`, `segmax.pruning`, `segmax.clustering`, `segmax.encoders`,
`segmax.io`, `segmax.metadata`, `segmax.text`, `segmax.evaluation`, `segmax.paper`, `segmax.remote` and `segmax.typing`.
Importing segmax loads none of it: a name or module is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmax import clustering as clustering
    from segmax import encoders as encoders
    from segmax import errors as errors
    from segmax import evaluation as evaluation
    from segmax import io as io
    from segmax import metadata as metadata
    from segmax import paper as paper
    from segmax import pruning as pruning
    from segmax import remote as remote
    from segmax import text as text
    from segmax import typing as typing
    from segmax.base.errors import SegmaxError
    from segmax.building.builder import build
    from segmax.collection.collection import Collection
    from segmax.collection.opening import open_searchable
    from segmax.evaluation import evaluate
    from segmax.inspection.inspecting import inspect
    from segmax.remote.connecting import connect
    from segmax.search.fusion import hybrid
    from segmax.search.highlighting import highlight
    from segmax.search.index import Index
    from segmax.search.methods import ASC, Exhaustive
    from segmax.search.results import BatchHits, Hits
    from segmax.shards.verifying import verify
    from segmax.storage.config import BuildConfig
    from segmax.text.pipeline import from_texts

    open = open_searchable

__version__ = "0.3.0.dev0"  # the only place: pyproject.toml reads it here

# Without `open`, so that a star import does not shadow the builtin.
__all__ = [
    "ASC",
    "BatchHits",
    "BuildConfig",
    "Collection",
    "Exhaustive",
    "Hits",
    "Index",
    "SegmaxError",
    "build",
    "connect",
    "evaluate",
    "from_texts",
    "highlight",
    "hybrid",
    "inspect",
    "verify",
]

#: Where every name is: what the imports above say to type checkers.
_NAMES = {
    "base.errors": "SegmaxError",
    "building.builder": "build",
    "collection.collection": "Collection",
    "collection.opening": "open",
    "evaluation": "evaluate",
    "inspection.inspecting": "inspect",
    "remote.connecting": "connect",
    "search.fusion": "hybrid",
    "search.highlighting": "highlight",
    "search.index": "Index",
    "search.methods": "ASC Exhaustive",
    "search.results": "BatchHits Hits",
    "shards.verifying": "verify",
    "storage.config": "BuildConfig",
    "text.pipeline": "from_texts",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
_OTHER_NAMES = {"open": "open_searchable"}  # in its module, which also needs the builtin
_MODULES = (
    "clustering",
    "encoders",
    "errors",
    "evaluation",
    "io",
    "metadata",
    "paper",
    "pruning",
    "remote",
    "text",
    "typing",
)


def __getattr__(name: str) -> Any:
    """Load a name or a module, once."""
    if name in _MODULES:
        return importlib.import_module(f"segmax.{name}")
    if name not in _MODULE_OF:
        msg = f"module 'segmax' has no attribute {name!r}"
        raise AttributeError(msg)
    module = importlib.import_module(f"segmax.{_MODULE_OF[name]}")
    value = globals()[name] = getattr(module, _OTHER_NAMES.get(name, name))
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open", *_MODULES, *(name for name in globals() if name.startswith("__"))])
