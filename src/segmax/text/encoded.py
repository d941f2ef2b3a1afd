"""Texts as vectors for a build: encoded while the build reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from segmax.building.resources import BuildResources
from segmax.encoders import Encoder, LearningEncoder
from segmax.encoders.chunks import batched
from segmax.text.documents import num_documents
from segmax.vectors.documents import Document, VectorBatch


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
        self._documents = documents if title else (document._replace(title="") for document in documents)
        self._encoder = encoder
        self._resources = resources
        self.num_docs = num_documents(documents)

    @property
    def terms(self) -> Sequence[str]:
        """The vocabulary so far."""
        return self._encoder.vocabulary

    def batches(self) -> Iterator[VectorBatch]:
        """Yield everything, once. An encoder that learns reads all documents in this call."""
        documents = batched(self._documents)
        if not isinstance(self._encoder, LearningEncoder):
            return self._encoder.encode_documents(documents)
        with self._resources.progress.stage("count", self.num_docs, "documents") as stage:
            encoded = self._encoder.fit_encode(documents, self._resources.folder, stage.advance)
        self.num_docs = self._encoder.num_docs
        return encoded
