"""The collection that users see: create, open, add, change, delete, search, keep."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

import numpy as np

from segmax.base.checks import check_listed, checked_bool, checked_choice, checked_number, checked_path
from segmax.base.display import counted, printable
from segmax.base.errors import (
    CollectionLockedError,
    ConfigError,
    IndexClosedError,
    IndexExistsError,
    InputError,
    SegmaxError,
    SegmaxWarning,
)
from segmax.base.files import sync_folder, write_errors
from segmax.base.memory import MemoryLimit
from segmax.base.progress import ProgressOption, progress_of
from segmax.building.builder import effective_config
from segmax.collection.changes import Change, deletion
from segmax.collection.inputs import STREAM_DOCS, Columns, given_batches
from segmax.collection.lattice import Lattice
from segmax.collection.maintenance import Maintainer
from segmax.collection.making import ChangeMaker, check_updates, cut, new_metadata, numbers_at
from segmax.collection.manifest import MANIFEST_NAME, Manifest
from segmax.collection.reading import CollectionReader
from segmax.collection.same_encoder import check_same_encoder
from segmax.collection.starting import lattice_of
from segmax.collection.state import State, checked_ids, ids_to_delete
from segmax.collection.store import DURABILITIES, Durability, Store, copy_synced, create_store
from segmax.collection.words import WordWeights
from segmax.metadata import Schema, parse_where
from segmax.search.calibration import Calibration, Expectation
from segmax.search.index import Index, name_anywhere
from segmax.search.opening import open_index
from segmax.search.tuning import Targets
from segmax.storage.config import BuildConfig, BuildOptions, check_names
from segmax.storage.tables import term_arrays
from segmax.vectors.documents import DocId, Document

if TYPE_CHECKING:
    from segmax.encoders.base import Encoder
    from segmax.vectors.types import Frame, Queries

#: A reader looks for new states when it searches, but not more often.
REFRESH_SECONDS = 1.0
_FEW_TERMS = 1 << 20  # whose tables fit anyway
_BYTES_PER_TERM = 320  # of tables, where two parts in memory become a third
#: What a collection with BM25 takes for its encoder.
_STORED_BM25 = ("bm25", "stored")


class Stats(NamedTuple):
    """What a collection consists of.

    Examples
    --------
    >>> Stats(1, 0, 1, 0, 0, 0, 0, 0).num_docs
    1
    """

    num_docs: int  #: alive
    num_deleted: int  #: dead, and still in a part
    num_parts: int
    num_in_memory: int  #: parts that are in memory only, and in the log
    num_postings: int
    part_bytes: int  #: of parts on disk
    log_bytes: int
    sequence: int  #: of the last write
    failure: str | None = None  #: why documents could not be written as parts, or parts merged, the last time


class Collection(CollectionReader):
    """Documents that can be added, changed, deleted and filtered while others search.

    `Collection.create` makes one, `Collection.open` opens it. It answers whatever an `Index` answers. Threads can share
    it freely. One process at a time can write; any number can read (`read_only=True`).

    Examples
    --------
    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/papers"
    >>> with Collection.create(path, encoder="bm25") as papers:
    ...     papers.add([{"id": "a", "text": "a copper waveguide"}, {"id": "b", "text": "noise in diodes"}])
    ...     papers.delete(["b"])
    ...     papers.search("copper").ids
    2
    1
    ['a']
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        encoder: object = None,
        memory_limit: int | str | None = None,
        preload: bool = False,
    ) -> None:
        super().__init__()
        self._path = path
        self._choice = encoder
        self._memory_limit = memory_limit
        self._encoder: Encoder | None = None
        self._word_weights: WordWeights | None = None
        self._schema: Schema | None = None
        self._refreshes_itself = True  # unless whoever opened it calls `refresh`
        self._looked = time.monotonic()
        self._store: Store | None = Store(path, read_only=read_only, preload=preload)
        self._maintainer: Maintainer | None = None
        self._store.open(self._prepare)
        self._terms = Vocabulary(self._store.vocabulary.terms, self._store.vocabulary.get)
        if encoder is not None:
            try:
                self._encoder = self.encoder_for(encoder)
            except BaseException:
                self._store.close()
                raise
        if not read_only:
            self._maintainer = Maintainer(self._store, memory_limit)
        # One that is dropped without being closed must not keep its lock.
        self._finalizer = weakref.finalize(self, _close, self._maintainer, self._store)

    # --- making one --------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        encoder: object = None,
        terms: Iterable[str] | None = None,
        schema: Schema | Mapping[str, str] | None = None,
        durability: Durability = "batch",
        keep_texts: bool = True,
        overwrite: bool = False,
        config: BuildConfig | None = None,
        memory_limit: int | str | None = None,
        **options: Unpack[BuildOptions],
    ) -> Collection:
        """Make an empty collection in a new folder, and open it for writing.

        Parameters
        ----------
        path
            The folder. It must not exist yet, or be empty, unless a collection there shall be replaced.
        encoder
            What turns texts into vectors: "bm25", the name or folder of a model, a `SparseEncoder` of
            sentence-transformers, or an encoder. None: you add vectors.
        terms
            The words of the columns of your vectors, if you want to name terms by word. More may come with documents.
        schema
            The types of fields of the metadata, where documents with others shall be refused: a mapping of field to
            type, or a `segmax.metadata.Schema`. See docs/filters.md.
        durability
            When a write is acknowledged: "batch", once it is safe on disk; "commit" and "none", at once. What was
            acknowledged survives a crash of the process in any case; "commit" makes it safe from a loss of power when
            `commit` returns, and "none" never waits for the disk but for `commit` and `close`.
        keep_texts
            Store texts, so that results come back with them.
        overwrite
            Replace a collection that is at the path.
        config, options
            Options of `segmax.build` for the parts on disk, such as `num_segments`; but `bits`, which follow from the
            documents, and `pruning`.
        memory_limit
            As for `segmax.build`, for merges and for tables of terms.

        Raises
        ------
        IndexExistsError
            If something is at the path.
        """
        folder = checked_path("path", path).absolute()
        checked_choice("durability", durability, DURABILITIES)
        check_names(options, BuildOptions.__annotations__, "Collection.create")
        settings = effective_config(config, options)
        _check_config(settings)
        MemoryLimit(memory_limit)  # may raise
        description, made, words = _described(encoder)
        if terms is not None:
            check_listed("terms as a list, a word per column", terms)
            words = [*words, *terms]
            term_arrays(words, len(words))  # may raise
        lattice = Lattice()
        if made is not None and description is not None and description.get("encoder") == "bm25":
            lattice = WordWeights(made).first_lattice()
        declared = schema if isinstance(schema, Schema) or schema is None else Schema(schema)
        extra = {"durability": durability, "keep_texts": checked_bool("keep_texts", keep_texts), "committed": 0}
        manifest = Manifest(
            config=settings.to_dict(),
            encoder=description,
            schema=None if declared is None else declared.to_dict(),
            extra={**extra, "id_kind": None},
        )
        with _removed_if_it_fails(folder):
            create_store(folder, manifest, lattice, words, overwrite=checked_bool("overwrite", overwrite))
            return cls(folder, encoder=made, memory_limit=memory_limit)

    @classmethod
    def from_index(
        cls,
        index: Index | str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        encoder: object = None,
        durability: Durability = "batch",
        memory_limit: int | str | None = None,
    ) -> Collection:
        """Start a collection with the documents of an index, and open it for writing.

        The index becomes the first part: its documents, ids, words, texts and metadata. Weights stay as they are
        stored. The texts of an index that was made with BM25 are counted anew, so it has to have them.

        Parameters
        ----------
        index
            An index, or its folder.
        path, durability, memory_limit
            As for `create`.
        encoder
            As for `segmax.open`, where the index was made with a model.

        Examples
        --------
        >>> import scipy.sparse as sp, segmax, tempfile
        >>> index = segmax.build(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]), ids=["a", "b"])
        >>> collection = Collection.from_index(index, f"{tempfile.mkdtemp()}/docs")
        >>> collection.delete("a"), collection.search({0: 1}).ids
        (1, ['b'])
        """
        if not isinstance(index, Index):
            with open_index(index) as opened:
                return cls.from_index(opened, path, encoder=encoder, durability=durability, memory_limit=memory_limit)
        folder = checked_path("path", path).absolute()
        checked_choice("durability", durability, DURABILITIES)
        MemoryLimit(memory_limit)  # may raise
        description = index._meta.get("encoder")
        if index._prunes_queries:
            msg = "the index prunes queries (QueryThreshold), and the collection will not: prune them before you search"
            warnings.warn(msg, SegmaxWarning, stacklevel=2)
        if isinstance(description, Mapping) and description.get("encoder") == "bm25":
            return _counted_anew(index, folder, durability, memory_limit)
        lattice = lattice_of(index)
        kept = index.config.updated({"pruning": ()})
        manifest = Manifest(
            config=kept.to_dict(),
            encoder=description,
            next_number=index.num_docs,
            extra={"durability": durability, "keep_texts": True, "committed": 0},
        )
        words = [] if index.terms is None else list(index.terms)
        with _removed_if_it_fails(folder):
            create_store(folder, manifest, lattice, words, index=index)
            return cls(folder, encoder=encoder, memory_limit=memory_limit)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        encoder: object = None,
        memory_limit: int | str | None = None,
        preload: bool = False,
    ) -> Collection:
        """Open a collection.

        Parameters
        ----------
        path
            Its folder.
        read_only
            Only search; other processes may write meanwhile, and their commits are seen within a second, or on
            `refresh`.
        encoder
            As for `segmax.open`.
        memory_limit
            As for `segmax.build`, for merges and for tables of terms.
        preload
            Read its parts into memory instead of mapping their files, those that are written later as well.

        Raises
        ------
        IndexNotFoundError
            If there is nothing at the path.
        CollectionLockedError
            If another process has it open for writing.
        FormatError
            If there is no collection, or a damaged one.
        ConfigError, InputError
            If the encoder cannot be loaded, or is not the one that the collection was created with.
        """
        MemoryLimit(memory_limit)  # may raise
        folder, only = checked_path("path", path).absolute(), checked_bool("read_only", read_only)
        loaded = checked_bool("preload", preload)
        return cls(folder, read_only=only, encoder=encoder, memory_limit=memory_limit, preload=loaded)

    def _prepare(self, store: Store, manifest: Manifest) -> None:
        """Get ready what a manifest asks for, before the log is replayed."""
        self._schema = None if manifest.schema is None else Schema.from_dict(manifest.schema)
        self._targets = Targets(Calibration.from_list(list(manifest.calibration)))
        if manifest.encoder is not None and manifest.encoder.get("encoder") == "bm25" and self._word_weights is None:
            from segmax.encoders.stored import encoder_for_index

            bm25 = encoder_for_index(None, dict(manifest.encoder), [], str(self._path / MANIFEST_NAME))
            self._word_weights = WordWeights(bm25)  # type: ignore[arg-type]
            self._encoder = bm25
            store.on_words(bm25.add_terms)  # type: ignore[attr-defined]
            store.weigh = self._word_weights.weigh

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The folder of the collection."""
        return self._path

    @property
    def read_only(self) -> bool:
        """Whether it was opened to be searched only."""
        return self._open_store.read_only

    @property
    def identity(self) -> str:
        """What it was given when it was created, and no other collection has: one in its place has another one."""
        return str(self._open_store.manifest.extra.get("identity", ""))

    @property
    def durability(self) -> str:
        """When writes are safe on disk: as given to `create`."""
        return self._open_store.settings.durability

    @property
    def config(self) -> BuildConfig:
        """Options of its parts on disk."""
        return self._open_store.settings.config

    @property
    def terms(self) -> Vocabulary | None:
        """The words of the terms by number; None if terms are numbers only."""
        return self._terms if len(self._terms) else None

    def stats(self) -> Stats:
        """Return what the collection consists of."""
        store, state = self._open_store, self._current()
        memory = [view for view in state.views if not view.part.name]
        return Stats(
            num_docs=state.num_docs,
            num_deleted=sum(view.part.num_docs - view.num_alive for view in state.views),
            num_parts=len(state.views),
            num_in_memory=len(memory),
            num_postings=self.num_postings,
            part_bytes=sum(view.part.num_bytes for view in state.views if view.part.name),
            log_bytes=store.log_bytes,
            sequence=state.sequence,
            failure=None if self._maintainer is None else self._maintainer.failure,
        )

    def __repr__(self) -> str:
        if self._store is None:
            return "Collection(closed)"
        state = self._store.state
        where = printable(self._path)
        return f"Collection('{where}': {counted(state.num_docs, 'document')}, {counted(len(state.views), 'part')})"

    # --- encoders ----------------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> Encoder:
        """What turns texts into vectors: the encoder passed to `create` or `open`, or BM25 if it was made with it."""
        if self._encoder is None:
            self._encoder = self.encoder_for(self._choice)
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: object) -> None:
        self._choice, self._encoder = encoder, None if encoder is None else self.encoder_for(encoder)

    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, checked against that of the collection."""
        from segmax.encoders.stored import encoder_for_index

        description = self._open_store.manifest.encoder
        where = f"'{self._path / MANIFEST_NAME}'"
        if self._word_weights is not None and (
            encoder is None or (isinstance(encoder, str) and encoder in _STORED_BM25)
        ):
            return self._word_weights.bm25
        made = encoder_for_index(encoder, None if description is None else dict(description), self.terms, where)
        check_same_encoder(made, description, self.terms)
        return made if self._word_weights is None else self._word_weights.bm25

    @property
    def encoder_description(self) -> dict[str, Any] | None:
        """What the collection records about its encoder; None if it was created without one."""
        found = self._open_store.manifest.encoder
        return None if found is None else dict(found)

    @property
    def _words(self) -> WordWeights | None:
        return self._word_weights

    # --- writing -----------------------------------------------------------------------------------------------------

    def add(
        self,
        documents: object,
        *,
        ids: Iterable[Any] | None = None,
        texts: Iterable[Any] | None = None,
        metadata: str | Iterable[Any] | Mapping[Any, Any] | Frame | None = None,
        progress: ProgressOption = None,
    ) -> int:
        """Add documents that are new, and return how many.

        A matrix or a list is one batch, which is added whole or not at all (a batch of more than 32,768 documents is
        cut); a stream, a reader or files are a batch after the other. When this returns, searches find the documents.

        Parameters
        ----------
        documents
            Vectors, as `segmax.build` takes them; texts, as `segmax.from_texts` takes them, if the collection has an
            encoder; or records: mappings with "id", "text" and "title", or "vector", and "metadata".
        ids
            One per document, if these have none: all strings or all integers. Without ids, documents are numbered.
        texts
            The texts of vectors, to be stored beside them.
        metadata
            A mapping per document, or None, of anything that JSON can hold; or a mapping of id to metadata, or a
            DataFrame, for documents in memory. Or which other members of records, or columns, to keep: "all", or a list
            of names, as for `segmax.from_texts`. None: what records, lines of JSON and tables have as "metadata".
        progress
            As for `segmax.build`.

        Raises
        ------
        InputError
            If a document is invalid, or its id is there already.

        Examples
        --------
        >>> import scipy.sparse as sp, tempfile
        >>> collection = Collection.create(f"{tempfile.mkdtemp()}/docs")
        >>> collection.add(sp.csr_matrix([[3, 0, 2], [1, 4, 0]]), ids=["a", "b"], metadata=[{"year": 1950}, None])
        2
        >>> collection.search({0: 1}).ids
        ['a', 'b']
        """
        return self._put(documents, Columns(ids, texts, metadata), progress, replace=False)

    def upsert(
        self,
        documents: object,
        *,
        ids: Iterable[Any] | None = None,
        texts: Iterable[Any] | None = None,
        metadata: str | Iterable[Any] | Mapping[Any, Any] | Frame | None = None,
        progress: ProgressOption = None,
    ) -> int:
        """Add documents, and replace those whose ids are there already; return how many were given.

        A document that replaces another one counts as new: it gets an insertion number of its own, and comes last
        among equal scores. Parameters are those of `add`.

        Examples
        --------
        >>> import scipy.sparse as sp, tempfile
        >>> collection = Collection.create(f"{tempfile.mkdtemp()}/docs")
        >>> collection.upsert(sp.csr_matrix([[3, 0]]), ids=["a"]), collection.upsert(sp.csr_matrix([[0, 2]]), ids=["a"])
        (1, 1)
        >>> len(collection), collection.search({0: 1}).ids
        (1, [])
        """
        return self._put(documents, Columns(ids, texts, metadata), progress, replace=True)

    def update(
        self, updates: Iterable[Mapping[str, Any]] | Mapping[str, Any], *, replace_metadata: bool = False
    ) -> int:
        """Change the metadata or the text of documents that are there, and return how many.

        Parameters
        ----------
        updates
            At most 32,768 records with "id" and what changes: "metadata", "text" or "title". Metadata are merged into
            those of the document, as JSON Merge Patch does (RFC 7396): objects are merged, None removes a field,
            everything else replaces it. A name with dots is a path: "author.name". `"metadata": None` removes all. A
            changed text is encoded again, with the title that is there; without an encoder it is only stored. The
            documents keep their insertion numbers, and their weights where nothing is encoded.
        replace_metadata
            Let metadata replace all that the document has, and store them as they are, with None as a value.

        Raises
        ------
        UnknownIdError
            If no document has one of the ids. Nothing is changed then.
        InputError
            If an update is invalid, or metadata would be once they are merged. Nothing is changed then, either.

        Examples
        --------
        >>> import tempfile
        >>> collection = Collection.create(f"{tempfile.mkdtemp()}/docs", encoder="bm25")
        >>> collection.add([{"id": "a", "text": "copper", "metadata": {"year": 1950, "author": {"name": "Ada"}}}])
        1
        >>> collection.update({"id": "a", "metadata": {"year": 1951, "author.born": 1815}})
        1
        >>> collection.get("a").metadata
        {'year': 1951, 'author': {'name': 'Ada', 'born': 1815}}
        >>> collection.update({"id": "a", "metadata": {"year": 1952}}, replace_metadata=True)
        1
        >>> collection.get("a").metadata
        {'year': 1952}
        """
        store, maker = self._writable(), self._maker()
        records = check_updates(updates)
        described = new_metadata(records, replace=checked_bool("replace_metadata", replace_metadata))
        encoded = maker.encoded_updates(store.state, records)
        with self._room_for(len(records)):
            change = store.write(lambda state: maker.updating(state, records, encoded, described))
        return 0 if change is None else change.num_docs

    def delete(self, ids: DocId | Iterable[DocId] | None = None, *, where: Mapping[str, Any] | None = None) -> int:
        """Delete documents by id, or those that match; return how many there were. Unknown ids are ignored.

        An empty filter is refused: it would match everything.

        Examples
        --------
        >>> import tempfile
        >>> collection = Collection.create(f"{tempfile.mkdtemp()}/docs", encoder="bm25")
        >>> collection.add({"a": "copper", "b": "diodes"})
        2
        >>> collection.delete(["a", "c"]), len(collection)
        (1, 1)
        """
        if (ids is None) == (where is None):
            raise ConfigError(expected="ids or where", got="neither" if ids is None else "both")
        if where is not None and not where:
            raise ConfigError(
                option="where",
                expected="a filter that says which documents to delete",
                got="an empty one, which every document matches",
                hint="to empty a collection, create it again with Collection.create(path, overwrite=True)",
            )
        parsed = None if where is None else parse_where(where)
        listed = [] if ids is None else ids_to_delete(ids)

        def make(state: State) -> Change | None:
            if parsed is not None:
                rows = self._filters.rows(state, parsed)
                numbers = [view.part.numbers[own] for view, own in zip(state.views, rows, strict=True)]
                gone = np.sort(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
            else:
                places = state.find(checked_ids(listed, state.id_kind))
                gone = numbers_at(state, places)
            return deletion(gone) if len(gone) else None

        with self._room_for(0):
            change = self._writable().write(make)
        return 0 if change is None else len(change.deleted)

    def commit(self) -> None:
        """Make all writes safe on disk, and visible to other processes."""
        self._writable().commit()

    def _put(self, documents: object, columns: Columns, progress: ProgressOption, *, replace: bool) -> int:
        store, maker = self._writable(), self._maker()
        count = 0
        with progress_of(progress) as shown_progress, shown_progress.stage("add", None, "documents") as stage:
            for given in given_batches(documents, columns):
                for batch in cut(given):
                    ready = maker.ready(batch)
                    self._check_room(ready.vectors.num_columns)
                    with self._room_for(batch.num_docs):
                        store.write(lambda state, ready=ready: maker.adding(state, ready, replace=replace))  # type: ignore[misc]
                    count += batch.num_docs
                    stage.advance(batch.num_docs)
        return count

    def _check_room(self, num_terms: int) -> None:
        """Raise ConfigError if tables of so many terms do not fit: every part has some, if it has only one document."""
        if num_terms > max(_FEW_TERMS, self._open_store.state.lattice.num_terms):
            limit = MemoryLimit(self._memory_limit)
            limit.require(num_terms * _BYTES_PER_TERM, f"tables of {num_terms:,} terms")

    def _maker(self) -> ChangeMaker:
        store = self._open_store
        has_encoder = store.manifest.encoder is not None or self._choice is not None
        encoder = (lambda: self.encoder) if has_encoder else None
        return ChangeMaker(
            store.vocabulary, self._schema, self._word_weights, encoder, keep_texts=store.settings.keep_texts
        )

    def _room_for(self, num_docs: int) -> contextlib.AbstractContextManager[None]:
        """Wait until so many more documents may be in memory; they are written inside."""
        maintainer = self._maintainer
        return contextlib.nullcontext() if maintainer is None else maintainer.room_for(num_docs)

    # --- keeping -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return a view of the collection as it is now, which later writes and merges do not change.

        Examples
        --------
        >>> import tempfile
        >>> collection = Collection.create(f"{tempfile.mkdtemp()}/docs", encoder="bm25")
        >>> before = collection.snapshot()
        >>> collection.add({"a": "copper"})
        1
        >>> len(before), len(collection)
        (0, 1)
        """
        return Snapshot(self, self._current())

    def refresh(self) -> None:
        """Take over what another process has written. A writer sees its own writes at once."""
        store = self._open_store
        if store.read_only:
            with store.writing:
                self._looked = time.monotonic()
                store.reload(self._prepare)

    def compact(self, progress: ProgressOption = None) -> None:
        """Write all living documents as one part, and forget the dead ones. Searches and writes go on meanwhile.

        A collection with BM25 weighs its documents by today's mean length: afterwards it is as if all of them had just
        come.
        """
        store = self._writable()
        assert self._maintainer is not None
        with self._maintainer.no_merges():
            options = {**self._maintainer.options(), "threads": None, "progress": progress}
            store.flush(options)  # type: ignore[arg-type]
            store.compact(options, self._word_weights)  # type: ignore[arg-type]

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until merges have nothing left to do; return False if that takes longer than `timeout` seconds."""
        self._writable()
        assert self._maintainer is not None
        return self._maintainer.settle(None if timeout is None else checked_number("timeout", timeout))

    def pause_merges(self) -> None:
        """Let no merge go on until `resume_merges`; documents that come stay in memory and in the log."""
        self._writable()
        assert self._maintainer is not None
        self._maintainer.pause()

    def resume_merges(self) -> None:
        """Let merges go on."""
        self._writable()
        assert self._maintainer is not None
        self._maintainer.resume()

    def tune(
        self, queries: Queries, k: int = 10, target_recall: float = 0.99, *, threads: int | None = None, seed: int = 0
    ) -> Expectation:
        """Measure approximate settings on your queries, and store the results with the collection; see `Index.tune`.

        Raises
        ------
        ConfigError
            If the collection is open read-only.
        """
        store = self._writable()
        self.calibration.expectation(k, target_recall)
        calibration = self._measured(queries, k, threads, seed)
        store.update_manifest(calibration=tuple(calibration.to_list()))
        self._targets = Targets(calibration)
        return calibration.expectation(k, target_recall)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the collection, as it is now, to a new folder, which can be opened like any other."""
        target = checked_path("path", path).absolute()
        store = self._writable()
        assert self._maintainer is not None
        if target.resolve().is_relative_to(self._path.resolve()):
            raise ConfigError(option="path", expected="a folder outside of the collection", got=f"'{target}'")
        with self._maintainer.no_merges():
            store.commit()
            store.backup(target)

    @classmethod
    def restore(cls, backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> Collection:
        """Copy a backup to a new folder and open it for writing."""
        with cls.open(backup, read_only=True):
            pass  # raises if there is no collection
        source, target = checked_path("backup", backup).absolute(), checked_path("path", path).absolute()
        if target.exists():
            raise IndexExistsError(f"'{target}' is taken", hint="choose another path")
        with write_errors(target):
            # Beside the target, until all of it is safe on disk.
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                copy_synced(source, scratch / target.name)
                (scratch / target.name).rename(target)
                sync_folder(target.parent)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return cls.open(target)

    def close(self) -> None:
        """Make all writes safe on disk and release files, once work under way is over. Closing twice is fine.

        If 1,024 documents or more are in memory only, they are written as a part first, unless merges are paused, so
        that the next one to open the collection need not read them from the log. Where that is interrupted or fails,
        the log has them.
        """
        self._end(finish=True)

    def _end(self, *, finish: bool) -> None:
        maintainer = self._maintainer
        try:
            if finish and maintainer is not None:
                maintainer.finish()
        finally:
            self._finalizer()
            self._maintainer = None
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(finish=kind is None or not issubclass(kind, KeyboardInterrupt))

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._open_store.read_only:
            hint = "pickle one that is opened with {read_only=True}, or its path"
            raise SegmaxError("a collection that is open for writing cannot be pickled", hint=hint)
        choice = self._choice
        name = name_anywhere(choice) if isinstance(choice, (str, os.PathLike)) else None
        return _opened_again, (str(self._path), name, self._open_store.preload)

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    def _open_store(self) -> Store:
        if self._store is None:
            raise IndexClosedError("the collection is closed", hint="open it again with segmax.Collection.open")
        return self._store

    def _current(self) -> State:
        store = self._open_store
        is_due = self._refreshes_itself and time.monotonic() - self._looked > REFRESH_SECONDS
        if is_due and store.read_only:
            self.refresh()
        return store.state

    def _writable(self) -> Store:
        store = self._open_store
        if store.read_only:
            hint = "open it for writing with segmax.Collection.open"
            raise ConfigError(option="read_only", expected="False, to change a collection", got="True", hint=hint)
        return store


def _close(maintainer: Maintainer | None, store: Store) -> None:
    if maintainer is not None:
        maintainer.stop()
    store.close()


class Snapshot(CollectionReader):
    """A collection as it was when `Collection.snapshot` was called."""

    def __init__(self, collection: Collection, state: State) -> None:
        super().__init__()
        self._collection = collection
        self._state: State | None = state
        self._targets = collection._targets
        self._filters = collection._filters

    def _current(self) -> State:
        return self.state

    @property
    def state(self) -> State:
        """What the collection was."""
        if self._state is None:
            raise IndexClosedError("the snapshot is closed", hint="take another one of the collection")
        return self._state

    def close(self) -> None:
        """Let go of what later merges have replaced. Closing twice is fine."""
        self._state = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise SegmaxError(
            "a snapshot cannot be pickled", hint="pickle a collection that is open read-only, or its path"
        )

    @property
    def path(self) -> Path:
        """The folder of the collection."""
        return self._collection.path

    @property
    def terms(self) -> Vocabulary | None:
        """The words of the terms by number; None if terms are numbers only."""
        return self._collection.terms

    @property
    def encoder(self) -> Encoder:
        """What turns texts into vectors."""
        return self._collection.encoder

    def encoder_for(self, encoder: object) -> Encoder:
        """Return the encoder that a name, a folder or an object stands for, checked against that of the collection."""
        return self._collection.encoder_for(encoder)

    @property
    def _words(self) -> WordWeights | None:
        return self._collection._words

    def __repr__(self) -> str:
        if self._state is None:
            return "Snapshot(closed)"
        return f"Snapshot('{printable(self.path)}': {counted(self.num_docs, 'document')})"


class Vocabulary:
    """The words of a collection's terms, by number; it grows with the collection."""

    def __init__(self, words: list[str], find: Any) -> None:
        self._words = words
        self._find = find

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, number: int) -> str:
        return self._words[number]

    def __iter__(self) -> Any:
        return iter(self._words)

    def find(self, value: str) -> int | None:
        """Return the number of a word, or None."""
        found: int | None = self._find(value)
        return found


def _opened_again(path: str, encoder: str | None, preload: bool = False) -> Collection:
    """Open what was pickled."""
    return Collection.open(path, read_only=True, encoder=encoder, preload=preload)


def _described(encoder: object) -> tuple[dict[str, Any] | None, Any, list[str]]:
    """Return what a manifest says about an encoder, the encoder, and its words."""
    if encoder is None:
        return None, None, []
    from segmax.encoders import BM25, as_encoder

    made = as_encoder(encoder)
    return made.to_dict(), made, [] if isinstance(made, BM25) else list(made.vocabulary)


def _counted_anew(index: Index, folder: Path, durability: Durability, memory_limit: int | str | None) -> Collection:
    """Start a collection with BM25 from the texts of an index."""
    if index.texts is None:
        raise InputError(
            expected="an index with texts, because a collection with BM25 counts their words",
            got="one that stores none",
            hint="create a collection with {encoder='bm25'}, and add the texts",
        )
    kept = index.config.updated({"pruning": (), "bits": BuildConfig().bits})
    made = Collection.create(
        folder, encoder=index.encoder, durability=durability, config=kept, memory_limit=memory_limit
    )
    try:
        _add_texts(index, made)
    except BaseException:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return made


def _add_texts(index: Index, made: Collection) -> None:
    """Add the documents of an index with texts to a collection."""
    assert index.texts is not None
    for first in range(0, index.num_docs, STREAM_DOCS):
        rows = range(first, min(first + STREAM_DOCS, index.num_docs))
        ids = [index._ids.id_of(row) for row in rows]
        documents = [Document("-", *index.texts[row]) for row in rows]
        metadata = None if index._ids.metadata is None else [index._ids.metadata[row] for row in rows]
        made._put(
            [document._asdict() | {"id": id} for document, id in zip(documents, ids, strict=True)],
            Columns(metadata=metadata),
            None,
            replace=False,
        )


def _check_config(settings: BuildConfig) -> None:
    """Raise ConfigError for options of a build that a collection has not."""
    if settings.pruning:
        raise ConfigError(option="pruning", expected="none for a collection", got=f"{len(settings.pruning)} steps")
    if settings.bits != BuildConfig().bits:
        raise ConfigError(
            option="bits", expected="left out, because parts have the bits that their documents need", got=settings.bits
        )


@contextlib.contextmanager
def _removed_if_it_fails(folder: Path) -> Iterator[None]:
    """Leave nothing behind of a collection that could not be made; what was there before stays."""
    was_there = folder.is_dir()
    had_files = was_there and any(folder.iterdir())
    try:
        yield
    except (IndexExistsError, CollectionLockedError):
        raise  # somebody else's
    except BaseException:
        if not had_files:
            with contextlib.suppress(OSError):
                _empty(folder)
        if not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _empty(folder: Path) -> None:
    """Remove what is in the folder of a collection; where its manifest cannot be removed, nothing."""
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for file in list(folder.iterdir()):
        with contextlib.suppress(OSError):
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
