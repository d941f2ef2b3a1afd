"""What the service promises: its OpenAPI document holds, and its results are those of the library, to the last bit."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from conftest import RANDOM, examples, random_docs
from segmax.errors import SegmaxError, UnknownIdError
from segmax.paper.methods import METHODS
from segmax.search.results import Groups, Hits
from segmax.serve.app import App
from segmax.serve.openapi import document
from segmax.serve.routes import ROUTES, Route
from segmax.serve.server import create_app
from segmax.serve.settings import Limits, Settings
from serve.in_process import BASE, ask
from serve.serving import PATIENCE, Service, serving

WORDS = ["copper", "waveguide", "noise", "tube", "diode", "crystal", "microwave", "filter", "sonar", "pulse"]
NUM_VECTORS, NUM_TERMS = 400, 50


# --- the document ----------------------------------------------------------------------------------------------------


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a document, however deep."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from schemas_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_in(value)


def test_every_reference_leads_somewhere() -> None:
    """No part of the document refers to one that is not there."""
    whole = document()
    references = {node["$ref"] for node in schemas_in(whole) if "$ref" in node}
    assert references
    for reference in references:
        start, *keys = reference.split("/")
        assert start == "#"
        node = whole
        for key in keys:
            node = node[key]
    named = {reference.rpartition("/")[2] for reference in references}
    assert set(whole["components"]["schemas"]) - named <= {"Record", "LineResult", "StreamEnd"}


def test_the_document_is_openapi() -> None:
    """It has what OpenAPI 3.1 asks for: names that differ, parameters for every path, and a text for every answer."""
    whole = json.loads(json.dumps(document()))
    assert whole["openapi"].startswith("3.1.")
    assert whole["info"]["title"]
    assert whole["info"]["version"] == segmax.__version__
    operations = [(path, each) for path, methods in whole["paths"].items() for each in methods.values()]
    names = [each["operationId"] for _, each in operations]
    assert len(set(names)) == len(names)
    for path, each in operations:
        parameters = {(one["name"], one["in"]): one for one in each.get("parameters", [])}
        assert {name for name, place in parameters if place == "path"} == set(re.findall(r"{(\w+)}", path))
        assert all(one["required"] for (_, place), one in parameters.items() if place == "path")
        assert all("schema" in one for one in parameters.values())
        answers = [whole["components"]["responses"][s] if "$ref" in a else a for s, a in each["responses"].items()]
        assert all(answer["description"] and answer["content"] for answer in answers)
        expected = {"200", "400", "403", "503"}
        expected |= {"404"} if "{name}" in path else set()
        expected |= {"413", "415", "422"} if "requestBody" in each else set()
        assert expected <= set(each["responses"])
        assert "401" in each["responses"] or "security" not in each


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_every_route_is_in_the_document(route: Route) -> None:
    """Every operation is described, with an example that its message type accepts."""
    described = document()["paths"][route.path][route.method.lower()]
    assert described["operationId"] == route.operation
    assert ("requestBody" in described) == (route.request is not None)
    if route.request is not None and route.example is not None:
        content = described["requestBody"]["content"]["application/json"]
        assert content["example"] == route.example
        msgspec.json.decode(json.dumps(route.example), type=route.request)
    kinds = described["responses"]["200"]["content"]
    assert ("application/x-ndjson" in kinds) == route.streams


def test_the_service_shows_the_document_and_its_examples_work(tmp_path: Path) -> None:
    """Whoever copies an example from the document gets an answer, on a collection that has what it asks for."""
    segmax.Collection.create(tmp_path / "docs", encoder="bm25").close()
    (tmp_path / "copies").mkdir()
    last = {"delete_documents": 1, "delete_document": 2, "put_documents": -1}
    routes = sorted(ROUTES, key=lambda route: last.get(route.operation, 0))

    async def scenario(client: httpx.AsyncClient) -> tuple[Any, dict[str, int]]:
        shown = (await client.get("/v1/openapi.json")).json()
        found = {}
        for route in routes:
            path = route.path.replace("{name}", "docs").replace("{id}", "d1")
            body = {"json": route.example} if route.example is not None else {}
            found[route.operation] = (await client.request(route.method, path, **body)).status_code
        return shown, found

    paths = {"docs": tmp_path / "docs"}
    shown, found = ask(Settings(paths=paths, writable=True, snapshots=tmp_path / "copies"), scenario)
    assert shown == json.loads(json.dumps(document()))
    assert found == {route.operation: 200 for route in routes}


# --- the document against the service --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(papers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One process that serves an index and a collection, both of texts with metadata."""
    folder = tmp_path_factory.mktemp("contract")
    with segmax.Collection.create(folder / "notes", encoder="bm25") as collection:
        documents = [{"id": f"d{n}", "text": WORDS[n % 10], "metadata": {"year": 1950 + n}} for n in range(50)]
        collection.add(documents)
    (folder / "copies").mkdir()
    with serving(papers, folder / "notes", "--writable", "--snapshots", folder / "copies") as running:
        yield running


FIXED = settings(
    max_examples=examples(12),
    derandomize=not RANDOM,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def schema(service: Service) -> Any:
    """The document of the service, as schemathesis reads it."""
    schemathesis = pytest.importorskip("schemathesis")
    answer = service.ask("GET", "/v1/openapi.json")
    assert answer.status == 200
    return schemathesis.openapi.from_dict(answer.json())


@pytest.mark.slow
@pytest.mark.hypothesis  # which `make test-random` selects; it cannot see what is given inside
@pytest.mark.parametrize("name", ["papers", "notes", None])
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_no_request_breaks_the_contract(
    service: Service, schema: Any, route: Route, mode: str, name: str | None
) -> None:
    """Whatever is asked, valid or not: the answer is documented, has the documented shape, and is never 500."""
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi import checks

    if name is not None and "{name}" not in route.path:
        pytest.skip("is about no index")
    if mode == "negative" and route.request is None and not route.parameters:
        pytest.skip("takes nothing that could be wrong")
    wanted = [
        *[checks.status_code_conformance, checks.content_type_conformance],
        *[checks.response_schema_conformance, checks.response_headers_conformance],
        *([checks.negative_data_rejection] if mode == "negative" else []),
    ]
    known = None if name is None else {"name": name}
    cases = schema[route.path][route.method].as_strategy(GenerationMode(mode), path_parameters=known)

    @FIXED
    @given(case=cases, is_nudged=st.booleans())
    def run(case: Any, is_nudged: bool) -> None:
        if is_nudged and mode == "positive" and isinstance(case.body, dict):
            case.body = nudged(case.body)
        response = case.call(base_url=f"http://127.0.0.1:{service.port}", timeout=PATIENCE)
        assert response.status_code < 500 or response.status_code in (503, 507), response.content
        assert response.headers["x-content-type-options"] == ["nosniff"]
        case.validate_response(response, checks=wanted)

    run()
    assert "Traceback" not in service.log


def nudged(given_body: dict[str, Any]) -> dict[str, Any]:
    """Return a body that is more likely to mean something: one query, a vector with as many values as terms, an id."""
    body = dict(given_body)
    given = [name for name in ("vector", "terms", "text") if body.get(name) is not None]
    for name in given[1:]:
        del body[name]
    if given == [] and "queries" not in body and {"k", "id", "ids"} & set(body):
        body["text"] = "copper noise"
    if isinstance(body.get("vector"), dict):
        vector = body["vector"]
        size = min(len(vector["indices"]), len(vector["values"]))
        values = [min(abs(value), 1e30) for value in vector["values"][:size]]
        body["vector"] = {"indices": vector["indices"][:size], "values": values}
    if "id" in body:
        body["id"] = "d1"
    if isinstance(body.get("ids"), list):
        body["ids"] = ["d1", "d2"]
    for name in ("k", "offset"):
        if name in body:
            body[name] = body[name] % 100 + 1
    return body


# --- the service against the library ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of texts with metadata."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("papers") / "papers.segmax"
    texts = {f"d{n}": " ".join(rng.choice(WORDS, 6)) for n in range(200)}
    metadata = [
        {"year": 1950 + n % 40, "tags": ["a", "b"][: n % 3], "lang": "en" if n % 4 else None} for n in range(200)
    ]
    segmax.from_texts(texts, path=path, metadata=metadata)
    return path


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of vectors in many clusters, with integer ids and metadata."""
    path = tmp_path_factory.mktemp("vectors") / "vectors.segmax"
    documents = random_docs(np.random.default_rng(5), NUM_VECTORS, NUM_TERMS)
    metadata = [{"year": 1950 + row % 40, "tags": [row % 7]} for row in range(NUM_VECTORS)]
    segmax.build(documents, path=path, ids=range(1000, 1000 + NUM_VECTORS), metadata=metadata, num_clusters=12)
    return path


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection in several parts, some of it deleted and some of it in its log."""
    rng = np.random.default_rng(9)
    path = tmp_path_factory.mktemp("notes") / "notes"
    with segmax.Collection.create(path, encoder="bm25") as collection:
        for part in range(4):
            collection.add(
                {"id": f"n{part}-{n}", "text": " ".join(rng.choice(WORDS, 5)), "metadata": {"year": 1950 + n % 40}}
                for n in range(60)
            )
            if part == 1:
                collection.compact()
        collection.delete([f"n{part}-{n}" for part in range(4) for n in range(0, 60, 7)])
    return path


class Both:
    """The same indexes twice: in the library, and behind the service."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self.library: dict[str, Any] = {
            name: segmax.Collection.open(path, read_only=True) if name == "notes" else segmax.open(path)
            for name, path in paths.items()
        }
        self._loop = asyncio.new_event_loop()
        self._app: App = create_app(Settings(paths=paths, limits=Limits(wait_ms=60_000.0)))
        self._loop.run_until_complete(self._app.start())
        transport = httpx.ASGITransport(app=self._app)  # type: ignore[arg-type]
        self._client = httpx.AsyncClient(transport=transport, base_url=BASE)

    def posted(self, *requests: tuple[str, Any]) -> list[httpx.Response]:
        """Send requests all at once, so that the service runs them together."""

        async def send() -> list[httpx.Response]:
            tasks: list[Coroutine[Any, Any, httpx.Response]]
            tasks = [self._client.post(path, json=body) for path, body in requests]
            return await asyncio.gather(*tasks)

        return self._loop.run_until_complete(send())

    def got(self, path: str) -> httpx.Response:
        """Ask for an address."""
        return self._loop.run_until_complete(self._client.get(path))

    def close(self) -> None:
        """Release everything."""
        self._loop.run_until_complete(self._client.aclose())
        self._loop.run_until_complete(self._app.stop())
        self._loop.close()
        for one in self.library.values():
            one.close()


@pytest.fixture(scope="module")
def both(papers: Path, vectors: Path, notes: Path) -> Iterator[Both]:
    """An index of texts, an index of vectors and a collection."""
    made = Both({"papers": papers, "vectors": vectors, "notes": notes})
    yield made
    made.close()


WEIGHTS = st.one_of(st.floats(0, 1e6), st.sampled_from([0.0, 1.0, 5e-324, 1e300]), st.integers(0, 100))
SHARES = st.floats(0.01, 1.0)
COUNTS = st.integers(1, 60)
TEXTS = st.lists(st.sampled_from([*WORDS, "zzz", "Waveguides!", "ü"]), max_size=6).map(" ".join)
VECTORS = st.dictionaries(st.integers(0, NUM_TERMS + 5), WEIGHTS, max_size=8).map(
    lambda found: {"indices": list(found), "values": list(found.values())}
)
QUERIES = st.one_of(
    VECTORS.map(lambda vector: {"vector": vector}),
    TEXTS.map(lambda text: {"text": text}),
    st.dictionaries(st.sampled_from([*WORDS, "nois", "zzz"]), WEIGHTS, max_size=5).map(lambda terms: {"terms": terms}),
)
CONDITIONS = st.one_of(
    st.sampled_from([{"tags": "a"}, {"lang": None}, {"none": 1}, {"tags": {"$contains": 3}}, {"year": {"$foo": 1}}]),
    st.builds(lambda low: {"year": {"$gte": low}}, st.integers(1945, 1995)),
    st.builds(lambda some: {"year": {"$in": some}}, st.lists(st.integers(1950, 1990), max_size=5)),
)
FILTERS = st.one_of(
    CONDITIONS,
    st.lists(CONDITIONS, min_size=1, max_size=3).map(lambda some: {"$or": some}),
    CONDITIONS.map(lambda one: {"$not": one}),
)
PARAMS = st.one_of(
    st.just({"method": "exhaustive"}),
    st.just({"method": "maxscore"}),
    st.fixed_dictionaries(
        {"method": st.just("asc")},
        optional={"mu": SHARES, "eta": SHARES, "max_blocks": COUNTS, "max_terms": COUNTS, "query_mass": SHARES},
    ),
    st.fixed_dictionaries({"method": st.just("anytime")}, optional={"mu": SHARES, "max_clusters": COUNTS}),
    st.fixed_dictionaries(
        {"method": st.just("sequential")},
        optional={"mu": SHARES, "eta": SHARES, "max_clusters": COUNTS, "dropped": st.just("bounded")},
    ),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "k": COUNTS,
        "params": PARAMS,
        "where": FILTERS,
        "offset": st.integers(0, 40),
        "min_score": st.floats(-1, 20),
    },
)
GROUPS = st.fixed_dictionaries(
    {"group_by": st.sampled_from(["year", "tags", "lang", "none"])}, optional={"group_size": st.integers(1, 3)}
)
SEARCHES = st.builds(
    lambda query, options, groups: {**query, **options, **groups}, QUERIES, OPTIONS, st.one_of(st.just({}), GROUPS)
)
NAMES = st.sampled_from(["papers", "vectors", "notes"])
PROPERTY = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def arguments_of(message: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the query and the options of a search as the library takes them."""
    options = {name: value for name, value in message.items() if name not in ("text", "terms", "vector")}
    if "params" in options:
        params = dict(options["params"])
        options["params"] = METHODS[params.pop("method")](**params)
    if "vector" in message:
        return (message["vector"]["indices"], message["vector"]["values"]), options
    return message.get("text", message.get("terms")), options


def exact(ids: list[Any], scores: list[float]) -> list[tuple[Any, str]]:
    """Return results in a form in which equal means equal to the last bit."""
    return [(id, float(score).hex()) for id, score in zip(ids, scores, strict=True)]


def exact_hits(hits: Hits) -> list[tuple[Any, str]]:
    """Return results of the library in this form."""
    return exact(hits.ids, hits.scores.tolist())


def exact_answer(hits: list[dict[str, Any]]) -> list[tuple[Any, str]]:
    """Return results of the service in this form."""
    return exact([hit["id"] for hit in hits], [hit["score"] for hit in hits])


def check_search(both: Both, name: str, message: dict[str, Any], answer: httpx.Response) -> None:
    """Compare the answer to a search with what the library returns, or raises."""
    try:
        query, options = arguments_of(message)
        expected = both.library[name].search(query, **options)
    except SegmaxError:
        assert answer.status_code == 422, answer.text
        return
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["complete"] == expected.complete
    if isinstance(expected, Groups):
        assert [(group["value"], exact_answer(group["hits"])) for group in found["groups"]] == [
            (group.value, exact_hits(group.hits)) for group in expected
        ]
    else:
        assert exact_answer(found["hits"]) == exact_hits(expected)


@PROPERTY
@given(searches=st.lists(st.tuples(NAMES, SEARCHES), min_size=1, max_size=6))
def test_searches_return_what_the_library_returns(both: Both, searches: list[tuple[str, dict[str, Any]]]) -> None:
    """Ids, scores and completeness are the library's, for searches that come one by one and for those that meet."""
    answers = both.posted(*((f"/v1/indexes/{name}/search", message) for name, message in searches))
    for (name, message), answer in zip(searches, answers, strict=True):
        check_search(both, name, message, answer)


@PROPERTY
@given(name=NAMES, queries=st.lists(QUERIES, max_size=5), options=OPTIONS, deeper=COUNTS)
def test_batches_return_what_the_library_returns(
    both: Both, name: str, queries: list[dict[str, Any]], options: dict[str, Any], deeper: int
) -> None:
    """Each query of a batch finds what it finds alone, with the depth and the filter that it asks for itself."""
    if queries:
        queries[0] = {**queries[0], "k": deeper, "where": {"year": {"$lt": 1980}}}
    (answer,) = both.posted((f"/v1/indexes/{name}/search/batch", {"queries": queries, **options}))
    try:
        arguments_of({"text": "", **options})  # which are checked without queries, too
        asked = [arguments_of({**options, **query}) for query in queries]
        expected = [both.library[name].search(plain, **own) for plain, own in asked]
    except SegmaxError:
        assert answer.status_code == 422, answer.text
        return
    assert answer.status_code == 200, answer.text
    found = [(exact_answer(one["hits"]), one["complete"]) for one in answer.json()["results"]]
    assert found == [(exact_hits(hits), hits.complete) for hits in expected]


@PROPERTY
@given(name=NAMES, query=QUERIES, where=st.one_of(st.none(), FILTERS), row=st.integers(0, 150))
def test_other_operations_return_what_the_library_returns(
    both: Both, name: str, query: dict[str, Any], where: Any, row: int
) -> None:
    """Scores, explanations, counts, facets and documents are the library's, too."""
    library, base = both.library[name], f"/v1/indexes/{name}"
    plain, _ = arguments_of(query)
    ids = library.search({"copper": 1.0} if name != "vectors" else ([1], [1.0]), k=3).ids
    score, why, count, facets = both.posted(
        (f"{base}/score", {**query, "ids": ids}),
        (f"{base}/explain", {**query, "id": ids[0], "where": where}),
        (f"{base}/count", {"where": where}),
        (f"{base}/facets", {"field": "year", "where": where, "limit": 7}),
    )
    compare(score, lambda: library.score(plain, ids).tolist(), lambda found: found["scores"])
    compare(why, lambda: library.explain(plain, ids[0], where=where).reason, lambda found: found["reason"])
    compare(count, lambda: library.count(where), lambda found: found["count"])
    compare(facets, lambda: library.facets("year", where, limit=7), lambda found: pairs_of(found["values"]))
    one = both.got(f"{base}/documents/{quote(str(ids[0]), safe='')}?fields=row,metadata,vector").json()
    assert one["row"] == library.row_of(ids[0])
    assert one["metadata"] == library.metadata(ids[0])
    stored = library.vectors(ids[:1])[0]
    assert one["vector"] == {"indices": stored.indices.tolist(), "values": stored.data.astype(float).tolist()}
    (many,) = both.posted((f"{base}/documents/get", {"rows": [row], "fields": ["row"]}))
    compare(many, lambda: [{"id": library.id_of(row), "row": row}], lambda found: found["documents"])


@pytest.mark.parametrize("spelling", ["1_000", "+1000", "%201000", "01000", "1000.0", "%EF%BC%91000", "1e3", "9" * 30])
def test_an_integer_id_has_one_spelling(both: Both, spelling: str) -> None:
    """A document with an integer id is addressed by the digits of it, and by nothing else that Python reads so."""
    assert both.got("/v1/indexes/vectors/documents/1000").json()["id"] == 1000
    assert both.got(f"/v1/indexes/vectors/documents/{spelling}").status_code == 404


def pairs_of(values: list[dict[str, Any]]) -> list[tuple[Any, int]]:
    """Return counted values as the library does."""
    return [(one["value"], one["count"]) for one in values]


def compare(answer: httpx.Response, expect: Any, read: Any) -> None:
    """Compare an answer with what the library returns, or raises."""
    try:
        expected, status = expect(), 200
    except SegmaxError as error:
        expected, status = None, 404 if isinstance(error, UnknownIdError) else 422
    assert answer.status_code == status, answer.text
    assert status != 200 or read(answer.json()) == expected
