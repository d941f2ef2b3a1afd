"""The operations that read: one function each, from a message to a message."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec import UNSET

import segmax
from segmax.base.errors import UnknownIdError
from segmax.collection.collection import Collection
from segmax.paper.methods import method_name
from segmax.search.arguments import EXACT
from segmax.search.index import Index
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter, high_enough
from segmax.search.results import BatchHits, Groups, Hits
from segmax.serve import messages
from segmax.serve.allowance import Listed, Share
from segmax.serve.answers import (
    Marker,
    batch_results,
    explanation,
    groups_result,
    inside_result,
    search_result,
    total_stats,
)
from segmax.serve.catalog import Served, Source
from segmax.serve.documents import document_by_id, documents_by_id, documents_by_row
from segmax.serve.encoding import rows_of
from segmax.serve.problems import RETRY_SOON, ProblemError, invalid, over_limit
from segmax.serve.searching import Grouping, PlainQuery, num_terms
from segmax.serve.service import Gone, Service, Target
from segmax.shards.sharded import ShardedIndex
from segmax.vectors.csr import Csr

_MOST_CLUSTERS = 4096  # that a picture shows
_MOST_SIZES = 1000
_MOST_INLINE = 1000  # results that are written down on the event loop
_MOST_INLINE_TERMS = 10_000  # of a batch that become a matrix on the event loop, in less than a millisecond
_SLICE = 64  # queries of a batch that are searched together
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_ALL_FIELDS = ("row", "title", "text", "metadata", "vector")


@dataclasses.dataclass(eq=False, slots=True)
class Context:
    """What a request is about, beside its message."""

    service: Service
    served: Served  #: not set for operations on all of them
    arrived: float  #: by `time.perf_counter`
    share: Share  #: what the answer takes of what answers may take
    gone: Gone  #: waits until the client has gone
    id: str = ""  #: of a document, as the path has it
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)  #: of the address

    async def target(self) -> Target:
        """Return what is served, caught up with whatever was acknowledged before the request came."""
        return await self.service.target(self.served)


# --- searching -------------------------------------------------------------------------------------------------------


async def search(context: Context, message: messages.Search) -> messages.SearchResult | messages.GroupsResult:
    """Find the best documents for a query."""
    service, target = context.service, await context.target()
    service.check_depth(message.k, message.offset, message.group_size)
    service.check_where(message.where)
    params, max_shards = service.chosen(target, message)
    deadline = service.deadline(params, message.budget_ms, context.arrived)
    query = await service.query(target, message, prefix=message.prefix, deadline=deadline)
    marker = service.marker(target, query, message)
    await service.know(target, given(message.where), deadline, context.gone, message.group_by)
    if message.group_by is not None or message.group_size != 1:
        grouping = Grouping(message.group_by, message.group_size, message.offset, message.min_score)
        searcher, how = service.group_searchers[target.name], (params, message.where, deadline, max_shards, grouping)
        groups: Groups = await searcher.submit(target.source, query, message.k, *how)
        service.metrics.searched(target.name, total_stats(groups))
        answer = await service.run(_groups_answer, groups, message, marker, context.share, of=target.source)
        answer.took_ms = (time.perf_counter() - context.arrived) * 1e3
        return answer
    hits = await _found(context, target, query, message, params, deadline, max_shards)
    service.metrics.searched(target.name, hits.stats_row)
    if message.min_score is not None:
        hits = high_enough(hits, message.min_score)
    if message.offset:
        hits = hits.taken(slice(message.offset, None))
    is_long = len(hits) > _MOST_INLINE or any(field != "row" for field in message.fields)
    if is_long or marker is not None:  # texts have to be decompressed, and words looked for
        result = await service.run(_answer, hits, message, marker, context.share, of=target.source)
    else:
        result = _answer(hits, message, None, context.share)
    result.took_ms = (time.perf_counter() - context.arrived) * 1e3
    return result


async def _found(
    context: Context,
    target: Target,
    query: PlainQuery,
    message: messages.Search,
    params: SearchParams | None,
    deadline: float | None,
    max_shards: int | None,
) -> Hits:
    """Search: at once, if there is nobody to wait for or to hold up, and otherwise together with others."""
    service = context.service
    searcher, depth = service.searchers[target.name], message.k + message.offset
    if len(service.requests) == 1 and message.where is None and deadline is None:
        hits = searcher.at_once(target.source, query, depth, params)
        if hits is not None:
            return hits
    found: Hits = await searcher.submit(target.source, query, depth, params, message.where, deadline, max_shards)
    return found


def _answer(hits: Hits, message: messages.Search, marker: Marker | None, share: Share) -> messages.SearchResult:
    return search_result(hits, message.fields, marker, share, with_stats=message.stats)


def _groups_answer(
    groups: Groups, message: messages.Search, marker: Marker | None, share: Share
) -> messages.GroupsResult:
    return groups_result(groups, message.fields, marker, share, with_stats=message.stats)


async def search_batch(context: Context, message: messages.BatchSearch) -> messages.BatchResult:
    """Find the best documents for many queries at once."""
    service, target = context.service, await context.target()
    queries = message.queries
    if len(queries) > service.limits.batch:
        raise over_limit("queries", service.limits.batch, len(queries))
    depths = [message.k if query.k is None else query.k for query in queries]
    for depth in set(depths):
        service.check_depth(depth, message.offset)
    reached = [depth + message.offset for depth in depths]  # as deep as they are searched
    total = sum(reached)
    if total > service.limits.batch_results:
        raise over_limit("results of a batch", service.limits.batch_results, total)
    for where in (message.where, *(query.where for query in queries)):
        service.check_where(where)
    if message.target_recall is not None and any(query.k is not None for query in queries):
        raise invalid(option="k", expected="one number with target_recall", got="one of a query")
    if message.target_recall is not None and any(query.params for query in queries):
        raise invalid(expected="params or target_recall", got="both")
    max_shards = service.shards(target, message.max_shards)
    service.check_target(message)
    shared = service.params(message.params)
    params = [shared if query.params is None else service.params(query.params) for query in queries]
    wheres = [message.where if query.where is None else query.where for query in queries]
    has_more = any(where is not None for where in wheres) or bool(message.fields) or message.stats
    searcher = service.searchers[target.name]
    results = Listed(context.share)
    with service.batch():
        for start in range(0, len(queries), _SLICE):  # one after the other, so that others get threads in between
            part = slice(start, start + _SLICE)
            plain = await _plain_queries(context, target, queries[part])
            await service.know(target, given(*wheres[part]), None, context.gone)
            how = depths[part], params[part], wheres[part], max_shards
            work = partial(_searched_batch, context, target, message, plain, *how, results)
            sizes = np.diff(plain.indptr).tolist() if isinstance(plain, Csr) else [num_terms(query) for query in plain]
            is_short = len(queries) <= _SLICE and total <= _MOST_INLINE and not has_more
            is_alone = len(service.requests) == 1  # so it holds up nobody
            is_here = is_short and is_alone and searcher.are_quick(target.source, sizes, reached, params)
            seconds = work() if is_here else await service.run(work, of=target.source)
            if not has_more:
                searcher.learn(sizes, reached[part], params[part], seconds)
    return messages.BatchResult(results=results.whole(), took_ms=(time.perf_counter() - context.arrived) * 1e3)


async def _plain_queries(context: Context, target: Target, queries: Sequence[messages.BatchQuery]) -> Any:
    """Return queries as `search_batch` takes them: as one matrix if all of them are vectors, or all are texts."""
    service = context.service
    if all(query.text is not None and query.terms is None and query.vector is None for query in queries):
        return await service.encoded(target, [str(query.text) for query in queries])
    if not all(query.vector is not None and query.text is None and query.terms is None for query in queries):
        return [await service.query(target, query) for query in queries]
    pairs = [service.pair(query.vector) for query in queries if query.vector is not None]
    if sum(len(indices) for indices, _ in pairs) <= _MOST_INLINE_TERMS:
        return _matrix(pairs, target.source.num_terms)
    return await service.run(_matrix, pairs, target.source.num_terms)


def _matrix(pairs: Sequence[tuple[list[int], list[float]]], num_terms: int) -> Csr:
    """Return terms and weights as one matrix."""
    indptr = np.zeros(len(pairs) + 1, np.int64)
    np.cumsum([len(indices) for indices, _ in pairs], out=indptr[1:])
    indices = np.array(list(chain.from_iterable(indices for indices, _ in pairs)), np.int64)
    values = np.array(list(chain.from_iterable(values for _, values in pairs)), np.float64)
    return Csr(indptr, indices, values, max(num_terms, int(indices.max(initial=-1)) + 1))


def _searched_batch(
    context: Context,
    target: Target,
    message: messages.BatchSearch,
    queries: Any,
    depths: list[int],
    params: list[SearchParams | None],
    wheres: Sequence[Mapping[str, Any] | None],
    max_shards: int | None,
    results: Listed,
) -> float:
    """Add the results of some queries, and return how many seconds of one thread their search took."""
    how: dict[str, Any] = {} if max_shards is None else {"max_shards": max_shards}
    if message.target_recall is None:
        how |= {"k": depths, "params": [one or EXACT for one in params]}
    else:
        how |= {"k": message.k, "target_recall": message.target_recall}
    threads, start = context.service.settings.num_threads, time.perf_counter()
    found: BatchHits = target.source.search_batch(
        queries,
        threads=None if target.served.is_on_ray else threads,
        where=None if all(where is None for where in wheres) else list(wheres),
        offset=message.offset,
        min_score=message.min_score,
        **how,
    )
    seconds = (time.perf_counter() - start) * min(threads, len(depths))
    context.service.metrics.searched_batch(target.name, found.stats)
    results.extend(batch_results(found, depths, message.fields, context.share, with_stats=message.stats))
    return seconds


async def explain(context: Context, message: messages.Explain) -> messages.Explanation:
    """Say why a document is or is not among the best."""
    service = context.service
    service.check_depth(message.k, 0)
    service.check_where(message.where)
    params, target = service.params(message.params), await context.target()
    max_shards = service.shards(target, message.max_shards)
    limits: dict[str, Any] = {} if max_shards is None else {"max_shards": max_shards}
    query = await service.query(target, message, prefix=message.prefix)
    await service.know(target, given(message.where), None, context.gone)
    explain = partial(target.source.explain, query, message.id, message.k, params, where=message.where, **limits)
    return explanation(await service.run(explain, of=target.source))


async def inside(context: Context, message: messages.Inside) -> messages.InsideResult:
    """Show what a search decides about every cluster."""
    service = context.service
    service.check_depth(message.k, 0)
    params, target = service.params(message.params), await context.target()
    source = target.source
    if isinstance(source, ShardedIndex):
        detail = (
            "this index lies in shards, which are not shown from inside: explain is about one document and its shard"
        )
        raise ProblemError(409, "sharded", detail)
    query = await service.query(target, message, prefix=message.prefix)
    view = await service.run(source.inside, query, message.k, params)
    part = "the largest part" if isinstance(source, Collection) else None
    return inside_result(view, method_name(params or EXACT), part, _MOST_CLUSTERS)


async def score(context: Context, message: messages.Score) -> messages.ScoreResult:
    """Return the scores of given documents."""
    service = context.service
    _check_ids(service, message.ids)
    target = await context.target()
    query = await service.query(target, message)
    found = await service.run(target.source.score, query, message.ids, of=target.source)
    return messages.ScoreResult(scores=found.tolist())


# --- documents -------------------------------------------------------------------------------------------------------


def _check_ids(service: Service, ids: Sequence[object]) -> None:
    if len(ids) > service.limits.batch:
        raise over_limit("ids", service.limits.batch, len(ids))


async def get_document(context: Context, message: None) -> messages.DocumentResult:
    """Return one document."""
    given = context.query.get("fields", "title,text,metadata")
    fields = [name for name in given.split(",") if name]
    for name in fields:
        if name not in _ALL_FIELDS:
            raise invalid(option="fields", expected=f"some of {', '.join(_ALL_FIELDS)}", got=repr(name))
    source = (await context.target()).source
    id = id_in_path(source, context.id)
    found: messages.DocumentResult = await context.service.run(
        document_by_id, source, id, fields, context.share, of=source
    )
    return found


async def get_documents(context: Context, message: messages.GetDocuments) -> messages.DocumentsResult:
    """Return many documents."""
    if (message.ids is None) == (message.rows is None):
        raise invalid(expected="ids or rows", got="both" if message.ids is not None else "neither")
    _check_ids(context.service, message.ids or message.rows or ())
    source = (await context.target()).source
    work = documents_by_row if message.rows is not None else documents_by_id
    wanted = message.ids or message.rows or []
    documents = await context.service.run(work, source, wanted, message.fields, context.share, of=source)
    return messages.DocumentsResult(documents=documents)


def id_in_path(source: Source, text: str) -> int | str:
    """Return the id that a path names: digits are a number where ids are numbers."""
    if source.id_kind is not int:
        return text
    if not _INTEGER.fullmatch(text):
        raise UnknownIdError(f"no document has the id {text!r}", hint="ids are integers here")
    return int(text)


async def count(context: Context, message: messages.CountDocuments) -> messages.CountResult:
    """Count the documents that a filter matches."""
    context.service.check_where(message.where)
    target = await context.target()
    await context.service.know(target, given(message.where), None, context.gone)
    return messages.CountResult(count=await context.service.run(target.source.count, message.where, of=target.source))


async def facets(context: Context, message: messages.Facets) -> messages.FacetsResult:
    """Count documents by their value in a field."""
    context.service.check_where(message.where)
    target = await context.target()
    await context.service.know(target, given(message.where), None, context.gone)
    arguments = target.source, message, context.share
    if isinstance(target.source, ShardedIndex):
        return await context.service.run(_facets, *arguments, of=target.source)
    return await context.service.evaluate(_facets, *arguments, gone=context.gone)


def _facets(source: Source, message: messages.Facets, share: Share) -> messages.FacetsResult:
    found = source.facets(message.field, message.where, limit=message.limit)
    values = (messages.FacetValue(value=value, count=count) for value, count in found)
    return messages.FacetsResult(values=share.listed(values))


def given(*wheres: Filter | None) -> Iterable[Filter]:
    """Return the filters among these, each once."""
    return {id(where): where for where in wheres if where is not None}.values()


# --- words -----------------------------------------------------------------------------------------------------------


async def encode(context: Context, message: messages.Encode) -> messages.EncodeResult:
    """Encode texts as queries."""
    target = await context.target()
    rows = await context.service.encoded(target, message.texts) if message.texts else None
    if rows is None:
        return messages.EncodeResult(vectors=[])
    return await context.service.run(_encode_answer, rows, context.share)


def _encode_answer(rows: Csr, share: Share) -> messages.EncodeResult:
    vectors = (messages.Vector(indices=indices, values=values) for indices, values in rows_of(rows))
    return messages.EncodeResult(vectors=share.listed(vectors))


async def find_terms(context: Context, message: messages.FindTerms) -> messages.TermsResult:
    """Look up terms."""
    given = (message.words is not None) + (message.numbers is not None) + (message.prefix is not None)
    if given != 1:
        raise invalid(expected="exactly one of words, numbers and prefix", got=f"{given} of them")
    _check_ids(context.service, message.words or message.numbers or ())
    target = await context.target()
    if target.source.terms is None:
        raise ProblemError(409, "no-vocabulary", "this index has no vocabulary: its terms are numbers only")
    return await context.service.run(_found_terms, context, target, message, of=target.source)


def _found_terms(context: Context, target: Target, message: messages.FindTerms) -> messages.TermsResult:
    terms = target.source.terms
    assert terms is not None
    found: list[tuple[int | None, str]]
    if message.prefix is not None:
        found = list(context.service.completions(target, message.prefix, message.limit))
    elif message.words is not None:
        found = [(terms.find(word), word) for word in message.words]
    else:
        numbers = message.numbers or []
        found = [(number, terms[number]) if number < len(terms) else (None, "") for number in numbers]
    results = (None if number is None else messages.TermResult(term=number, word=word) for number, word in found)
    return messages.TermsResult(terms=context.share.listed(results), num_terms=len(terms), version=target.version)


# --- what is served --------------------------------------------------------------------------------------------------


def index_info(service: Service, target: Target) -> messages.IndexInfo:
    """Describe an index or a collection."""
    served, source = target.served, target.source
    kinds = {int: "int", str: "str", None: None}
    return messages.IndexInfo(
        name=served.name,
        kind="collection" if isinstance(source, Collection) else "index",
        version=target.version,
        num_docs=source.num_docs,
        num_terms=source.num_terms,
        num_clusters=source.num_clusters,
        num_segments=source.num_segments,
        num_postings=source.num_postings,
        num_bytes=source.num_bytes,
        bits=source.bits,
        id_kind=kinds[source.id_kind],  # type: ignore[arg-type]
        has_texts=source.texts is not None,
        has_metadata=bool(source.fields),
        has_vocabulary=source.terms is not None,
        fields={name: list(kinds) for name, kinds in source.fields.items()},
        encoder=service.encoder_name(target),
        writable=service.settings.writable and isinstance(source, Collection),
        num_shards=source.num_shards if isinstance(source, ShardedIndex) else UNSET,
    )


async def list_indexes(context: Context, message: None) -> messages.Indexes:
    """List what is served."""
    service = context.service
    targets, unavailable = [], {}
    for served in service.catalog.values():
        try:
            targets.append(await service.target(served))
        except ProblemError as problem:
            unavailable[served.name] = problem.detail
    infos = [await service.run(index_info, service, target, of=target.source) for target in targets]
    return messages.Indexes(
        indexes=infos,
        version=segmax.__version__,
        writable=service.settings.writable,
        limits=dataclasses.asdict(service.limits),
        unavailable=unavailable or UNSET,
    )


async def get_index(context: Context, message: None) -> messages.IndexInfo:
    """Describe an index or a collection."""
    target = await context.target()
    return await context.service.run(index_info, context.service, target, of=target.source)


async def get_stats(context: Context, message: None) -> messages.StatsResult:
    """Return sizes and figures."""
    target, writes = await context.target(), context.service.writes
    failure = None
    if writes is not None and isinstance(target.source, Collection):
        with contextlib.suppress(ProblemError):  # the process that writes is being restarted
            failure = await writes.call("failure", target.name)
    return await context.service.run(_stats, context.service, target, failure, of=target.source)


def _stats(service: Service, target: Target, failure: str | None) -> messages.StatsResult:
    source = target.source
    sizes = np.sort(source.cluster_sizes())[::-1]
    if len(sizes) > _MOST_SIZES:
        sizes = sizes[np.linspace(0, len(sizes) - 1, _MOST_SIZES).astype(np.int64)]
    return messages.StatsResult(
        info=index_info(service, target),
        sizes=source.sizes(),
        cluster_sizes=sizes.tolist(),
        quantization_error=source.quantization_error if isinstance(source, Index) else None,
        collection=_part_stats(source, failure) if isinstance(source, Collection) else None,
    )


def _part_stats(source: Collection, failure: str | None) -> messages.PartStats:
    return messages.PartStats(**source.stats()._replace(failure=failure)._asdict())


async def health(context: Context, message: None) -> messages.Health:
    """Say that the process answers."""
    return messages.Health(status="ok")


async def ready(context: Context, message: None) -> messages.Health:
    """Say whether requests are welcome."""
    if not context.service.is_ready:
        raise ProblemError(503, "not-ready", "the service is starting or stopping", headers=RETRY_SOON)
    served = context.service.catalog.values()
    if not any(one.is_open for one in served):
        raise ProblemError(503, "not-ready", "nothing of what is served can be opened", headers=RETRY_SOON)
    return messages.Health(status="ready")
