"""Helper processes that count words: splitting text holds Python's lock, so threads would not help."""

from __future__ import annotations

import contextlib
import pickle
import queue
from collections.abc import Sequence
from typing import Self

from segmax.base.errors import ConfigError, SegmaxError
from segmax.encoders.words import Counts, WordProcess, WordRules


class WordProcesses:
    """Processes that count words; one is started when all others are busy."""

    def __init__(self, rules: WordRules) -> None:
        self._rules = rules
        self._idle: queue.SimpleQueue[WordProcess] = queue.SimpleQueue()
        self._all: list[WordProcess] = []

    def count(self, texts: Sequence[str]) -> Counts:
        """Count the words of every text; called by as many threads as there may be processes."""
        process = self._take()
        try:
            return process.count(texts)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            msg = f"a process that counts words ended too early ({error})"
            raise SegmaxError(msg, hint="BM25({workers=1}) starts no process") from error
        finally:
            self._idle.put(process)

    def _take(self) -> WordProcess:
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        try:
            process = WordProcess(self._rules)
        except OSError as error:
            msg = f"the system could not start process {len(self._all) + 1} to count words ({error.strerror or error})"
            raise ConfigError(msg, hint="use fewer {workers}; BM25({workers=1}) starts no process") from error
        self._all.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.close()
