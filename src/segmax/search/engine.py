"""An open index as the core sees it: arrays in, numbers out. Turns the core's integers into scores and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax import _core
from segmax.base.errors import ConfigError, damaged
from segmax.metadata import Metadata
from segmax.search.arguments import input_errors
from segmax.search.contributions import matched_terms
from segmax.search.results import BatchHits, BatchStats, ClusterBounds, Hits, MatchedTerm, TraceEntry
from segmax.storage.reading import check_counts
from segmax.storage.tables import DocIds, TextTable
from segmax.vectors.csr import Csr

_DECISIONS = ("visited", "pruned", "tied", "stopped", "limited")
_TRACE_COLUMNS = ("cluster", "decision", "bound_sum", "max_bound", "segment_sum", "threshold")


class Fate(NamedTuple):
    """What happened to the document inside its cluster: never met, below a bound, or scored."""

    kind: int
    bound: float  # the bound that decided, or the score
    threshold: float  # θ then
    needed: float  # what a bound had to reach then: θ, θ/η, or the estimate
    estimate: float  # a lower bound of the exact k-th score, known from the start
    kept_terms: NDArray[np.uint32]  # of the query: those whose weights are part of scores


@dataclasses.dataclass(frozen=True)
class Engine:
    """The core's index and the tables beside it."""

    core: _core.Index
    arrays: dict[str, NDArray[Any]]
    ids: DocIds
    terms: TextTable | None
    labels: NDArray[Any]  #: of the clusters
    metadata: Metadata | None

    @classmethod
    def from_arrays(cls, meta: Mapping[str, Any], arrays: dict[str, NDArray[Any]], path: Path | None) -> Engine:
        """Check the arrays of an index and open it; `path` is where it is, for messages."""
        check_counts(meta, arrays, path)
        core = _core.Index(
            meta["num_docs"], meta["num_terms"], meta["num_segments"], meta["code_bytes"], meta["head_ratio"], arrays
        )
        labels = arrays["cluster_label"]
        if len(labels) != core.num_clusters:
            raise damaged("cluster_label has the wrong length", path)
        metadata = _metadata(meta, arrays, path)
        ids = DocIds.from_arrays(arrays, core.num_docs, path, metadata)
        has_words = "term_text" in arrays
        words = TextTable(arrays["term_offset"], arrays["term_text"], core.num_terms, path) if has_words else None
        return cls(core, arrays, ids, words, labels, metadata)

    def search_batch(
        self, batch: Csr, ks: Sequence[int], params: Sequence[_core.SearchParams], threads: int
    ) -> BatchHits:
        """Search many queries, with one k and parameters for all of them or for each."""
        with input_errors():
            rows, scores, counts, stats = self.core.search_batch(
                batch.indptr,
                batch.indices,
                batch.values,
                np.minimum(np.array(ks, dtype=np.int64), max(1, self.core.num_docs)),
                params,
                min(threads, max(1, batch.num_rows)),
            )
        return BatchHits(rows, scores, counts, BatchStats(stats), self.ids)

    def search_one(
        self, terms: NDArray[np.int64], weights: NDArray[np.float64], k: int, params: _core.SearchParams
    ) -> Hits:
        """Search for one query."""
        with input_errors():
            rows, scores, stats = self.core.search_one(terms, weights, min(k, self.core.num_docs), params)
        return Hits(rows, scores, stats, self.ids)

    def trace(
        self, terms: NDArray[np.int64], weights: NDArray[np.float64], k: int, params: _core.SearchParams, row: int
    ) -> tuple[Hits, Fate]:
        """Search with a trace, watching what happens to one row; -1 watches none."""
        with input_errors():
            rows, scores, stats, columns, watched, scale, estimate, kept = self.core.trace(
                terms, weights, min(k, self.core.num_docs), params, row
            )
        hits = Hits(rows, scores, stats.reshape(-1), self.ids, self._entries(columns, scale))
        kind, bound, threshold, needed = watched
        return hits, Fate(kind, bound * scale, threshold * scale, needed * scale, estimate * scale, kept)

    def _entries(self, columns: Mapping[str, NDArray[Any]], scale: float) -> list[TraceEntry]:
        """Return the decisions of a trace, in the scale of the scores."""
        unknown = float("nan")
        return [
            TraceEntry(
                int(self.labels[cluster]),
                _DECISIONS[decision],
                bound_sum * scale,
                max_bound * scale if max_bound else unknown,
                segment_sum / self.core.num_segments * scale if segment_sum else unknown,
                threshold * scale,
            )
            for cluster, decision, bound_sum, max_bound, segment_sum, threshold in zip(
                *(columns[name].tolist() for name in _TRACE_COLUMNS), strict=True
            )
        ]

    def score(
        self, terms: NDArray[np.int64], weights: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the scores of documents for one query."""
        with input_errors():
            return self.core.score(terms, weights, rows)

    def matched(self, terms: NDArray[np.int64], weights: NDArray[np.float64], row: int) -> tuple[MatchedTerm, ...]:
        """Return what each term that a query and a document share adds to the score."""
        found, units, codes, scale = self.core.matched(terms, weights, row)
        term_scale = self.arrays["term_scale"][found]
        return matched_terms(
            found,
            [unit * code for unit, code in zip(units.tolist(), codes.tolist(), strict=True)],
            scale,
            units * (scale / term_scale),
            codes * term_scale,
            self.terms,
        )

    def bounds(self, terms: NDArray[np.int64], weights: NDArray[np.float64]) -> ClusterBounds:
        """Return the paper's bounds of every cluster for one query, and the best score in each."""
        with input_errors():
            bound_sum, max_bound, segment_sum, best, scale = self.core.cluster_bounds(terms, weights)
        return ClusterBounds(
            bound_sum=bound_sum.astype(np.float64) * scale,
            max_bound=max_bound.astype(np.float64) * scale,
            avg_bound=segment_sum.astype(np.float64) / self.core.num_segments * scale,
            best_score=best.astype(np.float64) * scale,
        )

    def ceiling(self, terms: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
        """Return a score that no document passes for a query: the best MaxSBound of the clusters."""
        with input_errors():
            return self.core.ceiling(terms, weights)

    def restricted(
        self,
        params: _core.SearchParams,
        rows: NDArray[np.bool_] | _core.Mask | None = None,
        floor: tuple[float, int] | None = None,
    ) -> _core.SearchParams:
        """Return parameters of searches that return only some rows, or only what comes before a result.

        Parameters
        ----------
        params
            How to search.
        rows
            By row: whether it may be returned; or a mask of such rows.
        floor
            Score and row of the last of k results that were found elsewhere; row -1 lets equal scores in.
        """
        params = params.copy()
        with input_errors():
            if rows is not None:
                params.mask = rows if isinstance(rows, _core.Mask) else _core.Mask(self.core, rows)
            if floor is not None:
                params.set_floor(*floor)
        return params

    def frequencies(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many documents have each term; 0 for terms that the index does not know."""
        firsts = self.arrays["term_first_posting"]
        is_known = (terms >= 0) & (terms < self.core.num_terms)
        known = np.where(is_known, terms, 0)
        counts = firsts[known + 1].astype(np.int64) - firsts[known].astype(np.int64) if len(firsts) > 1 else known * 0
        return np.where(is_known, counts, 0)

    def vectors(self, rows: NDArray[np.int64]) -> Csr:
        """Return stored documents, with weights as they are after coding."""
        indptr, terms, codes = self.core.vectors(rows)
        return Csr(indptr, terms, codes * self.arrays["term_scale"][terms], self.core.num_terms)


def _metadata(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path | None) -> Metadata | None:
    """Open the metadata of documents, where the index has them."""
    if ("metadata" in meta) != ("metadata_data" in arrays):
        raise damaged("it has only a part of its metadata", path)
    return Metadata.from_arrays(arrays, meta["metadata"], meta["num_docs"], path) if "metadata" in meta else None


def check_environment() -> None:
    """Raise ConfigError if SEGMAX_SIMD asks for an instruction set that is not available."""
    try:
        _core.simd_level()
    except ValueError as error:
        raise ConfigError(str(error)) from error
