"""Stage 2 for models: the texts of a piece become vectors, on a graphics card where there is one."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from segmax.encoders import Encoder, as_encoder
from segmax.encoders.chunks import batched
from segmax.encoders.transformer import TransformerEncoder
from segmax.shards.making.packed import Packed
from segmax.shards.making.pieces import Piece
from segmax.shards.making.tasks import Task, Workplace
from segmax.shards.making.text_files import whole_texts
from segmax.shards.making.words import keep_encoded, statistics_name
from segmax.vectors.csr import canonical
from segmax.vectors.pruning import Step
from segmax.vectors.rows import join_rows


class Recipe(NamedTuple):
    """How to make an encoder: what travels to other machines instead of a model."""

    kind: type[TransformerEncoder] | None  #: None: `name` says it all
    name: str
    options: str = "{}"  #: as JSON

    def made(self) -> Encoder:
        """Return the encoder."""
        return as_encoder(self.name) if self.kind is None else self.kind(self.name, **json.loads(self.options))


def sent_form(encoder: object, made: Encoder) -> Recipe | Encoder:
    """Return an encoder as tasks get it: how to make it, or, if the caller has loaded it, the encoder itself."""
    if isinstance(encoder, (str, os.PathLike)):
        return Recipe(None, os.fspath(encoder))
    if isinstance(made, TransformerEncoder) and not made._is_given:
        return Recipe(type(made), made.name, json.dumps({**made.options(), "batch_size": made.batch_size}))
    return made


@lru_cache(maxsize=1)
def _loaded(recipe: Recipe) -> Encoder:
    """Return a model, loaded once per process."""
    return recipe.made()


@dataclasses.dataclass(frozen=True)
class Encode(Task):
    """Encodes the texts of a piece."""

    piece: Piece
    encoder: Recipe | Encoder
    title: bool  #: whether documents are encoded with their titles
    pruning: tuple[Step, ...]
    wants_gpu: bool = True

    @property
    def output(self) -> str:
        """The file that says that the task is done."""
        return statistics_name(self.piece.number)

    def holds(self, found: Packed, work: Workplace) -> bool:
        """Whether the vectors are there."""
        return work.find(self.piece.vectors) is not None

    def make(self, work: Workplace) -> Mapping[str, Any]:
        """Write the vectors, and their statistics."""
        documents = whole_texts(work.load(self.piece.documents).arrays, title=self.title)
        encoder = _loaded(self.encoder) if isinstance(self.encoder, Recipe) else self.encoder
        encoded = [batch.vectors for batch in encoder.encode_documents(batched(documents))]
        docs = canonical(join_rows(encoded, len(encoder.vocabulary)), self.piece.first_row)
        assert docs.num_rows == self.piece.num_docs
        keep_encoded(self.piece, docs, self.pruning, work)
        return {}
