"""The operations that write, and streams of documents: read line by line, written in batches, a result per line."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from segmax.base.errors import SegmaxError
from segmax.collection.collection import Collection
from segmax.serve import messages
from segmax.serve.allowance import PIECE, Share
from segmax.serve.catalog import Served
from segmax.serve.operations import Context, id_in_path
from segmax.serve.problems import ProblemError, hint_about_document, invalid, over_limit, problem_of, unavailable
from segmax.serve.service import Service, pair_of
from segmax.serve.writing import Writes

_MODES = ("add", "upsert", "update")
_MOST_BATCHED = 512  # documents of a stream that are written at once
_MOST_BYTES = 1 << 20  # of lines that wait to be written: a client that sends faster has to wait
_MOST_UNSENT = 1 << 24  # of results that a client has not read yet
_FEW_UNSENT = 1 << 16  # the same while the process keeps too many answers that nobody reads
_LOOK_SECONDS = 0.5  # between two looks whether it still does
_MOST_KEPT = 1 << 23  # of results that are kept until the end of a stream that comes through a proxy
_RECORD = msgspec.json.Decoder(messages.Record)


def writer_of(service: Service, served: Served) -> Writes:
    """Return what writes to a collection; raise the problem of one that cannot be written to."""
    if not served.is_collection:
        detail = f"'{served.name}' is an index, which cannot change: Collection.from_index makes a collection of it"
        raise ProblemError(409, "not-a-collection", detail)
    if service.writes is None:
        raise unavailable("the service is starting")
    return service.writes


def way_of(context: Context) -> tuple[str, bool]:
    """Return how documents are put: the `mode` of the address, and whether metadata are replaced by an update."""
    mode, replace = context.query.get("mode", "add"), context.query.get("replace_metadata", "false")
    if mode not in _MODES:
        raise invalid(option="mode", expected=f"one of {', '.join(_MODES)}", got=repr(mode))
    if replace not in ("false", "true"):
        raise invalid(option="replace_metadata", expected="true or false", got=repr(replace))
    if replace == "true" and mode != "update":
        raise invalid(option="replace_metadata", expected="left out, but with mode=update", got=f"mode={mode}")
    return mode, replace == "true"


def given_document(record: messages.Record) -> dict[str, Any]:
    """Return a document as `Collection.add` takes it."""
    found = {name: value for name, value in msgspec.structs.asdict(record).items() if value is not msgspec.UNSET}
    if found["id"] is None:
        del found["id"]
    vector, terms = found.get("vector"), found.pop("terms", None)
    if vector is not None and terms is not None:
        raise invalid(expected="vector or terms", got="both")
    if terms is not None:
        found["vector"] = terms
    elif isinstance(vector, messages.Vector):
        found["vector"] = list(pair_of(vector))
    return found


async def put_documents(context: Context, message: messages.Documents) -> messages.WriteResult:
    """Add, replace or update documents: all of them, or none if one is refused."""
    writes, way = writer_of(context.service, context.served), way_of(context)
    most = context.service.limits.batch * 32
    if len(message.documents) > most:
        raise over_limit("documents", most, len(message.documents))
    documents = [given_document(record) for record in message.documents]
    return messages.WriteResult(**await writes.call("put", context.served.name, documents, *way))


async def delete_documents(context: Context, message: messages.Delete) -> messages.WriteResult:
    """Delete documents by id, or those that a filter matches."""
    writes = writer_of(context.service, context.served)
    context.service.check_where(message.where)
    return messages.WriteResult(**await writes.call("delete", context.served.name, message.ids, message.where))


async def delete_document(context: Context, message: None) -> messages.WriteResult:
    """Delete a document."""
    writes = writer_of(context.service, context.served)
    ids = [id_in_path((await context.target()).source, context.id)]
    return messages.WriteResult(**await writes.call("delete", context.served.name, ids, None))


async def commit(context: Context, message: messages.Nothing) -> messages.WriteResult:
    """Make all writes safe on disk."""
    writes = writer_of(context.service, context.served)
    return messages.WriteResult(**await writes.call("commit", context.served.name))


async def compact(context: Context, message: messages.Nothing) -> messages.WriteResult:
    """Write a collection as one part, without its deleted documents; returns when that is done."""
    writes = writer_of(context.service, context.served)
    return messages.WriteResult(**await writes.call("compact", context.served.name))


async def snapshot(context: Context, message: messages.Nothing) -> messages.SnapshotResult:
    """Copy a collection to the folder of snapshots."""
    writes = writer_of(context.service, context.served)
    return messages.SnapshotResult(**await writes.call("snapshot", context.served.name))


# --- streams ---------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of a stream: a document, or what is wrong with it."""

    number: int
    document: dict[str, Any] | None
    error: str | None
    num_bytes: int


class TooLongError(Exception):
    """A line of a stream is too long to be read."""


async def lines_of(chunks: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, without empty ones; memory holds one line and one chunk."""
    left = bytearray()
    async for chunk in chunks:
        left += chunk
        if b"\n" in chunk:
            *whole, rest = left.split(b"\n")
            left = bytearray(rest)
            for line in whole:
                if len(line) > most_bytes:
                    raise TooLongError
                yield bytes(line)
        if len(left) > most_bytes:
            raise TooLongError
    yield bytes(left)


def parsed(number: int, line: bytes) -> Line:
    """Return a line of a stream as a document, or with what is wrong with it."""
    try:
        return Line(number, given_document(_RECORD.decode(line)), None, len(line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = hint_about_document(error)
        said = f"expected a document as a JSON object: {error}{f'; {hint}' if hint else ''}"
        return Line(number, None, said, len(line))
    except ProblemError as error:
        return Line(number, None, error.detail, len(line))


class Results:
    """Results of lines that are sent as fast as the client reads them, while more lines are read.

    Clients that send everything before they read anything are common, so results are kept, up to a limit. For proxies
    they are kept until the end, as far as the limit allows: nginx and others stop forwarding a request once its
    answer has started.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], share: Share, *, at_once: bool) -> None:
        self._send = send
        self._share = share
        self._at_once = at_once
        self._unsent = bytearray()
        self._changed = asyncio.Event()
        self._sent = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._run())

    async def add(self, content: bytes) -> None:
        """Send something later; wait if too much is waiting."""
        self._unsent += content
        self._share.hold_more(len(content))
        self._changed.set()
        while len(self._unsent) > self._most(_MOST_UNSENT) and not self._task.done():
            self._sent.clear()
            with contextlib.suppress(TimeoutError):  # there may be room again because others have read
                await asyncio.wait_for(self._sent.wait(), _LOOK_SECONDS)
            self._changed.set()

    def _most(self, limit: int) -> int:
        """Return how many bytes may be kept: few while this process keeps too many for all clients together."""
        return limit if self._share.has_room else _FEW_UNSENT

    async def close(self) -> None:
        """Wait until all is sent."""
        self._closed = True
        self._changed.set()
        await self._task

    def cancel(self) -> None:
        """Give up: the client has gone."""
        self._task.cancel()

    async def _run(self) -> None:
        while not (self._closed and not self._unsent):
            await self._changed.wait()
            self._changed.clear()
            while self._unsent and (self._at_once or self._closed or len(self._unsent) > self._most(_MOST_KEPT)):
                content, self._unsent = bytes(self._unsent), bytearray()
                for start in range(0, len(content), PIECE):
                    await self._send(content[start : start + PIECE])
                self._share.hold_more(-len(content))
                self._sent.set()


async def put_stream(
    context: Context,
    chunks: AsyncIterator[bytes],
    send: Callable[[bytes], Awaitable[None]],
    *,
    at_once: bool,
) -> None:
    """Write the documents of a stream as they come, and send a result for every line, in order.

    Parameters
    ----------
    context
        What to write to.
    chunks
        The stream, in pieces.
    send
        Sends a piece of the answer.
    at_once
        Whether to send results while lines still come.
    """
    service, served = context.service, context.served
    writes, way = writer_of(service, served), way_of(context)
    results = Results(send, context.share, at_once=at_once)
    stream = _Stream(writes, served, way, results)
    waiting: asyncio.Queue[Line | None] = asyncio.Queue(_MOST_BATCHED)
    room = _Room(_MOST_BYTES)
    problem: str | None = None

    async def read() -> str | None:
        number = 0
        try:
            async for content in lines_of(chunks, service.limits.line_bytes):
                number += 1
                if content.strip():
                    line = parsed(number, content)
                    await room.take(line.num_bytes)
                    await waiting.put(line)
        except TooLongError:
            return f"line {number + 1} is longer than {service.limits.line_bytes:,} bytes"
        except ProblemError as error:
            return error.detail
        return None

    async def read_all() -> str | None:
        found = await read()
        await waiting.put(None)
        return found

    reading = asyncio.create_task(read_all())
    try:
        while (batch := await _batch(waiting)) is not None:
            await stream.write(batch)
            room.give_back(sum(line.num_bytes for line in batch))
        problem = await reading
    except ProblemError as error:  # the writer has gone
        problem = error.detail
    except SegmaxError as error:  # the disk is full
        problem = problem_of(error).detail
    except asyncio.CancelledError:
        problem = "the service is stopping"
    except BaseException:
        results.cancel()
        raise
    finally:
        reading.cancel()
    await results.add(stream.end(problem))
    await results.close()


async def _batch(waiting: asyncio.Queue[Line | None]) -> list[Line] | None:
    """Return the lines that have come; None at the end."""
    first = await waiting.get()
    if first is None:
        return None
    batch = [first]
    while len(batch) < _MOST_BATCHED and not waiting.empty():
        line = waiting.get_nowait()
        if line is None:
            waiting.put_nowait(None)
            break
        batch.append(line)
    return batch


class _Room:
    """Bounds the bytes of lines that wait."""

    def __init__(self, num_bytes: int) -> None:
        self._free = num_bytes
        self._freed = asyncio.Event()

    async def take(self, num_bytes: int) -> None:
        while self._free <= 0:
            self._freed.clear()
            await self._freed.wait()
        self._free -= num_bytes

    def give_back(self, num_bytes: int) -> None:
        self._free += num_bytes
        self._freed.set()


class _Stream:
    """The state of one stream: what was written, and what was refused."""

    def __init__(self, writes: Writes, served: Served, way: tuple[str, bool], results: Results) -> None:
        self._writes = writes
        self._name = served.name
        self._way = way
        self._results = results
        self._encoder = msgspec.json.Encoder()
        self._count = self._errors = 0
        assert isinstance(served.source, Collection), "checked before"
        self._sequence = served.source.sequence

    async def write(self, batch: list[Line]) -> None:
        """Write the documents of some lines, and send their results."""
        documents = [line.document for line in batch if line.document is not None]
        refused: list[str | None] = []
        if documents:
            found = await self._writes.call("put_each", self._name, documents, *self._way)
            refused, self._sequence = found["errors"], found["sequence"]
        errors = iter(refused)
        lines = [self._result(line, line.error if line.document is None else next(errors)) for line in batch]
        await self._results.add(self._encoder.encode_lines(lines))

    def _result(self, line: Line, error: str | None) -> messages.LineResult:
        if error is None:
            self._count += 1
        else:
            self._errors += 1
        id = None if line.document is None else line.document.get("id")
        return messages.LineResult(line=line.number, ok=error is None, id=id, error=error)

    def end(self, problem: str | None) -> bytes:
        """Return the last line of the answer."""
        message = messages.StreamEnd(
            done=problem is None,
            count=self._count,
            errors=self._errors,
            sequence=self._sequence,
            error=problem,
        )
        return self._encoder.encode(message) + b"\n"
