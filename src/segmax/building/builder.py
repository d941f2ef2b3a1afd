"""Building an index from vectors: a stream of documents in, a well-clustered index out, in bounded memory."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax.base.checks import checked_path
from segmax.base.display import counted
from segmax.base.errors import ConfigError, InputError, SegmaxWarning
from segmax.base.memory import MemoryLimit
from segmax.base.parallel import Workers
from segmax.base.progress import ProgressOption, Reporter, reporter
from segmax.building.assemble import Grouped, Writer, group_by_cluster, order_by_similarity, write_arrays
from segmax.building.clustering import DIMENSIONS, ClusterJob, Labels, Representation, Sparse
from segmax.building.given_texts import check_texts, texts_by_row
from segmax.building.inputs import Source, open_source, source_name
from segmax.building.points import Projector, rarity, term_frequencies
from segmax.building.pseudo_queries import pseudo_queries
from segmax.building.segments import checked_segments, independent_segments, kmeans_segments, random_segments
from segmax.building.spool import Spool
from segmax.search.arguments import num_threads
from segmax.search.calibration import BUILD_QUERIES, LEAST_DOCS, Calibration, measure
from segmax.search.index import Index, check_opens
from segmax.search.opening import open_index
from segmax.storage.components import IndexWriter, MemoryWriter, check_target, max_segments
from segmax.storage.config import BuildConfig, BuildOptions, check_names
from segmax.storage.meta import FORMAT_VERSION
from segmax.storage.tables import check_ids, check_terms, id_arrays, listed_ids, term_arrays
from segmax.storage.texts import write_texts
from segmax.vectors.csr import Csr
from segmax.vectors.pruning import MaxPostings, Step, prune_batches, prune_rows
from segmax.vectors.quantize import Quantizer
from segmax.vectors.rows import narrowest, selected_rows

if TYPE_CHECKING:
    from segmax.vectors.types import Frame

_MAX_DOCS = 2**32 - 2**17  # rows and padded positions are 32 bits wide
_BYTES_PER_TERM = 100  # of tables: counts, scales, offsets, and those of pieces under way
_BYTES_PER_DOC = 72  # of tables: labels, slots, offsets
_QUERY_EXPONENT = 20  # queries made of documents have weights below 2 to the minus 20th, so that any sum fits
_TOLD_TEXTS = 1024  # between two reports of progress
_BYTES_PER_THREAD = 64 * 2**20  # what a thread may need for pieces of its own


@runtime_checkable
class Prepared(Protocol):
    """Vectors that cannot be read before something else is done: BM25 has to count the words of all documents."""

    def prepare(self, told: Reporter) -> int | None:
        """Do that, and return how many documents there are, where it is known then."""


class BuildKeywords(BuildOptions, total=False):
    """Keywords that functions on top of `segmax.build` pass on to it."""

    ids: Iterable[Any] | None
    clusters: Representation | ArrayLike | None
    segments: ArrayLike | None
    config: BuildConfig | None
    overwrite: bool
    threads: int | None
    memory_limit: int | str | None
    scratch: str | os.PathLike[str] | None
    progress: ProgressOption


def check_keywords(given: Iterable[str], function: Callable[..., Index]) -> None:
    """Raise ConfigError for a name that neither the function nor `segmax.build` knows."""
    parameters = inspect.signature(function).parameters.values()
    own = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    check_names(given, {*own, *BuildKeywords.__annotations__}, f"segmax.{function.__name__}")


def build(
    vectors: object,
    *,
    path: str | os.PathLike[str] | None = None,
    ids: Iterable[Any] | None = None,
    terms: Iterable[str] | Mapping[str, int] | None = None,
    texts: Iterable[object] | Mapping[Any, object] | Frame | None = None,
    encoder: Mapping[str, Any] | None = None,
    clusters: Representation | ArrayLike | None = None,
    segments: ArrayLike | None = None,
    config: BuildConfig | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: ProgressOption = None,
    **options: Unpack[BuildOptions],
) -> Index:
    """Build an index.

    Parameters
    ----------
    vectors
        Documents as a scipy sparse matrix or torch sparse tensor (a row each, any float or integer dtype), an
        iterable of such batches, a reader of `segmax.io`, or the path of a file that `segmax.io.open_vectors` reads
        (.npz, lines of JSON, CIFF and others), or several. Weights are finite and >= 0.
    path
        Where to write the index; None keeps it in memory.
    ids
        All strings or all integers, one per document, in order: a list, an array, a column of a DataFrame. Without them
        those of the file, or the row numbers.
    terms
        The vocabulary: a string per column, or a mapping of term to column; without it that of the file. Queries may
        then name terms by word.
    texts
        The text of every document, to be kept, compressed, and to come back with results: a string, (title, text), a
        mapping or an object with "title" and "text" each. Asked for after the vectors, in their order. A mapping of id
        to text, or a DataFrame with a column "id" beside "text" and "title", is matched by id.
    encoder
        What `Encoder.to_dict` says about what made the vectors, so that the index can encode queries by itself.
    clusters
        What k-means looks at: `Sparse()` (the default), `Dense(array)`, or `Labels(array)` for clusters that are known;
        an array of labels is taken as `Labels`.
    segments
        A segment label below `config.num_segments` per document; without them `config.segmentation` decides.
    config
        Options that decide what is in the index; see `BuildConfig`.
    overwrite
        Replace an index at `path`.
    threads
        None: one per core. The index does not depend on it.
    memory_limit
        How much anonymous memory this process may have, in bytes or like "8GiB"; None: half of the machine's. What does
        not fit goes to disk for the time being. The index does not depend on it.
    scratch
        The folder for that; by default the one that holds `path`, or that of temporary files.
    progress
        None shows progress bars on a terminal, True always, False never; a function is called with `BuildProgress`.
    options
        Fields of `BuildConfig`, given directly: `build(vectors, num_clusters=512)`. They override those of `config`.

    Returns
    -------
    Index
        In memory, or opened from `path`.

    Raises
    ------
    InputError
        If the vectors, or what comes with them, cannot be used.
    ConfigError
        If there is no such option, or it cannot have this value.
    WriteError
        If the index cannot be written, or what was built cannot be opened; an index at `path` is then unchanged.

    Warns
    -----
    SegmaxWarning
        If all documents are empty.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> index = build(sp.csr_matrix([[1, 0, 2], [0, 3, 1]]), ids=["a", "b"])
    >>> index.search({2: 1.0}).ids
    ['a', 'b']
    """
    check_keywords(options, build)
    config = _config(config, options)
    described = None if encoder is None else _checked_encoder(encoder)
    target = None if path is None else checked_path("path", path)
    _check_given(ids, terms, texts)
    if target is not None:
        check_target(target, overwrite=overwrite)
    limit = MemoryLimit(memory_limit)
    limit.check_start()
    folder = scratch_folder(scratch, target)
    representation = _representation(clusters)
    source = open_source(vectors, limit, folder)
    if source.num_docs is not None:
        representation.check(source.num_docs)
    num_workers = min(num_threads(threads), max(1, limit.available() // _BYTES_PER_THREAD))
    with Workers(num_workers) as workers, reporter(progress) as told:
        builder = _Builder(config, limit, folder, workers, told)
        if isinstance(vectors, Prepared):
            source = source._replace(num_docs=vectors.prepare(told))
        spool = builder.read(source, source_name(vectors))
        _warn_if_empty(spool, config)
        representation.check(spool.num_rows)
        given = None if segments is None else checked_segments(segments, spool.num_rows, config.num_segments)
        named = source.names  # by a reader, for what was not given
        doc_ids = named.ids if ids is None else listed_ids(ids)
        tables = {
            **id_arrays(doc_ids, spool.num_rows, named.place_of if ids is None else None),
            **term_arrays(named.terms if terms is None else terms, spool.num_columns),
        }
        stored = None if texts is None else texts_by_row(texts, doc_ids, spool.num_rows)
        del doc_ids  # the list of a generator's ids is in the tables now
        builder.code(spool)
        names, labels = np.unique(builder.cluster(spool, representation), return_inverse=True)
        _check_segments(len(names), config, spool.num_rows)
        grouped = group_by_cluster(spool, labels, limit, folder, workers, told)
        spool.clear()
        by_slot = builder.segments(given, labels, grouped)
        meta: dict[str, Any] = {**builder.meta(grouped), "clusters": representation.to_dict()}
        if described is not None:
            meta["encoder"] = described
        with _writer(target, overwrite=overwrite) as writer:
            builder.write(grouped, by_slot, writer)
            for name, array in {"cluster_label": names, **tables}.items():
                writer.append(name, array)
            if stored is not None:
                builder.write_texts(stored, len(labels), writer)
            arrays = writer.finish(meta)
            if config.calibrate:
                meta["calibration"] = builder.calibration(Index(meta, arrays, None)).to_list()
            writer.commit(meta)
    return Index(meta, writer.arrays, None) if isinstance(writer, MemoryWriter) else open_index(path or "")


def _check_given(ids: object, terms: object, texts: object) -> None:
    """Raise InputError for what can be no ids, terms or texts, before the work of reading vectors is done."""
    if ids is not None:
        check_ids(ids)
    if terms is not None:
        check_terms(terms)
    if texts is not None:
        check_texts(texts)


def _config(config: object, options: BuildOptions) -> BuildConfig:
    """Return the configuration of a build: the given or default one, updated by the options given directly."""
    if config is not None and not isinstance(config, BuildConfig):
        raise ConfigError(option="config", expected="a BuildConfig", got=type(config).__name__)
    return (config or BuildConfig()).updated(options)


def _checked_encoder(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of an encoder as JSON will give it back."""
    try:
        return dict(json.loads(json.dumps(dict(encoder), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"expected encoder to be a mapping that JSON can hold, as Encoder.to_dict returns it ({error})"
        raise InputError(msg) from error


def _warn_if_empty(spool: Spool, config: BuildConfig) -> None:
    if spool.num_postings > 0:
        return
    which = "the only document is" if spool.num_rows == 1 else f"all {spool.num_rows:,} documents are"
    when = " after pruning" if config.pruning else ""
    msg = f"{which} empty{when}: no term has a weight above 0, so no search will find anything; check what you index"
    warnings.warn(msg, SegmaxWarning, stacklevel=3)


def _check_segments(num_clusters: int, config: BuildConfig, num_docs: int) -> None:
    """Raise ConfigError for more segments than an index may have."""
    most = max_segments(num_docs)
    if num_clusters * config.num_segments > most:
        raise ConfigError(
            expected=f"at most {most:,} segments for {num_docs:,} documents",
            got=f"{num_clusters:,} clusters of {config.num_segments:,}",
            hint="choose fewer clusters or a smaller num_segments",
        )


def _writer(target: Path | None, *, overwrite: bool) -> MemoryWriter | IndexWriter:
    return MemoryWriter() if target is None else IndexWriter(target, overwrite=overwrite, check=check_opens)


def scratch_folder(scratch: str | os.PathLike[str] | None, path: str | os.PathLike[str] | None) -> Path:
    """Return where what does not fit into memory waits: as told, beside the index, or with temporary files."""
    if scratch is None:
        return Path(tempfile.gettempdir()) if path is None else checked_path("path", path).absolute().parent
    folder = checked_path("scratch", scratch)
    if not folder.is_dir():
        raise ConfigError(option="scratch", expected="an existing directory", got=f"'{folder}'")
    return folder


def _representation(clusters: Representation | ArrayLike | None) -> Representation:
    if clusters is None:
        return Sparse()
    if isinstance(clusters, Representation):
        return clusters
    if isinstance(clusters, (str, os.PathLike, type)):
        raise ConfigError(
            option="clusters", expected="Sparse(), Dense(...), Labels(...) or an array of labels", got=f"{clusters!r}"
        )
    return Labels(clusters)


class _Builder:
    """The stages of a build, with what they share."""

    def __init__(self, config: BuildConfig, limit: MemoryLimit, folder: Path, workers: Workers, told: Reporter) -> None:
        self._config = config
        self._limit = limit
        self._folder = folder
        self._workers = workers
        self._told = told
        self._sample: Csr | None = None

    def read(self, source: Source, name: str) -> Spool:
        """Take all documents in, pruned; `name` is what messages call them."""
        first_cap = next((i for i, s in enumerate(self._config.pruning) if isinstance(s, MaxPostings)), None)
        steps = self._config.pruning[:first_cap]
        read = 0
        spool: Spool | None = None
        with self._told.stage("read", source.num_docs, "documents") as stage:
            for docs in source.batches:
                read += docs.num_rows
                if spool is None:
                    self._require_tables(docs.num_columns, read, name)
                    room = self._limit.available() - self._workers.threads * _BYTES_PER_THREAD
                    spool = Spool(docs.num_columns, max(0, room) // 3, self._folder)
                spool.widen(docs.num_columns)
                spool.append(prune_rows(steps, docs))
                stage.advance(docs.num_rows)
                if spool.num_rows > _MAX_DOCS:
                    raise InputError(
                        expected=f"at most {_MAX_DOCS:,} documents", got="more", hint="split the collection"
                    )
        assert spool is not None  # an empty source raises
        spool.finish()
        self._require_tables(spool.num_columns, read, name)
        self._limit.require(spool.num_rows * _BYTES_PER_DOC, f"tables of {spool.num_rows:,} documents")
        if first_cap is not None:
            self._prune_parts(spool, self._config.pruning[first_cap:])
        return spool

    def _require_tables(self, num_columns: int, num_read: int, source: str) -> None:
        """Raise ConfigError if reading took more memory than there may be, or leaves too little for tables of terms."""
        self._limit.check_read(f"{counted(num_read, 'document')} of {source}")
        self._limit.require(num_columns * _BYTES_PER_TERM, f"tables of {num_columns:,} terms")

    def _prune_parts(self, spool: Spool, steps: tuple[Step, ...]) -> None:
        """Apply steps that need to see the whole collection, and those after them."""
        max_values = max(1, self._limit.available() // 4 // 16)
        pruned = prune_batches(steps, lambda: spool, spool.num_columns, max_values)
        with self._told.stage("prune", spool.num_rows, "documents") as stage:
            for number, docs in enumerate(pruned()):
                spool.replace(number, docs._replace(values=narrowest(docs.values)))
                stage.advance(docs.num_rows)

    def code(self, spool: Spool) -> None:
        """Turn weights into codes."""
        quantizer = Quantizer(spool, spool.num_columns, self._config.bits, self._workers)
        error = mass = 0.0
        with self._told.stage("code", spool.num_rows, "documents") as stage:
            for number, part in enumerate(quantizer.coded(spool, self._workers)):
                spool.replace(number, part.docs)
                error += part.error
                mass += part.mass
                stage.advance(part.docs.num_rows)
        self.scale = quantizer.scale
        self._quantization_error = error / mass if mass else 0.0

    def cluster(self, spool: Spool, representation: Representation) -> NDArray[np.int64]:
        """Return a cluster label per row."""
        frequency = term_frequencies(spool, self._workers)
        # Only ratios count, and 32 bits hold them only if they are about 1.
        factor = np.sqrt(self.scale / self.scale.max(initial=1e-300)) * rarity(frequency, spool.num_rows)
        projector = Projector(spool, factor.astype(np.float32), self._config.seed)
        if not isinstance(representation, Labels):
            _check_segments(self._config.clusters_for(spool.num_rows), self._config, spool.num_rows)
        job = ClusterJob(
            num_docs=spool.num_rows,
            projector=projector,
            num_clusters=self._config.clusters_for(spool.num_rows),
            seed=self._config.seed,
            limit=self._limit,
            scratch=self._folder,
            workers=self._workers,
            told=self._told,
        )
        labels = representation.labels(job)
        if self._config.calibrate and spool.num_rows >= LEAST_DOCS:
            self._sample = projector.sample
            self._sample_rows = projector.sample_rows
            self._rarity = rarity(frequency, spool.num_rows)
        if self._config.order == "similarity" or self._config.segmentation == "kmeans":
            self._projection = projector.projection(DIMENSIONS)
        return labels

    def segments(self, given: NDArray[np.uint32] | None, labels: NDArray[Any], grouped: Grouped) -> NDArray[np.uint32]:
        """Return a segment label per slot."""
        config = self._config
        if given is not None:
            return given[grouped.rows]
        if config.segmentation == "independent":
            return independent_segments(len(labels), config.num_segments, config.seed)[grouped.rows]
        if config.segmentation == "kmeans":
            return kmeans_segments(
                grouped.docs,
                grouped.cluster_first,
                self._projection,
                config.num_segments,
                config.seed,
                self._workers,
                self._told,
            )
        return random_segments(labels, config.num_segments, config.seed)[grouped.rows]

    def write(self, grouped: Grouped, segments: NDArray[np.uint32], writer: Writer) -> None:
        """Order the documents inside clusters and write the arrays."""
        config = self._config
        if config.order == "similarity":
            order = order_by_similarity(grouped, self._projection, self._workers, self._told)
        else:
            order = np.arange(len(grouped.rows), dtype=np.uint32)
        arguments = (grouped, order, segments, config.num_segments, config.head_ratio)
        write_arrays(*arguments, writer, self._limit, self._workers, self._told)
        writer.append("term_scale", self.scale)

    def write_texts(self, texts: Iterable[object], num_docs: int, writer: Writer) -> None:
        """Keep what the documents say."""
        with self._told.stage("texts", num_docs, "documents") as stage:

            def reported() -> Iterator[object]:
                for row, text in enumerate(texts, start=1):
                    yield text
                    if row % _TOLD_TEXTS == 0 or row == num_docs:
                        stage.advance((row - 1) % _TOLD_TEXTS + 1)

            write_texts(reported(), num_docs, writer.append)

    def calibration(self, index: Index) -> Calibration:
        """Measure approximate settings on queries made of documents; nothing where exact search is fast anyway."""
        if self._sample is None or index.num_clusters < 2:
            return Calibration()
        weights = self._sample.values * self.scale[self._sample.indices]
        # By a power of two, which changes no ranking: products of the largest weights would not fit a double.
        weights = np.ldexp(weights, -_QUERY_EXPONENT - int(np.frexp(weights.max(initial=0.0))[1]))
        most = max(BUILD_QUERIES.values())
        made = pseudo_queries(self._sample._replace(values=weights), self._rarity, most, self._config.seed)
        calibration = Calibration()
        with self._told.stage("calibrate", len(BUILD_QUERIES), "values of k") as stage:
            for k, count in BUILD_QUERIES.items():
                rows = np.arange(min(count, made.queries.num_rows))
                measured = measure(
                    partial(index._searched, threads=self._workers.threads),
                    selected_rows(made.queries, rows),
                    k,
                    index.num_docs,
                    "pseudo-queries",
                    self._sample_rows[made.source[rows]],
                )
                if measured is not None:
                    calibration = calibration.with_measured(measured)
                stage.advance(1)
        return calibration

    def meta(self, grouped: Grouped) -> dict[str, Any]:
        """Return what meta.json says about the index."""
        return {
            "format": "segmax",
            "version": FORMAT_VERSION,
            "num_docs": len(grouped.rows),
            "num_terms": grouped.docs.num_columns,
            "num_segments": self._config.num_segments,
            "num_postings": len(grouped.docs.indices),
            "code_bytes": self._config.bits // 8,
            "head_ratio": self._config.head_ratio,
            "quantization_error": self._quantization_error,
            "config": self._config.to_dict(),
        }
