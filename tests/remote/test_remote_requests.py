"""What the client sends, what it makes of any answer, and how it behaves when there is none."""

from __future__ import annotations

import email.utils
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scipy.sparse as sp

httpx = pytest.importorskip("httpx")

from remote_samples import HITS, INFO, LIMITS, STATS, URL, Service, problem  # noqa: E402

import segmax  # noqa: E402
from segmax.errors import (  # noqa: E402
    ConfigError,
    FormatError,
    IndexNotFoundError,
    InputError,
    SegmaxWarning,
    ServiceError,
    UnknownIdError,
    WriteError,
)
from segmax.remote.address import parse_address  # noqa: E402
from segmax.remote.calls import Failure, Repeat, Reply, Request  # noqa: E402
from segmax.remote.retrying import Attempts, retry_after  # noqa: E402

KEY = "a-key-that-nobody-may-see"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts take no time; the environment has no key."""
    monkeypatch.setattr("segmax.remote.transport.time.sleep", lambda seconds: None)
    monkeypatch.delenv("SEGMAX_API_KEY", raising=False)


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "base", "name"),
    [
        ("http://localhost:8080", "http://localhost:8080", None),
        (" https://example.org/ ", "https://example.org", None),
        ("http://localhost/v1/indexes", "http://localhost", None),
        ("http://localhost/v1/indexes/my%20docs/", "http://localhost", "my docs"),
        ("https://proxy.example/search/v1/indexes/docs", "https://proxy.example/search", "docs"),
        ("http://[::1]:80/", "http://[::1]:80", None),
        ("http://localhost/v1/indexes/docs/search", "http://localhost/v1/indexes/docs/search", None),
    ],
)
def test_addresses(url: str, base: str, name: str | None) -> None:
    """The address of a service, below a path as well, and perhaps the name of an index."""
    assert parse_address(url) == (base, name)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "ftp://host",
        "file:///etc/passwd",
        "http://",
        "http://h:99999",
        "http://h/?a=1",
        "http://a b",
        7,
    ],
)
def test_other_addresses_are_refused(url: Any) -> None:
    """Only http and https, with a host, and without a query."""
    with pytest.raises(ConfigError, match="expected url to be the address of a service"):
        segmax.connect(url)


def test_passwords_in_addresses_are_refused_and_not_shown() -> None:
    """A key has an option of its own."""
    with pytest.raises(ConfigError, match="api_key") as caught:
        segmax.connect(f"http://user:{KEY}@localhost")
    assert KEY not in str(caught.value)


def test_options_are_checked() -> None:
    """Before anything is sent."""
    service = Service()
    wrong: list[dict[str, Any]] = [
        {"timeout": 0},
        {"timeout": float("inf")},
        {"retries": -1},
        {"retries": 1.5},
        {"index": 3},
        {"api_key": ""},
        {"api_key": "two words"},
        {"api_key": "line\nbreak"},
        {"api_key": 3},
    ]
    for options in wrong:
        with pytest.raises(ConfigError):
            service.connect(**options)
    with pytest.raises(ConfigError, match="as in the URL"):
        segmax.connect(f"{URL}/v1/indexes/docs", index="others", transport=httpx.MockTransport(service))


def test_the_index_is_chosen_by_name_or_because_it_is_the_only_one() -> None:
    """Others are errors that name what is there."""
    assert Service().connect().name == "docs"
    assert Service().connect(index="docs").name == "docs"
    with pytest.raises(IndexNotFoundError, match="serves 'docs', and not 'others'"):
        Service().connect(index="others")

    def several(request: httpx.Request) -> httpx.Response:
        infos = [{**INFO, "name": name} for name in ("docs", "papers")]
        return httpx.Response(200, json={"indexes": infos, "version": "", "writable": False, "limits": LIMITS})

    with pytest.raises(ConfigError, match="expected index to be one of 'docs', 'papers'"):
        segmax.connect(URL, transport=httpx.MockTransport(several))
    nothing = httpx.MockTransport(
        lambda _: httpx.Response(200, json={"indexes": [], "version": "", "writable": False, "limits": {}})
    )
    with pytest.raises(IndexNotFoundError, match="serves nothing"):
        segmax.connect(URL, transport=nothing)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in a header of every request, and in no repr and no message; the environment may have it."""
    service = Service(HITS)
    with service.connect(api_key=KEY) as index:
        index.search("copper")
        service.failures = [problem(401), httpx.ReadError("lost"), problem(500)]
        shown = [repr(index), repr(vars(index)), repr(vars(index._transport)), str(index.info)]
        for _ in range(2):
            with pytest.raises((ConfigError, ServiceError)) as caught:
                index.search("copper")
            shown += [str(caught.value), repr(caught.value)]
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert not any(KEY in text for text in shown)
    monkeypatch.setenv("SEGMAX_API_KEY", KEY)
    with service.connect() as index:
        service.requests.clear()
        index.search("copper")
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_without_a_key_none_is_sent() -> None:
    """And a service that wants one gets a clear error."""
    service = Service(HITS)
    index = service.connect()
    index.search("copper")
    assert "authorization" not in service.requests[0].headers
    service.failures = [problem(401)]
    with pytest.raises(ConfigError, match="expected api_key to be a valid key, got none") as caught:
        index.search("copper")
    assert "SEGMAX_API_KEY" in str(caught.value)


# --- requests --------------------------------------------------------------------------------------------------------


def test_options_with_their_defaults_are_not_sent() -> None:
    """A search sends its query, k, and what it needs for its results; a method only what is special about it."""
    service = Service(HITS)
    index = service.connect()
    index.search("copper")
    assert service.sent[-1] == {"text": "copper", "k": 10, "fields": ["row"], "stats": True}
    index.search({"copper": 2}, 5, segmax.ASC(mu=0.9, eta=1.0, budget_ms=7), fields=["text"], offset=3)
    assert service.sent[-1] == {
        "terms": {"copper": 2.0},
        "k": 5,
        "params": {"method": "asc", "mu": 0.9},
        "budget_ms": 7.0,
        "offset": 3,
        "fields": ["row", "title", "text"],
        "stats": True,
    }


def test_a_target_of_recall_is_sent() -> None:
    """Of one search and of a batch: the service knows what was measured."""
    service = Service(HITS)
    service.connect().search("copper", target_recall=0.9)
    several = Service({"results": [HITS, HITS], "took_ms": 1})
    several.connect().search_batch(["copper", "noise"], k=3, target_recall=0.8)
    sent = [*service.sent, *several.sent]
    assert [(one["target_recall"], one["k"], "params" in one) for one in sent] == [(0.9, 10, False), (0.8, 3, False)]


def test_options_that_a_service_does_not_have_are_refused() -> None:
    """Traces, and switches for experiments: nothing is sent and nothing is left out in silence."""
    service = Service(HITS)
    index = service.connect()
    with pytest.raises(ConfigError, match="trace"):
        index.search("copper", trace=True)
    with pytest.raises(ConfigError, match=r"expected risk to be 1\.0 over a service"):
        index.search("copper", params=segmax.paper.ASC(risk=2.0))
    with pytest.raises(ConfigError, match="expected budget_ms to be None for explain"):
        index.explain("copper", "a", params=segmax.ASC(budget_ms=5))
    with pytest.raises(ConfigError, match="expected budget_ms to be None for inside"):
        index.inside("copper", params=segmax.ASC(budget_ms=5))
    with pytest.raises(ConfigError, match="fields"):
        index.search("copper", fields=["vector"])
    assert service.requests == []


def test_batches_are_cut_by_every_limit() -> None:
    """Queries, results and bytes: every request keeps to what the service accepts."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"results": [HITS] * len(json.loads(request.content)["queries"]), "took_ms": 1})

    def sizes(limits: dict[str, int], **how: Any) -> list[int]:
        service = Service(answer, limits={**LIMITS, **limits})
        found = service.connect().search_batch(sp.csr_matrix([[1.0, 2.0]] * 10), **how)
        assert len(found) == 10
        assert all(len(request.content) <= limits.get("body_bytes", 10**6) for request in service.requests)
        return [len(sent["queries"]) for sent in service.sent if "queries" in sent]

    assert sizes({"batch": 4}) == [4, 4, 2]
    assert sizes({"batch": 100}, k=40) == [2, 2, 2, 2, 2]
    assert sizes({"batch": 100}, k=[40, 40, 5, 5, 5, 5, 40, 40, 1, 1]) == [6, 4]
    assert len(sizes({"batch": 100, "body_bytes": 300})) > 1


def test_a_k_beyond_the_limit_asks_for_all_documents() -> None:
    """As on this machine, where k may be larger than the index."""
    service = Service(HITS)
    service.connect().search("copper", k=10**9)
    assert service.sent[-1]["k"] == 3


def test_results_fetch_texts_once() -> None:
    """For all results of a search with one request, by id."""

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/documents/get"):
            return httpx.Response(200, json=HITS)
        wanted = json.loads(request.content)
        found = [{"id": id, "title": "", "text": id * 2, "metadata": {"year": 1}} for id in wanted["ids"]]
        return httpx.Response(200, json={"documents": found})

    service = Service(answer)
    hits = service.connect().search("copper")
    assert [stored.text for stored in hits.texts] == ["aa", "cc"]
    assert hits.metadata == [{"year": 1}, {"year": 1}]
    assert [stored.text for stored in hits.texts] == ["aa", "cc"]
    assert [sent for sent in service.sent if "ids" in sent] == [
        {"ids": ["a", "c"], "fields": ["title", "text", "metadata"]}
    ]


def test_an_incomplete_answer_changes_no_statistics() -> None:
    """`complete` is what the service says; that a budget was hit is said by the statistics alone."""
    for complete, budget_hit in itertools.product((True, False), repeat=2):
        one = {**HITS, "complete": complete, "stats": {**STATS, "budget_hit": budget_hit}}
        index = Service(one).connect()
        hits = index.search("copper")
        assert (hits.complete, hits.stats.budget_hit) == (complete, budget_hit)
        assert hits.taken(slice(0, 1)).complete is complete
        batch = Service({"results": [HITS, one], "took_ms": 1}).connect().search_batch(["copper", "noise"])
        assert batch.complete.tolist() == [True, complete]
        assert batch.stats.budget_hit.tolist() == [0, budget_hit]
        assert [found.complete for found in batch] == [True, complete]
        assert batch.narrowed(1, None).complete.tolist() == [True, complete]
    for said, each in ((False, [True, False]), (False, []), (True, [True, True])):
        groups = [
            {"value": number, "hits": HITS["hits"], "stats": {**STATS, "budget_hit": not own}}
            for number, own in enumerate(each)
        ]
        found = Service({"groups": groups, "complete": said, "took_ms": 1}).connect().search("copper", group_by="year")
        assert found.complete is said
        assert [group.hits.complete for group in found] == each


def test_titles_come_alone() -> None:
    """`fields=["title"]` asks for titles, which `hits.titles` has without a request; texts are fetched when used."""
    titled = [{**hit, "title": f"On {hit['id']}"} for hit in HITS["hits"]]

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/documents/get"):
            return httpx.Response(200, json={**HITS, "hits": titled})
        found = [{"id": id, "title": f"On {id}", "text": id * 2} for id in json.loads(request.content)["ids"]]
        return httpx.Response(200, json={"documents": found})

    service = Service(answer)
    hits = service.connect().search("copper", fields=["title", "row"])
    assert service.sent[-1]["fields"] == ["row", "title"]
    num_requests = len(service.requests)
    assert hits.titles == ["On a", "On c"]
    assert len(service.requests) == num_requests
    assert [stored.text for stored in hits.texts] == ["aa", "cc"]
    assert service.connect().search("copper").titles == ["On a", "On c"]


def test_documents_that_were_deleted_after_the_search() -> None:
    """The error says so, and what to do."""
    service = Service(HITS)
    hits = service.connect().search("copper")
    service.failures = [problem(404, "unknown-document", "no document has the id 'c'.")]
    with pytest.raises(UnknownIdError, match="no document has the id 'c'; documents were deleted after the search"):
        _ = hits.texts


def test_words_are_asked_for_once() -> None:
    """The vocabulary keeps what it has found, and forgets it when another index takes the place of this one."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        known = {"copper": 0, "noise": 1}
        found = [{"term": known[word], "word": word} if word in known else None for word in asked["words"]]
        return httpx.Response(200, json={"terms": found, "num_terms": 5})

    service = Service(answer)
    terms = service.connect().terms
    assert terms.find_all(["copper", "tube", "copper"]) == [0, None, 0]
    assert [terms.find("copper"), terms[0]] == [0, "copper"]
    assert [sent["words"] for sent in service.sent] == [["copper", "tube"]]
    service._info = {**service._info, "version": "2"}
    terms._source._calls.forget()
    assert terms.find("copper") == 0
    assert [sent["words"] for sent in service.sent] == [["copper", "tube"], ["copper"]]


def test_words_are_kept_under_the_version_they_came_with() -> None:
    """An index that takes the place of another between two requests cannot leave its words under the old version."""
    current = {"version": "1", "copper": 0}

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        numbers = {"copper": current["copper"], "noise": 1 - current["copper"]}
        words = {number: word for word, number in numbers.items()}
        wanted = asked.get("words") or [words[number] for number in asked["numbers"]]
        found = [{"term": numbers[word], "word": word} for word in wanted]
        return httpx.Response(200, json={"terms": found, "num_terms": 5, "version": current["version"]})

    service = Service(answer)
    terms = service.connect().terms
    assert terms.find("copper") == 0
    current.update(version="2", copper=1)  # which the client does not know yet: what it knows is a moment old
    service._info = {**service._info, "version": "2"}
    assert terms.find_all(["copper", "noise"]) == [1, 0]
    assert [terms[0], terms[1]] == ["noise", "copper"]
    # A worker that is late, or another service behind the same proxy: its words are not kept.
    current.update(version="1", copper=0)
    terms._kept = type(terms._kept)("2")
    assert terms.find_all(["copper", "noise"]) == [0, 1]
    current.update(version="2", copper=1)
    assert terms.find_all(["copper", "noise"]) == [1, 0]


def test_words_of_a_collection_are_kept_until_another_takes_its_place() -> None:
    """Writes change its version and leave the numbers of words; another collection has other numbers."""
    service = Service(lambda request: httpx.Response(200, json={**found, "version": service._info["version"]}))
    found = {"terms": [{"term": 0, "word": "copper"}], "num_terms": 5}
    service._info = {**service._info, "kind": "collection", "version": "a-7"}
    terms = service.connect().terms
    for version in ("a-7", "a-8", "b-1"):
        service._info["version"] = version
        terms._source._calls.forget()
        assert terms.find("copper") == 0
    assert len(service.sent) == 2


def test_what_cannot_be_opened_is_said_by_name() -> None:
    """Who connects to an index that the service cannot open hears why, and not that there is none."""
    why = "the index 'docs' is damaged: 'run_bytes.1.bin' has 0 bytes and should have 9"
    listed = {"indexes": [], "version": "", "writable": False, "limits": LIMITS, "unavailable": {"docs": why}}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=listed))
    for name in ("docs", None):
        with pytest.raises(ServiceError, match=r"cannot serve it now: .*'run_bytes\.1\.bin' has 0 bytes"):
            segmax.connect("http://localhost:8080", index=name, transport=transport)
    with pytest.raises(IndexNotFoundError, match="and not 'others'"):
        segmax.connect("http://localhost:8080", index="others", transport=transport)


def test_sizes_of_many_clusters_are_refused() -> None:
    """A service returns a sample of them, which is not what was asked for."""
    figures = {"info": {**INFO, "num_clusters": 3}, "sizes": {"docs": 7}, "cluster_sizes": [4, 1]}
    index = Service({**figures, "quantization_error": 0.25, "collection": None}).connect()
    with pytest.raises(InputError, match=r"expected at most 2 clusters, .* got 3; open the index where it is"):
        index.cluster_sizes()
    assert index.sizes() == {"docs": 7}
    assert index.quantization_error == 0.25


def test_facets_warn_where_values_may_be_missing() -> None:
    """A service returns a bounded number of them."""
    service = Service({"values": [{"value": number, "count": 1} for number in range(10_000)]})
    index = service.connect()
    with pytest.warns(SegmaxWarning, match="at most 10,000 values"):
        index.facets("year")
    index.facets("year", limit=10_000)


# --- problems --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (problem(404, "unknown-document", "no document has the id 'x'."), UnknownIdError, "no document has the id 'x'"),
        (problem(404, "unknown-index", "no index has this name."), IndexNotFoundError, "no index has this name"),
        (problem(404, "unknown-path", "nothing is here."), ServiceError, "with status 404: nothing is here"),
        (problem(403, "forbidden", "this key may only read."), ConfigError, "refuses this: this key may only read"),
        (problem(409, "exists", "the id is there."), InputError, "the id is there"),
        (problem(413, "too-large", "the body is too large."), InputError, "the body is too large"),
        (problem(422, "invalid-value", "it is wrong."), InputError, "it is wrong"),
        (problem(400, "malformed", "no JSON."), ServiceError, "with status 400: no JSON"),
        (problem(503, "damaged", "a file is damaged."), FormatError, "a file is damaged"),
        (problem(503, "not-written", "the disk failed."), WriteError, "the disk failed"),
        (problem(507, "disk-full", "the disk is full."), WriteError, "the disk is full"),
        (problem(500, "internal", "it failed.", instance="r-1"), ServiceError, r"it failed \(request r-1\)"),
        (httpx.Response(404, text="<html>no</html>"), ServiceError, "with status 404"),
        (httpx.Response(418, json=["a"]), ServiceError, "with status 418"),
        (problem(422, "", "\x1b[2Jevil\u202e"), InputError, r"\\x1b\[2Jevil\\u202e"),
        (problem(422, "", 7), InputError, "the service answered 422"),
    ],
)
def test_problems_are_errors_of_segmax(answer: httpx.Response, error: type[Exception], message: str) -> None:
    """By the kind of the problem or its status; what a stranger sends is safe to print."""
    service = Service(answer)
    service.failures = [answer] * 3
    with pytest.raises(error, match=message) as caught:
        service.connect().search("copper")
    assert type(caught.value) is error


def test_the_parts_of_a_problem_are_those_of_the_error() -> None:
    """Option, expected, got and hint can be read one by one, and the message has each of them once."""
    detail = "expected k to be at most 10, got 20; ask for less."
    parts = {"option": "k", "expected": "at most 10", "got": "20", "hint": "ask for less"}
    service = Service()
    service.failures = [problem(422, "invalid-value", detail, **parts)]
    with pytest.raises(ConfigError) as caught:
        service.connect().search("copper")
    assert {name: getattr(caught.value, name) for name in parts} == parts
    assert str(caught.value) == "expected k to be at most 10, got 20; ask for less"


# --- answers of strangers --------------------------------------------------------------------------------------------


def hit(**changes: Any) -> dict[str, Any]:
    """Results with one changed."""
    return {**HITS, "hits": [{**HITS["hits"][0], **changes}]}


@pytest.mark.parametrize(
    "answer",
    [
        [],
        None,
        7,
        {},
        {"hits": 3},
        {"hits": [3]},
        hit(id=1.5),
        hit(id=None),
        hit(id=True),
        hit(row="0"),
        hit(row=-1),
        hit(row=2**70),
        hit(row=None),
        hit(score="2"),
        hit(score=True),
        hit(score=10**400),
        {**HITS, "stats": None},
        {**HITS, "stats": {**STATS, "docs_scored": -1}},
        {**HITS, "stats": {**STATS, "swept": 1}},
        {**HITS, "complete": "no"},
    ],
    ids=lambda answer: repr(answer)[:60],
)
def test_answers_that_are_not_ours(answer: Any) -> None:
    """Anything else than what the API promises is a ServiceError that says so."""
    index = Service(answer).connect()
    with pytest.raises(ServiceError, match="does not answer as a segmax service does"):
        index.search("copper")
    with pytest.raises(ServiceError, match="does not answer as a segmax service does"):
        index.search_batch(["copper"])


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda index: index.count(), {"count": "3"}),
        (lambda index: index.facets("year"), {"values": [{"value": [1], "count": 1}]}),
        (lambda index: index.facets("year"), {"values": [["a", 1]]}),
        (lambda index: index.score("copper", ["a", "b"]), {"scores": [1.0]}),
        (lambda index: index.row_of("a"), {"documents": [{"id": "a"}]}),
        (lambda index: index.text("a"), {"documents": []}),
        (lambda index: index.text("a"), {"documents": [{"id": "a", "title": "", "text": 3}]}),
        (lambda index: index.metadata("a"), {"documents": [{"id": "a", "metadata": [1]}]}),
        (lambda index: index.vector("a"), {"documents": [{"id": "a", "vector": {"indices": [1], "values": []}}]}),
        (lambda index: index.vector("a"), {"documents": [{"id": "a", "vector": {"indices": [-1], "values": [1]}}]}),
        (lambda index: index.terms.find("a"), {"terms": [{"term": -1, "word": "a"}], "num_terms": 5}),
        (lambda index: index.encoder.encode_queries(["a"]), {"vectors": []}),
        (lambda index: index.explain("copper", "a"), {"id": "a"}),
        (lambda index: index.inside("copper"), {"clusters": [{}], "final_threshold": 1, "num_blocks": 1}),
        (lambda index: index.sizes(), {"info": INFO, "sizes": {"docs": "7"}}),
        (lambda index: index.id_of(0), {"documents": [{"id": None}]}),
        (lambda index: index.search("copper", group_by="year"), {"groups": [{}], "complete": True}),
        (lambda index: index.search_batch(["a", "b"]), {"results": [HITS]}),
    ],
)
def test_other_answers_that_are_not_ours(call: Callable[[Any], Any], answer: Any) -> None:
    """So it is for everything that can be asked."""
    with pytest.raises(ServiceError, match="does not answer as a segmax service does"):
        call(Service(answer).connect())


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>log in</html>", headers={"content-type": "text/html"}),
        httpx.Response(200, content=b'{"hits": [', headers={"content-type": "application/json"}),
        httpx.Response(200, content=b"[" * 100_000, headers={"content-type": "application/json"}),
        httpx.Response(200, content=b"1" * 10_000, headers={"content-type": "application/json"}),
        httpx.Response(200, content=b"\xff", headers={"content-type": "application/json"}),
        httpx.Response(204),
    ],
)
def test_what_is_not_json(response: httpx.Response) -> None:
    """Pages, broken JSON, and JSON that only wants to break a parser."""
    with pytest.raises(ServiceError, match="does not answer as a segmax service does"):
        Service(lambda _: response).connect().search("copper")


def test_lists_of_what_is_served_are_checked_too() -> None:
    """Connecting to anything else fails at once."""
    answers: list[Any] = [
        {},
        [],
        {"indexes": [{**INFO, "kind": "other"}], "limits": {}},
        {"indexes": [INFO], "limits": 3},
    ]
    for answer in answers:
        with pytest.raises(ServiceError, match="does not answer as a segmax service does"):
            segmax.connect(URL, transport=httpx.MockTransport(lambda _, a=answer: httpx.Response(200, json=a)))


def test_redirects_are_not_followed() -> None:
    """The key must not go to another address; the error names it."""
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"location": "http://elsewhere.test/v1/indexes"})

    with pytest.raises(ServiceError, match=r"redirects to 'http://elsewhere\.test/v1/indexes', which is not"):
        segmax.connect(URL, KEY, transport=httpx.MockTransport(answer))
    assert set(seen) == {"service.test"}


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the announced length, and by what arrives; compressed answers, which nobody asked for, are refused."""
    monkeypatch.setattr("segmax.remote.transport._MOST_BYTES", 2000)
    read = []

    def endless() -> Iterator[bytes]:
        while True:
            read.append(1)
            yield b" " * 500

    for response in (
        lambda: httpx.Response(200, content=endless(), headers={"content-type": "application/json"}),
        lambda: httpx.Response(200, content=b" ", headers={"content-length": "9999999"}),
    ):
        with pytest.raises(ServiceError, match="more than"):
            Service(lambda _, response=response: response()).connect().search("copper")
    assert len(read) < 10
    import gzip

    packed = httpx.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"{}"))
    with pytest.raises(ServiceError, match="content encoding 'gzip'"):
        Service(lambda _: packed).connect().search("copper")


# --- trying again ----------------------------------------------------------------------------------------------------


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def attempts(
    clock: Clock, repeat: Repeat = Repeat.ALWAYS, retries: int = 3, timeout: float = 30.0, **more: Any
) -> Attempts:
    """Attempts by this clock, without chance."""
    request = Request(path="/x", repeat=repeat, what="the write", **more)
    return Attempts(request, URL, timeout=timeout, retries=retries, has_key=False, clock=clock, draw=lambda: 1.0)


def reply(status: int, kind: str = "overloaded", **headers: str) -> Reply:
    """An answer with a problem."""
    body = json.dumps({"type": f"urn:segmax:problem:{kind}", "detail": "no."}).encode()
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def waits(trying: Attempts, clock: Clock, outcome: Reply | Failure) -> list[float]:
    """The waits between attempts that all end the same way."""
    found: list[float] = []
    while True:
        try:
            wait = trying.wait_after(outcome)
        except segmax.SegmaxError:
            return found
        assert wait is not None
        found.append(round(wait, 6))
        clock.now += wait


def test_waits_double_and_end() -> None:
    """With every attempt, up to a limit, as often as asked for."""
    assert waits(attempts(Clock()), clock := Clock(), reply(503)) == [0.1, 0.2, 0.4]
    assert clock.now > 100
    assert waits(attempts(Clock(), retries=0), Clock(), reply(503)) == []
    assert waits(attempts(Clock(), retries=9, timeout=1000), Clock(), reply(429))[-3:] == [6.4, 8.0, 8.0]


def test_waits_differ_by_chance() -> None:
    """Clients that were refused together do not come back together."""
    request = Request(path="/x")
    found = {Attempts(request, URL, timeout=30, retries=1, has_key=False).wait_after(reply(503)) for _ in range(20)}
    assert len(found) > 10
    assert all(wait is not None and 0.05 <= wait <= 0.1 for wait in found)


def test_retry_after_is_honored() -> None:
    """As seconds or as a date; one that is beyond the timeout ends the attempts at once."""
    assert waits(attempts(Clock()), Clock(), reply(503, retry_after="2")) == [2.0, 2.0, 2.0]
    assert waits(attempts(Clock()), Clock(), reply(503, retry_after="3600")) == []
    assert retry_after("1.5") == 0.0
    assert retry_after("-1") == 0.0
    assert retry_after("9" * 400) > 10**9
    later = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 50 < retry_after(later) <= 60
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("Wed, 99 Oct 2015 07:28:00 GMT") == 0.0


def test_attempts_keep_to_the_timeout() -> None:
    """All of them together; work that takes long has its own."""
    clock = Clock()
    trying = attempts(clock, retries=100, timeout=2.0)
    assert sum(waits(trying, clock, reply(503))) < 2.0
    assert trying.seconds_left <= 2.0
    assert attempts(Clock(), is_long=True).seconds_left == 3600.0


LOST = Failure("the connection broke", was_sent=True)
REFUSED = Failure("connection refused", was_sent=False)


@pytest.mark.parametrize(
    ("repeat", "outcome", "count"),
    [
        (Repeat.ALWAYS, LOST, 3),
        (Repeat.ALWAYS, REFUSED, 3),
        (Repeat.ALWAYS, reply(502, ""), 3),
        (Repeat.ALWAYS, reply(429, ""), 3),
        (Repeat.ALWAYS, reply(503, "damaged"), 0),
        (Repeat.ALWAYS, reply(422, "invalid-value"), 0),
        (Repeat.ALWAYS, reply(500, "internal"), 0),
        (Repeat.IDEMPOTENT, LOST, 3),
        (Repeat.ALWAYS, reply(503, "interrupted"), 3),
        (Repeat.IDEMPOTENT, reply(503, "interrupted"), 3),
        (Repeat.IDEMPOTENT, reply(503, "not-written"), 0),
        (Repeat.UNSENT, LOST, 0),
        (Repeat.UNSENT, REFUSED, 3),
        *((Repeat.UNSENT, reply(503, kind), 3) for kind in ("overloaded", "unavailable", "not-ready", "locked")),
        (Repeat.UNSENT, reply(503, "interrupted"), 0),
        (Repeat.UNSENT, reply(503, "not-written"), 0),
        (Repeat.UNSENT, reply(502, ""), 0),
        (Repeat.UNSENT, reply(429, ""), 3),
    ],
)
def test_what_is_tried_again(repeat: Repeat, outcome: Reply | Failure, count: int) -> None:
    """Reads whenever that may help; writes only if they cannot happen twice, or do the same when they do."""
    assert len(waits(attempts(Clock(), repeat), Clock(), outcome)) == count


def test_reads_survive_an_outage() -> None:
    """Refused connections, lost answers and a busy service are forgotten as soon as one attempt works."""
    service = Service(HITS)
    index = service.connect(retries=4)
    service.failures = [
        httpx.ConnectError("refused"),
        httpx.ReadError("lost"),
        problem(503, "overloaded"),
        problem(429),
    ]
    assert index.search("copper").ids == ["a", "c"]
    assert len(service.requests) == 5


def test_adds_are_not_repeated_when_their_answer_is_lost() -> None:
    """The error says that they may have happened; what was certainly not taken is sent again."""
    service = Service({"count": 1, "sequence": 1}, kind="collection")
    collection = service.connect()
    service.failures = [httpx.ReadError("lost")]
    with pytest.raises(ServiceError, match="adding 1 document may or may not have happened, so"):
        collection.add([{"id": "a", "text": "copper"}])
    assert len(service.requests) == 1
    service.failures = [httpx.ConnectError("refused"), problem(503, "overloaded")]
    assert collection.add([{"id": "a", "text": "copper"}]) == 1
    assert len(service.requests) == 4


@pytest.mark.parametrize("answer", [(503, "interrupted"), (502, ""), (504, "")], ids=repr)
def test_writes_that_were_cut_off_inside_the_service_are_not_repeated(answer: tuple[int, str]) -> None:
    """Nobody knows whether they were carried out, and the error says so; those that may come twice are repeated."""
    service = Service({"count": 1, "sequence": 1, "name": "copy"}, kind="collection")
    collection = service.connect()
    for write in (
        lambda: collection.add([{"id": "a", "text": "copper"}]),
        lambda: collection.upsert(["a text that gets a number for its id"]),
        collection.snapshot,
    ):
        service.requests.clear()
        service.failures = [problem(*answer, headers={"retry-after": "1"})]
        with pytest.raises(ServiceError, match=r"may or may not have happened, so .* look up whether it did"):
            write()
        assert len(service.requests) == 1
    service.failures = [problem(*answer)]
    assert collection.upsert([{"id": "a", "text": "copper"}]) == 1


def test_writes_that_do_the_same_twice_are_repeated() -> None:
    """Upserts, updates and deletions; a snapshot and documents without ids are not, because there would be two."""
    service = Service({"count": 1, "sequence": 1, "name": "copy"}, kind="collection")
    collection = service.connect()
    for write in (
        lambda: collection.upsert([{"id": "a", "text": "copper"}]),
        lambda: collection.update({"id": "a", "text": "copper"}),
        lambda: collection.delete("a"),
    ):
        service.failures = [httpx.ReadError("lost")]
        assert write() == 1
    service.failures = [httpx.ReadError("lost")]
    with pytest.raises(ServiceError, match="adding 1 document may or may not have happened"):
        collection.upsert(["a text that gets a number for its id"])
    service.failures = [httpx.ReadError("lost")]
    with pytest.raises(ServiceError, match="the snapshot may or may not have happened"):
        collection.snapshot()


def test_errors_of_a_long_add_say_what_was_written_before() -> None:
    """So that one can go on from there."""
    service = Service({"count": 1, "sequence": 1}, kind="collection", limits={**LIMITS, "body_bytes": 1100})
    collection = service.connect()

    def answer(request: httpx.Request) -> httpx.Response:
        if len(service.requests) == 3:
            raise httpx.ReadError("lost")
        return httpx.Response(200, json={"count": len(json.loads(request.content)["documents"]), "sequence": 1})

    service._answer = answer
    with pytest.raises(ServiceError, match="before that, 2 documents had been written"):
        collection.add([{"id": str(number), "text": "x" * 60} for number in range(5)])


def stream_end(*lines: Any) -> Service:
    """A service that answers a stream of documents with these lines."""
    body = "\n".join(json.dumps(line) for line in lines) + "\n"
    response = httpx.Response(200, content=body, headers={"content-type": "application/x-ndjson"})
    return Service(lambda _: response, kind="collection")


def test_streams_that_end_badly() -> None:
    """A refused line, a service that stops reading, and answers that break off are different errors."""
    end = {"done": True, "count": 1, "errors": 0, "sequence": 1}
    documents = [{"id": "a", "text": "copper"}, {"id": "b", "text": "noise"}]
    fine = {"line": 1, "ok": True, "id": "a"}
    assert stream_end(fine, end).connect().add(iter(documents)) == 1
    with pytest.raises(InputError, match=r"^document 1: no such\\x07 thing$"):
        stream_end(fine, {"line": 2, "ok": False, "error": "no such\x07 thing"}, end).connect().add(iter(documents))
    with pytest.raises(ServiceError, match="did not take all documents: the disk is full"):
        stream_end(fine, {**end, "error": "the disk is full"}).connect().add(iter(documents))
    for lines in ([fine], [], [end, {}], [{"line": 1, "ok": "yes"}, end]):
        with pytest.raises(ServiceError, match="does not answer as a segmax service does"):
            stream_end(*lines).connect().add(iter(documents))


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that nothing listens on: the error names the address and says what to check."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ServiceError, match=f"'{address}' cannot be reached.*is running"):
            segmax.connect(address, retries=1)


@pytest.fixture
def hanging_up() -> Iterator[tuple[str, list[bytes]]]:
    """A real port that lists an index, and hangs up on everything else."""
    seen: list[bytes] = []
    listed = {"indexes": [{**INFO, "kind": "collection"}], "version": "", "writable": True, "limits": LIMITS}
    body = json.dumps(listed).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    asked = connection.recv(65536)
                    if asked.startswith(b"GET /v1/indexes HTTP"):
                        connection.sendall(head % len(body) + body)
                    else:
                        seen.append(asked)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", seen
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_connections_that_break(hanging_up: tuple[str, list[bytes]]) -> None:
    """On a real socket: reads and upserts are sent again, an add is sent once."""
    url, seen = hanging_up
    with segmax.connect(url, retries=2) as collection:
        for call, count in (
            (lambda: collection.search("copper"), 3),
            (lambda: collection.upsert([{"id": "a", "text": "x"}]), 3),
            (lambda: collection.add([{"id": "a", "text": "x"}]), 1),
        ):
            seen.clear()
            with pytest.raises(ServiceError, match="did not answer"):
                call()
            assert len(seen) == count


def test_a_service_that_does_not_answer_in_time() -> None:
    """One that is silent, and one that sends a byte now and then, end with the timeout."""

    def drip(connection: socket.socket, done: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
        while not done.wait(0.05):
            connection.sendall(b" ")

    def silent(connection: socket.socket, done: threading.Event) -> None:
        connection.recv(65536)
        done.wait()

    for behave in (drip, silent):
        done = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve(server: socket.socket = server, behave: Any = behave, done: Any = done) -> None:
                connection, _ = server.accept()
                with connection:
                    behave(connection, done)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            with pytest.raises(ServiceError, match=r"it took longer than 0\.\d+"):
                segmax.connect(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.4)
            done.set()
            thread.join(5)


# --- the connection --------------------------------------------------------------------------------------------------


def test_threads_share_a_connection() -> None:
    """Many searches at the same time get their own answers."""

    def answer(request: httpx.Request) -> httpx.Response:
        id = json.loads(request.content)["text"]
        return httpx.Response(200, json={**HITS, "hits": [{"id": id, "score": 1.0, "row": 0}]})

    index = Service(answer).connect()
    found: dict[int, Any] = {}

    def search(number: int) -> None:
        found[number] = [index.search(f"{number}-{again}").ids for again in range(20)]

    threads = [threading.Thread(target=search, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [[f"{number}-{again}"] for again in range(20)] for number in range(8)}


def test_httpx_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, connecting says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(segmax.errors.MissingPackageError, match=r"segmax\[client\]"):
        segmax.connect("http://localhost:8080")
