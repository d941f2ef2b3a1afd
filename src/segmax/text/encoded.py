"""Texts as vectors for a build: encoded while the build reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from segmax.building.resources import BuildResources
from segmax.encoders import Encoder, LearningEncoder
from segmax.encoders.chunks import batched
from segmax.text.documents import num_documents
from segmax.vectors.documents import Document, VectorBatch
from segmax.vectors.packed_texts import PackedTexts, batches_of


class EncodedTexts:
    """Documents as a `VectorReader`.

    Parameters
    ----------
    documents
        Read once.
    encoder
        What encodes them.
    resources
        Those of the build.
    title
        Whether documents are encoded with their titles.
    """

    def __init__(
        self, documents: Iterable[Document], encoder: Encoder, resources: BuildResources, *, title: bool = True
    ) -> None:
        self._documents = documents
        self._title = title
        self._encoder = encoder
        self._resources = resources
        self.num_docs = num_documents(documents)

    @property
    def terms(self) -> Sequence[str]:
        """The vocabulary so far."""
        return self._encoder.vocabulary

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once. An encoder that learns reads all documents in this call."""
        if not isinstance(self._encoder, LearningEncoder):
            return self._encoder.encode_documents(batched(self._each()))
        documents = self._many() if self._encoder.takes_packed else batched(self._each())
        with self._resources.progress.stage("count", self.num_docs, "documents") as stage:
            encoded = self._encoder.fit_encode(documents, self._resources.folder, stage.advance)
        self.num_docs = self._encoder.num_docs
        return encoded

    def _each(self) -> Iterator[Document]:
        return (document if self._title else document._replace(title="") for document in self._documents)

    def _many(self) -> Iterator[Sequence[Document]]:
        for batch in batches_of(self._documents):
            if self._title:
                yield batch
            elif isinstance(batch, PackedTexts):
                yield batch.without_titles()
            else:
                yield [document._replace(title="") for document in batch]
