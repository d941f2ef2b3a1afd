"""segmax: fast top-k retrieval over learned sparse vectors, with guarantees.

Names are loaded when they are first used, so that importing segmax takes no longer than it must.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segmax.build import build
    from segmax.calibration import Calibration, Expectation
    from segmax.cluster import Dense, Labels, Sparse
    from segmax.config import BuildConfig
    from segmax.errors import (
        ConfigError,
        FormatError,
        IndexClosedError,
        IndexExistsError,
        IndexNotFoundError,
        InputError,
        SegmaxError,
        SegmaxWarning,
        UnknownIdError,
        WriteError,
    )
    from segmax.evaluation import Evaluation, evaluate
    from segmax.highlighting import highlight
    from segmax.index import Index, verify
    from segmax.index import open_index as open
    from segmax.params import ASC, Anytime, BestFirst, Exhaustive, MaxScore
    from segmax.pipeline import build_from_texts
    from segmax.progress import BuildProgress
    from segmax.pruning import DocThreshold, MassShare, MaxPostings, QueryThreshold, TopTerms
    from segmax.report import IndexReport, inspect_index
    from segmax.results import BatchHits, Explanation, Hits, SearchStats
    from segmax.textstore import StoredText

__version__ = "0.1.0"

__all__ = [
    "ASC",
    "Anytime",
    "BatchHits",
    "BestFirst",
    "BuildConfig",
    "BuildProgress",
    "Calibration",
    "ConfigError",
    "Dense",
    "DocThreshold",
    "Evaluation",
    "Exhaustive",
    "Expectation",
    "Explanation",
    "FormatError",
    "Hits",
    "Index",
    "IndexClosedError",
    "IndexExistsError",
    "IndexNotFoundError",
    "IndexReport",
    "InputError",
    "Labels",
    "MassShare",
    "MaxPostings",
    "MaxScore",
    "QueryThreshold",
    "SearchStats",
    "SegmaxError",
    "SegmaxWarning",
    "Sparse",
    "StoredText",
    "TopTerms",
    "UnknownIdError",
    "WriteError",
    "build",
    "build_from_texts",
    "evaluate",
    "highlight",
    "inspect_index",
    "open",
    "verify",
]

#: Where every name is: what the imports above say to type checkers.
_NAMES = {
    "build": "build",
    "calibration": "Calibration Expectation",
    "cluster": "Dense Labels Sparse",
    "config": "BuildConfig",
    "errors": "ConfigError FormatError IndexClosedError IndexExistsError IndexNotFoundError InputError SegmaxError "
    "SegmaxWarning UnknownIdError WriteError",
    "evaluation": "Evaluation evaluate",
    "highlighting": "highlight",
    "index": "Index open verify",
    "params": "ASC Anytime BestFirst Exhaustive MaxScore",
    "pipeline": "build_from_texts",
    "progress": "BuildProgress",
    "pruning": "DocThreshold MassShare MaxPostings QueryThreshold TopTerms",
    "report": "IndexReport inspect_index",
    "results": "BatchHits Explanation Hits SearchStats",
    "textstore": "StoredText",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
_OTHER_NAMES = {"open": "open_index"}  # in its module, where the builtin is wanted, too


def __getattr__(name: str) -> Any:
    """Load a name, once."""
    if name not in _MODULE_OF:
        msg = f"module 'segmax' has no attribute {name!r}"
        raise AttributeError(msg)
    module = importlib.import_module(f"segmax.{_MODULE_OF[name]}")
    value = globals()[name] = getattr(module, _OTHER_NAMES.get(name, name))
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


class _Package(ModuleType):
    """Keeps `segmax.build` the function: whoever imports the module `segmax.build` would put that in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
