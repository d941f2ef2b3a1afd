"""The messages of the HTTP API, version 1: what a request may say, and what answers look like.

The OpenAPI document is made of these types (`openapi.py`), so a field that is not here does not exist.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

DocId = int | str
Scalar = str | int | float | bool | None

#: What a result, or a document, can be returned with.
Field = Literal["row", "title", "text", "metadata"]
Fields = Annotated[list[Field], Meta(max_length=8)]
DocumentFields = Annotated[list[Field | Literal["vector"]], Meta(max_length=8)]
MethodName = Literal["asc", "exhaustive", "sequential", "anytime", "maxscore"]

# The largest numbers that arrays of term numbers hold; limits of the service are lower, and settings.
Term = Annotated[int, Meta(ge=0, lt=2**31)]
Count = Annotated[int, Meta(ge=1, le=2**31)]
Share = Annotated[float, Meta(gt=0, le=1)]
Name = Annotated[str, Meta(max_length=1000)]


class Request(Struct, kw_only=True, forbid_unknown_fields=True):
    """What all requests have in common: an unknown field is an error, because it was meant to have an effect."""


class Vector(Request, kw_only=True):
    """A sparse vector: term numbers and their weights."""

    indices: list[Term]
    values: list[float]


class Params(Request, kw_only=True, omit_defaults=True):
    """A search method and its options, as in Python: `{"method": "asc", "eta": 0.95}` is `segmax.ASC(eta=0.95)`.

    `sequential`, `anytime` and `maxscore` are the methods of `segmax.paper`. An option that a method does not have is
    an error.
    """

    method: MethodName = "asc"
    mu: Share | UnsetType = UNSET
    eta: Share | UnsetType = UNSET
    max_blocks: Count | UnsetType = UNSET
    max_clusters: Count | UnsetType = UNSET
    bound_mass: Share | UnsetType = UNSET
    max_terms: Count | UnsetType = UNSET
    query_mass: Share | UnsetType = UNSET
    dropped: Literal["ignored", "bounded"] | UnsetType = UNSET


class Highlight(Request, kw_only=True):
    """Mark the words of the query in titles and texts; `width` is about how many characters of a text to return."""

    width: Annotated[int, Meta(ge=20, le=10_000)] = 240


class Query(Request, kw_only=True):
    """What to search for: exactly one of a text, weights by word, or a vector."""

    text: str | None = None
    terms: dict[str, float] | None = None
    vector: Vector | None = None


class Search(Query, kw_only=True):
    """A search."""

    k: Count = 10
    params: Params | None = None
    target_recall: Share | None = None
    where: dict[str, Any] | None = None
    offset: Annotated[int, Meta(ge=0, le=2**31)] = 0
    min_score: float | None = None
    max_shards: Count | None = None  #: of a sharded index: ask only so many shards, those that promise most
    group_by: Name | None = None
    group_size: Count = 1
    budget_ms: Annotated[float, Meta(gt=0, le=600_000)] | None = None
    prefix: bool = False  #: take the last word of `text` for the start of a word, too
    fields: Fields = []
    highlight: Highlight | bool = False
    stats: bool = False


class BatchQuery(Query, kw_only=True):
    """One query of a batch; what it does not say is said for all."""

    k: Count | None = None
    params: Params | None = None
    where: dict[str, Any] | None = None


class BatchSearch(Request, kw_only=True):
    """Many searches at once."""

    queries: list[BatchQuery]
    k: Count = 10
    params: Params | None = None
    target_recall: Share | None = None
    where: dict[str, Any] | None = None
    offset: Annotated[int, Meta(ge=0, le=2**31)] = 0
    min_score: float | None = None
    max_shards: Count | None = None  #: of a sharded index: ask only so many shards, those that promise most
    fields: Fields = []
    stats: bool = False


class Explain(Query, kw_only=True):
    """Ask why a document is or is not among the k best."""

    id: DocId
    k: Count = 10
    params: Params | None = None
    where: dict[str, Any] | None = None
    max_shards: Count | None = None  #: as in the search to be explained
    prefix: bool = False  #: as in the search to be explained


class Inside(Query, kw_only=True):
    """Ask what a search decides about every cluster."""

    k: Count = 10
    params: Params | None = None
    prefix: bool = False  #: as in the search to be shown


class Score(Query, kw_only=True):
    """Ask for the scores of given documents."""

    ids: list[DocId]


class GetDocuments(Request, kw_only=True):
    """Ask for documents, by id or by row."""

    ids: list[DocId] | None = None
    rows: list[Annotated[int, Meta(ge=0, lt=2**62)]] | None = None
    fields: DocumentFields = msgspec.field(default_factory=lambda: ["title", "text", "metadata"])


class CountDocuments(Request, kw_only=True):
    """Ask how many documents a filter matches."""

    where: dict[str, Any] | None = None


class Facets(Request, kw_only=True):
    """Ask for the values of a field, and how many documents that a filter matches have each."""

    field: Name
    where: dict[str, Any] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100


class Encode(Request, kw_only=True):
    """Ask for the vectors of texts, as queries."""

    texts: list[str]


class FindTerms(Request, kw_only=True):
    """Look up terms by word or by number, or by the start of a word; exactly one of these."""

    words: list[str] | None = None
    numbers: list[Term] | None = None
    prefix: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class Record(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A document to add, or what changes of it: `text` (and `title`), and `vector` or `terms`, weights by word.

    Of a document that is there, `metadata` change as JSON Merge Patch says (RFC 7396): objects are merged, null removes
    a field, everything else replaces it, and a name with dots is a path.
    """

    id: DocId | None = None
    title: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    vector: Vector | UnsetType = UNSET
    terms: dict[str, float] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET


class Documents(Request, kw_only=True):
    """Documents that are added all together, or not at all."""

    documents: list[Record]


class Delete(Request, kw_only=True):
    """Documents to delete: by id, or those that a filter matches."""

    ids: list[DocId] | None = None
    where: dict[str, Any] | None = None


class Nothing(Request, kw_only=True):
    """An empty object, for requests that need to say nothing."""


# --- answers ---------------------------------------------------------------------------------------------------------


class Piece(Struct, kw_only=True, omit_defaults=True):
    """A piece of a text; `match` is true where the query asked for it."""

    text: str
    match: bool = False


class Highlights(Struct, kw_only=True):
    """The title and a passage of the text, cut into pieces."""

    title: list[Piece]
    text: list[Piece]


class Hit(Struct, kw_only=True):
    """A result."""

    id: DocId
    score: float
    row: int | UnsetType = UNSET
    title: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET
    highlights: Highlights | UnsetType = UNSET


class Stats(Struct, kw_only=True):
    """What a search cost; `segmax.typing.SearchStats` explains the fields."""

    clusters_visited: int
    clusters_pruned: int
    clusters_tied: int
    clusters_stopped: int
    clusters_limited: int
    clusters_zero: int
    segments_read: int
    lines_read: int
    entries_read: int
    blocks_scored: int
    docs_scored: int
    postings_read: int
    unknown_terms: int
    dropped_terms: int
    budget_hit: bool
    swept: bool
    elapsed_ns: int


class SearchResult(Struct, kw_only=True):
    """The results of a search, best first.

    `complete` is false where a budget or a limit left something out, or where shards were left out or gave no answer.
    """

    hits: list[Hit]
    complete: bool
    missing_share: float | UnsetType = UNSET  #: the share of documents in shards that gave no answer; left out if 0
    took_ms: float | UnsetType = UNSET  #: in the service, from the request to the answer
    stats: Stats | UnsetType = UNSET
    shards_asked: int | UnsetType = UNSET  #: of a sharded index, with `stats`


class GroupResult(Struct, kw_only=True):
    """The best documents with one value in a field."""

    value: Scalar
    hits: list[Hit]
    stats: Stats | UnsetType = UNSET


class GroupsResult(Struct, kw_only=True):
    """The results of a search with `group_by`."""

    groups: list[GroupResult]
    complete: bool
    took_ms: float
    missing_share: float | UnsetType = UNSET  #: the share of documents in shards that gave no answer; left out if 0


class BatchResult(Struct, kw_only=True):
    """The results of many searches, in the order of the queries."""

    results: list[SearchResult]
    took_ms: float


class Matched(Struct, kw_only=True):
    """A term that query and document share, and what it adds to the score."""

    term: int
    word: str | None
    query_weight: float
    document_weight: float
    contribution: float
    searched: bool


class Explanation(Struct, kw_only=True):
    """Why a document is or is not among the results; `segmax.typing.Explanation` explains the fields."""

    id: DocId
    score: float
    matched: list[Matched]
    rank: int | None
    cluster: int
    bound_sum: float
    max_bound: float
    avg_bound: float
    decision: str
    threshold: float
    final_threshold: float
    reason: str
    shard: int | UnsetType = UNSET  #: of a sharded index: where the document is, and what was decided about that shard
    shard_decision: str | UnsetType = UNSET
    shard_max_bound: float | UnsetType = UNSET
    shard_avg_bound: float | UnsetType = UNSET


class Cluster(Struct, kw_only=True):
    """A cluster as one search saw it; bounds and θ are in the scale of the scores."""

    cluster: int
    num_docs: int
    bound_sum: float
    max_bound: float
    avg_bound: float
    best_score: float  #: the best score of a document in it
    decision: Literal["visited", "pruned", "tied", "stopped", "limited", "zero"]
    threshold: float | None  #: θ when the decision fell; null where the search recorded none
    num_hits: int  #: how many of the results are in it


class InsideResult(Struct, kw_only=True):
    """What a search decided about clusters, the highest bound first."""

    method: str
    clusters: list[Cluster]
    num_clusters: int  #: of all, of which `clusters` may be the first
    final_threshold: float
    num_docs: int  #: documents that were searched, deleted ones that are still there among them
    num_blocks: int  #: blocks of eight documents in the index
    stats: Stats
    part: str | None  #: of a collection: which part this is about


class DocumentResult(Struct, kw_only=True):
    """A document."""

    id: DocId
    row: int | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    text: str | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET
    vector: Vector | UnsetType = UNSET


class DocumentsResult(Struct, kw_only=True):
    """Documents, in the order of the request."""

    documents: list[DocumentResult]


class ScoreResult(Struct, kw_only=True):
    """Scores, in the order of the request; 0 where query and document share no term."""

    scores: list[float]


class CountResult(Struct, kw_only=True):
    """A number of documents."""

    count: int


class FacetValue(Struct, kw_only=True):
    """A value of a field, and how many documents have it."""

    value: Scalar
    count: int


class FacetsResult(Struct, kw_only=True):
    """The values of a field, the most frequent first."""

    values: list[FacetValue]


class EncodeResult(Struct, kw_only=True):
    """The vectors of texts."""

    vectors: list[Vector]


class TermResult(Struct, kw_only=True):
    """A term; null for a word or a number that is not there."""

    term: int
    word: str


class TermsResult(Struct, kw_only=True):
    """Terms, in the order of the request."""

    terms: list[TermResult | None]
    num_terms: int
    version: str  #: of the index that they were looked up in, as `IndexInfo` has it


class IndexInfo(Struct, kw_only=True):
    """An index or a collection that is served."""

    name: str
    kind: Literal["index", "collection"]
    version: str  #: changes when it is replaced, and with every write
    num_docs: int
    num_terms: int
    num_clusters: int
    num_segments: int
    num_postings: int
    num_bytes: int
    bits: int
    id_kind: Literal["int", "str"] | None
    has_texts: bool
    has_metadata: bool
    has_vocabulary: bool
    fields: dict[str, list[str]]  #: of the metadata, and the kinds of values in each
    encoder: str | None  #: what turns texts into queries; null: searches need vectors, or weights by word
    writable: bool
    num_shards: int | UnsetType = UNSET  #: of a sharded index


class Indexes(Struct, kw_only=True):
    """What is served."""

    indexes: list[IndexInfo]
    version: str  #: of segmax
    writable: bool
    limits: dict[str, float]
    unavailable: dict[str, str] | UnsetType = UNSET  #: why something cannot be opened, by name


class PartStats(Struct, kw_only=True):
    """What a collection consists of; `segmax.Collection.stats` explains the fields."""

    num_docs: int
    num_deleted: int
    num_parts: int
    num_in_memory: int
    num_postings: int
    part_bytes: int
    log_bytes: int
    sequence: int
    failure: str | None = None


class StatsResult(Struct, kw_only=True):
    """Sizes and figures of an index."""

    info: IndexInfo
    sizes: dict[str, int]  #: bytes by component
    cluster_sizes: list[int]  #: documents in each cluster, the largest first; of many, a sample of 1,000
    quantization_error: float | None
    collection: PartStats | None


class Health(Struct, kw_only=True):
    """That the service is there."""

    status: str


class WriteResult(Struct, kw_only=True):
    """What a write did. Searches find it, on every worker."""

    count: int  #: documents that were added, changed or deleted
    sequence: int  #: of the collection's last write


class LineResult(Struct, kw_only=True, omit_defaults=True):
    """What became of one line of a stream; `error` is set if it was refused."""

    line: int
    ok: bool
    id: DocId | None = None
    error: str | None = None


class StreamEnd(Struct, kw_only=True, omit_defaults=True):
    """The last line of the answer to a stream."""

    done: bool
    count: int
    errors: int
    sequence: int
    error: str | None = None  #: why the stream was not read to its end


class SnapshotResult(Struct, kw_only=True):
    """A copy of a collection in the folder of snapshots."""

    name: str
    num_docs: int
    sequence: int


class Problem(Struct, kw_only=True, omit_defaults=True):
    """What is wrong, as RFC 9457 says it; the parts after `instance` are those of segmax's errors."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""  #: the id of the request
    option: str = ""
    expected: str = ""
    got: str = ""
    hint: str = ""


ENCODER = msgspec.json.Encoder()
