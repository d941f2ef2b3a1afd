"""What the processes of a service tell each other, and what a server has to have."""

from __future__ import annotations

import ast
import asyncio
import inspect
import struct
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from segmax.base.errors import MissingPackageError
from segmax.serve import server
from segmax.serve.http_protocol import GuardedProtocol
from segmax.serve.problems import ProblemError
from segmax.serve.rpc import Caller, serve_calls

PATIENCE = 30.0

BAD = {
    "no JSON": b"\xff\xfe{",
    "another shape": b"{}",
    "too short a list": b"[0]",
    "no number": b'["a", null, null]',
    "a problem without a status": b'[0, null, {"detail": "x"}]',
    "nested too deeply": b"[" * 100_000,
}


def framed(content: bytes) -> bytes:
    """Return a message as it goes over the channel."""
    return struct.pack("<I", len(content)) + content


SENT = {**{what: framed(bad) for what, bad in BAD.items()}, "a length beyond all limits": struct.pack("<I", 1 << 31)}


async def ended(caller: Caller, listening: asyncio.Server) -> None:
    """Close a connection, and wait until both sides have noticed."""
    if caller._writer is not None:
        caller._writer.close()
    listening.close()
    await asyncio.sleep(0.01)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario, which must not wait for ever."""
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_an_answer_that_is_no_message_fails_all_who_wait(tmp_path: Path, sent: bytes) -> None:
    """Bytes that are no message end the connection: callers get a 503 that says so, and the next call connects anew."""
    num_connections = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_connections
        num_connections += 1
        for _ in range(2 if num_connections == 1 else 1):
            (length,) = struct.unpack("<I", await reader.readexactly(4))
            call = await reader.readexactly(length)
        writer.write(sent if num_connections == 1 else framed(b'[%s, "fine", null]' % call[1:].split(b",")[0]))
        await reader.read()
        writer.close()

    async def scenario() -> None:
        listening = await asyncio.start_unix_server(connected, tmp_path / "socket")
        caller = Caller(tmp_path / "socket")
        failed = await asyncio.gather(*(caller.call("put", "x") for _ in range(2)), return_exceptions=True)
        for error in failed:
            assert isinstance(error, ProblemError)
            assert (error.status, error.kind) == (503, "interrupted")
            assert "sent what is no message" in error.detail
        assert await caller.call("put", "x") == "fine"
        assert num_connections == 2
        await ended(caller, listening)

    run(scenario)


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_a_call_that_is_no_message_ends_its_connection(tmp_path: Path, sent: bytes) -> None:
    """Whoever sends what is no call is cut off; others are answered."""

    async def handle(operation: str, name: str, *arguments: Any) -> Any:
        return [operation, name, *arguments]

    async def scenario() -> None:
        listening = await serve_calls(tmp_path / "socket", handle)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "socket")
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
        caller = Caller(tmp_path / "socket")
        assert await caller.call("put", "x", 1) == ["put", "x", 1]
        await ended(caller, listening)

    run(scenario)


def test_a_result_that_cannot_be_sent_leaves_nobody_waiting(tmp_path: Path) -> None:
    """A result that is not JSON is a failure of the other process, which the caller hears of."""

    async def handle(operation: str, name: str) -> Any:
        return object()

    async def scenario() -> None:
        listening = await serve_calls(tmp_path / "socket", handle)
        caller = Caller(tmp_path / "socket")
        with pytest.raises(ProblemError, match="ended meanwhile"):
            await caller.call("put", "x")
        await ended(caller, listening)

    run(scenario)


# --- uvicorn ---------------------------------------------------------------------------------------------------------


def test_what_is_overridden_is_looked_for_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uvicorn that lacks a method that the service overrides is refused by name; nothing would call ours."""
    server.check_uvicorn()
    for kind, names in server._OVERRIDDEN.items():
        for name in names:
            with monkeypatch.context() as patch:
                if name in vars(kind):
                    patch.delattr(kind, name)
                if hasattr(kind, name):
                    continue  # also a method of asyncio's protocol, which no version lacks
                with pytest.raises(MissingPackageError, match=f"{name}.*{uvicorn.__version__}") as raised:
                    server.check_uvicorn()
                assert "pip install" in raised.value.hint


def test_all_that_is_overridden_is_known() -> None:
    """Whatever the guarded connection calls of the class above it is in the list that is looked for."""
    source = textwrap.dedent(inspect.getsource(GuardedProtocol))
    called = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    }
    same = {name for name in vars(GuardedProtocol) if name in vars(HttpToolsProtocol) and not name.startswith("__")}
    assert (called | same) - {"__init__", "__module__"} <= set(server._OVERRIDDEN[HttpToolsProtocol])
