"""Calls between the processes of a service, over a Unix socket that only they can reach.

A message is its length in four bytes, then JSON, which has integers of any size: [number, operation, name, arguments],
answered by [number, result, problem]. Calls of one connection may overtake each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from segmax.serve.problems import RETRY_SOON, ProblemError, problem_of, unavailable
from segmax.vectors.csr import Csr

_LENGTH = struct.Struct("<I")
_MOST_BYTES = 1 << 28
_LOG = logging.getLogger("segmax.serve")

Handler = Callable[..., Awaitable[Any]]


async def serve_calls(path: Path, handle: Handler) -> asyncio.Server:
    """Answer calls: `handle(operation, name, *arguments)` returns the result, or raises."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running: set[asyncio.Task[None]] = set()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = msgspec.json.decode(await _read(reader))
                task = asyncio.create_task(answer(writer, *message))
                running.add(task)
                task.add_done_callback(running.discard)
        writer.close()

    async def answer(
        writer: asyncio.StreamWriter, number: int, operation: str, name: str, arguments: list[Any]
    ) -> None:
        result: Any = None
        problem: dict[str, Any] | None = None
        try:
            result = await handle(operation, name, *arguments)
        except Exception as error:
            try:
                problem = problem_of(error).to_dict()
            except Exception:
                _LOG.exception("%s of '%s' failed", operation, name)
                problem = ProblemError(500, "internal", "the service failed").to_dict()
        with contextlib.suppress(ConnectionError, RuntimeError):  # uvloop's, if the caller has gone
            await _write(writer, [number, result, problem])

    return await asyncio.start_unix_server(connected, path)


async def _read(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _MOST_BYTES:
        raise ConnectionError
    return await reader.readexactly(length)


async def _write(writer: asyncio.StreamWriter, message: list[Any]) -> None:
    content = msgspec.json.encode(message)
    writer.write(_LENGTH.pack(len(content)) + content)
    await writer.drain()


class Caller:
    """Calls another process of the service. If the connection is lost, calls under way fail; the next one connects."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def call(self, operation: str, name: str, *arguments: Any) -> Any:
        """Return the result of a call; raise the problem that the other process met."""
        try:
            writer = await self._connected()
        except OSError as error:
            raise unavailable("another process of the service is being restarted") from error
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await _write(writer, [number, operation, name, list(arguments)])
            return await future
        except OSError as error:
            self._drop(writer)
            detail = "another process of the service ended meanwhile: look whether the request was carried out"
            raise ProblemError(503, "interrupted", detail, headers=RETRY_SOON) from error
        finally:
            self._waiting.pop(number, None)

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await asyncio.open_unix_connection(self._path)
                self._reading = asyncio.create_task(self._read_answers(reader, self._writer))
            return self._writer

    async def _read_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                number, result, problem = msgspec.json.decode(await _read(reader))
                future = self._waiting.pop(number, None)
                if future is None or future.done():
                    continue
                if problem is None:
                    future.set_result(result)
                else:
                    headers = RETRY_SOON if problem["status"] == 503 else []
                    future.set_exception(ProblemError(**problem, headers=headers))
        self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        """Fail what is under way on a connection that was lost, unless another one has taken its place."""
        writer.close()
        if self._writer is not writer:
            return
        self._writer = None
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the connection was lost"))


class RemoteEncoder:
    """Encodes the texts of an index in another process."""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self._name = name

    async def encode(self, encoder: object, texts: Sequence[str], deadline: float | None) -> Csr:
        """Return the vectors of texts, a row each; the other process has the encoder."""
        seconds = None if deadline is None else deadline - time.perf_counter()
        indptr, indices, values, num_columns = await self._caller.call("encode", self._name, list(texts), seconds)
        return Csr(
            np.array(indptr, np.int64), np.array(indices, np.int64), np.array(values, np.float64), int(num_columns)
        )


def packed_rows(rows: Csr) -> list[Any]:
    """Return vectors as a call returns them."""
    values = np.asarray(rows.values, np.float64)
    return [rows.indptr.tolist(), rows.indices.tolist(), values.tolist(), rows.num_columns]
