"""Results as messages."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from segmax.search.highlighting import passages
from segmax.search.inside import InsideView
from segmax.search.results import STATS_FIELDS, BatchHits, Explanation, Groups, Hits
from segmax.serve import messages
from segmax.serve.allowance import Share
from segmax.shards.found import RoutedBatchHits, RoutedHits
from segmax.storage.texts import StoredText

_MOST_MARKED = 100_000  # characters of a text in which words are looked for


@dataclasses.dataclass(frozen=True)
class Marker:
    """Marks the words of a query in titles and texts."""

    words: frozenset[str]
    split: Callable[[str], Iterable[tuple[int, int, str]]] | None
    width: int

    def __call__(self, stored: StoredText) -> messages.Highlights:
        """Return the title and a passage of the text, in pieces."""
        return messages.Highlights(title=self._pieces(stored.title, None), text=self._pieces(stored.text, self.width))

    def _pieces(self, text: str, width: int | None) -> list[messages.Piece]:
        found = passages(text[:_MOST_MARKED], self.words, split=self.split, width=width)
        return [messages.Piece(text=piece, match=is_marked) for piece, is_marked in found]


def hit_messages(hits: Hits, fields: Sequence[str], marker: Marker | None, share: Share) -> Any:
    """Return the list of results with what was asked for; those with texts or metadata are written down one by one."""
    ids, scores = hits.ids, hits.scores.tolist()
    found = [messages.Hit(id=id, score=score) for id, score in zip(ids, scores, strict=True)]
    if "row" in fields:
        for hit, row in zip(found, hits.rows.tolist(), strict=True):
            hit.row = row
    with_texts = hits.has_texts and (marker is not None or "title" in fields or "text" in fields)
    with_metadata = "metadata" in fields and hits.has_metadata
    if not (with_texts or with_metadata):
        return found

    def described() -> Iterator[messages.Hit]:
        for place, plain in enumerate(found):
            hit, one = copy.copy(plain), hits.taken(slice(place, place + 1))
            if with_texts:
                _add_text(hit, one.texts[0], fields, marker)
            if with_metadata:
                hit.metadata = one.metadata[0]
            yield hit

    return share.listed(described())


def _add_text(hit: messages.Hit, stored: StoredText, fields: Sequence[str], marker: Marker | None) -> None:
    if "title" in fields:
        hit.title = stored.title
    if "text" in fields:
        hit.text = stored.text
    if marker is not None:
        hit.highlights = marker(stored)


def stats_message(hits: Hits) -> messages.Stats:
    """Return what a search cost."""
    values = dict(zip(STATS_FIELDS, hits.stats_row.tolist(), strict=True))
    return messages.Stats(**values | {"budget_hit": bool(values["budget_hit"]), "swept": bool(values["swept"])})


def search_result(
    hits: Hits, fields: Sequence[str], marker: Marker | None, share: Share, *, with_stats: bool
) -> messages.SearchResult:
    """Return the answer to a search."""
    result = messages.SearchResult(hits=hit_messages(hits, fields, marker, share), complete=hits.complete)
    if with_stats:
        result.stats = stats_message(hits)
    if isinstance(hits, RoutedHits):
        result.missing_share = hits.routing.missing_share or UNSET
        result.shards_asked = len(hits.routing.asked) if with_stats else UNSET
    return result


def batch_results(
    found: BatchHits, depths: Sequence[int], fields: Sequence[str], share: Share, *, with_stats: bool
) -> Iterable[messages.SearchResult]:
    """Return the answers to many searches; where only ids and scores are wanted, from the arrays of all of them."""
    if fields or with_stats or (isinstance(found, RoutedBatchHits) and not found.is_whole):
        return (
            search_result(hits.taken(slice(0, depth)), fields, None, share, with_stats=with_stats)
            for hits, depth in zip(found, depths, strict=True)
        )
    counts = np.minimum(found.counts, depths)
    is_there = np.arange(found.rows.shape[1]) < counts[:, None]
    ids, scores = found.ids_of(found.rows[is_there]), found.scores[is_there].tolist()
    hits = [messages.Hit(id=id, score=score) for id, score in zip(ids, scores, strict=True)]
    ends = np.cumsum(counts).tolist()
    return [
        messages.SearchResult(hits=hits[start:end], complete=complete)
        for start, end, complete in zip([0, *ends[:-1]], ends, found.complete.tolist(), strict=True)
    ]


def groups_result(
    groups: Groups, fields: Sequence[str], marker: Marker | None, share: Share, *, with_stats: bool
) -> messages.GroupsResult:
    """Return the answer to a search with groups."""

    def described() -> Iterator[messages.GroupResult]:
        for group in groups:
            message = messages.GroupResult(value=group.value, hits=hit_messages(group.hits, fields, marker, share))
            if with_stats:
                message.stats = stats_message(group.hits)
            yield message

    answer = messages.GroupsResult(groups=share.listed(described()), complete=groups.complete, took_ms=0.0)
    shares = [group.hits.routing.missing_share for group in groups if isinstance(group.hits, RoutedHits)]
    answer.missing_share = max(shares, default=0.0) or UNSET
    return answer


def total_stats(groups: Groups) -> NDArray[np.uint64]:
    """Return what a search for groups cost: it is several searches, and most groups come from the same one."""
    rows = {id(group.hits.stats_row): group.hits.stats_row for group in groups}
    total = sum(rows.values(), np.zeros(len(STATS_FIELDS), dtype=np.uint64))
    total[STATS_FIELDS.index("budget_hit")] = not groups.complete  # once, or between two of them
    return total


def explanation(found: Explanation) -> messages.Explanation:
    """Return the answer to the question why."""
    matched = [
        messages.Matched(
            term=match.term,
            word=match.word,
            query_weight=match.query_weight,
            document_weight=match.document_weight,
            contribution=match.contribution,
            searched=match.searched,
        )
        for match in found.matched
    ]
    plain = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return messages.Explanation(**{**plain, "matched": matched})


def inside_result(view: InsideView, method: str, part: str | None, most: int) -> messages.InsideResult:
    """Return what a search did with clusters, those with the highest bounds."""
    return messages.InsideResult(
        method=method,
        clusters=[messages.Cluster(**cluster._asdict()) for cluster in view.clusters[:most]],
        num_clusters=len(view.clusters),
        final_threshold=view.final_threshold,
        num_docs=sum(cluster.num_docs for cluster in view.clusters),
        num_blocks=view.num_blocks,
        stats=stats_message(view.hits),
        part=part,
    )
