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
    The instruction set in use: 'avx2' or 'portable'. SEGMAX_SIMD forces one.
    """

@overload
def order_by_similarity(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
    threads: int,
) -> None: ...
@overload
def order_by_similarity(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
    threads: int,
) -> None:
    """
    Reorder `rows` in place so that similar documents of a cluster are neighbours.
    """

@overload
def build_arrays(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segments: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_segments: int,
) -> dict[str, object]: ...
@overload
def build_arrays(
    indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    terms: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    codes: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_terms: int,
    cluster_first: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    rows: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    segments: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    num_segments: int,
) -> dict[str, object]:
    """The arrays of an index, by name; term_scale is the caller's."""

class Index:
    """A checked view of the arrays of an index; immutable, safe to share."""

    def __init__(
        self,
        num_docs: int,
        num_terms: int,
        num_segments: int,
        code_bytes: int,
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
    def num_chunks(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    def vectors(
        self, rows: numpy.typing.NDArray[numpy.int64]
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32]
    ]:
        """The stored documents as (indptr, terms, codes)."""

    def cluster_of(self, row: int) -> int:
        """The cluster that a document is in."""

    def cluster_sizes(self) -> numpy.typing.NDArray[numpy.uint32]:
        """The number of documents in every cluster."""

    def search_batch(
        self,
        indptr: numpy.typing.NDArray[numpy.int64],
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        k: int,
        params: SearchParams,
        threads: int,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.float64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.uint64],
    ]:
        """
        All queries: (rows, scores, counts, stats), padded with row -1 and score 0.
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
    ]:
        """
        One query: (rows, scores, stats, trace columns, watched document, scale, seed).
        """

    def score(
        self,
        terms: numpy.typing.NDArray[numpy.int64],
        weights: numpy.typing.NDArray[numpy.float64],
        rows: numpy.typing.NDArray[numpy.int64],
    ) -> numpy.typing.NDArray[numpy.float64]:
        """The score of each row for one query."""

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

class Method(enum.Enum):
    exhaustive = 0

    maxscore = 1

    anytime = 2

    asc = 3

class ClusterOrder(enum.Enum):
    max_bound = 0

    bound_sum = 1

class DocumentMethod(enum.Enum):
    blocks = 0

    maxscore = 1

class SearchParams:
    """How to search; segmax.params holds the public classes."""

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
    def order(self) -> ClusterOrder: ...
    @order.setter
    def order(self, arg: ClusterOrder, /) -> None: ...
    @property
    def documents(self) -> DocumentMethod: ...
    @documents.setter
    def documents(self, arg: DocumentMethod, /) -> None: ...
    @property
    def lazy(self) -> bool: ...
    @lazy.setter
    def lazy(self, arg: bool, /) -> None: ...
    @property
    def seed(self) -> bool: ...
    @seed.setter
    def seed(self, arg: bool, /) -> None: ...
    @property
    def sweep(self) -> bool: ...
    @sweep.setter
    def sweep(self, arg: bool, /) -> None: ...
    def set_clock(self, times: Sequence[int]) -> None:
        """Replace the clock, for tests of the time budget."""
