"""Stage 6: the documents of a shard become an index, by the stages of `segmax.build`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from segmax.building.builder import BuildRequest, CodedDocuments, build_index
from segmax.building.clustering import Clustering, Labels, Sparse
from segmax.building.resources import open_resources
from segmax.collection.lookup import hashed_ids, lookup_arrays
from segmax.collection.part import open_part
from segmax.metadata import pack_metadata
from segmax.shards.making.columns import joined_arrays, stored_metadata, stored_texts, vectors_of
from segmax.shards.making.measuring import QUESTIONS, answers, questions_of
from segmax.shards.making.packed import Packed
from segmax.shards.making.routing import find_sections
from segmax.shards.making.statistics import SCALES
from segmax.shards.making.tasks import Task, Workplace
from segmax.shards.router import RouterPlan, shard_maxima
from segmax.shards.shard import LatticeArrays
from segmax.storage.blocks import Append
from segmax.storage.components import Arrays
from segmax.storage.config import BuildConfig
from segmax.storage.reading import load_index
from segmax.vectors.documents import BaseVectors, VectorBatch

#: The folder of what is known of finished shards.
BUILT = "built"


@dataclasses.dataclass(frozen=True)
class BuildShard(Task):
    """Builds one shard, checks it, and moves it to its place."""

    shard: int
    num_docs: int
    num_pieces: int
    num_terms: int
    config: BuildConfig
    router: RouterPlan  #: how fine the router is that is made of all shards

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return built_name(self.shard)

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether the shard is there, every byte of it."""
        return work.storage.has_shard(found.about["entry"]["hash"])

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Build the shard, and write what the router needs of it."""
        with work.own_folder() as folder:
            path = folder / "shard"
            documents = RoutedDocuments(self, work)
            self._build(documents, path, work)
            load_index(path, preload=False, verify=True)
            part = open_part(folder, path.name)
            entry = {
                "num_docs": part.num_docs,
                "num_postings": part.num_postings,
                "num_bytes": sum(file.stat().st_size for file in path.iterdir()),
                "num_clusters": part.engine.core.num_clusters,
                "first_row": int(part.numbers[0]),
            }
            about: dict[str, Any] = {
                "id_kind": "int" if "id_number" in part.id_arrays else "str",
                "has_texts": documents.has_texts,
                "has_metadata": documents.has_metadata,
            }
            kept = shard_maxima(part, self.router)
            if (asked := work.find(QUESTIONS)) is not None:
                scales = work.load(SCALES).arrays
                lattice = LatticeArrays(scales["scale"], scales["largest"])
                kept |= answers(part, lattice, questions_of(asked.arrays, self.num_terms))
            del part
            about["entry"] = {"hash": work.storage.put_shard(path), **entry}
        work.keep(self.output, kept, about)
        return about

    def _build(self, documents: RoutedDocuments, path: Path, work: Workplace) -> None:
        ids, rows, labels = documents.ids_rows_and_labels()
        components: Arrays = {**ids, "doc_number": rows, **lookup_arrays(hashed_ids(ids))}
        clustering: Clustering = Sparse() if labels is None else Labels(labels)
        coded = CodedDocuments(
            work.load(SCALES).arrays["scale"],
            np.arange(len(rows), dtype=np.uint32),
            components,
            documents.write_metadata if documents.has_metadata else None,
        )
        # Documents are pruned and coded; what approximate settings keep is a matter of all shards.
        config = self.config.updated({"calibrate": False, "pruning": ()})
        request = BuildRequest(
            path=path,
            overwrite=False,
            config=config,
            clustering=clustering,
            texts=documents.texts() if documents.has_texts else None,
            coded=coded,
        )
        with open_resources(path, work.resources) as resources:
            build_index(documents, request, resources).close()


class RoutedDocuments(BaseVectors):
    """The documents of a shard, as codes, in the order of rows."""

    def __init__(self, task: BuildShard, work: Workplace) -> None:
        self._task = task
        self._work = work
        self._places = find_sections(task.shard, task.num_pieces, work)
        first = self._places[0].read(work)
        self.has_texts = "body_offset" in first  #: whether texts are stored
        self.has_metadata = "metadata_offset" in first  #: whether documents are described by anything

    def _sections(self) -> Iterator[Arrays]:
        return (place.read(self._work) for place in self._places)

    def ids_rows_and_labels(self) -> tuple[Arrays, Any, Any]:
        """Return the ids, as components, and by document its row, and its cluster, where it has one."""
        names = ("id_number", "id_offset", "id_text", "row", "label")
        kept = [{name: section[name].copy() for name in names if name in section} for section in self._sections()]
        joined = joined_arrays(kept)
        ids = {name: array for name, array in joined.items() if name.startswith("id_")}
        return ids, joined["row"], joined.get("label")

    def texts(self) -> Iterator[object]:
        """Yield titles and texts."""
        return itertools.chain.from_iterable(map(stored_texts, self._sections()))

    def write_metadata(self, append: Append) -> dict[str, Any]:
        """Write what documents are described by, and return the entry of meta.json."""
        metadata = itertools.chain.from_iterable(map(stored_metadata, self._sections()))
        return pack_metadata(metadata, self.num_docs, append)

    @property
    def has_ids(self) -> bool:
        """Ids are components already."""
        return False

    @property
    def terms(self) -> None:
        """Terms are those of the whole collection."""
        return

    @property
    def num_docs(self) -> int:
        """How many there are."""
        return self._task.num_docs

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once."""
        return (VectorBatch([], vectors_of(section, self._task.num_terms)) for section in self._sections())


def built_name(shard: int) -> str:
    """Return the file about a shard that is finished."""
    return f"{BUILT}/{shard:06}"
