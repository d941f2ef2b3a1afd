"""From texts in pieces to vectors in pieces: by BM25, which learns from all of them, or by a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from segmax.base.checks import checked_bool
from segmax.base.errors import ConfigError
from segmax.encoders import BM25, Encoder, LearningEncoder, as_encoder
from segmax.shards.making.encoding import Encode, Recipe, sent_form
from segmax.shards.making.pieces import numbered_pieces
from segmax.shards.making.text_files import naming_of
from segmax.shards.making.unique import id_checks
from segmax.shards.making.words import CountWords, EncodedCollection, MergeWords, Weigh, encoded_name, vocabulary

if TYPE_CHECKING:
    from segmax.shards.making.plan import Plan


@dataclasses.dataclass(frozen=True)
class TextEncoding:
    """What makes vectors of texts, and what is kept beside these."""

    encoder: Recipe | Encoder  #: as it travels to other machines
    made: Encoder  #: as it is here
    keep_texts: bool
    title: bool

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> TextEncoding:
        """Return what the options of a build ask for; raise ConfigError for what cannot be done piece by piece."""
        encoder = options["encoder"]
        made = as_encoder(encoder)
        if isinstance(made, LearningEncoder) and not isinstance(made, BM25):
            raise ConfigError(
                option="encoder", expected="BM25, or an encoder that learns nothing from the documents", got=repr(made)
            )
        return cls(
            sent_form(encoder, made),
            made,
            checked_bool("keep_texts", options.get("keep_texts", True)),
            checked_bool("title", options.get("title", True)),
        )

    def fingerprint(self) -> dict[str, Any]:
        """Return what the vectors depend on, and what is kept."""
        return {"encoder": self.made.fingerprint(), "title": self.title, "keep_texts": self.keep_texts}

    def encode(self, units: Sequence[Mapping[str, Any]], plan: Plan) -> EncodedCollection:
        """Run the stages from texts to vectors; `units` are the results of the tasks that read texts."""
        read = numbered_pieces(units, naming_of(units))
        plan.results("check", id_checks(units, read))
        pieces = [piece._replace(vectors=encoded_name(piece.number), texts=self.keep_texts) for piece in read]
        pruning = plan.config.pruning
        if not isinstance(self.made, BM25):
            plan.results("encode", [Encode(piece, self.encoder, self.title, pruning) for piece in pieces])
            return EncodedCollection(pieces, self.made.vocabulary, plan.work)
        options = self.made.options()
        plan.results("count", [CountWords(piece, options, self.title) for piece in pieces])
        plan.results("words", [MergeWords(len(pieces))])
        plan.results("weigh", [Weigh(piece, options, pruning) for piece in pieces])
        return EncodedCollection(pieces, vocabulary(plan.work), plan.work)
