"""What `encode_texts` does with documents: encode them, count and weigh them, or encode them as queries."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from segmax.encoders.base import Encoder, LearningEncoder, query_rows_of
from segmax.text.journal import Journal, Shard
from segmax.vectors.csr import Csr
from segmax.vectors.documents import Document, VectorBatch


def encoding_job(encoder: Encoder, *, queries: bool) -> EncodingJob:
    """Return the job of encoding texts as queries or as documents."""
    if queries:
        return QueryJob(encoder)
    return LearningJob(encoder) if isinstance(encoder, LearningEncoder) else EncodingJob(encoder)


class EncodingJob:
    """Encodes documents; shards hold their vectors."""

    #: Whether weights are whole numbers.
    counts = False

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def describe(self) -> dict[str, Any]:
        """Return what the result depends on."""
        return {**self._encoder.fingerprint(), "queries": False}

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings of the dense vectors that come with documents."""
        return self._encoder.pooling

    @property
    def vocabulary(self) -> list[str]:
        """The term of every column."""
        return list(self._encoder.vocabulary)

    def resume(self, journal: Journal) -> None:
        """Check all shards before more work goes into the collection, and learn what they know."""
        for shard in journal:
            journal.vectors(shard, len(self._encoder.vocabulary))

    def encoded(self, batches: Iterable[list[Document]]) -> Iterator[VectorBatch]:
        """Yield what goes into shards."""
        return self._encoder.encode_documents(batches)

    def new_terms(self) -> list[str]:
        """Return the terms that came up since the last shard."""
        return []

    def keep_terms(self) -> None:
        """Take note that all terms so far are in a shard."""

    def finish(self, journal: Journal) -> None:
        """Learn from all shards."""

    def vectors(self, journal: Journal, shard: Shard, num_columns: int) -> Csr:
        """Return the vectors of a shard."""
        return journal.vectors(shard, num_columns)

    def saved_path(self, target: Path) -> Path | None:
        """Return where the encoder will be saved, if it learns."""
        return None

    def save(self, target: Path) -> Path | None:
        """Save the encoder beside the file, if it has learned."""
        return None


class QueryJob(EncodingJob):
    """Encodes texts as queries."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        encoder.check_queries()
        self.counts = encoder.counts_queries

    def describe(self) -> dict[str, Any]:
        """Return what the result depends on; the vocabulary may have been learned."""
        terms = "\n".join(self._encoder.vocabulary).encode("utf-8", "surrogatepass")
        return {**self._encoder.fingerprint(), "queries": True, "vocabulary": zlib.crc32(terms)}

    @property
    def poolings(self) -> tuple[str, ...]:
        """Queries have no dense vectors."""
        return ()

    def encoded(self, batches: Iterable[list[Document]]) -> Iterator[VectorBatch]:
        """Yield what goes into shards."""
        for batch in batches:
            yield VectorBatch([doc.id for doc in batch], query_rows_of(self._encoder, [doc.whole for doc in batch]))


class LearningJob(EncodingJob):
    """Encodes documents with an encoder that learns: shards hold counts, which are weighed once all are there."""

    def __init__(self, encoder: LearningEncoder) -> None:
        super().__init__(encoder)
        self._learner = encoder
        self._num_terms = 0  # in the shards that are written

    def resume(self, journal: Journal) -> None:
        """Check all shards before more work goes into the collection, and take over their terms."""
        self._learner.reset()
        for shard in journal:
            self._learner.add_terms(shard.terms)
            self._num_terms += len(shard.terms)
            if len(self._learner.vocabulary) != self._num_terms:
                raise journal.damaged(shard.name, "it repeats a term")
            if shard.vectors.values.dtype.kind not in "iu":
                raise journal.damaged(shard.name, f"expected counts of words, got {shard.vectors.values.dtype}")
            journal.vectors(shard, self._num_terms)

    def encoded(self, batches: Iterable[list[Document]]) -> Iterator[VectorBatch]:
        """Yield what goes into shards."""
        return self._learner.count_documents(batches)

    def new_terms(self) -> list[str]:
        """Return the terms that came up since the last shard."""
        return list(self._learner.vocabulary[self._num_terms :])

    def keep_terms(self) -> None:
        """Take note that all terms so far are in a shard."""
        self._num_terms = len(self._learner.vocabulary)

    def finish(self, journal: Journal) -> None:
        """Learn from all shards."""
        for shard in journal:
            self._learner.learn(journal.vectors(shard, self._num_terms))

    def vectors(self, journal: Journal, shard: Shard, num_columns: int) -> Csr:
        """Return the vectors of a shard."""
        return self._learner.weigh(journal.vectors(shard, num_columns))

    def saved_path(self, target: Path) -> Path | None:
        """Return where the encoder will be saved: "docs.bm25" for "docs.npz"."""
        return target.with_name(f"{target.stem}.{self._learner.to_dict()['encoder']}")

    def save(self, target: Path) -> Path | None:
        """Save the encoder beside the file."""
        path = self.saved_path(target)
        if path is not None:
            self._learner.save(path)
        return path
