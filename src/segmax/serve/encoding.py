"""Texts to vectors, beside the searches: one thread, and whatever waits is encoded together."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from segmax.base.errors import InputError
from segmax.serve.problems import overloaded
from segmax.vectors.csr import Csr
from segmax.vectors.rows import slice_rows

_MOST_TEXTS = 32  # that are encoded at once
_MOST_WAITING = 256


class Encodes(Protocol):
    """Whatever encodes the texts of an index: a thread of this process, or another process."""

    async def encode(self, texts: Sequence[str]) -> Csr:
        """Return the vectors of texts, a row each."""


class QueryEncoder(Protocol):
    """The part of an encoder that is used here."""

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return the vectors of queries, a row each."""


class EncoderThread:
    """Runs an encoder in a thread of its own. Texts that wait are encoded as one batch.

    Vectors never wait for texts: searches run on other threads, and a model lets these run while it works.
    """

    def __init__(self, encoder: QueryEncoder, name: str) -> None:
        self._encoder = encoder
        self._waiting: queue.Queue[tuple[list[str], asyncio.Future[Csr], asyncio.AbstractEventLoop] | None]
        self._waiting = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name=f"encoder-{name}", daemon=True)
        self._thread.start()

    async def encode(self, texts: Sequence[str]) -> Csr:
        """Return the vectors of texts, a row each."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Csr] = loop.create_future()
        try:
            self._waiting.put_nowait((list(texts), future, loop))
        except queue.Full:
            raise overloaded(1.0) from None
        return await future

    def close(self) -> None:
        """Stop the thread after what it works on."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            jobs = [first]
            count = len(first[0])
            while count < _MOST_TEXTS:
                try:
                    job = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    self._waiting.put(None)
                    break
                jobs.append(job)
                count += len(job[0])
            self._encode(jobs)

    def _encode(self, jobs: list[tuple[list[str], asyncio.Future[Csr], asyncio.AbstractEventLoop]]) -> None:
        try:
            rows = self._encoder.query_rows([text for texts, _, _ in jobs for text in texts])
        except Exception as error:
            if len(jobs) > 1:  # one text may be to blame for all
                for job in jobs:
                    self._encode([job])
                return
            _, future, loop = jobs[0]
            loop.call_soon_threadsafe(_fail, future, error)
            return
        start = 0
        for texts, future, loop in jobs:
            loop.call_soon_threadsafe(_done, future, slice_rows(rows, start, start + len(texts)))
            start += len(texts)


def _done(future: asyncio.Future[Csr], rows: Csr) -> None:
    if not future.done():
        future.set_result(rows)


def _fail(future: asyncio.Future[Csr], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class NoEncoder:
    """Stands for an index that cannot be searched for texts."""

    async def encode(self, texts: Sequence[str]) -> Csr:
        """Refuse."""
        raise InputError(
            expected="terms or a vector, because this index has no encoder for texts",
            got="text",
            hint="start the service with {encoder=...} to search for texts",
        )


def rows_of(csr: Csr) -> list[tuple[list[int], list[float]]]:
    """Return the terms and weights of every row, as a request would have them."""
    indptr, indices, values = csr.indptr.tolist(), csr.indices.tolist(), np.asarray(csr.values, np.float64).tolist()
    return [(indices[start:stop], values[start:stop]) for start, stop in itertools.pairwise(indptr)]
