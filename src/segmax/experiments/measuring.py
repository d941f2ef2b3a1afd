"""What experiments share: plans of indexes, methods measured on them at several depths, and means over seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from segmax.building.clustering import Clustering
from segmax.evaluation.measures import measure_names
from segmax.experiments import verdicts
from segmax.experiments.collections import Collection
from segmax.experiments.outcome import Cell, Json
from segmax.experiments.task import Task
from segmax.experiments.verdicts import Compared, Ruling
from segmax.paper import method_name
from segmax.search.index import Index
from segmax.search.methods import SearchParams
from segmax.storage.config import DocumentOrder, Segmentation
from segmax.vectors.pruning import Step

#: The figures of one method, as `MethodResult.to_dict` names them.
Row = dict[str, Any]

#: The key of the values of every query, by measure.
PER_QUERY = "per_query"
#: The figures of every method besides measures of relevance.
RECALL_OF_EXACT = "recall_of_exact"
CLUSTERS_VISITED = "clusters_visited"

_NO_QRELS = (
    "This collection has no judgments: recall of exact, the share of exhaustive search's results that a method finds, "
    "replaces MRR and recall."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """An index to build; `representation` names `clustering`, by default the sparse vectors."""

    num_clusters: int
    num_segments: int = 8
    segmentation: Segmentation = "random"
    document_order: DocumentOrder = "similarity"
    pruning: tuple[Step, ...] = ()
    representation: str = "sparse"
    clustering: Clustering | None = None

    @property
    def shape(self) -> str:
        """Clusters and segments as the paper writes them.

        Examples
        --------
        >>> Plan(num_clusters=512, num_segments=16).shape
        '512*16'
        """
        return f"{self.num_clusters}*{self.num_segments}"

    def to_dict(self) -> dict[str, Json]:
        """Return what the index depends on, besides collection and seed, as plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["clustering"]
        return {**values, "pruning": [step.to_dict() for step in self.pruning]}

    def build(self, task: Task, collection: Collection, seed: int) -> Index:
        """Build the index."""
        return task.build(
            collection,
            num_clusters=self.num_clusters,
            num_segments=self.num_segments,
            seed=seed,
            clustering=self.clustering,
            segmentation=self.segmentation,
            pruning=self.pruning,
            document_order=self.document_order,
        )


class Measured(NamedTuple):
    """Figures by depth and method, and of the index, as means over seeds; `records` has every seed's."""

    rows: dict[int, dict[str, Row]]
    records: list[Row]
    figures: Row


def measure(
    task: Task,
    collection: Collection,
    plan: Plan,
    methods: Mapping[int, Mapping[str, SearchParams]],
    look: Callable[[Index], Row] | None = None,
) -> Measured:
    """Measure methods on an index of every seed, which is built only if a step is not known yet.

    Parameters
    ----------
    task, collection
        How and on what.
    plan
        The index.
    methods
        Parameters by depth and name.
    look
        Returns figures of the index itself; always the same function for the same plan.
    """
    records: list[Row] = []
    found: dict[int, list[list[Row]]] = {k: [] for k in methods}
    looks: list[Row] = []
    for seed in task.seeds:
        index = cache(partial(plan.build, task, collection, seed))
        about = {"collection": collection.name, **plan.to_dict(), "seed": seed}
        for k, named in methods.items():
            key = {"k": k, "methods": {name: method_name(params) for name, params in named.items()}}
            compute = partial(_measured, task, collection, index, named, k)
            rows: list[Row] = task.step(_key(collection, plan, seed, key), compute)
            records += [{**about, "k": k, **_averages(row)} for row in rows]
            found[k].append(rows)
        if look is not None:
            figures = task.step(_key(collection, plan, seed, {"look": True}), partial(_looked, look, index))
            records.append({**about, **_averages(figures)})
            looks.append(figures)
    means = {k: {rows[0]["name"]: _mean(rows) for rows in zip(*lists, strict=True)} for k, lists in found.items()}
    return Measured(means, records, _mean(looks) if looks else {})


_Lazy = Callable[[], Index]


def _measured(
    task: Task, collection: Collection, index: _Lazy, methods: Mapping[str, SearchParams], k: int
) -> list[Row]:
    return task.measured(index(), collection, methods, k)


def _looked(look: Callable[[Index], Row], index: _Lazy) -> Row:
    return look(index())


def _averages(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != PER_QUERY}


def _key(collection: Collection, plan: Plan, seed: int, more: Mapping[str, Json]) -> dict[str, Json]:
    return {"collection": collection.fingerprint, "index": plan.to_dict(), "seed": seed, **more}


def _mean(rows: Sequence[Row]) -> Row:
    """Return the mean of every number, also query by query; other values are those of the first row."""
    means = {
        name: sum(row[name] for row in rows) / len(rows) if isinstance(value, int | float) else value
        for name, value in rows[0].items()
    }
    if PER_QUERY in means:
        means[PER_QUERY] = {
            name: np.mean([row[PER_QUERY][name] for row in rows], axis=0).tolist() for name in means[PER_QUERY]
        }
    return means


# --- measures of quality ----------------------------------------------------------------------------------------------


def quality_keys(collection: Collection, k: int) -> tuple[str, ...]:
    """Return the figures that measure quality: measures of relevance, if there are judgments, and recall of exact."""
    mrr, _, recall = measure_names(k)
    measures = () if collection.qrels is None else (mrr, recall)
    return (*measures, RECALL_OF_EXACT)


def mrr_key(k: int) -> str:
    """Return the name of MRR at a depth: MRR@10, or MRR@k if k is smaller."""
    return measure_names(k)[0]


def ndcg_key(k: int) -> str:
    """Return the name of nDCG at a depth: nDCG@10, or nDCG@k if k is smaller."""
    return measure_names(k)[1]


def recall_key(collection: Collection, k: int) -> str:
    """Return the figure that corresponds to the paper's recall."""
    return RECALL_OF_EXACT if collection.qrels is None else f"Recall@{k}"


def quality_note(collection: Collection) -> str:
    """Return a note on the figures of a collection without judgments; an empty one for others."""
    return _NO_QRELS if collection.qrels is None else ""


#: A figure computed from others: the share of clusters visited, in percent.
VISITED = "C%"


def figure(row: Row, key: str) -> Cell:
    """Return a figure of a row, or None if it has none.

    Examples
    --------
    >>> figure({"clusters_visited": 0.25}, VISITED)
    25.0
    """
    if key == VISITED:
        return None if row[CLUSTERS_VISITED] is None else visited(row)
    value: Cell = row.get(key)
    return value


def visited(row: Row) -> float:
    """Return the share of clusters that a method visits, in percent; only for methods that visit clusters."""
    return 100.0 * float(row[CLUSTERS_VISITED])


def cells(row: Row, keys: Iterable[str]) -> tuple[Cell, ...]:
    """Return figures of a row, None for each that it lacks."""
    return tuple(figure(row, key) for key in keys)


def heading(key: str) -> str:
    """Return how a table names a figure.

    Examples
    --------
    >>> heading("recall_of_exact")
    'recall of exact'
    """
    return {"mean_ms": "MRT ms", "p99_ms": "P99 ms"}.get(key, key.replace("_", " "))


def headings(keys: Iterable[str]) -> tuple[str, ...]:
    """Return how a table names several figures."""
    return tuple(heading(key) for key in keys)


def faster(slow: Row, fast: Row) -> float:
    """Return how many times faster the second method is, by mean time.

    Examples
    --------
    >>> faster({"mean_ms": 3.0}, {"mean_ms": 2.0})
    1.5
    """
    return float(slow["mean_ms"] / fast["mean_ms"])


def is_faster(slow: Row, fast: Row) -> Ruling:
    """Return whether the second method is faster, by mean time."""
    return verdicts.is_faster(slow["mean_ms"], fast["mean_ms"])


def compared(first: Row, second: Row, key: str) -> Compared:
    """Compare two methods by a figure that every query has."""
    return verdicts.compared(first[PER_QUERY][key], second[PER_QUERY][key])


def relevance_keys(row: Row) -> list[str]:
    """Return the measures of relevance that a row has for every query; recall of exact without judgments."""
    found = [key for key in row[PER_QUERY] if key not in (RECALL_OF_EXACT, CLUSTERS_VISITED)]
    return found or [RECALL_OF_EXACT]


def kept(value: float, reference: float) -> float:
    """Return a value as a share of another; 1 if both are 0.

    Examples
    --------
    >>> kept(0.45, 0.9), kept(0.0, 0.0)
    (0.5, 1.0)
    """
    return value / reference if reference else 1.0


def unique_names(collections: Iterable[Collection]) -> list[str]:
    """Return the names of collections, numbered where one repeats, for example with another model's vectors."""
    names: list[str] = []
    for collection in collections:
        again = sum(name.partition(" #")[0] == collection.name for name in names)
        names.append(f"{collection.name} #{again + 1}" if again else collection.name)
    return names


def sentences(*parts: str) -> str:
    """Join the parts of a note that are not empty."""
    return " ".join(part for part in parts if part)
