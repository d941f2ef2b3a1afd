"""Running every query with every method, and measuring relevance, recall and time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int, shown
from segmax.base.errors import ConfigError, InputError, UnknownIdError, WriteError
from segmax.base.progress import Progress, ProgressOption, progress_of
from segmax.collection.opening import open_searchable
from segmax.evaluation.judged import Judged, PathLike, Qrels, asks_for_itself, read_judged
from segmax.evaluation.measures import mean_in_order, relevance
from segmax.evaluation.outcome import Evaluation, MethodResult
from segmax.io.trec import run_lines, untied
from segmax.io.writing import write_whole
from segmax.paper import Anytime, MaxScore, method_name, parse_method
from segmax.paper.methods import ClusterParams
from segmax.search.methods import ASC, Exhaustive, SearchParams
from segmax.search.protocol import Searchable, is_searchable
from segmax.search.results import BatchHits

DEFAULT_METHODS: tuple[SearchParams, ...] = (
    Exhaustive(),
    MaxScore(),
    Anytime(),
    ASC(),
    ASC(mu=0.9),
    ASC(mu=0.7),
    ASC(eta=0.95),
)
#: Queries whose results are held at the same time.
_CHUNK = 500
_EXACT = Exhaustive()


def evaluate(
    index: Searchable | PathLike,
    queries: object = None,
    qrels: PathLike | Qrels | None = None,
    *,
    data: PathLike | None = None,
    split: str = "test",
    encoder: object = None,
    methods: Mapping[str, SearchParams] | Iterable[SearchParams | str] = DEFAULT_METHODS,
    k: int = 10,
    min_rel: int = 1,
    drop_self: bool | None = None,
    passes: int = 3,
    max_shards: int | None = None,
    runs: PathLike | None = None,
    progress: ProgressOption = None,
) -> Evaluation:
    """Compare search methods on an index: relevance, recall against exhaustive search, latency and work.

    Times are measured inside the core, on one thread. Every method runs each query once to warm up and then `passes`
    times; the fastest time counts. Each pass goes through all methods in turn. A search with a time budget depends on
    the clock, so one pass gives both its results and its times.

    Parameters
    ----------
    index
        An open index, or anything that can be searched like one (`segmax.typing.Searchable`); or the path of an index,
        which is then read into memory.
    queries
        A path, `segmax.io.Queries`, `EncodedQueries`, a mapping of id to text or vector, a DataFrame with columns "qid"
        and "query", a matrix, or an iterable of single queries or texts, numbered from 0.
    qrels
        The path of judgments, or the grade by query and document; None: relevance is not measured. Queries without a
        judgment are skipped.
    data
        A BEIR folder, instead of both.
    split
        Which judgments of the folder to use.
    encoder
        What encodes queries that are texts, for an index given by path; as for `segmax.open`.
    methods
        Parameters by name, or parameters or texts such as "asc:mu=0.9"; the first is the baseline of t-tests.
    k
        How many results; also the depth of Recall.
    min_rel
        The lowest grade that counts as relevant for MRR and Recall; 1 is what the paper uses throughout.
    drop_self
        Leave out the document whose id is that of the query, as ArguAna requires. None: do so if most queries have the
        id of a document, not counting numbers.
    passes
        How often queries are timed.
    max_shards
        Of a sharded index: how many shards the methods may ask. Exhaustive search, which their results are compared
        with, asks all.
    runs
        A folder for a TREC run per method; files there are replaced.
    progress
        True draws bars on standard error; a function is called with `BuildProgress`; None and False are silent.

    Returns
    -------
    Evaluation
        Prints as a table; `plot`, `to_json`, `to_csv`, `t_tests`.

    Examples
    --------
    >>> from segmax import from_texts
    >>> index = from_texts(["a waveguide of copper", "diodes and noise"])
    >>> found = evaluate(index, ["copper", "noise"], {"0": {"0": 1}, "1": {"1": 1}}, methods=["exhaustive", "asc"])
    >>> found["asc"].relevance["MRR@10"], found["asc"].recall_of_exact
    (1.0, 1.0)
    """
    named = _named(methods)
    k = checked_int("k", k, 1)
    checked_int("passes", passes, 1)
    checked_int("min_rel", min_rel, 1)
    with contextlib.ExitStack() as stack:
        opened = _opened(index, encoder, stack)
        judged = read_judged(opened, queries, qrels, data=data, split=split)
        if not len(judged.queries):
            raise InputError(expected="queries", got="none")
        own = _own_rows(opened, judged.queries.ids, drop_self)
        files = stack.enter_context(_run_files(runs, named))
        asked = _Asked(opened, judged, own, k, min_rel, _shards(opened, max_shards))
        tallies = {name: _Tally() for name in named}
        with progress_of(progress) as shown:
            _ask_all(asked, named, passes, tallies, files, shown)
        return Evaluation(
            methods=tuple(
                tally.result(name, named[name], opened, judged.qrels is not None) for name, tally in tallies.items()
            ),
            k=k,
            min_rel=min_rel,
            num_queries=len(own),
            num_docs=opened.num_docs,
            num_clusters=opened.num_clusters,
            num_segments=opened.num_segments,
            passes=passes,
            dropped_self=bool((own >= 0).any()),
            judged=judged.qrels is not None,
            num_unasked=judged.num_unasked,
        )


def _opened(index: Searchable | PathLike, encoder: object, stack: contextlib.ExitStack) -> Searchable:
    if isinstance(index, (str, os.PathLike)):
        opened = open_searchable(index, preload=True, encoder=encoder)
        stack.callback(opened.close)
        return opened
    if not is_searchable(index):
        raise ConfigError(option="index", expected="an index or the path of one", got=type(index).__name__)
    if encoder is not None:
        raise ConfigError(
            option="encoder",
            expected="left out for an index that is open already",
            got=type(encoder).__name__,
            hint="assign index.encoder",
        )
    return index


def _shards(index: Searchable, max_shards: int | None) -> dict[str, int]:
    """Return what limits the shards that methods may ask, as a search takes it."""
    if max_shards is None:
        return {}
    if getattr(index, "num_shards", None) is None:
        expected = "left out for an index without shards"
        raise ConfigError(option="max_shards", expected=expected, got=shown(max_shards))
    return {"max_shards": checked_int("max_shards", max_shards, 1)}


def _named(methods: Mapping[str, SearchParams] | Iterable[SearchParams | str]) -> dict[str, SearchParams]:
    if isinstance(methods, Mapping):
        named = dict(methods)
    else:
        named = {}
        for method in [methods] if isinstance(methods, (str, SearchParams)) else methods:
            params = parse_method(method) if isinstance(method, str) else method
            name = method_name(params) if isinstance(params, SearchParams) else repr(params)
            if name in named:
                raise ConfigError(expected="every method once", got=f"{name} again")
            named[name] = params
    for name, params in named.items():
        if not isinstance(params, SearchParams):
            raise ConfigError(
                expected="methods such as ASC(mu=0.9) or 'asc:mu=0.9'", got=f"{type(params).__name__} for {name}"
            )
    if not named:
        raise ConfigError(expected="at least one method", got="none")
    return named


def _own_rows(index: Searchable, query_ids: list[str], drop_self: bool | None) -> NDArray[np.int64]:
    """Return the row of every query's own document; -1 if it has none, or if it is not to be dropped."""
    rows = np.full(len(query_ids), -1, dtype=np.int64)
    if drop_self is False:
        return rows
    for number, name in enumerate(query_ids):
        for doc_id in (
            (name, int(name)) if name.isascii() and name.isdecimal() else (name,)
        ):  # documents may be called by numbers
            with contextlib.suppress(UnknownIdError, InputError):
                rows[number] = index.row_of(doc_id)
    if drop_self and not (rows >= 0).any():
        raise InputError(
            where="drop_self", expected="queries that have the id of a document", got="none", hint="leave it out"
        )
    if drop_self is None and not asks_for_itself(query_ids, (rows >= 0).tolist()):
        rows[:] = -1
    return rows


# --- asking ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Asked:
    index: Searchable
    judged: Judged
    own: NDArray[np.int64]
    k: int
    min_rel: int
    limits: Mapping[str, Any]  #: of the shards that methods may ask

    def search(self, rows: range, params: SearchParams) -> BatchHits:
        return self._searched(rows, params, self.limits)

    def exact(self, rows: range) -> BatchHits:
        return self._searched(rows, _EXACT, {})

    def _searched(self, rows: range, params: SearchParams, limits: Mapping[str, Any]) -> BatchHits:
        encoded = self.judged.queries.only(list(rows))
        depth = self.k + int((self.own >= 0).any())  # one more for the dropped document
        return self.index.search_batch(encoded.rows, depth, params, threads=1, **limits)


def _ask_all(
    asked: _Asked,
    named: Mapping[str, SearchParams],
    passes: int,
    tallies: Mapping[str, _Tally],
    files: Mapping[str, BinaryIO],
    progress: Progress,
) -> None:
    count = len(asked.own)
    with progress.stage("evaluate", count * len(named) * (passes + 1), "searches") as stage:
        for start in range(0, count, _CHUNK):
            rows = range(start, min(start + _CHUNK, count))
            exact = _Answers(asked, rows, asked.exact(rows))
            times: dict[str, list[NDArray[np.float64]]] = {name: [] for name in named}
            for name, params in named.items():
                hits = asked.search(rows, params)
                if _has_budget(params):
                    hits = asked.search(rows, params)  # the first was to warm up
                    times[name].append(hits.stats.elapsed_ns / 1e6)
                found = _Answers(asked, rows, hits)
                tallies[name].add(found, exact)
                if name in files:
                    files[name].write(found.lines(file_name(name)).encode())
                stage.advance(len(rows))
            for _ in range(passes):
                for name, params in named.items():
                    if not _has_budget(params):
                        times[name].append(asked.search(rows, params).stats.elapsed_ns / 1e6)
                    stage.advance(len(rows))
            for name, passed in times.items():
                tallies[name].milliseconds.append(np.min(passed, axis=0))


def _has_budget(params: SearchParams) -> bool:
    return getattr(params, "budget_ms", None) is not None


class _Answers:
    """The results of some queries, without the queries' own documents if those are to be dropped."""

    def __init__(self, asked: _Asked, rows: range, hits: BatchHits) -> None:
        self._asked = asked
        self._query_ids = [asked.judged.queries.ids[row] for row in rows]
        self.stats = hits.stats
        own = asked.own[rows.start : rows.stop]
        self.rows: list[NDArray[np.int64]] = []
        self.scores: list[NDArray[np.float64]] = []
        self._doc_ids: list[list[str]] = []
        for number, one in enumerate(hits):
            kept = np.flatnonzero(one.rows != own[number])[: asked.k]
            ids = one.ids
            self.rows.append(one.rows[kept])
            self.scores.append(one.scores[kept])
            self._doc_ids.append([str(ids[place]) for place in kept.tolist()])

    def run(self) -> dict[str, dict[str, float]]:
        """Return the score by query and document, with ties broken by rank."""
        return {
            query: dict(zip(ids, untied(scores.tolist()), strict=True))
            for query, ids, scores in zip(self._query_ids, self._doc_ids, self.scores, strict=True)
        }

    def relevance(self) -> dict[str, NDArray[np.float64]]:
        """Return the measures of every query; none without judgments."""
        asked = self._asked
        if asked.judged.qrels is None:
            return {}
        return relevance(asked.judged.qrels, self.run(), self._query_ids, k=asked.k, min_rel=asked.min_rel)

    def lines(self, tag: str) -> str:
        """Return the lines of a TREC run."""
        return "".join(f"{line}\n" for query, scores in self.run().items() for line in run_lines(query, scores, tag))


class _Tally:
    """The measurements of one method, chunk by chunk."""

    def __init__(self) -> None:
        self.milliseconds: list[NDArray[np.float64]] = []
        self._relevance: list[dict[str, NDArray[np.float64]]] = []
        self._columns: dict[str, list[NDArray[Any]]] = {}

    def add(self, found: _Answers, exact: _Answers) -> None:
        """Add the answers of a chunk."""
        self._relevance.append(found.relevance())
        kept = [_share(mine, theirs) for mine, theirs in zip(found.rows, exact.rows, strict=True)]
        ratio = [_ratio(mine, theirs) for mine, theirs in zip(found.scores, exact.scores, strict=True)]
        for name, values in (
            ("recall", kept),
            ("ratio", ratio),
            ("clusters", found.stats.clusters_visited),
            ("docs", found.stats.docs_scored),
            ("swept", found.stats.swept > 0),
        ):
            self._columns.setdefault(name, []).append(np.asarray(values, dtype=np.float64))

    def result(self, name: str, params: SearchParams, index: Searchable, judged: bool) -> MethodResult:
        """Return the result over all chunks."""
        milliseconds = np.concatenate(self.milliseconds)
        columns = {what: np.concatenate(parts) for what, parts in self._columns.items()}
        measures = self._relevance[0] if judged else {}
        per_query = {what: np.concatenate([part[what] for part in self._relevance]) for what in measures}
        visits = isinstance(params, ASC | ClusterParams)
        num_searched = _num_searched(index)
        docs_scored = float(np.minimum(columns["docs"], num_searched).mean())  # the core counts empty places of blocks
        shares = {"clusters_visited": columns["clusters"] / index.num_clusters} if visits else {}
        return MethodResult(
            name=name,
            params=params,
            per_query={**per_query, "recall_of_exact": columns["recall"], "milliseconds": milliseconds, **shares},
            relevance={what: mean_in_order(values) for what, values in per_query.items()},
            recall_of_exact=float(columns["recall"].mean()),
            score_ratio=float(columns["ratio"].mean()),
            mean_ms=float(milliseconds.mean()),
            p50_ms=float(np.quantile(milliseconds, 0.5)),
            p99_ms=float(np.quantile(milliseconds, 0.99)),
            clusters_visited=float(columns["clusters"].mean() / index.num_clusters) if visits else None,
            docs_scored=docs_scored,
            docs_scored_share=docs_scored / num_searched,
            swept=float(columns["swept"].mean()) if visits else 0.0,
        )


def _num_searched(index: Searchable) -> int:
    """Return how many documents searches meet: those of a collection that were deleted and are still there, too."""
    found = index.num_docs
    with contextlib.suppress(AttributeError, InputError):  # an index that does not say, or not of so many clusters
        found = max(found, int(index.cluster_sizes().sum()))  # type: ignore[attr-defined]
    return found


def _share(found: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    return float(np.isin(exact, found).mean()) if len(exact) else 1.0


def _ratio(found: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    total = float(exact.sum())
    return float(found.sum()) / total if total else 1.0


@contextlib.contextmanager
def _run_files(folder: PathLike | None, names: Iterable[str]) -> Iterator[dict[str, BinaryIO]]:
    """Open a run per method; all of them appear at the end, or none."""
    if folder is None:
        yield {}
        return
    where = Path(os.fspath(folder))
    files: dict[str, str] = {}
    for name in names:
        other = files.setdefault(file_name(name), name)
        if other != name:
            raise ConfigError(
                where="runs",
                expected="names of methods that give names of files",
                got=f"{other!r} and {name!r}, which give one",
            )
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"could not make the folder for runs ({error.strerror or error})"
        raise WriteError(msg, where=f"'{where}'", hint="choose another") from error
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(write_whole(where / f"{file}.run", overwrite=True))
            for file, name in files.items()
        }


def file_name(name: str) -> str:
    """Return the name of a method as part of a file's name."""
    return "".join(letter if letter.isalnum() or letter in "._=-" else "_" for letter in name)
