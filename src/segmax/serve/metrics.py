"""Figures for Prometheus, by its own client library."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from segmax.collection.collection import Collection
from segmax.ray.opening import RayIndex
from segmax.search.results import STATS_FIELDS, BatchStats
from segmax.shards.sharded import ShardedIndex

if TYPE_CHECKING:
    from segmax.serve.catalog import Served
    from segmax.serve.service import Service

#: Where the processes of a service keep their figures, so that any of them can report all; `cli.serve` sets it.
_SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: Counters of searches, by the field of `SearchStats` that they add up.
_SUMS = {
    "clusters_visited": ("segmax_clusters_visited", "Clusters that searches visited"),
    "clusters_pruned": ("segmax_clusters_pruned", "Clusters that searches left out by the rule of ASC"),
    "blocks_scored": ("segmax_blocks_scored", "Blocks of documents that searches scored"),
    "docs_scored": ("segmax_documents_scored", "Documents that searches scored"),
    "swept": ("segmax_searches_swept", "Searches that scored all documents"),
    "budget_hit": ("segmax_searches_partial", "Searches that a budget or a limit cut short"),
}
_COLUMNS = tuple(STATS_FIELDS.index(name) for name in _SUMS)
_ELAPSED = STATS_FIELDS.index("elapsed_ns")


class Metrics:
    """What a process of a service counts.

    Counting one by one would take as long as reading a request, so sums are kept in plain numbers and handed on by
    `flush`, which somebody calls a few times per second.
    """

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self._seconds = Histogram(
            "segmax_request_seconds", "Time to answer a request", ["operation"], buckets=_SECONDS, registry=own
        )
        self._requests = Counter("segmax_requests", "Requests by status", ["operation", "status"], registry=own)
        self._search_seconds = Histogram(
            "segmax_search_seconds", "Time of a search in the core", ["index"], buckets=_SECONDS, registry=own
        )
        self._batches = Counter("segmax_batches", "Batches of searches that ran together", ["index"], registry=own)
        self._sums = {name: Counter(title, text, ["index"], registry=own) for name, (title, text) in _SUMS.items()}
        self._shed = Counter("segmax_requests_shed", "Requests refused because of overload", registry=own)
        self.connections = Gauge("segmax_connections", "Open connections", registry=own, multiprocess_mode="livesum")
        self._up = Gauge(
            "segmax_up", "1 while it can be searched, 0 while its files cannot be read", ["index"],
            registry=own, multiprocess_mode="livemin",
        )  # fmt: skip
        self._gauges = {
            name: Gauge(f"segmax_{name}", text, ["index"], registry=own, multiprocess_mode="livemostrecent")
            for name, text in {
                "documents": "Documents",
                "index_bytes": "Size of all components",
                "parts": "Parts of a collection",
                "log_bytes": "Size of a collection's log",
                "shards": "Shards of a sharded index",
                "shards_up": "Shards with at least one replica that answers",
                "replicas_up": "Replicas of shards that answer",
                "replica_restarts": "How often replicas were started again",
            }.items()
        }
        self._answers: dict[tuple[str, int], int] = {}
        self._pending: dict[str, list[int]] = {}
        self._num_batches: dict[str, int] = {}
        self._batch_times: list[tuple[str, NDArray[np.uint64]]] = []
        self._observe: dict[str, Histogram] = {}
        self._observe_search: dict[str, Histogram] = {}
        self._num_shed = 0

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = operation, status
        self._answers[key] = self._answers.get(key, 0) + 1
        histogram = self._observe.get(operation)
        if histogram is None:
            histogram = self._observe[operation] = self._seconds.labels(operation)
        histogram.observe(seconds)

    def shed(self, operation: str) -> None:
        """Count a request that was refused before it was read; it took no time that would be worth a figure."""
        key = operation, 503
        self._answers[key] = self._answers.get(key, 0) + 1

    def ran_together(self, name: str) -> None:
        """Count a batch: searches that came together, of which there may be one."""
        self._num_batches[name] = self._num_batches.get(name, 0) + 1

    def searched(self, name: str, stats_row: NDArray[np.uint64]) -> None:
        """Count a search, by what it cost."""
        row = stats_row.tolist()
        self._searches(name).observe(row[_ELAPSED] / 1e9)
        sums = self._pending[name]
        for place, column in enumerate(_COLUMNS):
            sums[place] += row[column]

    def searched_batch(self, name: str, stats: BatchStats) -> None:
        """Count many searches; their times are sorted into the histogram later."""
        self._batch_times.append((name, stats.elapsed_ns))
        for field, column in zip(_SUMS, _COLUMNS, strict=True):
            self._sums[field].labels(name).inc(int(stats.table[:, column].sum()))

    def _searches(self, name: str) -> Histogram:
        """Return the histogram of an index, looked up once."""
        histogram = self._observe_search.get(name)
        if histogram is None:
            histogram = self._observe_search[name] = self._search_seconds.labels(name)
            self._pending[name] = [0] * len(_SUMS)
        return histogram

    def flush(self, num_shed: int) -> None:
        """Hand on what was counted since the last time; `num_shed` is the number of refused requests so far."""
        answers, self._answers = self._answers, {}
        for (operation, status), count in answers.items():
            self._requests.labels(operation, str(status)).inc(count)
        for name, sums in self._pending.items():
            for (field, _), count in zip(_SUMS.items(), sums, strict=True):
                if count:
                    self._sums[field].labels(name).inc(count)
            self._pending[name] = [0] * len(_SUMS)
        times, self._batch_times = self._batch_times, []
        for name, elapsed_ns in times:
            for nanoseconds in elapsed_ns.tolist():
                self._searches(name).observe(nanoseconds / 1e9)
        batches, self._num_batches = self._num_batches, {}
        for name, count in batches.items():
            self._batches.labels(name).inc(count)
        self._shed.inc(num_shed - self._num_shed)
        self._num_shed = num_shed

    def text(self, service: Service) -> bytes:
        """Return all figures, of all processes, as Prometheus reads them."""
        self.flush(service.admission.num_shed)
        for served in service.catalog.values():
            self._describe(served)
        if _SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        multiprocess.MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)

    def _describe(self, served: Served) -> None:
        self._up.labels(served.name).set(served.is_open)
        if not served.is_open:
            return
        source = served.source
        figures = {"documents": source.num_docs, "index_bytes": source.num_bytes}
        if isinstance(source, Collection):
            stats = source.stats()
            figures |= {"parts": stats.num_parts, "log_bytes": stats.log_bytes}
        if isinstance(source, ShardedIndex):
            figures |= {"shards": source.num_shards}
        if isinstance(source, RayIndex):
            status = source.status()
            replicas = [replica.state for shard in status.shards for replica in shard.replicas]
            figures |= {"shards_up": sum(shard.serves for shard in status.shards), "replicas_up": replicas.count("up")}
            figures |= {"replica_restarts": status.restarts}
        for name, value in figures.items():
            self._gauges[name].labels(served.name).set(value)
