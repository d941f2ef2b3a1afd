"""Types for annotations: queries and documents as users give them, and results as segmax returns them.

>>> from segmax.typing import DocId, Query
>>> def best(index: "segmax.Index", query: Query) -> DocId | None:
...     hits = index.search(query, k=1)
...     return hits[0].id if hits else None
"""

from segmax.base.progress import BuildProgress
from segmax.evaluation import Evaluation
from segmax.inspection.summary import IndexSummary
from segmax.search.calibration import Calibration, Expectation
from segmax.search.fusion import FusedHits
from segmax.search.protocol import Searchable
from segmax.search.queries import Filter
from segmax.search.results import Explanation, Groups, SearchStats
from segmax.storage.texts import StoredText
from segmax.vectors.types import (
    DocId,
    Documents,
    Frame,
    Queries,
    Query,
    SparseMatrix,
    Tensor,
    Term,
    TermWeights,
    Texts,
    Weight,
)

__all__ = [
    "BuildProgress",
    "Calibration",
    "DocId",
    "Documents",
    "Evaluation",
    "Expectation",
    "Explanation",
    "Filter",
    "Frame",
    "FusedHits",
    "Groups",
    "IndexSummary",
    "Queries",
    "Query",
    "SearchStats",
    "Searchable",
    "SparseMatrix",
    "StoredText",
    "Tensor",
    "Term",
    "TermWeights",
    "Texts",
    "Weight",
]
