"""Collections to experiment on: texts of a BEIR folder or an ir_datasets id, or vectors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.errors import InputError
from segmax.base.progress import ProgressOption
from segmax.encoders import BM25, load_encoder
from segmax.evaluation.judged import Qrels
from segmax.experiments.described import Description, read_description
from segmax.io import Document, open_texts, open_vectors, read_qrels, read_queries, write_vectors
from segmax.io.irds import load_ir_dataset
from segmax.io.read_errors import no_file
from segmax.io.streams import base_name
from segmax.text import encode_texts
from segmax.text.queries import EncodedQueries, matrix_format, read_query_vectors
from segmax.vectors.documents import POOLINGS

#: Parts of ir_datasets ids that name queries rather than documents.
_SPLITS = ("test", "dev", "train", "eval", "judged")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """Documents, queries and, if there are any, judgments.

    Parameters
    ----------
    name
        Its name in tables.
    documents
        What `segmax.build` takes: the path of a file of vectors, or a CSR matrix.
    queries
        The queries; if there are judgments, only the judged ones.
    num_docs
        How many documents there are.
    qrels
        Grades by query and document; None without judgments.
    drop_self
        Whether to drop a result with the id of its query; None: if most queries are documents.
    dense
        Files of dense vectors by representation: "max", "mean", "cls" or others.
    labels
        Known clusters: a label per document, by representation and number of clusters.
    ids, terms
        Ids of documents and vocabulary, if `documents` is a matrix; a file has its own.
    fingerprint
        Identifies the collection and its contents; measured steps are stored under it.
    """

    name: str
    documents: Any
    queries: EncodedQueries
    num_docs: int
    qrels: Qrels | None = None
    drop_self: bool | None = None
    dense: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, Mapping[int, NDArray[Any]]] = dataclasses.field(default_factory=dict)
    ids: Sequence[Any] | None = None
    terms: Sequence[str] | None = None
    fingerprint: str = ""

    def single_queries(self, most: int | None = None) -> list[Any]:
        """Return single queries, as `Index.search` takes them: all, or the first `most`."""
        vectors = self.queries.vectors
        count = len(self.queries) if most is None else min(most, len(self.queries))
        return [vectors[row] for row in range(count)]

    def to_dict(self) -> dict[str, Any]:
        """Return what a report shows of it."""
        return {
            "name": self.name,
            "num_docs": self.num_docs,
            "num_queries": len(self.queries),
            "judged": self.qrels is not None,
            "fingerprint": self.fingerprint,
        }


def open_collection(
    source: str | os.PathLike[str],
    *,
    encoder: str = "bm25",
    cache: Path,
    max_queries: int | None = None,
    split: str = "test",
    dense: bool = True,
    progress: ProgressOption = None,
) -> Collection:
    """Open a collection.

    Parameters
    ----------
    source
        A BEIR folder or an ir_datasets id, whose texts are encoded; or a JSON file that describes vectors
        (`segmax experiment bounds --help` shows one).
    encoder
        The encoder of texts; see `segmax.encoders.load_encoder`.
    cache
        A folder for encoded or converted vectors; it is created if necessary, and its contents are reused.
    max_queries
        Use only the first queries, at most this many; None: all.
    split
        Which judgments of a BEIR folder to use.
    dense
        Also keep the pooled token embeddings of a model that encodes texts.
    progress
        True draws bars while texts are encoded; a function is called with `BuildProgress`.

    Raises
    ------
    InputError
        If something is missing or cannot be read.
    """
    path = Path(source)
    if path.is_file():
        return _of_description(read_description(path), cache, max_queries)
    if path.is_absolute() and not path.exists():
        raise no_file(path)
    poolings = POOLINGS if dense and not _is_bm25(encoder) else ()
    return _of_texts(os.fspath(source), encoder, cache, max_queries, split, poolings, progress)


def open_vector_files(
    documents: str | os.PathLike[str],
    queries: str | os.PathLike[str],
    qrels: str | os.PathLike[str] | None = None,
    *,
    cache: Path,
    max_queries: int | None = None,
) -> Collection:
    """Open a collection of vectors by its files, without a description.

    Parameters
    ----------
    documents, queries, qrels
        Vectors of documents and of queries, in any format that segmax reads, and judgments, if there are any.
    cache, max_queries
        As for `open_collection`.

    Raises
    ------
    InputError
        If something is missing or cannot be read.
    """
    files = [Path(documents), Path(queries), *([] if qrels is None else [Path(qrels)])]
    for file in files:
        if not file.exists():
            raise no_file(file)
    described = Description(
        name=base_name(files[0]).partition(".")[0] or "collection",
        documents=(files[0],),
        queries=files[1],
        qrels=None if qrels is None else files[2],
        drop_self=None,
        dense={},
        labels={},
    )
    return _of_description(described, cache, max_queries)


# --- texts -----------------------------------------------------------------------------------------------------------


def _of_texts(
    source: str,
    encoder: str,
    cache: Path,
    max_queries: int | None,
    split: str,
    poolings: Sequence[str],
    progress: ProgressOption,
) -> Collection:
    texts = open_texts(source)
    qrels = _qrels(source, split)
    asked = read_queries(source)
    if asked.texts is None:
        raise InputError(
            where=f"'{source}'",
            expected="queries with texts",
            got="vectors only",
            hint="describe the collection in a JSON file",
        )
    rows = _chosen(asked.ids, qrels, max_queries, source)
    wanted = [Document(asked.ids[row], "", asked.texts[row]) for row in rows]
    folder = cache / f"{_name(source)}-{_digest([_source_stamp(source), encoder])[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    documents = folder / "documents.npz"
    dense = _encode_documents(encoder, texts, documents, poolings, progress)
    queries = _encode_queries(encoder, wanted, folder)
    return Collection(
        name=_name(source),
        documents=documents,
        queries=queries,
        num_docs=_num_docs(documents),
        qrels=qrels,
        dense=dense,
        fingerprint=_fingerprint([_source_stamp(source), encoder], queries, qrels),
    )


def _encode_documents(
    encoder: str, texts: Any, path: Path, poolings: Sequence[str], progress: ProgressOption
) -> dict[str, Path]:
    """Encode texts unless that is done; return the files of dense vectors that come with them."""
    under_way = path.with_name(f"{path.name}.encoding")
    if not path.exists() or under_way.exists():
        # While a model runs, pooled vectors cost next to nothing, and the experiment on clustering needs them.
        made = load_encoder(encoder, pooling=poolings) if poolings else load_encoder(encoder)
        encode_texts(made, texts, path, overwrite=True, progress=progress)
    found = {name: path.with_name(f"{path.stem}.{name}.npy") for name in POOLINGS}
    return {name: file for name, file in found.items() if file.exists()}


def _encode_queries(encoder: str, queries: list[Document], folder: Path) -> EncodedQueries:
    path = folder / f"queries-{_digest([list(query) for query in queries])[:12]}.npz"
    if not path.exists():
        made = BM25.load(folder / "documents.bm25") if _is_bm25(encoder) else load_encoder(encoder)
        encode_texts(made, queries, path, queries=True, overwrite=True)
    return read_query_vectors(path)


def _is_bm25(encoder: str) -> bool:
    return encoder == "bm25"


def _qrels(source: str, split: str) -> Qrels | None:
    folder = Path(source)
    if folder.is_dir():
        judged = (folder / "qrels").is_dir() or any(folder.glob("qrels.tsv*"))
    else:
        judged = load_ir_dataset(source.removeprefix("irds:")).has_qrels()
    return read_qrels(source, split) if judged else None


def _source_stamp(source: str) -> Any:
    """Return what identifies the texts of a source: name, size and time of its files, or an ir_datasets id."""
    folder = Path(source)
    files = sorted(folder.glob("corpus.jsonl*")) if folder.is_dir() else []
    return [_stamp(file) for file in files] or source


# --- vectors ---------------------------------------------------------------------------------------------------------


def _of_description(described: Description, cache: Path, max_queries: int | None) -> Collection:
    stamps = [_stamp(file) for file in described.documents]
    documents = described.documents[0]
    if len(described.documents) > 1 or documents.suffix != ".npz":
        documents = _converted(described.documents, cache / f"{described.name}-{_digest(stamps)[:12]}")
    reader = open_vectors(documents)
    num_docs = _num_docs(documents)
    qrels = None if described.qrels is None else read_qrels(described.qrels)
    queries = _vector_queries(described.queries, reader.terms)
    queries = queries.only(_chosen(queries.ids, qrels, max_queries, str(described.queries)))
    return Collection(
        name=described.name,
        documents=documents,
        queries=queries,
        num_docs=num_docs,
        qrels=qrels,
        drop_self=described.drop_self,
        dense=described.checked_dense(num_docs),
        labels=described.read_labels(num_docs),
        fingerprint=_fingerprint([stamps, described.stamps()], queries, qrels),
    )


def _vector_queries(path: Path, terms: Sequence[str] | None) -> EncodedQueries:
    if matrix_format(path) is not None:
        columns = None if terms is None else {word: column for column, word in enumerate(terms)}
        return read_query_vectors(path, None if columns is None else columns.get, len(columns or ()))
    asked = read_queries(path)
    if asked.vectors is None:
        raise InputError(
            where=f"'{path}'",
            expected="queries as vectors",
            got="texts",
            hint="encode them first: segmax encode --queries",
        )
    return EncodedQueries(asked.ids, asked.vectors)


def _converted(files: Sequence[Path], folder: Path) -> Path:
    """Write vectors as one .npz file, which can be read in slices and has a known length."""
    path = folder / "documents.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_vectors(path, open_vectors(files), overwrite=True, progress=None)
    return path


# --- both ------------------------------------------------------------------------------------------------------------


def _chosen(ids: Sequence[str], qrels: Qrels | None, max_queries: int | None, source: str) -> list[int]:
    """Return the rows of the queries to use: judged ones, at most `max_queries`."""
    rows = [row for row, name in enumerate(ids) if qrels is None or name in qrels]
    if not rows:
        some = ", ".join(repr(name) for name in list(qrels or ())[:3])
        raise InputError(
            where=f"'{source}'",
            expected="judged queries",
            got=f"none; ids of judgments are like {some or 'nothing'}",
        )
    return rows[:max_queries]


def _num_docs(path: Path) -> int:
    count = open_vectors(path).num_docs
    if count is None or count < 1:
        raise InputError(where=f"'{path}'", expected="at least one document", got="none")
    return count


def _name(source: str) -> str:
    """Return the name of a folder, or of an ir_datasets id without its split.

    Examples
    --------
    >>> _name("beir/nfcorpus/test"), _name("msmarco-passage/trec-dl-2019/judged"), _name("msmarco-passage/dev/small")
    ('nfcorpus', 'trec-dl-2019', 'msmarco-passage')
    """
    parts = [part for part in Path(source.removeprefix("irds:")).parts if part not in ("/", ".", "..")]
    if not Path(source).is_dir():
        parts = [*parts[:1], *takewhile(lambda part: part not in _SPLITS, parts[1:])]
    return parts[-1] if parts else "collection"


def _stamp(file: Path) -> list[Any]:
    status = file.stat()
    return [file.name, status.st_size, status.st_mtime_ns]


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _fingerprint(documents: Any, queries: EncodedQueries, qrels: Qrels | None) -> str:
    vectors = queries.vectors
    if isinstance(vectors, list):
        asked: Any = vectors
    else:
        arrays = (vectors.indptr, vectors.indices, vectors.data)
        asked = [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays]
    judged = None if qrels is None else _digest({query: dict(grades) for query, grades in qrels.items()})
    return _digest([documents, queries.ids, asked, judged])[:16]
