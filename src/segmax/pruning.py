"""Static pruning: steps that make an index smaller, for `build(pruning=...)`."""

from segmax.vectors.pruning import DocThreshold, MassShare, MaxPostings, QueryThreshold, TopTerms

__all__ = ["DocThreshold", "MassShare", "MaxPostings", "QueryThreshold", "TopTerms"]
