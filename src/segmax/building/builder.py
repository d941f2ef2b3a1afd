"""Building an index from vectors: a stream of documents in, a well-clustered index out, in bounded memory."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax.base.checks import checked_path
from segmax.base.errors import ConfigError, InputError, SegmaxWarning
from segmax.base.progress import advancing
from segmax.building.assemble import Grouped, Layout, Writer, group_by_cluster, order_by_similarity, write_arrays
from segmax.building.calibrating import Sample, calibrated
from segmax.building.clustering import DIMENSIONS, Clustering, ClusterJob, Labels, Sparse
from segmax.building.given_metadata import check_metadata, metadata_by_row
from segmax.building.given_texts import check_texts, texts_by_row
from segmax.building.inputs import open_source
from segmax.building.points import Projection, Projector, rarity, term_factor, term_frequencies
from segmax.building.reading import ReadDocuments, read_documents
from segmax.building.resources import BuildResources, ResourceOptions, open_resources
from segmax.building.segments import checked_segments, independent_segments, kmeans_segments, random_segments
from segmax.building.spool import Spool
from segmax.metadata import pack_metadata
from segmax.search.calibration import LEAST_DOCS
from segmax.search.index import Index, check_opens
from segmax.storage.blocks import Append
from segmax.storage.components import Arrays
from segmax.storage.config import BuildConfig, BuildOptions, check_names
from segmax.storage.meta import FORMAT_VERSION
from segmax.storage.reading import max_segments
from segmax.storage.tables import check_ids, check_terms, id_arrays, listed_ids, term_arrays
from segmax.storage.texts import write_texts
from segmax.storage.writing import IndexWriter, MemoryWriter, check_target
from segmax.vectors.quantize import Quantizer

if TYPE_CHECKING:
    from segmax.vectors.types import Frame


class BuildArguments(BuildOptions, ResourceOptions, total=False):
    """The options that `segmax.build` takes beside its named parameters."""

    overwrite: bool


class BuildKeywords(BuildArguments, total=False):
    """Keywords that functions on top of `segmax.build` pass on to it."""

    ids: Iterable[Any] | None
    segments: ArrayLike | None
    config: BuildConfig | None


def check_keywords(given: Iterable[str], function: Callable[..., Index]) -> None:
    """Raise ConfigError for a name that neither the function nor `segmax.build` knows."""
    parameters = inspect.signature(function).parameters.values()
    own = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    passed_on = BuildArguments if function is build else BuildKeywords
    check_names(given, {*own, *passed_on.__annotations__}, f"segmax.{function.__name__}")


def build(
    vectors: object,
    *,
    path: str | os.PathLike[str] | None = None,
    ids: Iterable[Any] | None = None,
    terms: Iterable[str] | Mapping[str, int] | None = None,
    texts: Iterable[object] | Mapping[Any, object] | Frame | None = None,
    metadata: Iterable[object] | Mapping[Any, object] | Frame | None = None,
    encoder: Mapping[str, Any] | None = None,
    clustering: Clustering | ArrayLike | None = None,
    segments: ArrayLike | None = None,
    config: BuildConfig | None = None,
    **options: Unpack[BuildArguments],
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
        All strings or all integers, one per document: a list, an array, a column of a DataFrame. By default those of
        the file, or the row numbers.
    terms
        The vocabulary, so that queries can name terms by word: a string per column, or a mapping of term to column. By
        default that of the file.
    texts
        The text of every document, to be stored compressed and returned with results: each a string, (title, text), or
        a mapping or object with "title" and "text". They are read after the vectors, in the same order. A mapping of
        id to text, or a DataFrame with a column "id" beside "text" and "title", is matched by id.
    metadata
        What each document is described by, to filter searches by it and to return it with results: a mapping of field
        to a value of JSON, or None. They are read after the vectors, in the same order. A mapping of id to metadata,
        or a DataFrame with a column "id", is matched by id; the other columns of a DataFrame are the fields, and values
        that are missing there (NaN, NA) are left out.
    encoder
        What made the vectors, as `Encoder.to_dict` returns it, so that the index can encode queries by itself.
    clustering
        What documents are clustered by: `Sparse()` (the default), `Dense(array)`, `Pooled("mean")` or `Labels(array)`
        of `segmax.clustering`. An array of labels is taken as `Labels`.
    segments
        A segment label below `num_segments` per document; by default `segmentation` decides.
    config
        Options that decide what the index holds; see `BuildConfig`.
    options
        Fields of `BuildConfig`, given directly: `build(vectors, num_clusters=512)`. They override those of `config`.
        And how the work is done, on which the index does not depend:

        - `overwrite`: replace an index at `path`.
        - `threads`: None uses one per core.
        - `memory_limit`: how much anonymous memory this process may have, in bytes or like "8GiB"; None: half of the
          machine's. What does not fit goes to scratch files.
        - `scratch`: the folder for scratch files; by default the one that holds `path`, or that of temporary files.
        - `progress`: True shows progress bars; a function is called with `BuildProgress`; None and False are silent.

    Returns
    -------
    Index
        In memory, or opened from `path`.

    Raises
    ------
    InputError
        If vectors, ids, terms, texts, metadata or labels are invalid.
    ConfigError
        If an option is unknown, or has an invalid value.
    WriteError
        If the index could not be written; an index at `path` is then unchanged.

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
    >>> index = build(sp.csr_matrix([[1, 0, 2], [0, 3, 1]]), metadata=[{"year": 2019}, {"year": 2024}])
    >>> index.search({2: 1.0}, where={"year": {"$gte": 2020}}).ids
    [1]
    """
    check_keywords(options, build)
    request = BuildRequest(
        path=None if path is None else checked_path("path", path),
        overwrite=options.get("overwrite", False),
        ids=ids,
        terms=terms,
        texts=texts,
        metadata=metadata,
        encoder=None if encoder is None else _checked_encoder(encoder),
        clustering=as_clustering(clustering),
        segments=segments,
        config=effective_config(config, options),
    )
    with open_resources(request.path, options) as resources:
        return build_index(vectors, request, resources)


class CodedDocuments(NamedTuple):
    """What a build has to know about documents that have codes already: those of a collection's parts."""

    scale: NDArray[np.float64]  #: by term: weight = code * scale
    rows: NDArray[np.uint32]  #: by document, in the order in which they are read: its row
    components: Arrays  #: their ids, and what else a collection keeps of them, by row
    write_metadata: Callable[[Append], dict[str, Any]] | None  #: appends components, and returns the entry of meta.json


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What a build is asked for; ids, terms, texts and metadata are checked at once, before vectors are read."""

    path: Path | None
    overwrite: bool
    config: BuildConfig
    clustering: Clustering
    ids: Iterable[Any] | None = None
    terms: Iterable[str] | Mapping[str, int] | None = None
    texts: Iterable[object] | Mapping[Any, object] | Frame | None = None
    metadata: Iterable[object] | Mapping[Any, object] | Frame | None = None
    encoder: Mapping[str, Any] | None = None
    segments: ArrayLike | None = None
    coded: CodedDocuments | None = None

    def __post_init__(self) -> None:
        if self.ids is not None:
            check_ids(self.ids)
        if self.terms is not None:
            check_terms(self.terms)
        if self.texts is not None:
            check_texts(self.texts)
        if self.metadata is not None:
            check_metadata(self.metadata)
        if self.path is not None:
            check_target(self.path, overwrite=self.overwrite)


def effective_config(config: object, options: Mapping[str, Any]) -> BuildConfig:
    """Return the configuration of a build: the given or default one, updated by the options given directly."""
    if config is not None and not isinstance(config, BuildConfig):
        raise ConfigError(option="config", expected="a BuildConfig", got=type(config).__name__)
    direct = {name: value for name, value in options.items() if name in BuildOptions.__annotations__}
    return (config or BuildConfig()).updated(direct)


def as_clustering(clustering: Clustering | ArrayLike | None) -> Clustering:
    """Return what documents are clustered by: their sparse vectors by default, an array as labels."""
    if clustering is None:
        return Sparse()
    if isinstance(clustering, Clustering):
        return clustering
    if isinstance(clustering, (str, os.PathLike, type)):
        raise ConfigError(
            option="clustering",
            expected="Sparse(), Dense(...), Pooled(...), Labels(...) or an array of labels",
            got=f"{clustering!r}",
        )
    return Labels(clustering)


def _checked_encoder(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of an encoder as JSON will give it back."""
    try:
        return dict(json.loads(json.dumps(dict(encoder), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            option="encoder",
            expected="a mapping that JSON can hold, as Encoder.to_dict returns it",
            got=f"something else ({error})",
        ) from error


# --- the stages ------------------------------------------------------------------------------------------------------


def build_index(vectors: object, request: BuildRequest, resources: BuildResources) -> Index:
    """Run the stages of a build: read, prune, code, cluster, group, order, write, calibrate."""
    config, clustering = request.config, request.clustering
    source = open_source(vectors, resources.limit, resources.folder)
    if source.num_docs is not None:
        clustering.check(source.num_docs)
    read = read_documents(source, config.pruning, clustering.pooling, resources)
    spool, num_docs = read.spool, read.spool.num_rows
    if request.coded is None:
        _warn_if_empty(spool, config)
    clustering.check(num_docs)
    given = None if request.segments is None else checked_segments(request.segments, num_docs, config.num_segments)
    tables, texts, metadata = _tables_and_texts(request, read)
    coding = _code(spool, config.bits, resources)
    if request.coded is not None:  # codes are whole numbers, which stay as they are
        coding = coding._replace(scale=request.coded.scale)
    clustered = _cluster(read, coding, request, resources)
    grouped = group_by_cluster(spool, clustered.labels, resources)
    spool.clear()
    segments = _segments(given, grouped, clustered, config, resources)
    if request.coded is not None:
        grouped = grouped._replace(rows=request.coded.rows[grouped.rows])
    meta = _meta(grouped, coding, request)
    with _writer(request) as writer:
        _write(grouped, segments, clustered, config, writer, resources)
        for name, array in {"term_scale": coding.scale, "cluster_label": clustered.names, **tables}.items():
            writer.append(name, array)
        if texts is not None:
            with resources.progress.stage("texts", num_docs, "documents") as stage:
                write_texts(texts, num_docs, writer.append, resources.workers, stage.advance)
        if request.coded is not None and request.coded.write_metadata is not None:
            meta["metadata"] = request.coded.write_metadata(writer.append)
        elif metadata is not None:
            with resources.progress.stage("metadata", num_docs, "documents") as stage:
                meta["metadata"] = pack_metadata(advancing(metadata, stage.advance), num_docs, writer.append)
        arrays = writer.finish(meta)
        if config.calibrate:
            meta["calibration"] = calibrated(
                Index(meta, arrays, None), clustered.sample, coding.scale, config.seed, resources
            ).to_list()
        meta = writer.commit(meta)
    # Pickled by path, the index must be found from any working directory.
    return Index(meta, arrays, None if request.path is None else request.path.absolute())


def _warn_if_empty(spool: Spool, config: BuildConfig) -> None:
    if spool.num_postings > 0:
        return
    which = "the only document is" if spool.num_rows == 1 else f"all {spool.num_rows:,} documents are"
    when = " after pruning" if config.pruning else ""
    msg = f"{which} empty{when}: no term has a weight above 0, so no search will find anything; check what you index"
    warnings.warn(msg, SegmaxWarning, stacklevel=4)


def _tables_and_texts(
    request: BuildRequest, read: ReadDocuments
) -> tuple[Arrays, Iterable[object] | None, Iterable[object] | None]:
    """Return the tables of ids and terms, given or read, and the texts and metadata by row."""
    names, spool = read.names, read.spool
    if request.coded is not None:
        texts = None if request.texts is None else texts_by_row(request.texts, None, spool.num_rows)
        return request.coded.components, texts, None
    ids = names.ids if request.ids is None else listed_ids(request.ids)
    tables = {
        **id_arrays(ids, spool.num_rows, names.place_of if request.ids is None else None),
        **term_arrays(names.terms if request.terms is None else request.terms, spool.num_columns),
    }
    texts = None if request.texts is None else texts_by_row(request.texts, ids, spool.num_rows)
    metadata = None if request.metadata is None else metadata_by_row(request.metadata, ids, spool.num_rows)
    return tables, texts, metadata


class _Coding(NamedTuple):
    """How weights became codes."""

    scale: NDArray[np.float64]  # by term: weight = code * scale
    error: float  # sum of absolute errors over the sum of weights


def _code(spool: Spool, bits: int, resources: BuildResources) -> _Coding:
    """Turn the weights of a spool into codes."""
    quantizer = Quantizer(spool, spool.num_columns, bits, resources.workers)
    error = mass = 0.0
    with resources.progress.stage("code", spool.num_rows, "documents") as stage:
        for number, slab in enumerate(quantizer.coded(spool, resources.workers)):
            spool.replace(number, slab.docs)
            error += slab.error
            mass += slab.mass
            stage.advance(slab.docs.num_rows)
    return _Coding(quantizer.scale, error / mass if mass else 0.0)


class _Clustered(NamedTuple):
    """The cluster of every row, and what later stages need of the documents before they are grouped."""

    names: NDArray[np.int64]  # by cluster: the label that it was given
    labels: NDArray[np.int64]  # by row: its cluster
    projection: Projection | None  # None where neither order nor segments need it
    sample: Sample | None  # None where nothing is calibrated


def _cluster(read: ReadDocuments, coding: _Coding, request: BuildRequest, resources: BuildResources) -> _Clustered:
    spool, config = read.spool, request.config
    rare = rarity(term_frequencies(spool, resources.workers), spool.num_rows)
    projector = Projector(spool, term_factor(coding.scale, rare), config.seed)
    if not isinstance(request.clustering, Labels):
        _check_segments(config.clusters_for(spool.num_rows), config, spool.num_rows)
    job = ClusterJob(
        num_docs=spool.num_rows,
        projector=projector,
        pooled=read.pooled,
        num_clusters=config.clusters_for(spool.num_rows),
        seed=config.seed,
        resources=resources,
        is_even=config.num_clusters is None,
    )
    names, labels = np.unique(request.clustering.labels(job), return_inverse=True)
    _check_segments(len(names), config, spool.num_rows)
    is_large = config.calibrate and spool.num_rows >= LEAST_DOCS
    is_projected = config.document_order == "similarity" or config.segmentation == "kmeans"
    return _Clustered(
        names,
        labels,
        sample=Sample(projector.sample, projector.sample_rows, rare) if is_large else None,
        projection=projector.projection(DIMENSIONS) if is_projected else None,
    )


def _check_segments(num_clusters: int, config: BuildConfig, num_docs: int) -> None:
    """Raise ConfigError for more segments than an index may have."""
    most = max_segments(num_docs)
    if num_clusters * config.num_segments > most:
        raise ConfigError(
            expected=f"at most {most:,} segments for {num_docs:,} documents",
            got=f"{num_clusters:,} clusters of {config.num_segments:,}",
            hint="choose fewer clusters or a smaller {num_segments}",
        )


def _segments(
    given: NDArray[np.uint32] | None,
    grouped: Grouped,
    clustered: _Clustered,
    config: BuildConfig,
    resources: BuildResources,
) -> NDArray[np.uint32]:
    """Return a segment label per slot."""
    if given is not None:
        return given[grouped.rows]
    if config.segmentation == "independent":
        return independent_segments(len(clustered.labels), config.num_segments, config.seed)[grouped.rows]
    if config.segmentation == "kmeans":
        assert clustered.projection is not None
        return kmeans_segments(grouped, clustered.projection, config.num_segments, config.seed, resources)
    return random_segments(clustered.labels, config.num_segments, config.seed)[grouped.rows]


def _meta(grouped: Grouped, coding: _Coding, request: BuildRequest) -> dict[str, Any]:
    """Return the entries of meta.json, but for the calibration."""
    config = request.config
    meta: dict[str, Any] = {
        "format": "segmax",
        "version": FORMAT_VERSION,
        "num_docs": len(grouped.rows),
        "num_terms": grouped.docs.num_columns,
        "num_segments": config.num_segments,
        "num_postings": len(grouped.docs.indices),
        "code_bytes": config.bits // 8,
        "head_ratio": config.head_ratio,
        "quantization_error": coding.error,
        "config": config.to_dict(),
        "clustering": request.clustering.to_dict(),
    }
    return meta if request.encoder is None else {**meta, "encoder": request.encoder}


def _writer(request: BuildRequest) -> MemoryWriter | IndexWriter:
    if request.path is None:
        return MemoryWriter()
    return IndexWriter(request.path, overwrite=request.overwrite, check=check_opens)


def _write(
    grouped: Grouped,
    segments: NDArray[np.uint32],
    clustered: _Clustered,
    config: BuildConfig,
    writer: Writer,
    resources: BuildResources,
) -> None:
    """Order the documents inside clusters and write the arrays."""
    if config.document_order == "similarity":
        assert clustered.projection is not None
        order = order_by_similarity(grouped, clustered.projection, resources)
    else:
        order = np.arange(len(grouped.rows), dtype=np.uint32)
    exact_segments = config.segment_bounds == "exact"
    layout = Layout(order, segments, config.num_segments, exact_segments, config.head_ratio)
    write_arrays(grouped, layout, writer, resources)
