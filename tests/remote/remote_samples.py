"""What the tests of the client share: a real service in another process, and services that are only functions."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segmax
from segmax.search.results import STATS_FIELDS, BatchHits, Hits

httpx = pytest.importorskip("httpx")  # skips the tests that import this

WORDS = ["copper", "noise", "tube", "diode", "waveguide", "signal", "filter", "phase", "crystal", "antenna"]
URL = "http://service.test"


def texts(count: int = 120) -> list[dict[str, Any]]:
    """Records with titles, texts and metadata; many scores are equal."""
    draw = np.random.default_rng(7)
    return [
        {
            "id": f"d{row}",
            "title": f"On {WORDS[row % 10]}",
            "text": " ".join(draw.choice(WORDS, size=int(draw.integers(1, 9)))),
            "metadata": {"year": 1950 + row % 20, "lang": ["en", "de", "fr"][row % 3], "tags": WORDS[row % 3 : 4]},
        }
        for row in range(count)
    ]


@contextlib.contextmanager
def serving(*arguments: object) -> Iterator[str]:
    """A real service, as `segmax serve` starts it, on a port of its own; yields its address."""
    for package in ("uvicorn", "uvloop", "httptools", "msgspec", "prometheus_client"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "segmax.cli", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert " at http://127.0.0.1:" in line, line
            yield line.split(" at ")[1].split()[0].rstrip("/.")
        finally:
            process.terminate()
            process.wait(30)


def same_hits(found: Hits, expected: Hits) -> None:
    """Rows, ids and scores are the same, to the last bit, and so is what the search counted."""
    assert found.rows.dtype == expected.rows.dtype
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.scores.tobytes() == np.ascontiguousarray(expected.scores).tobytes()
    assert found.ids == expected.ids
    assert list(found) == list(expected)
    assert found.complete == expected.complete
    assert found.stats.unknown_terms == expected.stats.unknown_terms
    assert found.stats.dropped_terms == expected.stats.dropped_terms


def same_batch(found: BatchHits, expected: BatchHits) -> None:
    """Arrays have the same shape and the same bytes."""
    assert found.rows.shape == expected.rows.shape
    assert found.rows.tobytes() == np.ascontiguousarray(expected.rows).tobytes()
    assert found.scores.tobytes() == np.ascontiguousarray(expected.scores).tobytes()
    assert found.counts.tolist() == expected.counts.tolist()
    assert found.ids == expected.ids
    assert found.complete.tolist() == expected.complete.tolist()
    assert found.stats.unknown_terms.tolist() == expected.stats.unknown_terms.tolist()


# --- services that are only functions --------------------------------------------------------------------------------

INFO = {
    "name": "docs",
    "kind": "index",
    "version": "1",
    "num_docs": 3,
    "num_terms": 5,
    "num_clusters": 1,
    "num_segments": 8,
    "num_postings": 9,
    "num_bytes": 100,
    "bits": 8,
    "id_kind": "str",
    "has_texts": True,
    "has_metadata": True,
    "has_vocabulary": True,
    "fields": {"year": ["int"]},
    "encoder": "bm25",
    "writable": False,
}
LIMITS = {"batch": 4, "batch_results": 100, "k": 50, "body_bytes": 1 << 20}
STATS = {name: False if name in ("budget_hit", "swept") else 0 for name in STATS_FIELDS}
HITS = {
    "hits": [{"id": "a", "score": 2.5, "row": 0}, {"id": "c", "score": 1, "row": 2}],
    "complete": True,
    "stats": STATS,
}

Answering = Callable[[httpx.Request], httpx.Response]


class Service:
    """A service that answers from a list, or by a function, and keeps the requests; a list of failures comes first."""

    def __init__(self, answer: Answering | Any = None, *, kind: str = "index", limits: dict[str, int] | None = None):
        self.requests: list[httpx.Request] = []
        self.failures: list[httpx.Response | Exception] = []
        self._answer = answer
        self._info = {**INFO, "kind": kind, "writable": kind == "collection"}
        self._limits = LIMITS if limits is None else limits

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        if request.url.path == "/v1/indexes":
            listed = {"indexes": [self._info], "version": segmax.__version__, "writable": True, "limits": self._limits}
            return httpx.Response(200, json=listed)
        self.requests.append(request)
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure
        if request.method == "GET" and request.url.path == "/v1/indexes/docs":
            return httpx.Response(200, json=self._info)
        return self._answer(request) if callable(self._answer) else httpx.Response(200, json=self._answer)

    @property
    def sent(self) -> list[Any]:
        """The JSON of all requests that have a body."""
        return [json.loads(request.content) for request in self.requests if request.content]

    def connect(self, **options: Any) -> Any:
        """Connect to it."""
        return segmax.connect(URL, transport=httpx.MockTransport(self), **{"retries": 2, **options})


def problem(status: int, kind: str = "", detail: str = "it is wrong.", **more: Any) -> httpx.Response:
    """An answer that reports a problem."""
    headers = more.pop("headers", {})
    content = {"type": f"urn:segmax:problem:{kind}", "title": "", "status": status, "detail": detail, **more}
    return httpx.Response(status, json=content, headers={**headers, "content-type": "application/problem+json"})


def write_collection(folder: Path) -> None:
    """A collection with parts on disk and in memory, and deleted documents."""
    records = texts()
    with segmax.Collection.create(folder, encoder="bm25") as collection:
        collection.add(records[:50])
        collection.compact()
        collection.add(records[50:])
        collection.delete(["d3", "d77"])
        collection.commit()
