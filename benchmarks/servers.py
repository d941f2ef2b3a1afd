"""Servers as processes on cores of their own, the wiki queries as requests, and a client with one plain socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import segmax
from benchmarks import wiki
from benchmarks.load import answer_end, request

ROOT = Path(__file__).resolve().parents[1]
Address = tuple[str, int]


class Questions:
    """The wiki queries as bodies of requests, and what the library answers."""

    def __init__(self, path: Path, queries: sp.csr_matrix, k: int = 10) -> None:
        self.index = index = segmax.open(path)
        self.queries = queries
        self.k = k
        self.vectors = [
            (queries.indices[first:last].astype(np.int64), queries.data[first:last].astype(np.float64))
            for first, last in pairwise(queries.indptr)
        ]
        self.found = [index.search(vector, k) for vector in self.vectors]
        self.bodies = [json.dumps({"vector": vector, "k": k}).encode() for vector in self.json_vectors()]

    def json_vectors(self) -> list[dict[str, Any]]:
        """Return the queries as the API writes vectors."""
        return [{"indices": terms.tolist(), "values": weights.tolist()} for terms, weights in self.vectors]

    def requests(self, path: str, port: int) -> list[bytes]:
        """Return a request for each query."""
        return [request(path, body, port=port) for body in self.bodies]

    def right(self, number: int, hits: list[dict[str, Any]]) -> bool:
        """Whether hits are those of the library, ids and scores, for the query of a number."""
        found = self.found[number]
        return [(hit["id"], hit["score"]) for hit in hits] == list(zip(found.ids, found.scores.tolist(), strict=True))

    def check(self, answers: dict[int, bytes]) -> int:
        """Compare answers with those of the library; return how many there were.

        Raises
        ------
        AssertionError
            If one differs.
        """
        for number, answer in answers.items():
            query = number % len(self.found)
            assert self.right(query, json.loads(answer)["hits"]), f"query {query}: the answer is not the library's"
        return len(answers)


@contextlib.contextmanager
def wiki_index(path: Path | None, queries: Path | None, folder: Path) -> Iterator[tuple[Path, sp.csr_matrix]]:
    """Return where the wiki index is, and its queries; build and read what is not given."""
    with tempfile.TemporaryDirectory(prefix="serve-") as temporary:
        if path is None:
            path = Path(temporary) / "wiki.segmax"
            segmax.build(wiki.load(folder, 0)[0], path=path, progress=False).close()
        yield path, wiki.load(folder, 0)[1] if queries is None else sp.csr_matrix(sp.load_npz(queries))


def cores(first: int | None) -> tuple[set[int] | None, int | None]:
    """Return the cores of the server, and the core of the client: any, if there are not two to choose from."""
    there = sorted(os.sched_getaffinity(0))
    if len(there) < 2:
        return None, None
    first = there[0] if first is None else first
    return {first}, next(core for core in there if core != first)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def server(
    command: Sequence[str], port: int, cores: set[int] | None = None, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server on some cores until the context ends; it starts with somebody listening on the port."""

    def pin() -> None:
        if cores:
            os.sched_setaffinity(0, cores)

    search_path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **(environment or {}), "PYTHONPATH": search_path},
        preexec_fn=pin,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until_listening(port, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_listening(port: int, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Wait until a connection is accepted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.002)
    msg = f"the server did not start: {process.args!r}"
    raise RuntimeError(msg)


def one_client(address: Address, requests: Sequence[bytes]) -> tuple[NDArray[np.int64], dict[int, bytes]]:
    """Send requests one after the other over one connection; return nanoseconds, and the bodies of the answers."""
    took = np.zeros(len(requests), dtype=np.int64)
    answers = {}
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number, message in enumerate(requests):
            start = time.perf_counter_ns()
            connection.sendall(message)
            data = connection.recv(1 << 18)
            while not (end := answer_end(data)) or len(data) < end:
                more = connection.recv(1 << 18)
                assert more, "the server closed the connection"
                data += more
            took[number] = time.perf_counter_ns() - start
            assert data.startswith(b"HTTP/1.1 200 "), data
            answers[number] = data[data.index(b"\r\n\r\n") + 4 : end]
    return took, answers
