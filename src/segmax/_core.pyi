"""The C++ core of segmax. Private: use the names that segmax exports."""

from collections.abc import Sequence
import enum
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray

class CoreFormatError(ValueError):
    pass

def simd_level() -> str:
    """
    The instruction set in use: 'avx512', 'avx2', 'neon' or 'portable'. SEGMAX_SIMD forces one.
    """

def simd_levels() -> list[str]:
    """
    The instruction sets that this CPU and this build have, the fastest first.
    """

def release_memory() -> None:
    """Give memory that was freed back to the system."""

def has_asserts() -> bool:
    """
    Whether preconditions are checked, as in the build that tests load: slow.
    """

BLOCK_DOCS: int = 8

NO_ROW: int = 4294967295

class StopFlag:
    """Set it, and work that was given it raises CoreInterrupted soon."""

    def __init__(self) -> None: ...
    def set(self) -> None: ...

class CoreInterrupted(RuntimeError):
    pass

def lay_out_clusters(cluster_first: numpy.typing.NDArray[numpy.uint32]) -> numpy.typing.NDArray[numpy.uint32]:
    """cluster_first_position for clusters of these sizes."""

def order_by_similarity(
    points: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
    stop: StopFlag,
) -> None:
    """
    Reorder documents in place so that similar ones of a cluster are neighbors.
    """

def plan_terms(
    postings: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pairs: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_clusters: int,
    num_positions: int,
    num_segments: int,
    head_ratio: int,
    code_bytes: int,
    exact_segments: bool,
) -> tuple[
    Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]
]:
    """term_first_pair, and the bytes that making each term's arrays takes."""

@overload
def gather_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_slot: int,
    out_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out_terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu")],
    out_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
@overload
def gather_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_slot: int,
    out_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out_terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
    out_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
@overload
def gather_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_slot: int,
    out_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out_terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu")],
    out_codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
@overload
def gather_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_slot: int,
    out_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out_terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
    out_codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu")],
) -> None:
    """
    Copy the rows of a part to their slots, those outside the range of `out_indptr` left out.
    """

@overload
def project_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object: ...
@overload
def project_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object: ...
@overload
def project_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object: ...
@overload
def project_rows(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object:
    """
    Documents times a dense matrix with rows for some terms, weights by their square roots.
    """

@overload
def project_back(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object: ...
@overload
def project_back(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object: ...
@overload
def project_back(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object: ...
@overload
def project_back(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    row_of_term: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    matrix: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_dims: int,
    num_rows: int,
) -> object:
    """The transpose of project_rows."""

@overload
def count_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first: int,
    last: int,
    stop: StopFlag,
) -> tuple[
    Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]
]: ...
@overload
def count_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first: int,
    last: int,
    stop: StopFlag,
) -> tuple[
    Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]
]: ...
@overload
def count_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first: int,
    last: int,
    stop: StopFlag,
) -> tuple[
    Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]
]: ...
@overload
def count_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first: int,
    last: int,
    stop: StopFlag,
) -> tuple[
    Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]
]:
    """Postings and pairs of every term in a range of clusters."""

@overload
def small_index(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    head_ratio: int,
) -> dict[str, object]: ...
@overload
def small_index(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    head_ratio: int,
) -> dict[str, object]: ...
@overload
def small_index(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    head_ratio: int,
) -> dict[str, object]: ...
@overload
def small_index(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    head_ratio: int,
) -> dict[str, object]:
    """
    The arrays of an index of few documents in the order given, one segment, all but term_scale.
    """

@overload
def fill_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segments: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_segments: int,
    exact_segments: bool,
    head_ratio: int,
    cluster_first_position: Annotated[
        NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    postings: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pairs: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_term: int,
    last_term: int,
    stop: StopFlag,
) -> dict[str, object]: ...
@overload
def fill_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segments: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_segments: int,
    exact_segments: bool,
    head_ratio: int,
    cluster_first_position: Annotated[
        NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    postings: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pairs: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_term: int,
    last_term: int,
    stop: StopFlag,
) -> dict[str, object]: ...
@overload
def fill_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segments: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_segments: int,
    exact_segments: bool,
    head_ratio: int,
    cluster_first_position: Annotated[
        NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    postings: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pairs: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_term: int,
    last_term: int,
    stop: StopFlag,
) -> dict[str, object]: ...
@overload
def fill_terms(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    order: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segments: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_segments: int,
    exact_segments: bool,
    head_ratio: int,
    cluster_first_position: Annotated[
        NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    postings: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pairs: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first_term: int,
    last_term: int,
    stop: StopFlag,
) -> dict[str, object]:
    """The arrays of a range of terms, by name."""

def components() -> list[tuple[str, str, bool, bool]]:
    """
    The arrays of an index: name, type of an entry ('code': as wide as the index says), whether opening checks its bytes, and whether an index may lack it.
    """

class Index:
    """A checked view of the arrays of an index; immutable, safe to share."""

    def __init__(
        self,
        num_docs: int,
        num_terms: int,
        num_segments: int,
        code_bytes: int,
        head_ratio: int,
        arrays: dict[str, numpy.typing.NDArray[Any]],
    ) -> None: ...
    @property
    def num_docs(self) -> int: ...
    @property
    def num_terms(self) -> int: ...
    @property
    def num_segments(self) -> int: ...
    @property
    def num_clusters(self) -> int: ...
    @property
    def num_positions(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    def vectors(
        self, rows: numpy.typing.NDArray[numpy.int64]
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32]
    ]:
        """The stored documents as (indptr, terms, codes)."""

    def documents(
        self, first_position: int, last_position: int
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint8] | numpy.typing.NDArray[numpy.uint16],
    ]:
        """
        The documents of a range of positions as (rows, indptr, terms, codes); faster than `vectors` for many.
        """

    def cluster_of(self, row: int) -> int:
        """The cluster that a document is in."""

    def cluster_sizes(self) -> numpy.typing.NDArray[numpy.uint32]:
        """The number of documents in every cluster."""

    def with_lattice(self, lattice: Lattice) -> Index:
        """
        The same index, with queries prepared by a lattice that it shares with others.
        """

    def search_one(
        self,
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: int,
        params: SearchParams,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.uint64]
    ]:
        """One query: (rows, scores, stats)."""

    def search_batch(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: numpy.typing.NDArray[numpy.int64],
        params: Sequence[SearchParams],
        threads: int,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.uint64],
    ]:
        """
        All queries, with one k and SearchParams for all or for each: (rows, scores, counts, stats), padded with row -1 and score 0.
        """

    def search_integers(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: numpy.typing.NDArray[numpy.int64],
        params: Sequence[SearchParams],
        threads: int,
        floor_scores: numpy.typing.NDArray[numpy.int64],
        floor_rows: numpy.typing.NDArray[numpy.int64],
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.uint64],
    ]:
        """
        What search_batch returns for integer queries, with scores as integers. Floors are empty, or one for each query: the score and the row of the last of k results that were found elsewhere; score 0 is none, and row -1 lets results with its score in.
        """

    def trace(
        self,
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: int,
        params: SearchParams,
        watch_row: int,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.uint64],
        dict[str, numpy.typing.NDArray[Any]],
        tuple[int, int, int, int],
        float,
        int,
        numpy.typing.NDArray[numpy.uint32],
    ]:
        """
        One query: (rows, scores, stats, trace columns, watched document, scale, threshold estimate, kept terms).
        """

    def score(
        self,
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        rows: numpy.typing.NDArray[numpy.int64],
    ) -> numpy.typing.NDArray[numpy.float64]:
        """The score of each row for one query."""

    def matched(
        self, terms: numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64], row: int
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint32],
        float,
    ]:
        """
        The terms that a query and a document share: (terms, query weights, codes) as integers, and the scale of their products.
        """

    def ceiling(self, terms: numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64]) -> float:
        """A score that no document passes for a query."""

    def cluster_bounds(
        self, terms: numpy.typing.NDArray[numpy.int64], weights: numpy.typing.NDArray[numpy.float64]
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint64],
        numpy.typing.NDArray[numpy.uint64],
        numpy.typing.NDArray[numpy.uint64],
        numpy.typing.NDArray[numpy.uint64],
        float,
    ]:
        """
        (BoundSum, MaxSBound, n * AvgSBound, best score) of every cluster as integers, and their scale.
        """

class CoreInputError(ValueError):
    pass

class JsonVectorParser:
    """Vectors as lines of JSON, in."""

    def __init__(self) -> None: ...
    def parse(self, text: bytes | memoryview) -> None:
        """Take lines in; `text` ends where a line does."""

    def take(
        self,
    ) -> tuple[
        list[str],
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float64], dict(shape=(None,))],
    ]:
        """The ids, indptr, terms and weights of the rows since the last call."""

    def start_file(self) -> None:
        """Count lines from 1 again."""

    def terms(self, first: int) -> list[str]:
        """The terms from a number on."""

    @property
    def num_terms(self) -> int: ...

class JsonVectorFormatter:
    """Vectors as lines of JSON, out."""

    def __init__(self) -> None: ...
    def add_terms(self, terms: list[str]) -> None:
        """Name the next columns."""

    @property
    def num_terms(self) -> int: ...
    def format(
        self,
        ids: list[str],
        indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        numbers: bool,
    ) -> bytes:
        """
        A line per row; ids that are whole numbers are written as such if `numbers`.
        """

def read_json_texts(
    lines: bytes | memoryview,
) -> tuple[list[str], numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint8]] | None:
    """
    Texts as lines of JSON: ids, if there are any; the lengths of title, text, title, ...; and these, in UTF-8. None if there is something odd about a line.
    """

class CiffParser:
    """CIFF, in: postings dealt out to buckets of documents."""

    def __init__(self, block_bytes: int) -> None: ...
    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes of the file."""

    def finish(self) -> None:
        """Say that the file has ended."""

    @property
    def has_header(self) -> bool: ...
    @property
    def num_docs(self) -> int: ...
    @property
    def num_lists(self) -> int: ...
    @property
    def num_postings(self) -> int: ...
    def set_bucket_docs(self, docs: int) -> None:
        """Choose the documents per bucket: once, after the header."""

    def take_blocks(self) -> list[tuple[int, bytes]]:
        """The blocks that are ready, each with its bucket."""

    def terms(self) -> list[str]:
        """All terms."""

    def doc_ids(self, first: int, last: int) -> list[str]:
        """The ids of some documents."""

def read_ciff_bucket(
    data: bytes | memoryview, first_doc: int, num_docs: int
) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.float64]]:
    """The rows of a bucket: indptr, terms and weights."""

def hash_texts(
    offsets: numpy.typing.NDArray[numpy.uint64], text: numpy.typing.NDArray[numpy.uint8]
) -> numpy.typing.NDArray[numpy.uint64]:
    """
    A hash of each text, the same on every machine; text i is text[offsets[i]:offsets[i + 1]].
    """

def ciff_list(
    term: str,
    rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    tfs: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> bytes:
    """A postings list as CIFF has it."""

def ciff_docs(
    first_row: int,
    ids: list[str],
    lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> bytes:
    """Document records as CIFF has them."""

class Lattice:
    """
    The scale and the largest code of every term, which queries become integers by; immutable.
    """

    def __init__(
        self,
        term_scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        largest: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        wide: bool,
    ) -> None:
        """
        `largest` is 0 for terms that no document has; `wide` says whether codes may pass 8 bits.
        """

    @property
    def num_terms(self) -> int: ...
    def prepare(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        params: Sequence[SearchParams],
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.uint64],
    ]:
        """
        Queries as integers: (indptr, terms, weights, what 1 is worth, unknown and dropped terms).
        """

class Mask:
    """The rows of an index that a search may return; immutable."""

    def __init__(
        self,
        index: Index,
        rows: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None:
        """Those that are True here."""

    @property
    def count(self) -> int:
        """The number of rows."""

class Method(enum.Enum):
    exhaustive = 0

    asc = 1

    maxscore = 2

    anytime = 3

    sequential = 4

class ClusterOrder(enum.Enum):
    max_bound = 0

    bound_sum = 1

class DocumentMethod(enum.Enum):
    blocks = 0

    maxscore = 1

class SearchHooks:
    """What only tests and experiments change about a search."""

    def __init__(self) -> None: ...
    @property
    def cluster_order(self) -> ClusterOrder: ...
    @cluster_order.setter
    def cluster_order(self, arg: ClusterOrder, /) -> None: ...
    @property
    def documents(self) -> DocumentMethod: ...
    @documents.setter
    def documents(self, arg: DocumentMethod, /) -> None: ...
    @property
    def lazy(self) -> bool: ...
    @lazy.setter
    def lazy(self, arg: bool, /) -> None: ...
    @property
    def estimate_threshold(self) -> bool: ...
    @estimate_threshold.setter
    def estimate_threshold(self, arg: bool, /) -> None: ...
    @property
    def sweep(self) -> bool: ...
    @sweep.setter
    def sweep(self, arg: bool, /) -> None: ...
    @property
    def list_masked(self) -> bool: ...
    @list_masked.setter
    def list_masked(self, arg: bool, /) -> None: ...
    @property
    def all_tiles(self) -> int: ...
    @all_tiles.setter
    def all_tiles(self, arg: int, /) -> None: ...
    def set_clock(self, times: Sequence[int]) -> None:
        """Replace the clock, for tests of the time budget."""

class SearchParams:
    """How to search; segmax.search.methods holds the public classes."""

    def __init__(self) -> None: ...
    @property
    def method(self) -> Method: ...
    @method.setter
    def method(self, arg: Method, /) -> None: ...
    @property
    def mu(self) -> float: ...
    @mu.setter
    def mu(self, arg: float, /) -> None: ...
    @property
    def eta(self) -> float: ...
    @eta.setter
    def eta(self, arg: float, /) -> None: ...
    @property
    def budget_ms(self) -> float: ...
    @budget_ms.setter
    def budget_ms(self, arg: float, /) -> None: ...
    @property
    def risk(self) -> float: ...
    @risk.setter
    def risk(self, arg: float, /) -> None: ...
    @property
    def max_clusters(self) -> int: ...
    @max_clusters.setter
    def max_clusters(self, arg: int, /) -> None: ...
    @property
    def max_blocks(self) -> int: ...
    @max_blocks.setter
    def max_blocks(self, arg: int, /) -> None: ...
    @property
    def max_terms(self) -> int: ...
    @max_terms.setter
    def max_terms(self, arg: int, /) -> None: ...
    @property
    def query_mass(self) -> float: ...
    @query_mass.setter
    def query_mass(self, arg: float, /) -> None: ...
    @property
    def bound_mass(self) -> float: ...
    @bound_mass.setter
    def bound_mass(self, arg: float, /) -> None: ...
    @property
    def bound_dropped(self) -> bool: ...
    @bound_dropped.setter
    def bound_dropped(self, arg: bool, /) -> None: ...
    def copy(self) -> SearchParams:
        """The same parameters, to be changed."""

    @property
    def mask(self) -> Mask | None:
        """The rows that may be returned; None: all."""

    @mask.setter
    def mask(self, mask: Mask | None, /) -> None: ...
    def set_floor(self, score: float, row: int) -> None:
        """
        Return only what comes before this result, the last of k that were found elsewhere; row -1 lets results with its score in.
        """

    @property
    def hooks(self) -> SearchHooks: ...
    @hooks.setter
    def hooks(self, arg: SearchHooks, /) -> None: ...

def stats_fields() -> dict[str, str]:
    """
    The columns of the statistics of a search, in order, and what they count.
    """

class Parts:
    """Several indexes searched as one; immutable, safe to share."""

    def __init__(
        self,
        lattice: Lattice,
        indexes: Sequence[Index],
        numbers: Sequence[numpy.typing.NDArray[numpy.int64]],
        masks: Sequence[Mask | None],
    ) -> None:
        """`numbers` are the insertion numbers of each index, by row, ascending."""

    def search_one(
        self,
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: int,
        params: SearchParams,
        masks: Sequence[Mask | None] | None = None,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint64],
    ]:
        """
        One query: (numbers, scores, parts, rows, stats). `masks` take the place of the parts' own.
        """

    def search_batch(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: numpy.typing.NDArray[numpy.int64],
        params: Sequence[SearchParams],
        threads: int,
        masks: Sequence[Mask | None] | Sequence[Sequence[Mask | None]] | None = None,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint64],
    ]:
        """
        All queries, with one k, SearchParams and masks for all or for each: (numbers, scores, counts, parts, rows, stats), padded with number -1 and score 0.
        """

class Maxima:
    """The largest codes of terms in groups of documents; immutable."""

    def __init__(
        self,
        num_quartets: int,
        first_mark: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        first_value: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        marks: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        values: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        shard_first_quartet: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        tops: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    def bounds(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.uint64], numpy.typing.NDArray[numpy.float64]
    ]:
        """
        By prepared query and shard: the best MaxSBound, 4 times the best AvgSBound, and what to order by.
        """

    def promise(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
    ) -> numpy.typing.NDArray[numpy.float64]:
        """By prepared query and shard: what to order by."""

class MaximaCollector:
    """Finds the largest code of every term in every unit."""

    def __init__(
        self,
        num_terms: int,
        most: int,
        scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None:
        """
        `most` terms of every unit are kept, the heaviest by code * scale; 0 keeps all.
        """

    @overload
    def add(
        self,
        indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        units: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    @overload
    def add(
        self,
        indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
        units: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None:
        """
        Take in documents, each of one unit; those of a unit come together, units of later calls are larger.
        """

    def finish(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint16]
    ]:
        """
        By term how many units have it; then units, ascending, and codes, term by term.
        """

def pack_maxima(
    first: numpy.typing.NDArray[numpy.uint64],
    units: numpy.typing.NDArray[numpy.uint32],
    codes: numpy.typing.NDArray[numpy.uint16],
    shard_first_quartet: numpy.typing.NDArray[numpy.uint32],
    tops: numpy.typing.NDArray[numpy.uint16],
) -> tuple[
    numpy.typing.NDArray[numpy.uint64],
    numpy.typing.NDArray[numpy.uint64],
    numpy.typing.NDArray[numpy.uint8],
    numpy.typing.NDArray[numpy.uint8],
]:
    """
    Maxima, given term by term, as `Maxima` takes them: (first_mark, first_value, marks, values).
    """

GAP: int = 0

LETTER: int = 1

UNSPACED: int = 2

HARD: int = 3

class Characters:
    """What characters are to words, by code point."""

    def __init__(
        self,
        kinds: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        lower: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        classes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...

class Texts:
    """Texts as they lie in memory."""

    @overload
    def __init__(self, parts: list[str], parts_per_text: int = 1) -> None: ...
    @overload
    def __init__(
        self,
        content: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
        lengths: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        titles: bool,
    ) -> None: ...
    def hard(self, characters: Characters | None) -> numpy.typing.NDArray[numpy.uint32]:
        """
        The texts that Python has to split; without characters, those that are not ASCII.
        """

    def count(
        self,
        characters: Characters | None,
        hard: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        hard_words: bytes,
    ) -> WordCounts:
        """
        The counts of their words; `hard_words` has a line of words per hard text.
        """

class WordCounts:
    """How often texts have each of their words."""

    @property
    def num_words(self) -> int: ...
    def words(
        self, numbers: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    ) -> list[str]:
        """Some of the words, in lower case."""

    def by_column(
        self, columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    ]:
        """Rows over columns, given by word; -1: it is left out."""

class WordColumns:
    """The columns of words."""

    def __init__(self) -> None: ...
    def find(self, counts: WordCounts) -> numpy.typing.NDArray[numpy.int32]:
        """The column of every word; -2: it has none yet."""

    def add(
        self,
        counts: WordCounts,
        numbers: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None:
        """Give columns to words that have none yet."""
