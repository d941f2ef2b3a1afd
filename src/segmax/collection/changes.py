"""What a write changes, and its bytes in the log: applied whole, when it is made and when it is replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import shown
from segmax.base.errors import FormatError, InputError
from segmax.base.system import total_memory
from segmax.metadata.values import checked_metadata
from segmax.storage.components import Arrays
from segmax.storage.tables import TextTable, text_arrays
from segmax.storage.texts import StoredText
from segmax.vectors.csr import Csr, check_structure
from segmax.vectors.rows import narrowest

#: The kind of a log record.
CHANGE = 1
#: The types of arrays in one. numpy's own names of types are a language, which is not for strangers to speak. ("<i4" is
#: what release 0.2.0 wrote for counts of words and other whole weights above 65,535.)
_TYPES = {np.dtype(kind).str: np.dtype(kind) for kind in ("u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f4", "<f8")}

#: What the content of a record may raise.
_CONTENT_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_UNREADABLE_HINT = (
    "update segmax, because a newer one may read it; docs/durability.md says how to open what was there before it"
)

_LAST_NUMBER = 2**63 - 1  # behind which there is none
_MOST_COLUMNS = 2**32 - 1
_COLUMN_BYTES = 64  # at least so much memory does a column take, in the lattice and in a part

Json = dict[str, Any]


class Change(NamedTuple):
    """Documents that go and documents that come. Documents that come have their numbers already."""

    deleted: NDArray[np.int64]  #: insertion numbers
    numbers: NDArray[np.int64]  #: of the documents that come, ascending
    ids: Arrays  #: of these, as components of an index
    vectors: Csr  #: their weights; for BM25 the counts of their words
    texts: list[StoredText] | None = None
    metadata: list[Json | None] | None = None
    terms: Sequence[str] = ()  #: words that the vocabulary gets
    mean_length: float = 0.0  #: BM25: of a document, when these came
    kept: NDArray[np.float64] | None = None  #: BM25: weights that documents keep, by entry; 0 for others

    @property
    def num_docs(self) -> int:
        """How many documents come."""
        return len(self.numbers)


def no_documents(num_columns: int = 0) -> Csr:
    """Return the vectors of no documents."""
    return Csr(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32), num_columns)


def deletion(numbers: NDArray[np.int64]) -> Change:
    """Return the change that only deletes."""
    return Change(numbers, np.zeros(0, np.int64), {"id_number": np.zeros(0, np.int64)}, no_documents())


def to_pieces(change: Change) -> list[memoryview]:
    """Return a change as the pieces of a log record: a table of contents, then arrays.

    Raises
    ------
    InputError
        If `from_pieces` would refuse them: what is acknowledged can be read again.
    """
    pieces = _packed(change)
    # Strings and metadata are left out: to read them again takes longer than to write them, and they come back as they
    # were, because they were checked, and `_packed` encodes what is Unicode and JSON and nothing else.
    try:
        _check(_of_arrays(*_unpacked(pieces)))
    except _CONTENT_ERRORS as error:
        raise InputError(
            expected="documents that can be read again from the log of the collection",
            got=f"others ({str(error)[:200]})",
            hint="divide them into smaller batches, or report this as a bug of segmax",
        ) from error
    return pieces


def _packed(change: Change) -> list[memoryview]:
    arrays: Arrays = {
        "deleted": change.deleted,
        "numbers": change.numbers,
        "lengths": np.diff(change.vectors.indptr).astype(np.uint32),
        "terms": _narrow_terms(change.vectors.indices),
        "values": narrowest(change.vectors.values),
        **change.ids,
    }
    if change.metadata is not None:
        text = json.dumps(change.metadata, allow_nan=False)
        arrays["metadata"] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    if change.kept is not None:
        arrays["kept"] = change.kept
    for name, strings in _strings(change).items():
        arrays.update(text_arrays(name, strings))
    head = {
        "num_columns": change.vectors.num_columns,
        "mean_length": change.mean_length,
        "arrays": [[name, array.dtype.str] for name, array in arrays.items()],
    }
    head_bytes = memoryview(json.dumps(head).encode("ascii"))
    return [head_bytes, *(np.ascontiguousarray(array).data.cast("B") for array in arrays.values())]


def _strings(change: Change) -> dict[str, list[str]]:
    """Return what a change has in strings, by name."""
    strings: dict[str, list[str]] = {}
    if change.texts is not None:
        strings["title"] = [text.title for text in change.texts]
        strings["body"] = [text.text for text in change.texts]
    if change.terms:
        strings["word"] = list(change.terms)
    return strings


def from_pieces(pieces: Sequence[memoryview], where: str = "the log of the collection") -> Change:
    """Read what `to_pieces` wrote. The log has checked the bytes; what they say is checked here.

    `where` is the place of the record, for messages.
    """
    try:
        head, arrays = _unpacked(pieces)
        change = _of_arrays(head, arrays)._replace(
            texts=_read_texts(arrays),
            metadata=_read_metadata(arrays["metadata"]) if "metadata" in arrays else None,
            terms=_read_strings(arrays, "word") if "word_text" in arrays else (),
        )
        _check(change)
        if "id_text" in change.ids:
            list(TextTable(change.ids["id_offset"], change.ids["id_text"], change.num_docs))
    except _CONTENT_ERRORS as error:
        raise FormatError(
            where=where,
            expected="a change to the documents of the collection",
            got=f"something else ({str(error)[:200]})",
            hint=_UNREADABLE_HINT,
        ) from error
    return change


def _unpacked(pieces: Sequence[memoryview]) -> tuple[Json, Arrays]:
    """Return the head of a change, and its arrays."""
    head = json.loads(bytes(pieces[0]))
    arrays = {}
    for (name, kind), piece in zip(head["arrays"], pieces[1:], strict=True):
        if kind not in _TYPES:
            msg = f"numbers of the type {shown(kind)}"
            raise ValueError(msg)
        arrays[name] = np.frombuffer(piece, dtype=_TYPES[kind])
    return head, arrays


def _of_arrays(head: Json, arrays: Arrays) -> Change:
    """Return a change without its strings and metadata."""
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(arrays["lengths"], dtype=np.int64)])
    return Change(
        arrays["deleted"],
        arrays["numbers"],
        {name: arrays[name] for name in ("id_number", "id_offset", "id_text") if name in arrays},
        Csr(indptr, arrays["terms"].astype(np.uint32), arrays["values"], head["num_columns"]),
        mean_length=float(head["mean_length"]),
        kept=arrays.get("kept"),
    )


def _check(change: Change) -> None:
    """Raise ValueError unless all parts of a change are about the same documents, and have possible values."""
    count, vectors = change.num_docs, change.vectors
    numbers = change.numbers
    if numbers.dtype != np.int64 or change.deleted.dtype != np.int64:
        raise ValueError("insertion numbers of another type")
    if count and (numbers[0] < 0 or numbers[-1] == _LAST_NUMBER or (numbers[1:] <= numbers[:-1]).any()):
        raise ValueError("insertion numbers that do not ascend")
    if type(vectors.num_columns) is not int or not 0 <= vectors.num_columns <= _MOST_COLUMNS:
        raise ValueError("an impossible number of columns")
    if vectors.num_columns * _COLUMN_BYTES > total_memory():
        raise ValueError("more columns than there is memory for")
    check_structure(vectors, count)
    if not (np.isfinite(vectors.values) & (vectors.values > 0)).all():
        raise ValueError("weights that are no positive numbers")
    for weights in (np.array([change.mean_length]), change.kept):
        if weights is not None and not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError("weights that are negative or no numbers")
    if change.kept is not None and (change.kept.dtype != np.float64 or change.kept.shape != vectors.values.shape):
        raise ValueError("kept weights of other counts")
    if any(given is not None and len(given) != count for given in (change.texts, change.metadata)):
        raise ValueError("texts or metadata of other documents")
    _check_ids(change.ids, count)


def _check_ids(ids: Arrays, count: int) -> None:
    if "id_number" in ids:
        if ids["id_number"].dtype != np.int64 or len(ids["id_number"]) != count:
            raise ValueError("ids of other documents")
    else:
        TextTable(ids["id_offset"], ids["id_text"], count)  # may raise


def _read_metadata(data: NDArray[np.uint8]) -> list[Json | None]:
    found = json.loads(data.tobytes())
    if not isinstance(found, list):
        raise ValueError("metadata that are no list")
    return [checked_metadata(one, row) for row, one in enumerate(found)]


def _read_texts(arrays: Arrays) -> list[StoredText] | None:
    if "body_text" not in arrays:
        return None
    titles, bodies = _read_strings(arrays, "title"), _read_strings(arrays, "body")
    return [StoredText(title, body) for title, body in zip(titles, bodies, strict=True)]


def _read_strings(arrays: Arrays, name: str) -> list[str]:
    offsets = arrays[f"{name}_offset"]
    return list(TextTable(offsets, arrays[f"{name}_text"], len(offsets) - 1))


def _narrow_terms(terms: NDArray[Any]) -> NDArray[Any]:
    return terms.astype(np.uint16 if int(terms.max(initial=0)) < 2**16 else np.uint32)
