"""segmax: fast top-k retrieval over learned sparse vectors, with guarantees."""

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
