"""What all encoders that run a transformer share: options, batches of similar length, rows in the order they came."""

from __future__ import annotations

import abc
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segmax.base.checks import checked_choice, checked_int, checked_number
from segmax.base.errors import ConfigError
from segmax.encoders.base import Batches, Encoder, check_terms
from segmax.encoders.chunks import regrouped
from segmax.encoders.model_files import find_model
from segmax.encoders.packages import need_torch
from segmax.encoders.pooling import checked_poolings, pooled
from segmax.encoders.query_cache import QueryCache
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document, VectorBatch
from segmax.vectors.pruning import TopTerms, prune_rows
from segmax.vectors.rows import join_rows, selected_rows, to_scipy

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

DTYPES = ("float32", "float16", "bfloat16")
LARGEST = 2**31 - 1  # of options that libraries keep in 32 bits
_CHUNK_BATCHES = 8  # texts of so many batches are sorted by length, so that a batch has little padding


class Forward(NamedTuple):
    """The result of a forward pass, as torch tensors."""

    weights: Any  # texts × vocabulary
    hidden: Any  # texts × tokens × dimensions: the last hidden states; None where they are not pooled
    mask: Any  # texts × tokens: 0 where there is padding


class TransformerEncoder(Encoder):
    """An encoder that runs a transformer.

    Parameters
    ----------
    name
        A folder, or a name on the hub.
    device
        Where torch computes ("cpu", "cuda", ...); None: a GPU if there is one.
    dtype
        What it computes in: "float32", "float16" or "bfloat16". Weights are float32 afterwards.
    batch_size
        Texts that go through the model together.
    top_n
        Keep so many of a text's largest weights; None: all.
    min_weight
        Drop smaller weights; those that are not above zero are always dropped.
    pooling
        Pool the tokens' last hidden states of documents, too: some of "cls", "mean" and "max".
    """

    _is_given = False  # whether the caller has loaded the model; then there is nothing to find

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        device: str | None = None,
        dtype: str = "float32",
        batch_size: int = 32,
        top_n: int | None = None,
        min_weight: float = 0.0,
        pooling: str | Iterable[str] = (),
    ) -> None:
        self.name = os.fspath(name)
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(expected="a model as a folder or a name on the hub", got=f"{name!r}")
        self.dtype = checked_choice("dtype", dtype, DTYPES)
        self.batch_size = checked_int("batch_size", batch_size, 1)
        self.top_n = None if top_n is None else checked_int("top_n", top_n, 1, LARGEST)
        self.min_weight = checked_min_weight(min_weight)
        self.pooling = checked_poolings(pooling)
        self._query_cache = QueryCache()
        # Before torch, which takes seconds to import: a model that is not there is an error at once.
        self._local = self._is_given or find_model(self.name, type(self).__name__)
        self._torch = need_torch("torch", type(self).__name__)
        has_gpu = self._torch.cuda.is_available()
        self.device = ("cuda" if has_gpu else "cpu") if device is None else device

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, device={self.device!r}, dtype={self.dtype!r})"

    @property
    @abc.abstractmethod
    def vocabulary(self) -> list[str]:
        """The token of every column."""

    @abc.abstractmethod
    def _forward_documents(self, texts: list[str]) -> Forward:
        """Run the model on documents."""

    @abc.abstractmethod
    def _forward_queries(self, texts: list[str]) -> Any:
        """Run the model on queries; return their weights, texts × vocabulary."""

    def _text(self, doc: Document) -> str:
        """Return the text of a document as the model was trained to read it."""
        return doc.whole

    def options(self) -> dict[str, Any]:
        """Return the options that its vectors depend on; with the name they make the same encoder again."""
        return {
            "dtype": self.dtype,
            "top_n": self.top_n,
            "min_weight": self.min_weight,
            "pooling": list(self.pooling),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what an index records about it, as plain values."""
        folder = Path(self.name)
        name = str(folder.absolute()) if folder.is_dir() else self.name
        return {"encoder": type(self).__name__, "model": name, **self.options()}

    def fingerprint(self) -> dict[str, Any]:
        """Return what its vectors depend on, as plain values."""
        return {**self.to_dict(), "files": _stamps(Path(self.name))}

    def for_terms(self, terms: Sequence[str]) -> Encoder:
        """Return this encoder; raise InputError if the terms are not its vocabulary."""
        check_terms(self, terms)
        return self

    def encode_documents(self, batches: Batches) -> Iterator[VectorBatch]:
        """Yield the vectors of documents; a batch of the result has a few batches of the model."""
        for chunk in regrouped(batches, _CHUNK_BATCHES * self.batch_size):
            yield self._encode_chunk(chunk)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Return the vectors of queries, a row each."""
        texts = list(batch)
        parts = []
        for first in range(0, len(texts), self.batch_size):
            with self._torch.inference_mode():
                weights = self._forward_queries(texts[first : first + self.batch_size])
            parts.append(self._rows(weights))
        return to_scipy(join_rows(parts, len(self.vocabulary)) if parts else _no_rows(len(self.vocabulary)))

    def query_rows(self, batch: Sequence[str]) -> Csr:
        """Return the vectors of queries as a search takes them; those of the last ones are remembered."""
        if self._is_given:  # its owner may go on training it
            return super().query_rows(batch)
        return self._query_cache.rows(batch, super().query_rows)

    def _encode_chunk(self, docs: list[Document]) -> VectorBatch:
        """Encode documents, the longest first, and put the rows back in order."""
        texts = [self._text(doc) for doc in docs]
        order = np.argsort([-len(text) for text in texts], kind="stable")
        rows: list[Csr] = []
        dense: dict[str, list[NDArray[np.float32]]] = {name: [] for name in self.pooling}
        for first in range(0, len(order), self.batch_size):
            with self._torch.inference_mode():
                out = self._forward_documents([texts[i] for i in order[first : first + self.batch_size]])
                for name, part in pooled(out.hidden, out.mask, self.pooling).items():
                    dense[name].append(part)
                rows.append(self._rows(out.weights))
        back = np.argsort(order)
        vectors = selected_rows(join_rows(rows, rows[0].num_columns), back)
        pooled_rows = {name: np.concatenate(parts)[back] for name, parts in dense.items()}
        return VectorBatch([doc.id for doc in docs], vectors, pooled_rows)

    def _rows(self, weights: Any) -> Csr:
        """Return a tensor of weights as sparse rows, small ones dropped."""
        if weights.is_sparse:
            weights = weights.to_dense()
        array = weights.float().cpu().numpy()
        kept = array >= self.min_weight if self.min_weight > 0 else array > 0
        row, columns = np.nonzero(kept)
        indptr = np.searchsorted(row, np.arange(len(array) + 1)).astype(np.int64)
        vectors = Csr(indptr, columns.astype(np.uint32), array[row, columns], array.shape[1])
        return vectors if self.top_n is None else prune_rows(TopTerms(count=self.top_n), vectors)


def checked_min_weight(value: object) -> float:
    """Return the smallest weight to keep, or raise ConfigError."""
    number = checked_number("min_weight", value)
    if not math.isfinite(number):
        raise ConfigError(option="min_weight", expected="finite", got=f"{value!r}")
    return number


def max_pooled(torch: Any, logits: Any, mask: Any) -> Any:
    """Return log(1 + relu(x)) of logits, the largest of all unmasked tokens.

    Both functions rise, so the maximum is taken first, and only it goes through them, not texts × tokens × vocabulary
    numbers.
    """
    logits.masked_fill_(~mask.bool().unsqueeze(-1), 0.0)
    return torch.log1p(torch.relu(logits.amax(1)))


def column_names(tokens: Mapping[str, int], num_columns: int) -> list[str]:
    """Return the token of every column; columns without one, as models pad their vocabulary, are named by number."""
    names = [f"[column {number}]" for number in range(num_columns)]
    for token, number in tokens.items():
        if number < num_columns:
            names[number] = token
    return names


def _no_rows(num_columns: int) -> Csr:
    return Csr(np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.float32), num_columns)


def _stamps(folder: Path) -> list[list[Any]]:
    """Return name and size of a model's files, and a checksum of the small ones; nothing for a name on the hub."""
    stamps: list[list[Any]] = []
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file():
            size = file.stat().st_size
            checksum = zlib.crc32(file.read_bytes()) if size < 1 << 20 else None
            stamps.append([file.relative_to(folder).as_posix(), size, checksum])
    return stamps
