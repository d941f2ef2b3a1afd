"""What an index keeps of its encoder, and how it gets the encoder back for queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from segmax.encoders.base import Encoder
from segmax.encoders.bm25 import BM25
from segmax.encoders.lexmae import LexMAE
from segmax.encoders.sparse_model import SparseModel
from segmax.encoders.unicoil import UniCOIL
from segmax.errors import FormatError

_MODELS = {kind.__name__: kind for kind in (SparseModel, UniCOIL, LexMAE)}
#: What tells where the vectors came from, and is nothing that an encoder is made with.
_ORIGIN = frozenset({"encoder", "model", "files", "pooling"})


def description(encoder: Encoder) -> dict[str, Any]:
    """Return what an index keeps of an encoder; of one that segmax does not know, only that it cannot be had back."""
    describe = getattr(encoder, "describe", None)
    told: dict[str, Any] = dict(describe()) if callable(describe) else {"encoder": type(encoder).__name__}
    told.pop("files", None)  # when the files of a model were written is no concern of queries
    return told


def encoder_from_dict(told: Mapping[str, Any], terms: Iterable[str] | None) -> Encoder:
    """Return the encoder that `description` told about; `terms` is the vocabulary of the index."""
    kind = told.get("encoder")
    options = {name: value for name, value in told.items() if name not in _ORIGIN}
    if kind == "bm25" and terms is not None:
        return BM25.of_vocabulary(terms, **options)
    if kind in _MODELS:
        return _MODELS[str(kind)](told["model"], **options)
    msg = f"the index was made by an encoder that segmax cannot load ({kind}); assign index.encoder"
    raise FormatError(msg)
