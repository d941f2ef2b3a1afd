"""Several processes behind one port: what dies is replaced, what stops finishes first, and writes are seen by all."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import segmax
from serve.serving import PATIENCE, Service, children_of, chunk, eventually, is_alive, read_until, serving

NDJSON = "application/x-ndjson"

pytestmark = pytest.mark.slow  # every test starts processes, and waits for some to end


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """An index of texts."""
    path = tmp_path / "papers.segmax"
    segmax.from_texts({f"d{number}": f"noise word{number}" for number in range(200)}, path=path)
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A collection of texts."""
    path = tmp_path / "notes"
    with segmax.Collection.create(path, encoder="bm25") as collection:
        collection.add([{"id": f"n{number}", "text": f"noise word{number}"} for number in range(100)])
    return path


@pytest.fixture
def service(papers: Path, notes: Path, tmp_path: Path) -> Iterator[Service]:
    """Both of them, with two workers and a writer."""
    (tmp_path / "copies").mkdir()
    with serving(papers, notes, "--workers", 2, "--writable", "--snapshots", tmp_path / "copies") as running:
        yield running


def add(service: Service, *ids: str, text: str = "noise", mode: str = "add") -> int:
    """Write documents, and return the status."""
    body = {"documents": [{"id": id, "text": text} for id in ids]}
    return service.ask("POST", f"/v1/indexes/notes/documents?mode={mode}", body).status


def is_there(service: Service, id: str) -> bool:
    """Whether a worker finds a document of the collection."""
    return service.ask("GET", f"/v1/indexes/notes/documents/{id}").status == 200


def workers_of(service: Service) -> list[int]:
    """Return the processes that listen on the port, but not the one that started them."""
    return [pid for pid in service.children() if listens(pid, service.port)]


def helper_of(service: Service) -> int:
    """Return the process that writes, or encodes, for the workers."""
    (found,) = eventually(lambda: [pid for pid in service.children() if not listens(pid, service.port)])
    return found


def listens(pid: int, port: int) -> bool:
    """Whether a process holds the socket of a port."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    with contextlib.suppress(OSError):  # it may end meanwhile
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # and so may its other connections
                if str(link.readlink()) in sockets:
                    return True
    return False


def kill(pid: int) -> None:
    """End a process at once, as the system does when memory runs out."""
    os.kill(pid, signal.SIGKILL)


# --- what dies -------------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_replaced(service: Service) -> None:
    """Requests go on while a worker dies; only those that it was answering are lost."""
    before = workers_of(service)
    assert len(before) == 2
    lost, answered, stop = [], itertools.count(), threading.Event()

    def search() -> None:
        while not stop.is_set():
            try:
                assert service.search("papers", "noise", k=3)
                next(answered)
            except (OSError, http_error()) as error:
                lost.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    kill(before[0])
    eventually(lambda: len(workers_of(service)) == 2 and before[0] not in workers_of(service))
    enough = next(answered) + 50
    eventually(lambda: next(answered) > enough)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(lost) <= 2 * len(threads), lost  # one each, and one that the killed worker had accepted
    assert before[1] in workers_of(service)
    assert "ended unexpectedly" in service.log


def test_the_writer_outlives_a_worker_that_waits_for_it(service: Service) -> None:
    """A worker that is killed while it waits for writes takes nothing with it, and is no error of the writer."""
    writer = helper_of(service)
    stop = threading.Event()

    def write(name: str) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            with contextlib.suppress(OSError, http_error()):
                add(service, *(f"{name}-{number}-{part}" for part in range(50)), mode="upsert")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for _ in range(4):
        time.sleep(0.3)  # of writing
        killed = eventually(lambda: workers_of(service))[0]
        kill(killed)
        eventually(lambda killed=killed: len(workers_of(service)) == 2 and killed not in workers_of(service))
    stop.set()
    for thread in threads:
        thread.join()
    assert helper_of(service) == writer
    assert add(service, "last") == 200
    assert "Traceback" not in service.log


def test_a_worker_that_cannot_start_is_started_later(papers: Path, tmp_path: Path) -> None:
    """While an index is away, a killed worker is not replaced: the log says why, and the other worker answers."""
    with serving(papers, "--workers", 2) as service:
        papers.rename(tmp_path / "away")
        kill(workers_of(service)[0])
        eventually(lambda: "there is no index" in service.log)
        for _ in range(20):
            time.sleep(0.1)  # long enough for many attempts
            assert service.search("papers", "noise", k=1)
        (tmp_path / "away").rename(papers)
        eventually(lambda: len(workers_of(service)) == 2)
        assert service.log.count("\n") < 40


def http_error() -> type[Exception]:
    """What Python's client raises when a connection ends early."""
    import http.client

    return http.client.HTTPException


def test_the_end_of_the_first_process_ends_all(service: Service) -> None:
    """Nobody is left behind when the first process is killed, and the port is free again."""
    children = service.children()
    assert len(children) == 3
    kill(service.pid)
    eventually(lambda: not [pid for pid in children if is_alive(pid)])
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", service.port))


def test_acknowledged_writes_survive_the_writer(service: Service) -> None:
    """What was acknowledged before the writer was killed is there afterwards, and writing goes on."""
    acknowledged: list[str] = []
    stop = threading.Event()

    def write(name: str) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            ids = [f"{name}-{number}-{part}" for part in range(3)]
            status = add(service, *ids, mode="upsert")
            if status == 200:
                acknowledged.extend(ids)
            else:
                assert status == 503

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for _ in range(3):
        enough = len(acknowledged) + 30
        eventually(lambda enough=enough: len(acknowledged) > enough)
        kill(helper_of(service))
    enough = len(acknowledged) + 30
    eventually(lambda: len(acknowledged) > enough)  # by another writer
    stop.set()
    for thread in threads:
        thread.join()
    body = {"ids": acknowledged[-1000:], "fields": []}
    for _ in range(10):  # of both workers
        assert service.ask("POST", "/v1/indexes/notes/documents/get", body).status == 200
    assert service.ask("POST", "/v1/indexes/notes/compact").status == 200
    assert service.ask("POST", "/v1/indexes/notes/documents/get", body).status == 200


# --- what is damaged -------------------------------------------------------------------------------------------------


def shorten(index: Path, name: str) -> tuple[Path, bytes]:
    """Take all content of a file of an index away; return what restores it."""
    (file,) = index.glob(f"{name}.*.bin")
    content = file.read_bytes()
    os.truncate(file, 0)
    return file, content


def statuses(service: Service, name: str) -> set[int]:
    """Return what searches are answered with, on all workers; 0 where a worker died of one."""
    found = set()
    for number in range(20):
        body = {"text": f"noise word{number}", "k": 1, "fields": ["text"]}
        try:
            found.add(service.ask("POST", f"/v1/indexes/{name}/search", body).status)
        except (OSError, http_error()):
            found.add(0)
    return found


def test_a_shortened_file_takes_nothing_else_down(papers: Path, tmp_path: Path) -> None:
    """Reading beyond its end kills workers, which are replaced: others are served, and the index when it is whole."""
    other = tmp_path / "other.segmax"
    segmax.from_texts({f"d{number}": f"noise word{number}" for number in range(200)}, path=other).close()
    with serving(papers, other, "--workers", 2) as service:
        assert statuses(service, "papers") == statuses(service, "other") == {200}
        file, content = shorten(papers, "run_bytes")
        eventually(lambda: statuses(service, "papers") == {503} and len(workers_of(service)) == 2)
        detail = service.ask("GET", "/v1/indexes/papers").json()["detail"]
        assert f"'{file.name}' has 0 bytes and should have {len(content)}" in detail
        assert statuses(service, "other") == {200}
        assert {service.ask("GET", "/health").status for _ in range(10)} == {200}
        with file.open("r+b") as restored:
            restored.write(content)
        eventually(lambda: statuses(service, "papers") == {200})


def test_a_service_of_which_no_worker_can_start_ends(papers: Path) -> None:
    """It says why and closes the port, rather than keep it and let clients wait."""
    with serving(papers, "--workers", 2) as service:
        before = workers_of(service)
        file, _ = shorten(papers, "run_bytes")
        eventually(lambda: service.ask("GET", "/ready").status == 503)
        for pid in before:
            kill(pid)
        assert service.process.wait(PATIENCE) == 2
        last = service.log.splitlines()[-1]
        assert last.startswith("segmax: error: ")
        assert file.name in last
        assert _refuses(service.port)
        assert not service.children()


@pytest.mark.parametrize(("workers", "encoder"), [(1, ()), (2, ()), (2, ("--encoder", "broken=stored"))])
def test_a_damaged_index_does_not_stop_a_start(
    papers: Path, tmp_path: Path, workers: int, encoder: tuple[str, ...]
) -> None:
    """Others are served, its requests are answered with what is wrong, and it is served once it is there."""
    broken = tmp_path / "broken.segmax"
    segmax.from_texts({f"d{number}": f"noise word{number}" for number in range(200)}, path=broken).close()
    file, content = shorten(broken, "run_bytes")
    with serving(papers, broken, "--workers", workers, *encoder) as service:
        assert statuses(service, "papers") == {200}
        assert statuses(service, "broken") == {503}
        assert file.name in service.log
        assert service.log.count("\n") == workers + bool(encoder)  # which a process of its own runs
        file.write_bytes(content)
        eventually(lambda: statuses(service, "broken") == {200})


def test_a_manifest_that_cannot_be_read_ends_the_answers_of_all_workers(notes: Path) -> None:
    """Each of them says so once, answers 503, and goes on when the manifest is whole."""
    manifest = notes / "manifest.json"
    content = manifest.read_bytes()
    with serving(notes, "--workers", 2) as service:
        assert statuses(service, "notes") == {200}
        manifest.write_bytes(content[: len(content) // 2])
        eventually(lambda: statuses(service, "notes") == {503} and service.log.count("it is not served") == 2)
        time.sleep(2)  # of many looks
        assert statuses(service, "notes") == {503}
        assert service.log.count("\n") == 2
        manifest.write_bytes(content)
        eventually(lambda: statuses(service, "notes") == {200})


# --- what stops ------------------------------------------------------------------------------------------------------


def test_stopping_finishes_what_is_under_way(papers: Path, notes: Path) -> None:
    """A stream that is being sent when SIGTERM comes is read to its end and acknowledged; then all processes end."""
    for workers in (1, 2):
        with serving(papers, notes, "--workers", workers, "--writable") as service, service.connect() as sock:
            children = service.children()
            content = _start_stream(sock, f"first{workers}")
            service.process.send_signal(signal.SIGTERM)
            eventually(lambda service=service: _refuses(service.port))  # it stops
            service.process.send_signal(signal.SIGTERM)  # as supervisors do that lose patience
            sock.sendall(_line(f"last{workers}") + b"0\r\n\r\n")
            content += read_until(sock, b'"done":true')
            assert content.count(b'"ok":true') == 2
            assert service.process.wait(PATIENCE) == 0
            assert not [pid for pid in children if is_alive(pid)]
            assert service.log == ""
        with segmax.Collection.open(notes, read_only=True) as collection:
            assert collection.row_of(f"last{workers}") >= 0


def _start_stream(sock: socket.socket, id: str) -> bytes:
    """Send the first line of a stream, and return the answer to it."""
    start = "POST /v1/indexes/notes/documents?mode=upsert HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    sock.sendall(f"{start}Content-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    sock.sendall(_line(id))
    return read_until(sock, b'"ok":true')


def _line(id: str) -> bytes:
    return chunk(json.dumps({"id": id, "text": "noise"}).encode() + b"\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_does_not_finish_is_cut_off(papers: Path, notes: Path, workers: int) -> None:
    """A stream that nobody ends holds a stop up for half a minute, and no longer; what was acknowledged is there."""
    with serving(papers, notes, "--workers", workers, "--writable") as service, service.connect() as sock:
        _start_stream(sock, "first")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0
        assert "Traceback" not in service.log
    with segmax.Collection.open(notes, read_only=True) as collection:
        assert collection.row_of("first") >= 0


def test_a_second_interrupt_ends_at_once(papers: Path, notes: Path) -> None:
    """Whoever presses Ctrl-C twice does not wait for others, and sees no traceback."""
    with serving(papers, notes, "--writable") as service, service.connect() as sock:
        _start_stream(sock, "first")
        service.process.send_signal(signal.SIGINT)
        eventually(lambda: _refuses(service.port))
        service.process.send_signal(signal.SIGINT)
        service.process.wait(20)
        assert "Traceback" not in service.log


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except OSError:
        return True
    return False


#: A command whose flushes say that they have begun, and never end by themselves.
_ENDLESS_FLUSHES = """
import sys, time
import segmax.collection.store as store
from segmax.cli.main import main

def endless(*given, **options):
    sys.stderr.write("flushing")
    sys.stderr.flush()
    while True:
        time.sleep(0.01)

store.write_merged = endless  # in the processes that the first one starts, too
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["serve", "serve with workers", "add"])
def test_an_interrupt_of_the_last_flush(notes: Path, tmp_path: Path, command: str) -> None:
    """Ctrl-C ends it at once, without a traceback; nothing is lost, and the collection can be opened."""
    documents = tmp_path / "more.jsonl"
    documents.write_text("".join(f'{{"id": "more{number}", "text": "a note"}}\n' for number in range(1024)))
    with segmax.Collection.open(notes) as collection:
        count = len(collection)
    serves = command != "add"
    if serves:
        segmax.Collection.open(notes).add(documents)  # and dropped, without a flush
        arguments = ["serve", f"notes={notes}", "--port", "0", "--writable"]
        arguments += ["--workers", "2"] if command.endswith("workers") else []
    else:
        arguments = ["add", str(notes), str(documents)]
    log, program = tmp_path / "stderr", tmp_path / "endless.py"
    program.write_text(_ENDLESS_FLUSHES)
    with (
        log.open("wb") as errors,
        subprocess.Popen([sys.executable, program, *arguments], stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline()  # the address of the service, or what was added
            if serves:
                process.send_signal(signal.SIGTERM)
            eventually(lambda: "flushing" in log.read_text())
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == (0 if serves else 130)  # the processes of a service have 40 s to end in order
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()
    with segmax.Collection.open(notes) as collection:
        assert len(collection) == count + 1024


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_service_ends_quietly(papers: Path, notes: Path, workers: int, number: int) -> None:
    """Ctrl-C and SIGTERM end the service with exit code 0, and without a word on standard error."""
    with serving(papers, notes, "--workers", workers, "--writable") as service:
        idle = service.connect()
        children = service.children()
        service.process.send_signal(number)
        assert service.process.wait(PATIENCE) == 0
        assert not [pid for pid in children if is_alive(pid)]
        assert service.log == ""
        assert service.output.count("\n") == 1
        assert f"http://127.0.0.1:{service.port} " in service.output
        idle.close()


# --- what is written -------------------------------------------------------------------------------------------------


def test_every_worker_sees_an_acknowledged_write(service: Service) -> None:
    """A search that begins after a write was acknowledged finds it, on whichever worker it comes out."""
    known: list[str] = []
    failures: list[str] = []
    stop = threading.Event()

    def write(name: str) -> None:
        for number in range(40):
            id = f"{name}-{number}"
            assert add(service, id, text=f"noise only{name}{number}x") == 200
            known.append(id)

    def read() -> None:
        while not stop.is_set():
            if not known:
                continue
            id = known[-1]
            word = "only" + id.replace("-", "") + "x"
            if service.search("notes", word, k=1) != [id]:
                failures.append(f"search {id}")
            if not is_there(service, id):
                failures.append(f"get {id}")

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, "abc"))
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []
    counts = {service.ask("POST", "/v1/indexes/notes/count", {}).json()["count"] for _ in range(10)}
    assert counts == {220}
    assert service.ask("POST", "/v1/indexes/notes/documents/delete", {"ids": known}).json()["count"] == 120
    assert not any(is_there(service, id) for id in known[-20:])


def test_problems_of_the_writer_are_told_as_by_one_process(service: Service) -> None:
    """What the writer refuses comes back with the status and the words that a single process answers with."""
    assert add(service, "n1") in (409, 422)
    assert add(service, "nobody", mode="update") == 404
    body = {"documents": [{"id": "x", "vector": {"indices": [1], "values": [-1]}}]}
    answer = service.ask("POST", "/v1/indexes/notes/documents", body)
    assert answer.status == 422
    assert "weights" in answer.json()["detail"]
    names = {service.ask("POST", "/v1/indexes/notes/snapshot").json()["name"] for _ in range(3)}
    assert len(names) == 3
    kill(helper_of(service))
    answers = [service.ask("POST", "/v1/indexes/notes/commit") for _ in range(20)]
    assert {answer.status for answer in answers} <= {200, 503}
    assert all("retry-after" in answer.headers for answer in answers if answer.status == 503)
    eventually(lambda: service.ask("POST", "/v1/indexes/notes/commit").status == 200)


# --- what is replaced ------------------------------------------------------------------------------------------------


def stream_of_searches(service: Service, name: str, during: Callable[[], None], word: str) -> list[tuple[float, Any]]:
    """Search again and again while something happens and until a word is found; return when and what was found."""
    found: list[tuple[float, Any]] = []
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            start = time.monotonic()
            found.append((start, tuple(service.search(name, f"noise {word}", k=1))))

    with ThreadPoolExecutor(3) as pool:
        searches = [pool.submit(search) for _ in range(3)]
        during()
        done = time.monotonic()
        time.sleep(2)  # the time in which all workers have to notice
        noticed = time.monotonic()
        eventually(lambda: len([start for start, _ in found if start > noticed]) >= 20)
        stop.set()
        for one in searches:
            one.result()
    return [(start - done - 2, ids) for start, ids in found]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_index_is_replaced_without_a_failed_request(papers: Path, workers: int) -> None:
    """Searches go on while an index is replaced on disk, and find the new documents within two seconds."""
    texts = {f"e{number}": f"noise fresh{number}" for number in range(200)}
    with serving(papers, "--workers", workers) as service:
        before = service.ask("GET", "/v1/indexes/papers").json()["version"]
        found = stream_of_searches(
            service, "papers", lambda: segmax.from_texts(texts, path=papers, overwrite=True).close(), "fresh7"
        )
        assert {ids for late, ids in found if late > 0} == {("e7",)}
        assert service.ask("GET", "/v1/indexes/papers").json()["version"] != before
        words = service.ask("POST", "/v1/indexes/papers/terms", {"prefix": "fresh1", "limit": 1}).json()["terms"]
        assert [term["word"] for term in words] == ["fresh1"]
        assert service.search("papers", "fresh19", prefix=True, k=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_collection_is_replaced_without_a_failed_request(notes: Path, tmp_path: Path, workers: int) -> None:
    """The same is true of a collection that another program puts in the place of the old one."""
    with segmax.Collection.create(tmp_path / "new", encoder="bm25") as collection:
        collection.add([{"id": f"e{number}", "text": f"noise fresh{number}"} for number in range(100)])

    def replace() -> None:
        notes.rename(tmp_path / "old")
        (tmp_path / "new").rename(notes)

    with serving(notes, "--workers", workers) as service:
        before = service.ask("GET", "/v1/indexes/notes").json()["version"]
        found = stream_of_searches(service, "notes", replace, "fresh7")
        assert {ids for late, ids in found if late > 0} == {("e7",)}
        assert service.ask("GET", "/v1/indexes/notes").json()["version"] != before


@pytest.mark.parametrize("workers", [1, 2])
def test_another_programs_writes_are_seen(notes: Path, workers: int) -> None:
    """A service that only reads finds what another program adds to a collection within two seconds."""
    with serving(notes, "--workers", workers) as service:

        def write() -> None:
            with segmax.Collection.open(notes) as collection:
                collection.add([{"id": "new", "text": "noise fresh"}])
                collection.compact()

        found = stream_of_searches(service, "notes", write, "fresh")
        assert {ids for late, ids in found if late > 0} == {("new",)}


# --- figures ---------------------------------------------------------------------------------------------------------


def test_figures_of_all_workers_add_up(service: Service) -> None:
    """Any worker reports the requests of all, also of one that has been killed."""

    def count() -> int:
        text = service.ask("GET", "/metrics").body.decode()
        found = re.findall(r'segmax_requests_total\{operation="search",status="200"\} (\S+)', text)
        return round(sum(map(float, found)))

    for _ in range(60):
        service.search("papers", "noise", k=1)
    eventually(lambda: count() == 60)
    kill(workers_of(service)[0])
    eventually(lambda: len(workers_of(service)) == 2)
    for _ in range(40):
        service.search("papers", "noise", k=1)
    eventually(lambda: count() == 100)
    gauges = service.ask("GET", "/metrics").body.decode()
    assert 'segmax_documents{index="papers"} 200.0' in gauges


# --- encoders --------------------------------------------------------------------------------------------------------


def test_models_of_torch_are_served_by_a_process_of_their_own(splade: Path, tmp_path: Path) -> None:
    """Texts are encoded as in the library, searches for vectors do not wait for them, and it is replaced if it dies."""
    pytest.importorskip("torch")
    from segmax.encoders import SparseModel

    path = tmp_path / "docs.segmax"
    model = SparseModel(splade)
    segmax.from_texts({f"d{number}": "cat dog house"[number % 5 :] for number in range(50)}, path=path, encoder=model)
    texts = ["the big cat", "a dog runs", "", "tree house " * 300]
    expected = model.query_rows(texts)
    with serving(path, "--workers", 2, "--encoder", splade) as service:
        found = service.ask("POST", "/v1/indexes/docs/encode", {"texts": texts}).json()["vectors"]
        for number, vector in enumerate(found):
            start, stop = expected.indptr[number], expected.indptr[number + 1]
            assert vector["indices"] == expected.indices[start:stop].tolist()
            assert vector["values"] == pytest.approx(expected.values[start:stop].tolist(), rel=1e-4)
        text = {"texts": ["tree house dog cat " * 60] * 1000}
        body = {"vector": {"indices": found[0]["indices"], "values": found[0]["values"]}, "k": 5}
        with ThreadPoolExecutor(1) as pool:
            encoding = pool.submit(service.ask, "POST", "/v1/indexes/docs/encode", text)
            waits = []
            while not encoding.done():
                start = time.monotonic()
                assert service.ask("POST", "/v1/indexes/docs/search", body).status == 200
                waits.append(time.monotonic() - start)
        assert encoding.result().status == 200
        assert sorted(waits)[len(waits) // 2] < 0.5
        assert service.search("docs", "the big cat", k=3)
        kill(helper_of(service))
        statuses = [service.ask("POST", "/v1/indexes/docs/encode", {"texts": ["cat"]}).status for _ in range(3)]
        assert set(statuses) <= {200, 503}
        assert service.ask("POST", "/v1/indexes/docs/search", body).status == 200
        eventually(lambda: service.ask("POST", "/v1/indexes/docs/encode", {"texts": ["cat"]}).status == 200)


# --- starting --------------------------------------------------------------------------------------------------------


def run_serve(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a service that ends by itself."""
    command = [sys.executable, "-m", "segmax.cli", "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_served_is_said_in_a_line(papers: Path, tmp_path: Path, workers: int) -> None:
    """A port that is taken, an index that is missing or broken: a line on standard error, and exit code 2."""
    (tmp_path / "broken.segmax").mkdir()
    (tmp_path / "broken.segmax" / "meta.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, said in (
            ([papers, "--port", port], str(port)),
            ([tmp_path / "missing", "--port", 0], "missing"),
            ([tmp_path / "broken.segmax", "--port", 0], "broken"),
            ([papers, tmp_path / "missing", "--port", 0, "--writable"], "missing"),
        ):
            ended = run_serve(*arguments, "--workers", workers)
            assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1), ended
            assert ended.stderr.startswith("segmax: error: ")
            assert said in ended.stderr


def test_a_collection_that_is_being_written_is_not_served_for_writing(notes: Path) -> None:
    """Two writers of one collection are refused, with the name of the first; reading is possible."""
    with segmax.Collection.open(notes):
        ended = run_serve(notes, "--port", 0, "--writable", "--workers", 2)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
        assert str(os.getpid()) in ended.stderr
        with serving(notes, "--workers", 2) as service:
            assert service.search("notes", "noise", k=1)
            assert children_of(service.pid)
