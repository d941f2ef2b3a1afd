"""Queries without inference: a tokenizer, and a weight per token. Needs neither torch nor transformers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segmax.base.checks import checked_int
from segmax.base.errors import InputError
from segmax.base.files import open_regular
from segmax.base.optional import need
from segmax.encoders.base import Batches, Encoder, check_terms
from segmax.encoders.hub import fetch_table
from segmax.encoders.model_files import cannot_read, check_files, damaged, find_model, is_folder, model_folders
from segmax.encoders.network import column_names
from segmax.encoders.table_files import MOST_TERMS, TABLE_NAME, TableFiles, find_table, read_description, read_table
from segmax.encoders.table_writing import write_table
from segmax.encoders.transformer import LARGEST, checked_min_weight
from segmax.vectors.csr import Csr
from segmax.vectors.documents import VectorBatch
from segmax.vectors.rows import to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

_MOST_TOKENIZER_BYTES = 1 << 28
_FEW_TEXTS = 16  # are not worth starting the threads of the tokenizer


class QueryTable(Encoder):
    """A weight per token: encodes a query in some ten microseconds, without running a model.

    The vector of a query has the weight of every token that occurs in it, however often, as the `SparseStaticEmbedding`
    of sentence-transformers gives it. Weights that are not above zero are dropped. Documents need the model that the
    table goes with. `segmax encoder table` makes a table for any model.

    Parameters
    ----------
    tokenizer
        A `tokenizers.Tokenizer`, or its JSON as text. The table keeps a copy.
    weights
        A weight per token id.
    name
        What messages call the table.
    prompt
        Text to put before every query.
    max_length
        Cut queries after so many tokens; None: not at all.
    top_n
        Keep so many of a query's largest weights; None: all.
    min_weight
        Drop smaller weights.

    Examples
    --------
    >>> import tokenizers
    >>> words = tokenizers.models.WordLevel({"[UNK]": 0, "cat": 1, "the": 2}, unk_token="[UNK]")
    >>> tokenizer = tokenizers.Tokenizer(words)
    >>> tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> table = QueryTable(tokenizer, [0, 2.5, 0.5])
    >>> table.encode_queries(["the cat the zebra"]).toarray().tolist()
    [[0.0, 2.5, 0.5]]
    """

    queries_only = True

    def __init__(
        self,
        tokenizer: Any,
        weights: ArrayLike,
        *,
        name: str = "a table",
        prompt: str = "",
        max_length: int | None = None,
        top_n: int | None = None,
        min_weight: float = 0.0,
    ) -> None:
        files = TableFiles(Path(), Path(), prompt=prompt, max_length=max_length)
        copied = tokenizer_of(tokenizer if isinstance(tokenizer, str) else tokenizer.to_str())
        self._set_up(name, copied, _checked_weights(weights), files, top_n, min_weight)

    @classmethod
    def load(cls, name: str | os.PathLike[str], *, top_n: int | None = None, min_weight: float = 0.0) -> QueryTable:
        """Read the table of a folder or of a model on the hub: see `table_of`.

        Raises
        ------
        InputError
            There is no table, or a file of it is damaged.
        """
        table = table_of(name, top_n=top_n, min_weight=min_weight)
        if table is None:
            raise InputError(
                where=f"'{os.fspath(name)}'",
                expected="a table of query weights (a Router with a SparseStaticEmbedding, idf.json, or what "
                "segmax encoder table writes)",
                got="a model without one",
                hint="make one with segmax encoder table",
            )
        return table

    def _set_up(
        self,
        name: str,
        tokenizer: Any,
        weights: NDArray[np.float32],
        files: TableFiles,
        top_n: int | None,
        min_weight: float,
    ) -> None:
        self.name = name
        self.top_n = None if top_n is None else checked_int("top_n", top_n, 1, LARGEST)
        self.min_weight = checked_min_weight(min_weight)
        self.prompt = files.prompt
        self.max_length = None if files.max_length is None else checked_int("max_length", files.max_length, 1, LARGEST)
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self.max_length is not None:
            tokenizer.enable_truncation(self.max_length, direction="left" if files.cuts_left else "right")
        self._num_terms = len(weights)
        self._cuts_left, self._most_terms = files.cuts_left, files.most_terms
        # Tokens that were added later may have no weight.
        last = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
        if last >= MOST_TERMS:
            raise InputError(
                where=f"the tokenizer of '{name}'", expected=f"at most {MOST_TERMS:,} tokens", got=f"number {last:,}"
            )
        self._weights = np.zeros(max(len(weights), last + 1), np.float32)
        self._weights[: len(weights)] = weights
        self._columns: list[str] | None = None

    def __repr__(self) -> str:
        return f"QueryTable({self.name!r}, {self._num_terms:,} terms)"

    @property
    def vocabulary(self) -> list[str]:
        """The token of every column."""
        if self._columns is None:
            self._columns = column_names(self._tokenizer.get_vocab(with_added_tokens=True), self._num_terms)
        return self._columns

    @property
    def weights(self) -> NDArray[np.float32]:
        """The weight of every column, as a copy."""
        return self._weights[: self._num_terms].copy()

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, in the order in which they occur."""
        given = [_encodable(text) for text in texts]
        try:
            if len(given) <= _FEW_TEXTS:
                return [self._tokenizer.encode(text, add_special_tokens=False).ids for text in given]
            found = self._tokenizer.encode_batch_fast(given, add_special_tokens=False)
            return [encoding.ids for encoding in found]
        except BaseException as error:
            if not is_of_library(error):
                raise
            raise InputError(
                where=f"'{self.name}'", expected="a tokenizer for any text", got=f"one that failed ({error})"[:200]
            ) from error

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return what `encode_queries` returns, without scipy."""
        texts = [self.prompt + text for text in batch] if self.prompt else batch
        rows = [self._row(ids) for ids in self.token_ids(texts)]
        if len(rows) == 1:
            columns, weights = rows[0]
            return Csr(np.array([0, len(columns)], dtype=np.int64), columns, weights, self._num_terms)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(columns) for columns, _ in rows], out=indptr[1:])
        columns = np.concatenate([columns for columns, _ in rows]) if rows else np.empty(0, np.int64)
        weights = np.concatenate([weights for _, weights in rows]) if rows else np.empty(0, np.float32)
        return Csr(indptr, columns, weights, self._num_terms)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""
        return to_scipy(self.query_rows(batch))

    def _row(self, ids: list[int]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        columns = np.array(sorted(set(ids)), dtype=np.int64)
        weights = self._weights[columns]
        if self._most_terms is not None:
            columns, weights = _largest(columns, weights, self._most_terms)
        kept = weights >= self.min_weight if self.min_weight > 0 else weights > 0
        if not kept.all():
            columns, weights = columns[kept], weights[kept]
        return (columns, weights) if self.top_n is None else _largest(columns, weights, self.top_n)

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Raise InputError: a table is for queries."""
        raise InputError(
            where=repr(self),
            expected="a model, to encode documents",
            got="a table, which encodes queries only",
            hint="encode documents with the model that the table goes with",
        )

    def for_terms(self, terms: Sequence[str]) -> Encoder:
        """Return this table; raise InputError if the terms are not its vocabulary."""
        check_terms(self, terms)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values."""
        name = str(Path(self.name).absolute()) if is_folder(Path(self.name)) else self.name
        return {"encoder": "QueryTable", "model": name, "top_n": self.top_n, "min_weight": self.min_weight}

    def save(
        self, folder: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the table to a folder, whole or not at all.

        The folder is also a `SparseEncoder` of sentence-transformers.

        Parameters
        ----------
        folder
            Where to; something there is an error.
        about
            What to note about the table, such as the model that it goes with.
        overwrite
            Replace a table that is there.

        Raises
        ------
        IndexExistsError
            Something is at the path, and it is not a table to overwrite.
        WriteError
            There is no room, or no permission; what was there before is untouched.
        """
        told = {"num_terms": self._num_terms, **(about or {})}
        how = TableFiles(
            Path(),
            Path(),
            prompt=self.prompt,
            max_length=self.max_length,
            cuts_left=self._cuts_left,
            most_terms=self._most_terms,
        )
        write_table(
            Path(folder).absolute(),
            self._tokenizer,
            self.weights,
            how=how,
            about=told,
            overwrite=overwrite,
        )


def table_of(
    name: str | os.PathLike[str], *, top_n: int | None = None, min_weight: float = 0.0, local: bool | None = None
) -> QueryTable | None:
    """Return the table that encodes the queries of a model; None where a transformer does.

    Parameters
    ----------
    name
        A folder, or a name on the hub: a model of sentence-transformers whose queries go through a
        `SparseStaticEmbedding`, a model of OpenSearch for documents alone (`idf.json`), or a table that segmax wrote.
    top_n, min_weight
        As in `QueryTable`.
    local
        What `find_model` returned, if it was called already.

    Raises
    ------
    InputError
        A file of the table is damaged.
    """
    text = os.fspath(name)
    for folder in _folders(text, find_model(text, "QueryTable") if local is None else local):
        if (folder / TABLE_NAME).is_file():
            read_description(folder)
        files = find_table(folder)
        if files is not None:
            tokenizer = read_tokenizer(files.tokenizer)
            weights = read_table(files, tokenizer.get_vocab(with_added_tokens=True))
            table = QueryTable.__new__(QueryTable)
            table._set_up(text, tokenizer, weights, files, top_n, min_weight)
            return table
    return None


def _folders(name: str, local: bool) -> list[Path]:
    """Return where the files of a model are; those of a table are downloaded if need be."""
    if local:
        return model_folders(name)
    folder = fetch_table(name)
    check_files(folder)
    return [folder]


# --- parts -----------------------------------------------------------------------------------------------------------


def read_tokenizer(path: Path) -> Any:
    """Return the tokenizer that a tokenizer.json describes, or raise InputError."""
    try:
        size = path.stat().st_size
        if size > _MOST_TOKENIZER_BYTES:
            raise damaged(path, f"at most {_MOST_TOKENIZER_BYTES >> 20} MiB", f"{size:,} bytes")
        with open_regular(path) as file:
            content = file.read().decode("utf-8")
    except OSError as error:
        raise cannot_read(path, error) from error
    except ValueError as error:
        raise damaged(path, "a tokenizer as JSON", "something else") from error
    try:
        return tokenizer_of(content)
    except ValueError as error:
        raise damaged(path, "a tokenizer that the package tokenizers reads", str(error)[:200]) from error


def tokenizer_of(content: str) -> Any:
    """Return a tokenizer that is given as JSON; raise ValueError if it is none."""
    library = need("tokenizers", "QueryTable", "queries")
    try:
        return library.Tokenizer.from_str(content)
    except BaseException as error:
        if not is_of_library(error):
            raise
        raise ValueError(str(error)) from error


def is_of_library(error: BaseException) -> bool:
    """Whether a Rust library raised this: a plain exception, or a panic over what it did not foresee."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _checked_weights(weights: ArrayLike) -> NDArray[np.float32]:
    array = np.asarray(weights, dtype=np.float32)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise InputError(expected="a finite weight per token", got=f"an array of shape {array.shape}")
    return array


def _largest(
    columns: NDArray[np.int64], weights: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return so many of the largest weights, as far as they are from zero; of equal ones those of smaller columns."""
    if len(columns) <= count:
        return columns, weights
    largest = np.sort(np.argsort(-np.abs(weights), kind="stable")[:count])
    return columns[largest], weights[largest]


def _encodable(text: str) -> str:
    """Return a text that UTF-8 can hold: lone surrogates, which it cannot, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
