"""The real service, as a program of its own: started on a free port of this machine, asked over sockets, stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Found = TypeVar("Found")

PATIENCE = 60.0  # seconds for what takes one or two, on a machine that is busy with other things
_ADDRESS = re.compile(r" at http://\S+:(\d+) ")


class Answer(NamedTuple):
    """What the service answered."""

    status: int
    headers: dict[str, str]  #: by their names in lower case
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


def eventually(look: Callable[[], Found | None], seconds: float = PATIENCE) -> Found:
    """Return the first true result of looking again and again; fail after a while."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds:g} seconds"
        time.sleep(0.02)
    return found


class Service:
    """A running `segmax serve`; a program may be started before it, which runs it."""

    def __init__(self, arguments: list[str], folder: Path, program: Sequence[str] = ()) -> None:
        self._out, self._err = folder / "stdout", folder / "stderr"
        command = [*program, sys.executable, "-m", "segmax.cli", "serve", *arguments, "--port", "0"]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)
        self.port = 0

    @property
    def pid(self) -> int:
        """The first process."""
        return self.process.pid

    @property
    def output(self) -> str:
        """Everything on standard output so far."""
        return self._out.read_text("utf-8")

    @property
    def log(self) -> str:
        """Everything on standard error so far."""
        return self._err.read_text("utf-8", errors="replace")

    def wait_until_ready(self) -> None:
        """Wait for the address, and until requests are welcome there."""
        found = eventually(self._address)
        self.port = int(found[1])
        eventually(lambda: self.ask("GET", "/ready").status == 200)

    def _address(self) -> re.Match[str] | None:
        assert self.process.poll() is None, f"the service ended: {self.log}"
        return _ADDRESS.search(self.output)

    def stop(self) -> int:
        """Stop it as a supervisor would, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            for pid in [*self.children(), self.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            raise

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, *, timeout: float = PATIENCE, **headers: str) -> Answer:
        """Send a request on a connection of its own; `body` is sent as JSON, unless it is bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            named.setdefault("content-type", "application/json")
        with contextlib.closing(connection):
            connection.request(method, path, body, named)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())

    def search(self, name: str, text: str, **options: Any) -> list[Any]:
        """Return the ids that a search for a text finds."""
        answer = self.ask("POST", f"/v1/indexes/{name}/search", {"text": text, **options})
        assert answer.status == 200, answer
        return [hit["id"] for hit in answer.json()["hits"]]

    def connect(self, timeout: float = PATIENCE) -> socket.socket:
        """Return a plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    # --- processes ---------------------------------------------------------------------------------------------------

    def children(self) -> list[int]:
        """Return the processes that the first one has started and that are alive, but not Python's own helper."""
        return [pid for pid in children_of(self.pid) if b"resource_tracker" not in command_of(pid)]

    def memory_bytes(self) -> int:
        """Return how much memory all processes together hold."""
        return sum(memory_of(pid) for pid in [self.pid, *self.children()])


# --- on a plain connection -------------------------------------------------------------------------------------------


def chunk(content: bytes) -> bytes:
    """Return a piece of a body without a length."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def rest_of(sock: socket.socket) -> bytes:
    """Return what comes until the other side closes the connection."""
    pieces = []
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def read_until(sock: socket.socket, end: bytes) -> bytes:
    """Return what comes until something has been there."""
    content = b""
    while end not in content:
        piece = sock.recv(1 << 16)
        assert piece, f"closed after {content!r}"
        content += piece
    return content


# --- processes -------------------------------------------------------------------------------------------------------


def children_of(parent: int) -> list[int]:
    """Return the processes that another one has started, without those that have ended."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, father = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if int(father) == parent and state != "Z":
                found.append(int(folder.name))
    return sorted(found)


def command_of(pid: int) -> bytes:
    """Return the command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0] not in "ZX"
    except OSError:
        return False


def memory_of(pid: int) -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return 0 if found is None else int(found[1]) << 10


@contextlib.contextmanager
def serving(*arguments: object, program: Sequence[str] = ()) -> Iterator[Service]:
    """Run `segmax serve` with some arguments until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service([str(argument) for argument in arguments], Path(folder), program)
        try:
            service.wait_until_ready()
            yield service
        finally:
            service.stop()
