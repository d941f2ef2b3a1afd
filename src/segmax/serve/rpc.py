"""Calls between the processes of a service, over a Unix socket that only they can reach.

A message is its length in four bytes, then JSON, which has integers of any size: [number, operation, name, arguments],
answered by [number, result, problem]. Calls of one connection may overtake each other.
"""

from __future__ import annotations

import asyncio
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
_CALL = tuple[int, str, str, list[Any]]
_ANSWER = tuple[int, Any, dict[str, Any] | None]

Handler = Callable[..., Awaitable[Any]]


class _NoMessageError(ConnectionError):
    """What came on a connection is no message."""


async def serve_calls(path: Path, handle: Handler) -> asyncio.Server:
    """Answer calls: `handle(operation, name, *arguments)` returns the result, or raises."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                number, operation, name, arguments = _decoded(await _read(reader), _CALL)
                task = asyncio.create_task(answer(writer, number, operation, name, arguments))
                running.add(task)
                task.add_done_callback(running.discard)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
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
        try:
            await _write(writer, [number, result, problem])
        except (ConnectionError, RuntimeError):  # uvloop's, if the caller has gone
            pass
        except Exception:
            _LOG.exception("the result of %s of '%s' cannot be sent", operation, name)
            writer.close()  # so that nobody waits for it

    return await asyncio.start_unix_server(connected, path)


async def _read(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _MOST_BYTES:
        raise _not_a_message(f"{length:,} bytes")
    return await reader.readexactly(length)


def _decoded(content: bytes, kind: Any) -> Any:
    """Return a message; what is none ends the connection, because nobody knows where the next one starts."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _not_a_message(str(error)) from error


def _not_a_message(why: str) -> _NoMessageError:
    """Log what came from another process, and return the error that ends the connection."""
    _LOG.error("another process of the service sent what is no message: %s", why)
    return _NoMessageError("another process of the service sent what is no message")


async def _write(writer: asyncio.StreamWriter, message: list[Any]) -> None:
    content = msgspec.json.encode(message)
    writer.write(_LENGTH.pack(len(content)) + content)
    await writer.drain()


class Caller:
    """Calls another process of the service.

    If the connection is lost, or brings what is no message, calls under way fail, and the next one connects again.
    """

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
            self._drop(writer, error)
            what = error if isinstance(error, _NoMessageError) else "another process of the service ended meanwhile"
            detail = f"{what}: look whether the request was carried out"
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
        why: Exception = ConnectionError("the connection was lost")
        try:
            while True:
                number, result, problem = _decoded(await _read(reader), _ANSWER)
                error = None if problem is None else _raised(problem)
                future = self._waiting.pop(number, None)
                if future is None or future.done():
                    continue
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)
        except asyncio.IncompleteReadError:
            pass
        except ConnectionError as error:
            why = error
        finally:
            self._drop(writer, why)

    def _drop(self, writer: asyncio.StreamWriter, why: Exception) -> None:
        """Fail what is under way on a connection that was lost, unless another one has taken its place."""
        writer.close()
        if self._writer is not writer:
            return
        self._writer = None
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(why)


def _raised(problem: dict[str, Any]) -> ProblemError:
    """Return the problem that another process met."""
    try:
        return ProblemError(**problem, headers=RETRY_SOON if problem["status"] == 503 else [])
    except (KeyError, TypeError) as error:
        raise _not_a_message(str(error)) from error


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
