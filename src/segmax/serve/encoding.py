"""Texts to vectors, beside the searches: one thread, and whatever waits is encoded together."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from segmax.base.errors import InputError
from segmax.serve.problems import overloaded
from segmax.vectors.csr import Csr
from segmax.vectors.rows import slice_rows

_MOST_TEXTS = 32  # that are encoded at once
_MOST_CHARS = 1 << 22  # of texts that wait
_MOST_SECONDS = 2.0  # that a text may be expected to wait
_FIRST_COST = 1e-6  # seconds per character, before anything is known
_COST_SHARE = 0.2  # of the last batch in the running mean


class QueryEncoder(Protocol):
    """The part of an encoder that is used here."""

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return the vectors of queries, a row each."""


class Encodes(Protocol):
    """Whatever encodes the texts of an index: a thread of this process, or another process."""

    async def encode(self, encoder: QueryEncoder | None, texts: Sequence[str], deadline: float | None) -> Csr:
        """Return the vectors of texts, a row each; there is no use in them after the deadline."""


class _Job(NamedTuple):
    encoder: QueryEncoder
    texts: list[str]
    deadline: float | None
    future: asyncio.Future[Csr]
    loop: asyncio.AbstractEventLoop
    num_chars: int


class EncoderThread:
    """Runs encoders in a thread of its own. Texts that wait for the same encoder are encoded as one batch.

    Vectors never wait for texts: searches run on other threads, and a model lets these run while it works. Texts that
    would have to wait too long are refused.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._num_chars = 0  # of what waits, and of what is being encoded
        self._cost = _FIRST_COST
        self._held: _Job | None = None  # taken from the queue, and for another encoder
        self._thread = threading.Thread(target=self._run, name=f"encoder-{name}", daemon=True)
        self._thread.start()

    async def encode(self, encoder: QueryEncoder | None, texts: Sequence[str], deadline: float | None) -> Csr:
        """Return the vectors of texts, a row each; refuse texts that would come too late."""
        if encoder is None:
            raise no_encoder()
        loop = asyncio.get_running_loop()
        wait = self._num_chars * self._cost
        is_late = deadline is not None and time.perf_counter() + wait > deadline
        if self._num_chars and (is_late or wait > _MOST_SECONDS or self._num_chars > _MOST_CHARS):
            raise overloaded(wait)
        job = _Job(encoder, list(texts), deadline, loop.create_future(), loop, sum(map(len, texts)) + len(texts))
        self._num_chars += job.num_chars
        self._waiting.put(job)
        try:
            return await job.future
        finally:
            self._num_chars -= job.num_chars

    def close(self) -> None:
        """Stop the thread after what it works on."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (jobs := self._batch()) is not None:
            start = time.perf_counter()
            timely = [job for job in jobs if job.deadline is None or start < job.deadline]
            for job in jobs:
                if job not in timely:
                    job.loop.call_soon_threadsafe(_fail, job.future, overloaded(0.0))
            if timely:
                self._encode(timely)
                seconds = time.perf_counter() - start
                self._cost += _COST_SHARE * (seconds / sum(job.num_chars for job in timely) - self._cost)

    def _batch(self) -> list[_Job] | None:
        """Wait for texts, and return those that have come for one encoder; None at the end."""
        first, self._held = self._held or self._waiting.get(), None
        if first is None:
            return None
        jobs, count = [first], len(first.texts)
        while count < _MOST_TEXTS and not self._waiting.empty():
            job = self._waiting.get()
            if job is None:
                self._waiting.put(None)
                break
            if job.encoder is not first.encoder:
                self._held = job
                break
            jobs.append(job)
            count += len(job.texts)
        return jobs

    def _encode(self, jobs: list[_Job]) -> None:
        try:
            rows = jobs[0].encoder.query_rows([text for job in jobs for text in job.texts])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].loop.call_soon_threadsafe(_fail, jobs[0].future, error)
                return
            for job in jobs:  # one text may be to blame for all
                self._encode([job])
            return
        start = 0
        for job in jobs:
            found = slice_rows(rows, start, start + len(job.texts))
            job.loop.call_soon_threadsafe(_done, job.future, found)
            start += len(job.texts)


def _done(future: asyncio.Future[Csr], rows: Csr) -> None:
    if not future.done():
        future.set_result(rows)


def _fail(future: asyncio.Future[Csr], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def no_encoder() -> InputError:
    """Return the error about an index that cannot be searched for texts."""
    return InputError(
        expected="terms or a vector, because this index has no encoder for texts",
        got="text",
        hint="start the service with {encoder=...} to search for texts",
    )


def rows_of(csr: Csr) -> Iterator[tuple[list[int], list[float]]]:
    """Yield the terms and weights of every row, as a request would have them."""
    values = np.asarray(csr.values, np.float64)
    for start, stop in itertools.pairwise(csr.indptr.tolist()):
        yield csr.indices[start:stop].tolist(), values[start:stop].tolist()
