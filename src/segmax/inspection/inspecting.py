"""What is in an index or a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from segmax.base.errors import ConfigError
from segmax.inspection.summary import IndexSummary, inspect_index
from segmax.search.index import Index

if TYPE_CHECKING:
    from segmax.collection.collection import Collection
    from segmax.inspection.collections import CollectionSummary
    from segmax.inspection.sharded import ShardedSummary
    from segmax.shards.sharded import ShardedIndex


@overload
def inspect(index: Index, queries: object = ..., sample: int = ..., seed: int = ...) -> IndexSummary: ...


@overload
def inspect(index: Collection, queries: object = ..., sample: int = ..., seed: int = ...) -> CollectionSummary: ...


@overload
def inspect(index: ShardedIndex, queries: object = ..., sample: int = ..., seed: int = ...) -> ShardedSummary: ...


def inspect(
    index: Index | Collection | ShardedIndex, queries: object = None, sample: int = 50, seed: int = 0
) -> IndexSummary | CollectionSummary | ShardedSummary:
    """Return what is in an index: counts, options, sizes, clusters, and how tight its bounds are.

    Of a collection: its documents, its parts and their sizes. Of a sharded index: its shards, and how many of them
    searches ask.

    Parameters
    ----------
    index
        An open index, a collection, or a sharded index.
    queries
        Queries to measure tightness with: a scipy or torch sparse matrix with one query per row, or an iterable of
        single queries. By default documents of the index, each cut to its 24 largest weights.
    sample
        How many of these to use, chosen at random; 0 skips the measurement.
    seed
        The random seed of that choice.

    Raises
    ------
    InputError
        If the queries are invalid.
    ConfigError
        If `sample` or `seed` is invalid.

    Examples
    --------
    >>> import scipy.sparse as sp, segmax
    >>> summary = inspect(segmax.build(sp.csr_matrix([[1, 0, 2], [0, 3, 1]])))
    >>> summary.num_postings
    4
    """
    if isinstance(index, Index):
        return inspect_index(index, queries, sample, seed)
    from segmax.collection.collection import Collection  # loads what builds parts
    from segmax.inspection.collections import collection_summary

    if isinstance(index, Collection):
        return collection_summary(index)
    from segmax.inspection.sharded import sharded_summary
    from segmax.shards.sharded import ShardedIndex

    if not isinstance(index, ShardedIndex):
        raise ConfigError(option="index", expected="an index or a collection", got=type(index).__name__)
    return sharded_summary(index)
