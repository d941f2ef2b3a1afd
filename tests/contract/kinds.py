"""Every kind of thing that can be searched, made of the same documents, and what a kind refuses by design."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import io
import json
import re
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import refused
from segmax.cli.main import main
from segmax.errors import ConfigError, InputError, SegmaxError, UnknownIdError
from segmax.remote import connect_async
from segmax.serve import catalog
from segmax.serve.server import create_app
from segmax.serve.settings import Settings
from segmax.shards.making.building import build
from segmax.shards.opening import open_local

from .corpora import CORPORA, WORDS, Corpus, Counts

BASE = "http://127.0.0.1:8080"

#: The kinds, and what each can be asked; a claim that needs a word keeps away from kinds that lack it.
#: Commands only search; what is awaited has neither lists by row nor an end of a block.
WAITING = frozenset({"search", "everything", "python", "waiting"})
KINDS: dict[str, frozenset[str]] = {
    "index in memory": WAITING,
    "index on disk": WAITING,
    "collection of one part": WAITING | {"get"},
    "collection of three parts": WAITING | {"get"},
    "snapshot": WAITING | {"get"},
    "shards": WAITING | {"search_async"},
    "client of an index": WAITING | {"fields"},
    "client of a collection": WAITING | {"fields", "get"},
    "client of shards": WAITING | {"fields"},
    "client over a socket": WAITING | {"fields"},
    "async client": WAITING - {"waiting"} | {"fields", "get"},
    "http": frozenset({"search", "everything", "fields"}),
    "command": frozenset({"search"}),
    "ray": WAITING | {"search_async"},
}

#: What a kind refuses by its documented design, and how. Everything else is promised by all.
REFUSALS: dict[str, dict[str, tuple[type[Exception], str]]] = {
    # Decisions are about the clusters of one index; explain is there instead.
    "trace": {
        **dict.fromkeys(
            ("collection of one part", "collection of three parts", "snapshot"),
            (ConfigError, "expected trace to be False for a collection"),
        ),
        **dict.fromkeys(("shards", "ray"), (ConfigError, "expected trace to be False for a sharded index")),
        **dict.fromkeys(
            ("client of an index", "client of a collection", "client of shards", "client over a socket"),
            (ConfigError, "expected trace to be False over a service"),
        ),
        "async client": (TypeError, "unexpected keyword argument 'trace'"),
    },
    # What has no folder of its own, is open for writing, or goes over a transport of the caller's, has no copy.
    "pickle": {
        "index in memory": (SegmaxError, "an index in memory cannot be pickled"),
        "collection of one part": (SegmaxError, "open for writing cannot be pickled"),
        "collection of three parts": (SegmaxError, "open for writing cannot be pickled"),
        "snapshot": (SegmaxError, "a snapshot cannot be pickled"),
        **dict.fromkeys(("shards", "ray"), (SegmaxError, "a sharded index cannot be pickled")),
        **dict.fromkeys(
            ("client of an index", "client of a collection", "client of shards", "async client"),
            (SegmaxError, "over a transport of your own cannot be pickled"),
        ),
    },
    # A service decides by itself; awaiting callers cannot even say it.
    "threads": {"async client": (TypeError, "unexpected keyword argument 'threads'")},
    # Only shards can be left out.
    "max_shards": {
        **dict.fromkeys(
            (
                *("index in memory", "index on disk", "collection of one part", "collection of three parts"),
                "snapshot",
            ),
            (TypeError, "unexpected keyword argument 'max_shards'"),
        ),
        **dict.fromkeys(
            ("client of an index", "client of a collection", "client over a socket", "async client"),
            (ConfigError, "expected max_shards to be left out, because this index has no shards"),
        ),
    },
    # What a target chooses was measured for one k; shards choose how many of them to ask, for each k.
    "several k with a target": dict.fromkeys(
        [kind for kind in KINDS if kind not in ("shards", "ray", "command")],
        (ConfigError, "expected k to be one number with target_recall"),
    ),
    # Documents of a collection may have metadata, one by one; an index stores them for all documents or for none.
    "metadata of none": {
        **dict.fromkeys(
            (
                *("index in memory", "index on disk", "shards", "ray", "http"),
                *("client of an index", "client of shards", "client over a socket"),
            ),
            (InputError, "metadata"),
        ),
    },
    # What is awaited cannot be fetched later.
    "texts later": {"async client": (ConfigError, "expected fields to be given with 'text'")},
    "metadata later": {"async client": (ConfigError, "expected fields to be given with 'metadata'")},
}


class Opened:
    """One corpus as one kind."""

    def __init__(self, corpus: Corpus, kind: str, source: Any, rows: list[int] | None = None) -> None:
        self.corpus = corpus
        self.kind = kind
        self.source = source
        self.rows = list(range(corpus.num_docs)) if rows is None else rows  #: the public number of every row

    @property
    def can(self) -> frozenset[str]:
        """What it can be asked."""
        return KINDS[self.kind]

    def refuses(self, error: type[SegmaxError], **parts: str) -> contextlib.AbstractContextManager[Any]:
        """Expect an error whose parts match; over plain HTTP, the problem that says the same; of a command, its end."""
        if self.kind == "http":
            return problem(404 if issubclass(error, UnknownIdError) else 422, parts)
        if self.kind == "command":
            return failure(parts)
        return refused(error, **parts)

    def as_designed(self, what: str) -> contextlib.AbstractContextManager[Any]:
        """Expect what the table of refusals says of this kind."""
        error, message = REFUSALS[what][self.kind]
        if self.kind == "http":
            return pytest.raises(Problem, match=message)
        return pytest.raises(CommandError if self.kind == "command" else error, match=message)

    def is_refused(self, what: str) -> bool:
        """Whether the table of refusals has something about this kind."""
        return self.kind in REFUSALS[what]


def ranking(hits: Any) -> list[tuple[Any, float]]:
    """Ids and scores."""
    return list(zip(hits.ids, hits.scores.tolist(), strict=True))


def over(corpus: str, *needs: str) -> pytest.MarkDecorator:
    """Ask every kind that can be asked these, of one corpus."""
    kinds = [kind for kind, can in KINDS.items() if can.issuperset(needs)]
    marked = [pytest.param(f"{corpus}/{kind}", marks=pytest.mark.deep if kind == "ray" else ()) for kind in kinds]
    return pytest.mark.parametrize("opened", marked, indirect=True, ids=kinds)


# --- what stands between callers and a service -----------------------------------------------------------------------


class Loop(threading.Thread):
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        super().__init__(name="contract-loop", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.start()

    def run(self) -> None:
        """Run what is given to it."""
        self.loop.run_forever()
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return what something awaited returns."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def end(self) -> None:
        """Stop it."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()


class Carrier(httpx.BaseTransport):
    """Carries the requests of callers that wait to an application in an event loop."""

    def __init__(self, loop: Loop, app: Any) -> None:
        self._loop = loop
        self._inner = httpx.ASGITransport(app=app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        found: httpx.Response = self._loop.wait(self._answer(request))
        return found

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


class Awaited:
    """Lets tests call coroutines as if they were functions."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self.loop = loop
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **options: self.loop.wait(found(*args, **options))

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.inner.__reduce__()  # type: ignore[no-any-return]


# --- adapters that speak no Python -----------------------------------------------------------------------------------


class Plain(NamedTuple):
    """Results as they were printed or sent."""

    ids: list[Any]
    scores: np.ndarray
    hits: list[dict[str, Any]]
    stats: Any = None

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Plain:
        """Read an answer."""
        hits = answer["hits"]
        scores = np.array([hit["score"] for hit in hits])
        return cls([hit["id"] for hit in hits], scores, hits, SimpleNamespace(**answer.get("stats", {})))

    @property
    def rows(self) -> np.ndarray:
        """The rows, if they were asked for."""
        return np.array([hit["row"] for hit in self.hits])

    @property
    def titles(self) -> list[str]:
        """The titles, if they were asked for."""
        return [hit["title"] for hit in self.hits]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Titles and texts, if they were asked for."""
        return [(hit["title"], hit["text"]) for hit in self.hits]

    @property
    def metadata(self) -> list[Any]:
        """The metadata, if they were asked for."""
        return [hit["metadata"] for hit in self.hits]


class PlainGroup(NamedTuple):
    """A group as it was sent."""

    value: Any
    hits: Plain


class Problem(Exception):
    """What the service answered instead of results."""

    def __init__(self, answer: httpx.Response) -> None:
        said = answer.json()
        super().__init__(said["detail"])
        self.status = answer.status_code
        self.is_about_json = not _is_json(answer.request.content)
        self.parts: dict[str, str] = {"where": said["detail"], "message": said["detail"], **said}
        # A value of another type, or out of range, is refused before segmax's own checks: the option is where it is.
        self.shape = _SHAPE.match(said["detail"])
        if self.shape is not None:
            expected, _, got = self.shape[1].partition(", got ")
            path = self.shape[2].replace("values", "weights")
            self.parts["option"] = re.sub(r"\[.*?\]", "", path).rpartition(".")[2]
            self.parts["expected"] = f"{expected} in {path}".replace("`int", "`integer").replace(">=", "at least")
            self.parts["got"] = got


_SHAPE = re.compile(r"the request is invalid: Expected (.*) - at `\$\.(.*)`; its fields are ")


def _is_json(body: bytes) -> bool:
    """Whether a body is JSON, in which there is neither NaN nor infinity."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    with contextlib.suppress(ValueError):
        json.loads(body, parse_constant=refuse)
        return True
    return False


@contextlib.contextmanager
def problem(status: int, parts: Mapping[str, str]) -> Iterator[None]:
    """Expect a problem whose parts match as those of the library's errors do; what is no JSON is refused as such."""
    with pytest.raises(Problem) as info:
        yield
    found = info.value
    if found.is_about_json:
        assert (found.status, "not valid JSON" in str(found)) == (400, True), found
        return
    assert found.status == status, found
    for part, pattern in parts.items():
        is_said = part != "got" or found.shape is None or found.parts["got"]  # not of numbers that are out of range
        assert not is_said or re.search(pattern, found.parts.get(part, "")), (part, pattern, found.parts)


def message_of(query: Any) -> dict[str, Any]:
    """Return a query as the service takes it."""
    if isinstance(query, str):
        return {"text": query}
    if isinstance(query, Mapping) and query and all(isinstance(term, str) for term in query):
        return {"terms": dict(query)}
    terms, weights = (list(query), list(query.values())) if isinstance(query, Mapping) else query
    return {"vector": {"indices": list(terms), "values": list(weights)}}


@contextlib.contextmanager
def failure(parts: Mapping[str, str]) -> Iterator[None]:
    """Expect a command to end with one line; it names the option and what was found, as the library does."""
    with pytest.raises(CommandError, match=r"\Asegmax: [^\n]+\n\Z") as info:
        yield
    option = parts.get("option", "").strip("^$").replace("_", "-")
    for found in (rf"(?<!\w)--?{option}\b" if option else "", parts.get("got", ""), parts.get("hint", "")):
        assert re.search(found, str(info.value)), (found, info.value)


_JSON = {"content-type": "application/json"}


class Posting:
    """The service, asked by JSON."""

    def __init__(self, client: httpx.Client, name: str) -> None:
        self._client = client
        self._base = f"{BASE}/v1/indexes/{name}"

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._client.post(f"{self._base}/{path}", content=json.dumps(body), headers=_JSON)
        if answer.status_code != 200:
            raise Problem(answer)
        return answer.json()

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        found = {name: value for name, value in options.items() if value is not None}
        if "params" in found:
            found["params"] = given = params_of(found["params"])
            found |= {name: given.pop(name) for name in ("budget_ms",) if name in given}
        return found

    def search(self, query: Any, k: int = 10, params: Any = None, **options: Any) -> Any:
        """Search."""
        body = {**message_of(query), "k": k, "stats": True, **self._options({**options, "params": params})}
        body["fields"] = list(dict.fromkeys(["row", *options.get("fields", ())]))
        found = self._post("search", body)
        if "groups" in found:
            return [PlainGroup(one["value"], Plain.of({"hits": one["hits"]})) for one in found["groups"]]
        return Plain.of(found)

    def search_batch(self, queries: Any, k: Any = 10, params: Any = None, **options: Any) -> list[Plain]:
        """Search for many."""
        messages = [message_of(query) for query in queries]
        given = {"k": k, "params": params, "where": options.pop("where", None)}
        body: dict[str, Any] = {"queries": messages, "fields": ["row"], "stats": True, **options}
        for name, value in given.items():
            if not isinstance(value, (list, tuple)):
                body |= self._options({name: value})
                continue
            for message, one in zip(messages, value, strict=True):
                message |= self._options({name: one})
        return [Plain.of(one) for one in self._post("search/batch", body)["results"]]

    def count(self, where: Any = None) -> Any:
        """Count."""
        return self._post("count", self._options({"where": where}))["count"]

    def facets(self, field: str, where: Any = None, *, limit: int | None = None) -> Any:
        """Count by value."""
        found = self._post("facets", self._options({"field": field, "where": where, "limit": limit}))
        return [(one["value"], one["count"]) for one in found["values"]]

    def explain(self, query: Any, id: Any, k: int = 10, params: Any = None, **options: Any) -> Any:
        """Explain."""
        body = {**message_of(query), "id": id, "k": k, **self._options({**options, "params": params})}
        found = self._post("explain", body)
        return type("Explanation", (), found | {"matched": [type("Matched", (), one) for one in found["matched"]]})

    def score(self, query: Any, ids: Any) -> np.ndarray:
        """Return scores."""
        return np.array(self._post("score", {**message_of(query), "ids": list(ids)})["scores"])

    def _document(self, given: dict[str, Any], *fields: str) -> dict[str, Any]:
        found: dict[str, Any] = self._post("documents/get", {**given, "fields": list(fields)})["documents"][0]
        return found

    def text(self, id: Any) -> tuple[str, str]:
        """Return title and text."""
        found = self._document({"ids": [id]}, "title", "text")
        return found["title"], found["text"]

    def metadata(self, id: Any) -> Any:
        """Return the metadata."""
        return self._document({"ids": [id]}, "metadata")["metadata"]

    def vectors(self, ids: Any) -> sp.csr_matrix:
        """Return vectors, a row each."""
        found = self._post("documents/get", {"ids": list(ids), "fields": ["vector"]})["documents"]
        rows = [dict(zip(one["vector"]["indices"], one["vector"]["values"], strict=True)) for one in found]
        dense = [[row.get(term, 0.0) for term in range(self._about["num_terms"])] for row in rows]
        return sp.csr_matrix(np.array(dense).reshape(len(rows), -1 if rows else self._about["num_terms"]))

    def vector(self, id: Any) -> sp.csr_matrix:
        """Return the vector."""
        return self.vectors([id])

    @property
    def fields(self) -> dict[str, list[str]]:
        """The fields of metadata, with their types."""
        found: dict[str, list[str]] = self._about["fields"]
        return found

    @property
    def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(self._base).json()
        return found

    def row_of(self, id: Any) -> int:
        """Return the row."""
        return int(self._document({"ids": [id]}, "row")["row"])

    def id_of(self, row: int) -> Any:
        """Return the id."""
        return self._document({"rows": [row]}, "row")["id"]


def params_of(params: segmax.SearchParams) -> dict[str, Any]:
    """Return a method as the service takes it."""
    given = {field.name: (getattr(params, field.name), field.default) for field in dataclasses.fields(params)}
    return {"method": params.method, **{name: value for name, (value, default) in given.items() if value != default}}


class CommandError(Exception):
    """What a command printed as it failed."""


class Commanding:
    """`segmax search --json` on a file of queries, in this process."""

    def __init__(self, path: Path, corpus: Corpus) -> None:
        self._path = path
        self._corpus = corpus
        self._file = path.parent / f"{corpus.name}-queries.jsonl"

    def search(self, query: Any, k: int = 10, params: Any = None, **options: Any) -> Plain:
        """Search for one query: a text by an argument, a vector by a file."""
        if isinstance(query, str):
            return self._run(["-q", query], k, params, options)[0]
        return self.search_batch([query], k, params, **options)[0]

    def search_batch(self, queries: Any, k: int = 10, params: Any = None, **options: Any) -> list[Plain]:
        """Search for many."""
        lines = [{"id": f"q{number}", "vector": self._vector(query)} for number, query in enumerate(queries)]
        self._file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return self._run([str(self._file)], k, params, options)

    def _vector(self, query: Any) -> dict[str, float]:
        """Return a query by word: files have no numbers of terms."""
        if not isinstance(query, Mapping):
            query = dict(zip(*query, strict=True))
        words = self._corpus.words
        return {t if isinstance(t, str) or words is None else words[t]: weight for t, weight in query.items()}

    def _run(self, asked: list[str], k: Any, params: Any, options: dict[str, Any]) -> list[Plain]:
        arguments = ["search", str(self._path), *asked, "--json", f"-k={k}"]
        for name, value in options.items():
            given = json.dumps(value) if name == "where" else str(value)
            arguments.append(f"--{name.replace('_', '-')}={given}")
        if params is not None:
            chosen = params_of(params)
            arguments += [
                "--method",
                chosen.pop("method"),
                *(f"--{name.replace('_', '-')}={value}" for name, value in chosen.items()),
            ]
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            code = main(arguments)
        if code:
            raise CommandError(said.getvalue())
        return [Plain.of(json.loads(line)) for line in printed.getvalue().splitlines()]


# --- making them -----------------------------------------------------------------------------------------------------


class House:
    """All corpora as all kinds, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str], Any] = {}
        self._ends = contextlib.ExitStack()

    def close(self) -> None:
        """Close everything."""
        self._ends.close()

    def opened(self, corpus: str, kind: str) -> Opened:
        """Return a corpus as a kind, which tests share: they may not change it."""
        found: Opened = self._once((corpus, kind), lambda: self.fresh(corpus, kind, self._ends))
        return found

    def fresh(self, corpus: str, kind: str, ends: contextlib.ExitStack) -> Opened:
        """Return a corpus as a kind that may be closed."""
        own = CORPORA[corpus]
        rows = None if kind not in CHANGED else self._changed(own)[1]
        source = getattr(self, f"_{kind.replace(' ', '_')}")(own, ends)
        return Opened(own, kind, source, rows)

    def _once(self, key: tuple[str, str], make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    # --- on this machine ---------------------------------------------------------------------------------------------

    def _index_in_memory(self, corpus: Corpus, ends: contextlib.ExitStack) -> segmax.Index:
        return ends.enter_context(indexed(corpus))

    def _index_path(self, corpus: Corpus) -> Path:
        def make() -> Path:
            path = self._folder / f"{corpus.name}.segmax"
            with indexed(corpus) as index:
                index.save(path)
            return path

        found: Path = self._once((corpus.name, "path of the index"), make)
        return found

    def _index_on_disk(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        return ends.enter_context(segmax.open(self._index_path(corpus), encoder=encoder_of(corpus)))

    def _collection_of_one_part(self, corpus: Corpus, ends: contextlib.ExitStack) -> segmax.Collection:
        path = self._folder / f"{corpus.name}-one-{len(list(self._folder.iterdir()))}"
        made = created(path, corpus)
        made.add([corpus.record(row) for row in range(corpus.num_docs)])
        made.compact()
        assert made.stats().num_parts == 1
        return ends.enter_context(made)

    def _changed(self, corpus: Corpus) -> tuple[segmax.Collection, list[int]]:
        """Return a collection of three parts with a past, open for writing, and the number of every row."""

        def make() -> tuple[segmax.Collection, list[int]]:
            made, rows = changed(self._folder / f"{corpus.name}-changed", corpus)
            self._ends.enter_context(made)
            return made, rows

        found: tuple[segmax.Collection, list[int]] = self._once((corpus.name, "changed"), make)
        return found

    def _collection_of_three_parts(self, corpus: Corpus, ends: contextlib.ExitStack) -> segmax.Collection:
        shared, _ = self._changed(corpus)
        if ends is self._ends:
            return shared
        return ends.enter_context(self._copied(corpus))

    def _copied(self, corpus: Corpus) -> segmax.Collection:
        """Return a copy of the same."""
        path = self._folder / f"{corpus.name}-copy-{len(list(self._folder.iterdir()))}"
        self._changed(corpus)[0].backup(path)
        return segmax.Collection.open(path, encoder=encoder_of(corpus))

    def _snapshot(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        """Return a snapshot of a collection that has changed since."""
        made = ends.enter_context(self._copied(corpus))
        found = ends.enter_context(made.snapshot())
        made.delete(corpus.ids[:30])
        made.compact()
        made.upsert([corpus.record(31)])
        return found

    def _shards_path(self, corpus: Corpus) -> Path:
        def make() -> Path:
            path = self._folder / f"{corpus.name}.sharded"
            options: dict[str, Any] = {"shards": 3, "num_clusters": 7}
            if corpus.texts is None:
                build(corpus.matrix, path, ids=corpus.ids, **options)
                return path
            file = self._folder / f"{corpus.name}.jsonl"
            records = [corpus.record(row) for row in range(corpus.num_docs)]
            lines = [record.pop("metadata") | record for record in records]
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            build(file, path, encoder=encoder_of(corpus) or "bm25", metadata="all", **options)
            return path

        found: Path = self._once((corpus.name, "path of the shards"), make)
        return found

    def _shards(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        return ends.enter_context(open_local(self._shards_path(corpus), encoder=encoder_of(corpus)))

    def _ray(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        pytest.importorskip("ray.cluster_utils", exc_type=ImportError)
        if pytest.importorskip("ray_cluster", reason="needs tests/ray: use make test-ray").outer_devices():
            pytest.skip("Ray would bind to an address that others can reach: use make test-ray")
        return ends.enter_context(segmax.ray.open(self._shards_path(corpus), encoder=encoder_of(corpus)))

    # --- over a service ----------------------------------------------------------------------------------------------

    def _service(self, corpus: Corpus) -> tuple[Loop, Any]:
        """A service of one corpus, in a loop of this process."""
        found: tuple[Loop, Any] = self._once((corpus.name, "service"), lambda: self._started(corpus))
        return found

    def _started(self, corpus: Corpus) -> tuple[Loop, Any]:
        paths: dict[str, Path | str] = {
            corpus.name: self._index_path(corpus),
            f"{corpus.name}-collection": self._changed(corpus)[0].path,
            f"{corpus.name}-shards": f"ray://{self._shards_path(corpus)}",
        }
        encoders: dict[str, object] = dict.fromkeys(paths, Counts()) if corpus.encoder == "counts" else {}
        loop = Loop()
        self._ends.callback(loop.end)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(catalog, "open_address", opened_here)  # shards in this process, not on Ray
            app = create_app(Settings(paths=paths, encoders=encoders, threads=1))
            loop.wait(app.start())
        self._ends.callback(lambda: loop.wait(app.stop()))
        return loop, app

    def _connected(self, corpus: Corpus, end: str, ends: contextlib.ExitStack) -> Any:
        carrier = Carrier(*self._service(corpus))
        return ends.enter_context(segmax.connect(BASE, index=f"{corpus.name}{end}", transport=carrier, retries=0))

    def _client_of_an_index(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        return self._connected(corpus, "", ends)

    def _client_of_a_collection(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        return self._connected(corpus, "-collection", ends)

    def _client_of_shards(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        return self._connected(corpus, "-shards", ends)

    def _client_over_a_socket(self, corpus: Corpus, ends: contextlib.ExitStack) -> Any:
        address = self._once((corpus.name, "address"), lambda: self._listening(corpus))
        return ends.enter_context(segmax.connect(address, index=corpus.name))

    def _listening(self, corpus: Corpus) -> str:
        """Serve one corpus at a port of this machine, and return the address."""
        uvicorn = pytest.importorskip("uvicorn")
        loop, app = self._service(corpus)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        opened = self._ends.enter_context(socket.socket(proto=socket.IPPROTO_TCP))  # so that nothing waits for more
        opened.bind(("127.0.0.1", 0))
        serving = asyncio.run_coroutine_threadsafe(server.serve([opened]), loop.loop)

        def stop() -> None:
            server.should_exit = True
            serving.result()

        self._ends.callback(stop)
        return f"http://127.0.0.1:{opened.getsockname()[1]}"

    def _async_client(self, corpus: Corpus, ends: contextlib.ExitStack) -> Awaited:
        loop, app = self._service(corpus)
        transport = httpx.ASGITransport(app=app)
        name = f"{corpus.name}-collection"
        made = loop.wait(connect_async(BASE, index=name, transport=transport, retries=0))
        ends.callback(lambda: loop.wait(made.close()))
        return Awaited(loop, made)

    def _http(self, corpus: Corpus, ends: contextlib.ExitStack) -> Posting:
        return Posting(ends.enter_context(httpx.Client(transport=Carrier(*self._service(corpus)))), corpus.name)

    def _command(self, corpus: Corpus, ends: contextlib.ExitStack) -> Commanding:
        return Commanding(self._index_path(corpus), corpus)


#: Kinds that show a collection with a past, whose numbers have gaps.
CHANGED = ("collection of three parts", "snapshot", "client of a collection", "async client")


def encoder_of(corpus: Corpus) -> Any:
    """What reads texts, where the files do not say it."""
    return Counts() if corpus.encoder == "counts" else None


def indexed(corpus: Corpus) -> segmax.Index:
    """Return an index in memory."""
    if corpus.texts is None or corpus.titles is None:
        return segmax.build(corpus.matrix, ids=corpus.ids, num_clusters=5)
    records = [corpus.record(row) for row in range(corpus.num_docs)]
    metadata = [record.pop("metadata") for record in records]
    return segmax.from_texts(records, encoder=encoder_of(corpus) or "bm25", metadata=metadata, num_clusters=5)


def created(path: Path, corpus: Corpus) -> segmax.Collection:
    """Return an empty collection."""
    encoder = encoder_of(corpus) if corpus.encoder == "counts" else corpus.encoder
    return segmax.Collection.create(path, encoder=encoder, durability="none", num_clusters=3)


def changed(path: Path, corpus: Corpus) -> tuple[segmax.Collection, list[int]]:
    """Return a collection that came to these documents by adding, replacing, changing and deleting others.

    A document that is added or replaced gets the next number, one that is changed keeps its own.
    """
    made = created(path, corpus)
    made.pause_merges()
    records = [corpus.record(row) for row in range(corpus.num_docs)]
    others = [{**records[1], "id": _other_id(corpus, n)} for n in range(3)]  # to be deleted
    early = {**records[2], "id": corpus.ids[35]}  # to be replaced in its turn
    wrong = dict(records[7])  # to be changed
    if corpus.texts is not None:
        wrong |= {"text": f"{corpus.texts[8]} {WORDS[3]}" if corpus.encoder == "counts" else corpus.texts[8]}
        wrong["metadata"] = {"year": "none", "n": 99}
    cuts = [0, 25, 36, corpus.num_docs]
    batches = [[*records[cuts[n] : cuts[n + 1]], others[n]] for n in range(3)]
    batches[0] = [others[0], *records[:7], wrong, early, *records[8:25]]
    numbers: dict[Any, int] = {}
    for number, batch in enumerate(batches):
        made.upsert(batch)
        first = len(numbers) if not numbers else max(numbers.values()) + 1
        numbers |= {record["id"]: first + at for at, record in enumerate(batch)}
        made._open_store.flush({"threads": 1})
        if number == 1:
            made.delete([others[0]["id"]])
    made.delete([one["id"] for one in others])
    if corpus.texts is not None:
        new = {"id": corpus.ids[7], "text": corpus.texts[7], "metadata": records[7]["metadata"]}
        made.update(new, replace_metadata=True)
        made._open_store.flush({"threads": 1})
    made.commit()
    assert len(made) == corpus.num_docs
    assert made.stats().num_parts >= 3
    assert made.stats().num_deleted > 0
    return made, [numbers[id] for id in corpus.ids]


def _other_id(corpus: Corpus, number: int) -> Any:
    return f"other {number}" if isinstance(corpus.ids[0], str) else 10_000 + number


def opened_here(address: str, *, encoder: object = None) -> Any:
    """Open the shards of an address in this process."""
    return open_local(address.removeprefix("ray://"), encoder=encoder)
