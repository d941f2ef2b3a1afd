"""PyTerrier: an index as an artifact, filled from `toks` and searched with `query_toks`. Java is never started."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_int, shown
from segmax.base.errors import InputError
from segmax.base.optional import needing
from segmax.base.progress import ProgressOption
from segmax.building.builder import build
from segmax.collection.opening import is_collection, open_searchable
from segmax.integrations.sources import is_address, opened
from segmax.integrations.toks import TokVectors
from segmax.search.methods import SearchParams
from segmax.search.protocol import Searchable, is_searchable
from segmax.storage.config import BuildConfig
from segmax.storage.meta import META_NAME, read_meta

with needing("pyterrier", "segmax.integrations.pyterrier", "pyterrier"):
    import pandas as pd
    import pyterrier as pt

_RESULT_COLUMNS = ("docno", "score", "rank")
_DRAWN = {"help_url": None}  # without it, drawing a transformer asks PyTerrier's own site for a page about it


class SegmaxIndex(pt.Artifact, pt.Indexer):
    """A segmax index as an artifact of PyTerrier: makes indexers and retrievers, and can be packed up and shared.

    In a pipeline it is an indexer with the defaults: `encoder >> SegmaxIndex("my.segmax")`.

    Parameters
    ----------
    path
        Where the index is, or will be; or an open index or collection.
    """

    ARTIFACT_TYPE = "sparse_index"
    ARTIFACT_FORMAT = "segmax"
    ARTIFACT_PACKAGE_HINT = "segmax[pyterrier]"
    schematic = _DRAWN

    def __init__(self, path: str | os.PathLike[str] | Searchable) -> None:
        opened = path if is_searchable(path) else None
        super().__init__(path if opened is None else _path_of(opened))
        self._opened: Searchable | None = opened

    def __repr__(self) -> str:
        return f"SegmaxIndex({str(self.path)!r})"

    def __len__(self) -> int:
        return self.opened().num_docs

    def __bool__(self) -> bool:
        return True  # an index that is not built yet has no length

    def built(self) -> bool:
        """Whether there is an index at the path."""
        return (Path(self.path) / META_NAME).is_file() or is_collection(self.path)

    def opened(self) -> Searchable:
        """Return the index itself, opened on first use."""
        if self._opened is None:
            self._opened = open_searchable(self.path)
        return self._opened

    def retriever(
        self,
        num_results: int = 1000,
        *,
        params: SearchParams | None = None,
        target_recall: float | None = None,
        threads: int | None = None,
    ) -> SegmaxRetriever:
        """Return a transformer from queries with `query_toks` to ranked documents.

        Parameters
        ----------
        num_results
            How many documents per query.
        params, target_recall, threads
            As for `segmax.Index.search_batch`; without them the search is exact, on all cores.
        """
        return SegmaxRetriever(
            self, num_results=num_results, params=params, target_recall=target_recall, threads=threads
        )

    def indexer(
        self,
        *,
        field: str = "toks",
        overwrite: bool = False,
        config: BuildConfig | None = None,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        progress: ProgressOption = None,
    ) -> SegmaxIndexer:
        """Return an indexer that writes this index.

        Parameters
        ----------
        field
            The name of the dictionaries of token to weight.
        overwrite
            Replace the index that is there.
        config, threads, memory_limit, progress
            As for `segmax.build`.
        """
        return SegmaxIndexer(
            self,
            field=field,
            overwrite=overwrite,
            config=config,
            threads=threads,
            memory_limit=memory_limit,
            progress=progress,
        )

    def index_inputs(self) -> list[list[str]]:
        """Return the columns that `index` needs."""
        return self.indexer().index_inputs()

    def index(self, iter: Iterable[Mapping[str, Any]], **kwargs: Any) -> SegmaxIndex:
        """Index documents with `docno` and `toks`; options are those of `indexer`."""
        return self.indexer(**kwargs).index(iter)


class SegmaxIndexer(pt.Indexer):
    """Builds an index from documents with `docno` and `toks`. Made by `SegmaxIndex.indexer`."""

    schematic = _DRAWN

    def __init__(
        self,
        artifact: SegmaxIndex,
        *,
        field: str = "toks",
        overwrite: bool = False,
        config: BuildConfig | None = None,
        threads: int | None = None,
        memory_limit: int | str | None = None,
        progress: ProgressOption = None,
    ) -> None:
        self.artifact = artifact
        self.field = field
        self.overwrite = overwrite
        self.config = config
        self.threads = threads
        self.memory_limit = memory_limit
        self.progress = progress

    def __repr__(self) -> str:
        return f"SegmaxIndexer({self.artifact!r}, field={self.field!r})"

    def index_inputs(self) -> list[list[str]]:
        """Return the columns that `index` needs."""
        return [["docno", self.field]]

    def index(self, iter: Iterable[Mapping[str, Any]], **kwargs: Any) -> SegmaxIndex:
        """Read documents once, build the index, and return it.

        Raises
        ------
        InputError
            If a document lacks a column, or has an invalid value.
        IndexExistsError
            If there is an index already; asked before the first document is read.
        """
        if kwargs:
            msg = f"expected no options here, got {', '.join(kwargs)}; pass them to SegmaxIndex.indexer"
            raise TypeError(msg)
        path = Path(self.artifact.path)
        build(
            TokVectors(iter, self.field),
            path=path,
            config=self.config,
            overwrite=self.overwrite,
            threads=self.threads,
            memory_limit=self.memory_limit,
            progress=self.progress,
        )
        self.artifact._opened = None
        return self.artifact


class SegmaxRetriever(pt.Transformer):
    """From queries with `query_toks` to documents with `docno`, `score` and `rank`; other columns are kept.

    Made by `SegmaxIndex.retriever`, which describes the options.

    Parameters
    ----------
    index
        The index: an artifact, a `segmax.Index` or anything like it, also at a service (`segmax.connect`), or a path or
        an address.
    """

    schematic = _DRAWN

    def __init__(
        self,
        index: SegmaxIndex | Searchable | str | os.PathLike[str],
        *,
        num_results: int = 1000,
        params: SearchParams | None = None,
        target_recall: float | None = None,
        threads: int | None = None,
    ) -> None:
        self.index: SegmaxIndex | Searchable
        if isinstance(index, (str, os.PathLike)) and not is_address(index):
            self.index = SegmaxIndex(index)
        else:
            self.index = index if isinstance(index, SegmaxIndex) else opened(index)
        self.num_results = checked_int("num_results", num_results, 1)
        self.params = params
        self.target_recall = target_recall
        self.threads = threads

    def __repr__(self) -> str:
        options = {"num_results": self.num_results, "params": self.params, "target_recall": self.target_recall}
        shown = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
        return f"SegmaxRetriever({self.index!r}{shown})"

    def fuse_rank_cutoff(self, k: int) -> SegmaxRetriever:
        """Return a retriever that looks for k documents only, so that `retriever % k` is as fast as it can be."""
        if k >= self.num_results:
            return self
        fused: SegmaxRetriever = pt.inspect.transformer_apply_attributes(self, num_results=k)
        return fused

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Search for every row."""
        pt.validate.query_frame(inp, extra_columns=["query_toks"])
        asked = inp.drop(columns=[column for column in _RESULT_COLUMNS if column in inp.columns])
        counts, ids, scores = self._search(asked)
        ranked = asked.iloc[np.repeat(np.arange(len(asked)), counts)].reset_index(drop=True)
        ranks = np.concatenate([np.arange(count) for count in counts] or [counts])
        return ranked.assign(docno=pd.Series(ids, dtype=object), score=scores, rank=ranks)

    def _search(self, asked: pd.DataFrame) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64]]:
        """Return the number of results of every query, and the ids and scores of all."""
        if len(asked) == 0:  # how PyTerrier looks into pipelines, also of an index that is not there yet
            return np.empty(0, np.int64), [], np.empty(0)
        for qid, toks in zip(asked["qid"], asked["query_toks"], strict=True):
            if not isinstance(toks, Mapping):
                raise InputError(
                    option="query_toks",
                    expected="mappings of token to weight",
                    got=f"{shown(toks)} for query {shown(qid)}",
                )
        index = self.index.opened() if isinstance(self.index, SegmaxIndex) else self.index
        found = index.search_batch(
            list(asked["query_toks"]),
            self.num_results,
            self.params,
            target_recall=self.target_recall,
            threads=self.threads,
        )
        ids = [str(doc_id) for of_query in found.ids for doc_id in of_query]
        within = np.arange(found.scores.shape[1]) < found.counts[:, None]
        return found.counts, ids, found.scores[within]


def _path_of(opened: Searchable) -> str:
    path = getattr(opened, "path", None)
    if path is None:
        raise InputError(
            expected="an index on disk, which is an artifact",
            got="one in memory or at a service",
            hint="use SegmaxRetriever(index)",
        )
    return str(path)


def artifact_metadata(path: str, listing: list[str]) -> dict[str, str] | None:
    """Return metadata for a folder that holds a segmax index which PyTerrier did not write."""
    if META_NAME not in listing:
        return None
    try:
        read_meta(Path(path))
    except (OSError, ValueError):
        return None
    return {
        "type": SegmaxIndex.ARTIFACT_TYPE,
        "format": SegmaxIndex.ARTIFACT_FORMAT,
        "package_hint": SegmaxIndex.ARTIFACT_PACKAGE_HINT,
    }
