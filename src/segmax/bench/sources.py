"""Opening what a user wants to measure on, whatever it is: texts, vectors or an index."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import segmax
from segmax.base.errors import ConfigError
from segmax.base.own_folders import own_folder
from segmax.base.progress import ProgressOption, progress_of
from segmax.bench.material import Material, generated, of_collection, of_index
from segmax.evaluation.judged import read_judged
from segmax.experiments.collections import open_collection, open_vector_files
from segmax.io import VECTOR_FORMATS
from segmax.io.irds import ir_dataset_id
from segmax.io.recognize import recognize

_CACHE = "cache"
#: Of a generated document or query: its topic has 600.
_MOST_TERMS = 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """What to measure on.

    Parameters
    ----------
    data
        A BEIR folder, an ir_datasets id, a JSON description as for `segmax experiment`, a file of vectors, or an index.
        None: a generated collection.
    generate
        How many documents to generate.
    queries
        For vectors or an index: the queries. An index also takes those of a BEIR folder or an ir_datasets id.
    qrels
        Judgments of those queries, if there are any.
    split
        Which judgments of a BEIR folder to use.
    encoder
        What encodes texts.
    max_queries
        Use at most so many queries, or generate so many.
    doc_terms, query_terms, seed
        Of a generated collection.
    """

    data: str | None = None
    generate: int | None = None
    queries: str | None = None
    qrels: str | None = None
    split: str = "test"
    encoder: str | None = None
    max_queries: int = 1000
    doc_terms: int = 190
    query_terms: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.data is None) == (self.generate is None):
            got = "neither" if self.data is None else "both"
            raise ConfigError(expected="data, or a number of documents to generate", got=got)
        if self.generate is not None:
            self._refuse("a generated collection, which has queries and no texts", "queries", "qrels", "encoder")
            for option in ("doc_terms", "query_terms"):
                if (value := getattr(self, option)) > _MOST_TERMS:
                    raise ConfigError(option=option, expected=f"at most {_MOST_TERMS}", got=value)

    def _refuse(self, what: str, *options: str) -> None:
        """Raise ConfigError for an option that means nothing for what is measured."""
        for option in options:
            if (value := getattr(self, option)) is not None:
                raise ConfigError(option=option, expected=f"left out for {what}", got=value)

    def material(self, folder: Path, progress: ProgressOption) -> Material:
        """Read, encode or generate it; encoded texts are kept in the folder."""
        if self.generate is not None:
            with progress_of(progress) as shown:
                return generated(
                    self.generate,
                    num_queries=self.max_queries,
                    doc_terms=self.doc_terms,
                    query_terms=self.query_terms,
                    seed=self.seed,
                    progress=shown,
                )
        assert self.data is not None
        path = Path(self.data)
        kind = own_folder(path)
        if kind == "index":
            return self._of_index(path)
        if kind is not None:
            raise ConfigError(expected="an index, texts or vectors", got=f"the {kind} '{path}'")
        return self._of_collection(path, folder / _CACHE, progress)

    def _of_index(self, path: Path) -> Material:
        if self.queries is None:
            raise ConfigError(
                option="queries", expected="a file of queries, a BEIR folder or an ir_datasets id", got="none"
            )
        judged = Path(self.queries).is_dir() or ir_dataset_id(self.queries) is not None
        with segmax.open(path, encoder=self.encoder) as index:
            asked = read_judged(
                index,
                None if judged else self.queries,
                self.qrels,
                data=self.queries if judged else None,
                split=self.split,
            )
            rows = list(range(min(self.max_queries, len(asked.queries))))
            asked = dataclasses.replace(asked, queries=asked.queries.only(rows))
            return of_index(path, index, asked, self._about())

    def _of_collection(self, path: Path, cache: Path, progress: ProgressOption) -> Material:
        cache.mkdir(parents=True, exist_ok=True)
        if path.exists() and recognize(path) in VECTOR_FORMATS:
            self._refuse("vectors, which are encoded already", "encoder")
            if self.queries is None:
                raise ConfigError(option="queries", expected="a file of queries as vectors", got="none")
            collection = open_vector_files(path, self.queries, self.qrels, cache=cache, max_queries=self.max_queries)
        else:
            if path.exists() or ir_dataset_id(str(self.data)) is not None:
                self._refuse("a collection that has its own queries", "queries", "qrels")
            collection = open_collection(
                str(self.data),
                encoder=self.encoder or "bm25",
                cache=cache,
                max_queries=self.max_queries,
                split=self.split,
                dense=False,
                progress=progress,
            )
        with progress_of(progress) as shown:
            return of_collection(collection, self._about(), shown)

    def _about(self) -> dict[str, Any]:
        """Return what the user asked for, for the record."""
        values = dataclasses.asdict(self)
        return {name: values[name] for name in ("data", "queries", "qrels", "encoder") if values[name] is not None}
