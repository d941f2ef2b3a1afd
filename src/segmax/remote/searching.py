"""Searches at a service, as calls that any transport runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from segmax.base.checks import check_listed, shown
from segmax.base.errors import ConfigError, UnknownIdError
from segmax.remote import answers
from segmax.remote.answers import MakeDocs, Ranking
from segmax.remote.calls import Call, Request, to_json, understood
from segmax.remote.endpoint import Endpoint
from segmax.remote.found import FoundDocs, NothingMore, Source
from segmax.remote.params import MOST, check_target, filter_of, given, least_score, method_of, shards_of
from segmax.remote.problems import AnswerTooLargeError
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
        common = asked | given(
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
            stats=True,
        )
        parse: Callable[..., Hits | Groups] = answers.hits if group_by is None else answers.groups

        def ask(fields: Sequence[str], make_docs: MakeDocs) -> Call[Hits | Groups]:
            message = common | {"fields": _wire_fields(fields)}
            return self.asked("search", message, partial(parse, make_docs=make_docs))

        return (yield from self._with_documents(chosen, ask))

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
            stats=True,
        )
        for number, message in enumerate(messages):  # what they do not share
            message |= given(
                k=min(ks[number], most) if len(ks) > 1 else None,
                params=methods[number].message if len(methods) > 1 else None,
                where=wheres[number] if len(wheres) > 1 else None,
            )
        budgets = [method.budget_ms for method in _every(methods, count)]
        depths = [min(own, most) + wanted.offset for own in _every(ks, count)]

        def ask(fields: Sequence[str], make_docs: MakeDocs) -> Call[BatchHits]:
            shared = common | {"fields": _wire_fields(fields)}
            if any(budget is not None for budget in budgets):  # which only single searches have
                found = yield from self._one_by_one(messages, budgets, shared)
            else:
                found = yield from self._together(messages, depths, shared, halves=not fields)
            return understood(partial(answers.batch, width=width, make_docs=make_docs), found, self.base)

        return (yield from self._with_documents(chosen, ask))

    def _with_documents(self, fields: Sequence[str], ask: Callable[[Sequence[str], MakeDocs], Call[T]]) -> Call[T]:
        """Search for results with some fields; where these are too large for an answer, they are fetched afterwards."""
        try:
            return (yield from ask(fields, self._make_docs(fields)))
        except AnswerTooLargeError:
            if not fields:
                raise
        made: list[FoundDocs] = []

        def make_docs(rankings: Sequence[Ranking]) -> FoundDocuments:
            made.append(FoundDocs(self._source(), rankings, ()))
            return made[-1]

        found = yield from ask((), make_docs)
        for docs in made:
            try:
                documents = yield from self.look_up("ids", list(docs.by_row.values()), _wire_fields(fields))
            except UnknownIdError as error:
                raise UnknownIdError(str(error), hint="documents were deleted after the search: repeat it") from error
            docs.fill(documents, fields)
        return found

    def _one_by_one(
        self, messages: list[Message], budgets: Sequence[float | None], common: Message
    ) -> Call[list[Ranking]]:
        """Send a request for every query."""
        found: list[Ranking] = []
        for message, budget in zip(messages, budgets, strict=True):
            one = common | message | given(budget_ms=budget)
            found.append((yield from self.asked("search", one, Ranking.from_answer)))
        return found

    def _together(
        self, messages: list[Message], depths: Sequence[int], common: Message, *, halves: bool
    ) -> Call[list[Ranking]]:
        """Send as few requests as the limits of the service allow; `halves` for less where an answer is too large."""
        found: list[Ranking] = []
        most = self.limits.batch
        while len(found) < len(messages):
            rest = slice(len(found), len(found) + most)
            body, size = self._body(messages[rest], depths[rest], common)
            try:
                answer = yield Request(path=self.path("search", "batch"), body=body)
            except AnswerTooLargeError:
                if size == 1 or not halves:
                    raise
                most = (size + 1) // 2
            else:
                found += understood(partial(answers.rankings, count=size), answer, self.base)
        return found

    def _body(self, messages: list[Message], depths: Sequence[int], common: Message) -> tuple[bytes, int]:
        """Return a request that keeps to the limits, and how many of some queries it has."""
        head, tail = b'{"queries":[', b"]," + to_json(common)[1:]
        most = min(_MOST_BODY, self.limits.body_bytes) - len(head) - len(tail)
        waiting: list[bytes] = []
        num_bytes = num_results = 0
        for message, depth in zip(messages, depths, strict=True):
            query = to_json(message)
            is_full = num_bytes + len(query) >= most or num_results + depth > self.limits.batch_results
            if waiting and is_full:
                break
            waiting.append(query)
            num_bytes += len(query) + 1
            num_results += depth
        return head + b",".join(waiting) + tail, len(waiting)

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
        return lambda rankings: FoundDocs(self._source(), rankings, fields)

    def _source(self) -> Source:
        return NothingMore(self.info) if self.source is None else self.source


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
