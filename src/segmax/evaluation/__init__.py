"""How good results are and what they cost: relevance, recall against exhaustive search, latency, significance.

docs/evaluation.md shows all of it.
"""

from segmax.evaluation.judged import Judged, read_judged
from segmax.evaluation.measures import relevance
from segmax.evaluation.outcome import Evaluation, MethodResult
from segmax.evaluation.run import DEFAULT_METHODS, evaluate
from segmax.evaluation.significance import TTest, corrected, paired_t_test
from segmax.text.queries import EncodedQueries

__all__ = [
    "DEFAULT_METHODS",
    "EncodedQueries",
    "Evaluation",
    "Judged",
    "MethodResult",
    "TTest",
    "corrected",
    "evaluate",
    "paired_t_test",
    "read_judged",
    "relevance",
]
