"""What can be asked of a service about one index or collection, as calls that any transport runs."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import check_listed, checked_int, is_integer, shown
from segmax.base.display import counted
from segmax.base.errors import InputError, SegmaxWarning, UnknownIdError
from segmax.metadata import Scalar
from segmax.remote import answers
from segmax.remote.answers import Figures, FoundDocument
from segmax.remote.calls import Call, Request, record, understood, whole
from segmax.remote.found import no_texts
from segmax.remote.params import filter_of, given, shards_of, without_budget
from segmax.remote.searching import Searching
from segmax.search.arguments import checked_k
from segmax.search.inside import InsideView
from segmax.search.methods import SearchParams
from segmax.search.queries import Filter
from segmax.search.results import Explanation, Hits
from segmax.storage.tables import no_metadata
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr
from segmax.vectors.documents import DocId
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_MOST_VALUES = 10_000  # of a field, in an answer
_MOST_ROWS = 2**62  # that the API has


class Reading(Searching):
    """Calls that change nothing."""

    # --- single documents --------------------------------------------------------------------------------------------

    def explain(
        self,
        query: object,
        id: DocId,
        k: int,
        params: SearchParams | None,
        *,
        where: Filter | None = None,
        max_shards: int | None = None,
    ) -> Call[Explanation]:
        """Explain a document."""
        asked = yield from self.query(query)
        most = yield from self.most(checked_k(k))
        method = without_budget(params, "explain")
        how = given(params=method, where=filter_of(where), max_shards=shards_of(max_shards))
        message = asked | how | given(id=plain_id(id), k=min(checked_k(k), most))
        return (yield from self.asked("explain", message, answers.explanation))

    def inside(self, query: object, k: int, params: SearchParams | None) -> Call[InsideView]:
        """Return what a search decides about clusters, and what it finds."""
        method = without_budget(params, "inside")
        asked = yield from self.query(query)
        most = yield from self.most(checked_k(k))
        message = asked | given(k=min(checked_k(k), most), params=method)
        make_view = yield from self.asked("inside", message, answers.inside)
        hits = yield from self.search(query, k, params)
        assert isinstance(hits, Hits)  # nothing is grouped
        return make_view(hits)

    def score(self, query: object, ids: Iterable[DocId]) -> Call[NDArray[np.float64]]:
        """Return the scores of documents."""
        wanted = plain_ids(ids)
        asked = yield from self.query(query)

        def ask(some: list[DocId]) -> Call[list[float]]:
            return self.asked("score", asked | {"ids": some}, partial(answers.scores, count=len(some)))

        return np.array((yield from self.in_pieces(wanted, ask)), dtype=np.float64)

    def documents(
        self, ids: Sequence[object] | None, fields: Sequence[str], rows: Sequence[int] | None = None
    ) -> Call[list[FoundDocument]]:
        """Return documents by id, or by row."""
        if rows is not None:
            return (yield from self.look_up("rows", rows, fields))
        return (yield from self.look_up("ids", plain_ids(ids or ()), fields))

    def row_of(self, id: DocId) -> Call[int]:
        """Return the row of a document."""
        found = yield from self.documents([id], ["row"])
        return understood(lambda document: whole(document.row), found[0], self.base)

    def id_of(self, row: int) -> Call[DocId]:
        """Return the id of the document in a row."""
        number = operator.index(row)
        if not 0 <= number < _MOST_ROWS:
            raise UnknownIdError(f"no document is in row {number}")
        found = yield from self.documents(None, [], [number])
        return found[0].id

    def text(self, id: DocId) -> Call[StoredText]:
        """Return the title and text of a document."""
        found = yield from self.documents([id], ["title", "text"])
        if found[0].text is None:
            raise no_texts()
        return found[0].text

    def metadata(self, id: DocId) -> Call[dict[str, Any] | None]:
        """Return the metadata of a document."""
        found = yield from self.documents([id], ["metadata"])
        if found[0].metadata is None and not self.info.has_metadata and not self.info.is_collection:
            raise no_metadata()
        return found[0].metadata

    def vectors(self, ids: Iterable[DocId]) -> Call[sp.csr_matrix]:
        """Return the stored vectors of documents, a row each."""
        found = yield from self.documents(plain_ids(ids), ["vector"])
        pairs = [(document.terms or [], document.weights or []) for document in found]
        rows = understood(partial(answers.rows_of, num_columns=self.info.num_terms), pairs, self.base)
        return to_scipy(rows)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def count(self, where: Filter | None) -> Call[int]:
        """Return how many documents a filter matches."""
        return (
            yield from self.asked("count", given(where=filter_of(where)), lambda answer: whole(record(answer)["count"]))
        )

    def facets(self, field: str, where: Filter | None, limit: int | None) -> Call[list[tuple[Scalar, int]]]:
        """Count documents by their value in a field."""
        if not isinstance(field, str):
            raise InputError(expected="a field as a string", got=shown(field))
        most = min(_MOST_VALUES if limit is None else checked_int("limit", limit, 1), _MOST_VALUES)
        message = given(field=field, where=filter_of(where), limit=most)
        found = yield from self.asked("facets", message, answers.facets)
        if len(found) == _MOST_VALUES and (limit is None or limit > _MOST_VALUES):
            msg = f"a service returns at most {_MOST_VALUES:,} values of a field: there may be more, less frequent ones"
            warnings.warn(msg, SegmaxWarning, stacklevel=2)
        return found

    # --- figures -----------------------------------------------------------------------------------------------------

    def figures(self) -> Call[Figures]:
        """Return sizes and figures."""
        answer = yield Request(method="GET", path=self.path("stats"))
        return understood(Figures.from_answer, answer, self.base)

    def cluster_sizes(self) -> Call[NDArray[np.uint32]]:
        """Return the number of documents in each cluster, the largest first."""
        found = yield from self.figures()
        count = len(found.cluster_sizes)
        if count < found.num_clusters:
            raise InputError(
                expected=f"at most {counted(count, 'cluster')}, to get their sizes from a service",
                got=f"{found.num_clusters:,}",
                hint="open the index where it is",
            )
        return found.cluster_sizes

    def quantization_error(self) -> Call[float]:
        """Return what coding the weights lost."""
        found = yield from self.figures()
        if found.quantization_error is None:
            got = "a collection" if self.info.is_collection else "a sharded index"
            raise InputError(expected="an index, to know what coding its weights lost", got=got)
        return found.quantization_error

    # --- texts -------------------------------------------------------------------------------------------------------

    def encode(self, texts: Sequence[str]) -> Call[Csr]:
        """Return texts as queries, a row each."""
        check_listed("texts as a list", texts)
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise InputError(expected="texts", got=type(wrong).__name__)

        def ask(some: list[str]) -> Call[list[tuple[list[int], list[float]]]]:
            return self.asked("encode", {"texts": some}, partial(answers.vectors, count=len(some)))

        pairs = yield from self.in_pieces([str(text) for text in texts], ask)
        return understood(partial(answers.rows_of, num_columns=self.info.num_terms), pairs, self.base)


def plain_id(id: object) -> DocId:
    """Return an id as JSON holds it."""
    if isinstance(id, str):
        return str(id)
    if is_integer(id):
        return int(id)
    raise InputError(expected="an id", got=type(id).__name__, hint="ids are strings or integers")


def plain_ids(ids: Iterable[object]) -> list[DocId]:
    """Return several ids as JSON holds them."""
    check_listed("several ids", ids)
    return [plain_id(id) for id in ids]
