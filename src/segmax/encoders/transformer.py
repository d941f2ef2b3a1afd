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
from segmax.encoders.base import EncodedBatch
from segmax.encoders.chunks import regrouped
from segmax.encoders.model_files import find_model
from segmax.encoders.packages import need_torch
from segmax.encoders.pooling import checked_poolings, pooled
from segmax.vectors.documents import Document

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    from segmax.base.optional import scipy_sparse as sp

DTYPES = ("float32", "float16", "bfloat16")
LARGEST = 2**31 - 1  # of options that libraries keep in 32 bits
_CHUNK_BATCHES = 8  # texts of so many batches are sorted by length, so that a batch has little padding


class Forward(NamedTuple):
    """What a forward pass gives, as torch tensors."""

    weights: Any  # texts × vocabulary
    hidden: Any  # texts × tokens × dimensions: the last hidden states; None where nobody pools them
    mask: Any  # texts × tokens: 0 where there is padding


class TransformerEncoder(abc.ABC):
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

    def describe(self) -> dict[str, Any]:
        """Return what its vectors depend on, besides the documents."""
        folder = Path(self.name)
        name = str(folder.absolute()) if folder.is_dir() else self.name
        return {"encoder": type(self).__name__, "model": name, "files": _stamps(folder), **self.options()}

    def encode_documents(self, batches: Iterable[Sequence[Document]]) -> Iterator[EncodedBatch]:
        """Encode documents; a batch of the result has a few batches of the model."""
        for chunk in regrouped(batches, _CHUNK_BATCHES * self.batch_size):
            yield self._encode_chunk(chunk)

    def encode_queries(self, batch: Sequence[str]) -> sp.csr_matrix:
        """Encode queries, a row each."""
        texts = list(batch)
        parts = []
        for first in range(0, len(texts), self.batch_size):
            with self._torch.inference_mode():
                weights = self._forward_queries(texts[first : first + self.batch_size])
            parts.append(self._rows(weights))
        return _stacked(parts, len(self.vocabulary))

    def _encode_chunk(self, docs: list[Document]) -> EncodedBatch:
        """Encode documents, the longest first, and put the rows back in order."""
        texts = [self._text(doc) for doc in docs]
        order = np.argsort([-len(text) for text in texts], kind="stable")
        rows: list[sp.csr_matrix] = []
        dense: dict[str, list[NDArray[np.float32]]] = {name: [] for name in self.pooling}
        for first in range(0, len(order), self.batch_size):
            with self._torch.inference_mode():
                out = self._forward_documents([texts[i] for i in order[first : first + self.batch_size]])
                for name, part in pooled(out.hidden, out.mask, self.pooling).items():
                    dense[name].append(part)
                rows.append(self._rows(out.weights))
        back = np.argsort(order)
        vectors = _stacked(rows, rows[0].shape[1])[back]
        return EncodedBatch(
            [doc.id for doc in docs], vectors, {name: np.concatenate(parts)[back] for name, parts in dense.items()}
        )

    def _rows(self, weights: Any) -> sp.csr_matrix:
        """Return a tensor of weights as sparse rows, small ones dropped."""
        if weights.is_sparse:
            weights = weights.to_dense()
        array = weights.float().cpu().numpy()
        kept = array >= self.min_weight if self.min_weight > 0 else array > 0
        matrix = sp.csr_matrix(np.where(kept, array, np.float32(0)))
        return matrix if self.top_n is None else largest_weights(matrix, self.top_n)


def checked_min_weight(value: object) -> float:
    """Return the smallest weight to keep, or raise ConfigError."""
    number = checked_number("min_weight", value)
    if not math.isfinite(number):
        raise ConfigError(option="min_weight", expected="finite", got=f"{value!r}")
    return number


def largest_weights(matrix: sp.csr_matrix, count: int) -> sp.csr_matrix:
    """Return rows with their `count` largest weights; of equal ones those with the smaller column stay."""
    lengths = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(matrix.shape[0]), lengths)
    order = np.lexsort((matrix.indices, -matrix.data, rows))
    rank = np.arange(len(order)) - np.repeat(matrix.indptr[:-1], lengths)
    kept = np.sort(order[rank < count])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, count))])
    return sp.csr_matrix((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


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


def _stacked(parts: list[sp.csr_matrix], num_columns: int) -> sp.csr_matrix:
    if not parts:
        return sp.csr_matrix(np.empty((0, num_columns), dtype=np.float32))
    return sp.csr_matrix(sp.vstack(parts, format="csr"))


def _stamps(folder: Path) -> list[list[Any]]:
    """Return name and size of a model's files, and a checksum of the small ones; nothing for a name on the hub."""
    stamps: list[list[Any]] = []
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if file.is_file():
            size = file.stat().st_size
            checksum = zlib.crc32(file.read_bytes()) if size < 1 << 20 else None
            stamps.append([file.relative_to(folder).as_posix(), size, checksum])
    return stamps
