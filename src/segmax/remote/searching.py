"""Searches at a service, as calls that any transport runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from segmax.base.checks import check_listed, shown
from segmax.base.errors import ConfigError
from segmax.remote import answers
from segmax.remote.answers import MakeDocs, Ranking
from segmax.remote.calls import Call, Request, to_json, understood
from segmax.remote.endpoint import Endpoint
from segmax.remote.found import FoundDocs, NothingMore
from segmax.remote.params import MOST, check_target, filter_of, given, least_score, method_of, shards_of
from segmax.remote.queries import Message, listed, several, single, words_beside_numbers
from segmax.search.arguments import checked_k, num_threads, per_query
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter, Wanted
from segmax.search.results import BatchHits, FoundDocuments, Groups, Hits
from segmax.vectors.csr import Csr

T = TypeVar("T")

_MOST_BODY = 4 << 20  # bytes of a request
_FIELDS = ("row", "title", "text", "metadata")  # as the API names them; results always have their rows


class Searching(Endpoint):
    """Calls that search."""

    def search(
        self,
        query: object,
        k: int,
        params: SearchParams | None,
        *,
        target_recall: float | None = None,
        trace: bool = False,
        where: Filter | None = None,
        offset: int = 0,
        min_score: float | None = None,
        group_by: str | None = None,
        group_size: int = 1,
        max_shards: int | None = None,
        fields: Iterable[str] = (),
    ) -> Call[Hits | Groups]:
        """Search for one query."""
        if trace:
            raise ConfigError(option="trace", expected="False over a service", got="True", hint="use explain")
        wanted = Wanted.checked(None, offset, min_score, group_by, group_size)
        k = checked_k(k)
        check_target(k, params, target_recall)
        method, budget_ms = method_of(params)
        chosen = _checked_fields(fields)
        filtered = filter_of(where)
        asked = yield from self.query(query)
        most = yield from self.most(max(k + wanted.offset, k * wanted.group_size))
        message = asked | given(
            k=min(k, most),
            params=method,
            target_recall=target_recall,
            where=filtered,
            offset=wanted.offset or None,
            min_score=least_score(wanted.min_score),
            max_shards=shards_of(max_shards),
            group_by=group_by,
            group_size=None if group_by is None else min(wanted.group_size, most),
            budget_ms=budget_ms,
            fields=_wire_fields(chosen),
            stats=True,
        )
        make_docs = self._make_docs(chosen)
        if group_by is not None:
            return (yield from self.asked("search", message, partial(answers.groups, make_docs=make_docs)))
        return (yield from self.asked("search", message, partial(answers.hits, make_docs=make_docs)))

    def search_batch(
        self,
        queries: object,
        k: int | Sequence[int],
        params: SearchParams | Sequence[SearchParams] | None,
        *,
        target_recall: float | None = None,
        threads: int | None = None,
        where: Filter | Sequence[Filter | None] | None = None,
        offset: int = 0,
        min_score: float | None = None,
        max_shards: int | None = None,
        fields: Iterable[str] = (),
    ) -> Call[BatchHits]:
        """Search for many queries, with as many requests as the limits of the service ask for."""
        num_threads(threads)  # raises if it is invalid; how many there are is up to the service
        wanted = Wanted.checked(None, offset, min_score)
        chosen = _checked_fields(fields)
        rows = listed(queries)
        count = rows.num_rows if isinstance(rows, Csr) else len(rows)
        ks = per_query("k", k, checked_k, count)
        if target_recall is not None and len(ks) != 1:
            raise ConfigError(option="k", expected="one number with target_recall", got=f"{len(ks)} of them")
        check_target(ks[0] if ks else 1, params, target_recall)
        methods = per_query("params", params, method_of, count)
        wheres = per_query("where", where, filter_of, count)
        messages = yield from self._queries(rows)
        deepest = max(ks, default=1) + wanted.offset
        most = yield from self.most(deepest)
        width = yield from self._width(deepest, wanted.offset)
        common = given(
            k=min(ks[0], most) if len(ks) == 1 else None,
            params=methods[0].message if len(methods) == 1 else None,
            target_recall=target_recall,
            where=wheres[0] if len(wheres) == 1 else None,
            offset=wanted.offset or None,
            min_score=least_score(wanted.min_score),
            max_shards=shards_of(max_shards),
            fields=_wire_fields(chosen),
            stats=True,
        )
        for number, message in enumerate(messages):  # what they do not share
            message |= given(
                k=min(ks[number], most) if len(ks) > 1 else None,
                params=methods[number].message if len(methods) > 1 else None,
                where=wheres[number] if len(wheres) > 1 else None,
            )
        if any(method.budget_ms is not None for method in methods):  # which only single searches have
            budgets = [method.budget_ms for method in _every(methods, count)]
            found = yield from self._one_by_one(messages, budgets, common)
        else:
            depths = [min(own, most) + wanted.offset for own in _every(ks, count)]
            found = yield from self._together(messages, depths, common)
        return understood(partial(answers.batch, width=width, make_docs=self._make_docs(chosen)), found, self.base)

    def _one_by_one(
        self, messages: list[Message], budgets: Sequence[float | None], common: Message
    ) -> Call[list[Ranking]]:
        """Send a request for every query."""
        found: list[Ranking] = []
        for message, budget in zip(messages, budgets, strict=True):
            one = common | message | given(budget_ms=budget)
            found.append((yield from self.asked("search", one, Ranking.from_answer)))
        return found

    def _together(self, messages: list[Message], depths: Sequence[int], common: Message) -> Call[list[Ranking]]:
        """Send as few requests as the limits of the service allow."""
        found: list[Ranking] = []
        for body, size in self._bodies(messages, depths, common):
            answer = yield Request(path=self.path("search", "batch"), body=body)
            found += understood(partial(answers.rankings, count=size), answer, self.base)
        return found

    def _bodies(self, messages: list[Message], depths: Sequence[int], common: Message) -> Iterator[tuple[bytes, int]]:
        """Yield requests that keep to the limits, and how many queries each has."""
        head, tail = b'{"queries":[', b"]," + to_json(common)[1:]
        most = min(_MOST_BODY, self.limits.body_bytes) - len(head) - len(tail)
        waiting: list[bytes] = []
        num_bytes = num_results = 0
        for message, depth in zip(messages, depths, strict=True):
            query = to_json(message)
            is_full = (
                len(waiting) == self.limits.batch
                or num_bytes + len(query) >= most
                or num_results + depth > self.limits.batch_results
            )
            if waiting and is_full:
                yield head + b",".join(waiting) + tail, len(waiting)
                waiting, num_bytes, num_results = [], 0, 0
            waiting.append(query)
            num_bytes += len(query) + 1
            num_results += depth
        if waiting:
            yield head + b",".join(waiting) + tail, len(waiting)

    def query(self, query: object) -> Call[Message]:
        """Return the message of a query."""
        words = words_beside_numbers([query])
        find = (yield from self.find_words(words)).get if words else None
        return single(query, find, self.info.num_terms)

    def _queries(self, rows: Csr | list[Any]) -> Call[list[Message]]:
        words = [] if isinstance(rows, Csr) else words_beside_numbers(rows)
        find = (yield from self.find_words(words)).get if words else None
        return several(rows, find, self.info.num_terms)

    def most(self, depth: int) -> Call[int]:
        """Return the largest k to ask for: where results would be beyond the limit, the number of documents."""
        if depth <= self.limits.k:
            return MOST
        info = self.info if self.is_fresh else (yield from self.fetch_info())
        return max(1, min(info.num_docs, MOST))

    def _width(self, depth: int, offset: int) -> Call[int]:
        """Return the width of the arrays of a batch: no wider than there are documents."""
        if depth > self.info.num_docs and not self.is_fresh:
            yield from self.fetch_info()
        least = 1 if self.info.is_collection else 0
        return max(0, min(depth, max(self.info.num_docs, least)) - offset)

    def _make_docs(self, fields: Sequence[str]) -> MakeDocs:
        source = NothingMore(self.info) if self.source is None else self.source

        def make(rankings: Sequence[Ranking]) -> FoundDocuments:
            return FoundDocs(source, rankings, fields)

        return make


def _every(values: Sequence[T], count: int) -> Sequence[T]:
    """Return one value for each of some queries."""
    return list(values) * count if len(values) == 1 and count != 1 else values


def _checked_fields(fields: Iterable[str]) -> tuple[str, ...]:
    check_listed("fields as a list", fields)
    chosen = tuple(fields)
    wrong = next((name for name in chosen if name not in _FIELDS), None)
    if wrong is not None:
        raise ConfigError(option="fields", expected=f"some of {', '.join(map(repr, _FIELDS))}", got=shown(wrong))
    return chosen


def _wire_fields(chosen: Sequence[str]) -> list[str]:
    more = [("title", "text") if name == "text" else (name,) for name in chosen]
    return list(dict.fromkeys(["row", *(name for names in more for name in names)]))
