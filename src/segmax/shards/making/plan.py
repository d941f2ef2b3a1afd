"""The stages of a build, one after another: what the tasks of each are, and what their results mean for the next."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from segmax.base.errors import SegmaxWarning
from segmax.base.progress import Progress, Stage
from segmax.shards.making.columns import column_strings, string_column
from segmax.shards.making.measuring import QUESTIONS
from segmax.shards.making.packed import DamagedFileError, Packed
from segmax.shards.making.pieces import Piece
from segmax.shards.making.routing import SECTIONS, Route
from segmax.shards.making.sampling import TakeSample
from segmax.shards.making.shard_building import BUILT, BuildShard
from segmax.shards.making.statistics import SCALES, scale_arrays
from segmax.shards.making.tasks import BUILDING, JOURNAL, Executor, Task, Workplace
from segmax.shards.making.training import Train, number_of_clusters, sample_share
from segmax.shards.router import RouterPlan
from segmax.storage.config import BuildConfig
from segmax.vectors.quantize import TermStatistics

#: The file that says that all documents are routed.
_ROUTED = "routed"
_NEEDED_FOR_SHARDS = frozenset({JOURNAL, SCALES, SECTIONS, BUILT, QUESTIONS, _ROUTED})
Finished = TypeVar("Finished")
_ATTEMPTS = 3  # at the whole build, where files of it turn out to be damaged


class Documents(Protocol):
    """All documents of a build, once they are vectors in pieces."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """The pieces, in the order of rows."""

    @property
    def num_terms(self) -> int:
        """How many terms there are."""

    @property
    def terms(self) -> Sequence[str] | None:
        """The word of every term, where they have words."""

    def statistics(self) -> TermStatistics:
        """Return the statistics of all weights."""


@dataclasses.dataclass(frozen=True)
class Built:
    """What the tasks of a build have made."""

    shards: Sequence[Mapping[str, Any]]  #: of those that have documents: hash, number of documents, ...
    numbers: Sequence[int]  #: the number of each of them among those asked for
    num_terms: int
    terms: Sequence[str] | None


class Plan:
    """Runs the stages.

    Parameters
    ----------
    read
        Runs the stages up to vectors in pieces; they depend on the kind of input.
    config
        Options of the index.
    num_shards, by_clusters
        How many shards there are to be, of whole clusters or of rows.
    work, executor, progress
        Where, by what, and who hears of it.
    """

    def __init__(
        self,
        read: Callable[[Plan], Documents],
        config: BuildConfig,
        num_shards: int,
        *,
        by_clusters: bool,
        work: Workplace,
        executor: Executor,
        progress: Progress,
    ) -> None:
        self._read = read
        self.config = config
        self.num_shards = num_shards
        self.by_clusters = by_clusters
        self.work = work
        self._executor = executor
        self._progress = progress

    def run(self, finish: Callable[[Built], Finished]) -> Finished:
        """Run all stages; where a file turns out to be damaged, once more: what is whole is not done again.

        `finish` makes the index of what the tasks have made.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return finish(self._stages())
            except DamagedFileError:
                self.work.storage.remove(f"{BUILDING}/{_ROUTED}")
        return finish(self._stages())

    def results(self, stage: str, tasks: Sequence[Task]) -> list[Mapping[str, Any]]:
        """Run the tasks of a stage and return their results in order."""
        found = dict(self.each(stage, tasks))
        return [found[number] for number in range(len(found))]

    def each(self, stage: str, tasks: Sequence[Task]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Run the tasks of a stage and yield their results as they come."""
        with self.stage(stage, len(tasks)) as shown:
            for number, result in self._executor.run(tasks, self.work):
                shown.advance(1)
                yield number, result

    def stage(self, name: str, num_tasks: int | None) -> contextlib.AbstractContextManager[Stage]:
        """Start a stage of so many tasks, whose progress is shown; None where that is not known."""
        return self._progress.stage(name, num_tasks, "tasks")

    def start_over(self) -> None:
        """Remove everything that earlier attempts at this build have left."""
        for name in self.work.storage.names(BUILDING):
            if name != JOURNAL:
                self.work.storage.remove(f"{BUILDING}/{name}")

    def _stages(self) -> Built:
        routed = self.work.find(_ROUTED) or self._routed()
        counts, num_terms = routed.arrays["num_docs"], routed.about["num_terms"]
        numbers = np.flatnonzero(counts).tolist()
        router = RouterPlan.of(int(counts.sum()), routed.about["num_postings"], self.config.seed)
        tasks = [
            BuildShard(number, int(counts[number]), routed.about["num_pieces"], num_terms, self.config, router)
            for number in numbers
        ]
        shards = self.results("shards", tasks)
        terms = column_strings(routed.arrays, "term") if "term_offset" in routed.arrays else None
        return Built(shards, numbers, num_terms, terms)

    def _routed(self) -> Packed:
        """Run the stages up to documents that lie apart by shard; what only these stages needed is removed."""
        documents = self._read(self)
        statistics = documents.statistics()
        if not statistics.counts.any():
            _warn_of_nothing(sum(piece.num_docs for piece in documents.pieces))
        self.work.keep(SCALES, scale_arrays(statistics, self.config.bits), {})
        if self.by_clusters:
            self._cluster(documents)
        terms = {} if documents.terms is None else string_column("term", documents.terms)
        about = {
            "num_pieces": len(documents.pieces),
            "num_terms": documents.num_terms,
            "num_postings": int(statistics.counts.sum()),
        }
        self.work.keep(_ROUTED, {"num_docs": self._route(documents), **terms}, about)
        for name in self.work.storage.names(BUILDING):
            if name not in _NEEDED_FOR_SHARDS:
                self.work.storage.remove(f"{BUILDING}/{name}")
        return self.work.load(_ROUTED)

    def _cluster(self, documents: Documents) -> None:
        num_docs = sum(piece.num_docs for piece in documents.pieces)
        num_clusters = number_of_clusters(self.config, num_docs, self.num_shards)
        share = sample_share(num_docs, num_clusters)
        seed, bits, num_terms = self.config.seed, self.config.bits, documents.num_terms
        self.results("sample", [TakeSample(piece, num_terms, share, seed, bits) for piece in documents.pieces])
        train = Train(len(documents.pieces), num_docs, num_terms, num_clusters, self.num_shards, seed)
        self.results("cluster", [train])

    def _route(self, documents: Documents) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return how many documents every shard gets."""
        tasks = [
            Route(piece, documents.num_terms, self.num_shards, self.config.bits, self.by_clusters)
            for piece in documents.pieces
        ]
        counts = np.zeros(self.num_shards, dtype=np.int64)
        for _, result in self.each("route", tasks):
            counts += np.asarray(result["num_docs"], dtype=np.int64)
        return counts


def _warn_of_nothing(num_docs: int) -> None:
    msg = f"all {num_docs:,} documents are empty: no term has a weight above 0, so no search will find anything"
    warnings.warn(msg, SegmaxWarning, stacklevel=6)
