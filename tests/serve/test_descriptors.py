"""Files and connections share the descriptors of a process: files come first, and nobody is answered 500."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import resource
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from segmax.base.system import most_open_files
from segmax.errors import FormatError
from segmax.serve.problems import problem_of
from serve.serving import PATIENCE, eventually, serving

LIMIT = 128


def limited(soft: int, hard: int) -> list[str]:
    """Return the program that runs another one with so many descriptors."""
    return ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh"]


class Client:
    """A connection that stays open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(self, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and the content of an answer."""
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        """Close it."""
        self._connection.close()


@pytest.mark.deep
def test_reads_after_writes_find_descriptors_while_others_hold_connections(tmp_path: Path) -> None:
    """Connections beyond what files leave are refused; those that are there are answered, and later ones again."""
    with segmax.Collection.create(tmp_path / "notes", encoder="bm25") as collection:
        collection.add([{"id": "a", "text": "noise"}])
    with (
        serving(tmp_path / "notes", "--writable", program=limited(LIMIT, LIMIT)) as service,
        contextlib.ExitStack() as held,
    ):
        first = held.enter_context(contextlib.closing(Client(service.port)))
        assert first.ask("/v1/indexes/notes/search", {"text": "noise"})[0] == 200
        for _ in range(2 * LIMIT):
            held.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE))
        for number in range(20):
            documents = [{"id": f"d{number}x{copy}", "text": f"word{number} noise"} for copy in range(20)]
            assert first.ask("/v1/indexes/notes/documents", {"documents": documents})[0] == 200
            search = {"text": f"word{number}", "k": 30, "fields": ["text"]}
            status, found = first.ask("/v1/indexes/notes/search", search)
            assert (status, len(found["hits"])) == (200, 20)
        assert first.ask("/v1/indexes/notes/compact", {})[0] == 200
        assert first.ask("/v1/indexes/notes/search", {"text": "word3"})[0] == 200
        for _ in range(LIMIT // 2):  # files that were closed meanwhile made room for some
            held.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE))
        with contextlib.suppress(OSError, http.client.HTTPException):  # it may be closed before the request is sent
            assert service.ask("GET", "/health").status == 503
        held.close()
        eventually(lambda: is_welcome(service.ask))
        assert "Traceback" not in service.log


def is_welcome(ask: Any) -> bool:
    """Whether a new connection is answered."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return bool(ask("GET", "/health").status == 200)
    return False


@pytest.mark.deep
def test_a_service_takes_as_many_descriptors_as_it_may(tmp_path: Path) -> None:
    """The soft limit, which a shell sets low, is raised to the hard one."""
    segmax.from_texts({"a": "noise"}, path=tmp_path / "papers.segmax")
    for workers in (1, 2):
        with serving(tmp_path / "papers.segmax", "--workers", workers, program=limited(LIMIT, 2 * LIMIT)) as service:
            for pid in [service.pid] if workers == 1 else service.children():
                assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (2 * LIMIT, 2 * LIMIT)


def test_the_limit_is_what_the_system_says() -> None:
    """What connections may take follows from it."""
    assert most_open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_file_that_finds_no_descriptor_is_no_failure(number: int) -> None:
    """It is answered 503, to be tried again, also where the file would be reported as damaged."""
    reason = OSError(number, "Too many open files")
    wrapped = FormatError("'docs' cannot be read")
    wrapped.__cause__ = reason
    around = FormatError("the index of 'docs' cannot be read")
    around.__cause__ = wrapped
    for error in (reason, wrapped, around):
        problem = problem_of(error)
        assert (problem.status, problem.kind) == (503, "unavailable")
        assert (b"retry-after", b"1") in problem.headers
    with pytest.raises(OSError, match="disk"):
        problem_of(OSError(errno.EIO, "disk"))
