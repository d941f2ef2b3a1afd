"""From a name to an encoder."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from segmax.encoders.base import Encoder
from segmax.encoders.bm25 import BM25, FILE_NAME
from segmax.encoders.lexmae import LexMAE
from segmax.encoders.packages import need_torch
from segmax.encoders.pooling import POOLINGS
from segmax.encoders.sparse_model import SparseModel
from segmax.encoders.transformer import TransformerEncoder, damaged, find_model, weight_names
from segmax.encoders.unicoil import UniCOIL
from segmax.errors import ConfigError

T = TypeVar("T")

#: What may stand before a colon, to say what a model is.
_KINDS: Mapping[str, type[TransformerEncoder]] = {"sparse": SparseModel, "unicoil": UniCOIL, "lexmae": LexMAE}
#: As the authors' code calls the classes that it saves.
_LEXMAE_CLASSES = ("SpladeEnocder", "ForEDMLM")


def load_encoder(name: str | os.PathLike[str], **options: Any) -> Encoder:
    """Return the encoder that a name stands for.

    Parameters
    ----------
    name
        "bm25"; a folder that `BM25.save` wrote; a folder or a name on the hub of a model of sentence-transformers,
        uniCOIL or LexMAE. What a folder holds is seen from its files, what a name on the hub means from that name;
        "unicoil:NAME", "lexmae:NAME" and "sparse:NAME" say it.
    **options
        For the encoder.

    Raises
    ------
    ConfigError
        An option that this encoder does not have, a folder that is not there, or a package that is missing.

    Examples
    --------
    >>> load_encoder("bm25", k1=0.9, b=0.4, language=None)
    BM25(k1=0.9, b=0.4, method='lucene', language=None, 33 stop words; 0 terms of 0 documents)
    """
    text = os.fspath(name)
    kind, colon, rest = text.partition(":")
    if colon and kind in _KINDS:
        return _made(_KINDS[kind], rest, options)
    if text == "bm25":
        return _made(BM25, None, options)
    if (Path(text) / FILE_NAME).is_file():
        return _made(BM25.load, text, options)
    find_model(text, "an encoder")
    return _made(_model_class(text), text, options)


def _made(make: Callable[..., T], name: str | None, options: Mapping[str, Any]) -> T:
    try:
        return make(**options) if name is None else make(name, **options)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None or unknown[1] not in options:
            raise
        if unknown[1] == "pooling":
            msg = f"BM25 has no token embeddings to pool ({', '.join(POOLINGS)}): choose a model for that"
            raise ConfigError(msg) from error
        known = [option for option in inspect.signature(make).parameters if option not in ("name", "folder")]
        msg = f"{name or 'bm25'} has no option '{unknown[1]}'; it has {', '.join(known)}"
        raise ConfigError(msg) from error


def _model_class(name: str) -> type[TransformerEncoder]:
    folder = Path(name)
    if not folder.is_dir():
        spoken = name.lower()
        return UniCOIL if "unicoil" in spoken else LexMAE if "lexmae" in spoken else SparseModel
    if (folder / "modules.json").is_file():
        return SparseModel
    if any(key.endswith("tok_proj.weight") for key in _weight_names(folder)):
        return UniCOIL
    if any(known in told for told in _architectures(folder) for known in _LEXMAE_CLASSES):
        return LexMAE
    return SparseModel


def _architectures(folder: Path) -> list[str]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return [str(entry) for entry in config.get("architectures") or ()]
    except (OSError, ValueError, AttributeError):
        msg = f"'{folder}' holds no encoder: expected a {FILE_NAME}, a modules.json or a config.json in it"
        raise ConfigError(msg) from None


def _weight_names(folder: Path) -> list[str]:
    """Return the names of a checkpoint's weights, without reading them."""
    safe = folder / "model.safetensors"
    if safe.is_file():
        return weight_names(safe)
    pickled = folder / "pytorch_model.bin"
    if pickled.is_file():
        torch = need_torch("torch", f"'{pickled}'")
        try:
            return list(torch.load(pickled, map_location="meta", weights_only=True))
        except (OSError, EOFError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError) as error:
            raise damaged(pickled, "the weights of a model, as torch saves them") from error
    return []
