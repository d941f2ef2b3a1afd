"""From a name to an encoder."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from segmax.base.checks import shown
from segmax.base.errors import ConfigError
from segmax.encoders.base import AdaptedEncoder, Encoder, EncodesTexts
from segmax.encoders.bm25 import BM25, FILE_NAME
from segmax.encoders.exported import read_description
from segmax.encoders.late_model import LateSparseModel
from segmax.encoders.lexmae import LexMAE
from segmax.encoders.model_files import (
    EXPORT_NAME,
    check_files,
    check_name,
    damaged,
    is_export,
    is_folder,
    read_json,
    read_pickled,
    weight_shapes,
)
from segmax.encoders.query_table import QueryTable, table_of
from segmax.encoders.sparse_model import SparseModel, is_sparse_encoder
from segmax.encoders.table_files import TABLE_NAME, is_plain_table
from segmax.encoders.transformer import TransformerEncoder
from segmax.encoders.unicoil import UniCOIL
from segmax.vectors.documents import POOLINGS

T = TypeVar("T")

#: What a caller passes to have the model loaded that an index names.
STORED = "stored"
#: The prefixes that state the kind of a model: "unicoil:NAME".
_KINDS: Mapping[str, type[TransformerEncoder]] = {"sparse": SparseModel, "unicoil": UniCOIL, "lexmae": LexMAE}
#: How encoders are read from a folder whose class does not do that itself.
_LOADS: Mapping[Any, Callable[..., Encoder]] = {BM25: BM25.load, QueryTable: QueryTable.load}
#: The options of a model that its table for queries depends on, too.
_TABLE_OPTIONS = ("top_n", "min_weight")
#: As the authors' code calls the classes that it saves.
_LEXMAE_CLASSES = ("SpladeEnocder", "ForEDMLM")


def load_encoder(name: str | os.PathLike[str], **options: Any) -> Encoder:
    """Load an encoder by name.

    Parameters
    ----------
    name
        "bm25"; a folder that `BM25.save` wrote; or a model of sentence-transformers, uniCOIL or LexMAE, as a folder or
        a name on the hub. The kind of a model follows from the files of its folder, or from its name on the hub;
        "unicoil:NAME", "lexmae:NAME" and "sparse:NAME" state it. Or a folder that `segmax encoder export` wrote, or
        `segmax encoder table`, which encodes queries only.
    **options
        For the encoder.

    Raises
    ------
    ConfigError
        The encoder has no such option, the folder does not exist, or a package is missing.

    Examples
    --------
    >>> load_encoder("bm25", k1=0.9, b=0.4, language=None)
    BM25(k1=0.9, b=0.4, method='lucene', language=None, 33 stop words; 0 terms of 0 documents)
    """
    kind, rest = _kind_and_name(name)
    if kind is BM25 and rest == "bm25":
        return _made(BM25, None, options)
    return _made(_LOADS.get(kind, kind), rest, options)


def load_for_queries(
    name: str | os.PathLike[str],
    options: Mapping[str, Any],
    kind: type[BM25 | QueryTable | TransformerEncoder] | None = None,
) -> Encoder:
    """Load an encoder to search with: a model whose query side is a table is not loaded before it encodes documents.

    Parameters
    ----------
    name
        As for `load_encoder`; with a kind, a name without a prefix.
    options
        For the encoder.
    kind
        The class of the encoder, where it is known.
    """
    found, rest = _kind_and_name(name) if kind is None else (kind, os.fspath(name))
    if found is SparseModel:
        table = table_of(rest, **{option: options[option] for option in _TABLE_OPTIONS if option in options})
        if table is not None:
            return LateSparseModel(rest, table, options)
    return _made(_LOADS.get(found, found), rest, options)


def encoder_class(name: str | os.PathLike[str]) -> type[BM25 | QueryTable | TransformerEncoder]:
    """Return the class of the encoder with this name; reads small files only."""
    return _kind_and_name(name)[0]


def as_encoder(encoder: object, **options: Any) -> Encoder:
    """Return an encoder, given as such, by name or folder, as a loaded `SparseEncoder`, or as an object that encodes.

    Raises
    ------
    ConfigError
        It is none of these, or an option does not apply.

    Examples
    --------
    >>> type(as_encoder("bm25", k1=1.2)).__name__
    'BM25'
    """
    if isinstance(encoder, (str, os.PathLike)):
        return load_encoder(encoder, **options)
    if is_sparse_encoder(encoder):
        return SparseModel(encoder, **options)
    if isinstance(encoder, Encoder):
        return encoder
    if isinstance(encoder, EncodesTexts):
        return AdaptedEncoder(encoder)
    raise ConfigError(
        expected=(
            "an encoder: a name, a folder, an object with encode_documents, encode_queries "
            "and vocabulary, or a SparseEncoder of sentence-transformers"
        ),
        got=type(encoder).__name__,
    )


def _made(make: Callable[..., T], name: str | None, options: Mapping[str, Any]) -> T:
    try:
        return make(**options) if name is None else make(name, **options)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is None or unknown[1] not in options:
            raise
        if unknown[1] == "pooling":
            raise ConfigError(
                option="encoder",
                expected=f"a model, whose token embeddings can be pooled ({', '.join(POOLINGS)})",
                got="BM25",
            ) from error
        known = [option for option in inspect.signature(make).parameters if option not in ("name", "folder")]
        raise ConfigError(
            where=name or "bm25",
            option=unknown[1],
            expected=f"left out (its options are {', '.join(known)})",
            got=shown(options[unknown[1]]),
        ) from error


def _kind_and_name(name: object) -> tuple[type[BM25 | QueryTable | TransformerEncoder], str]:
    text = os.fspath(name) if isinstance(name, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise ConfigError(expected="the name or the folder of an encoder", got=type(name).__name__)
    kind, colon, rest = text.partition(":")
    if colon and kind in _KINDS:
        return _KINDS[kind], rest
    if text == "bm25" or _is_file(Path(text) / FILE_NAME):
        return BM25, text
    return QueryTable if is_plain_table(Path(text)) else _model_class(text), text


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False


def _model_class(name: str) -> type[TransformerEncoder]:
    folder = Path(name)
    if is_export(folder):
        return _class_of_export(folder)
    if not _is_file(folder / "config.json") and not _is_file(folder / "modules.json"):
        return _class_of_name(name)
    check_files(folder)
    if (folder / "modules.json").is_file():
        return SparseModel
    if any(key.endswith("tok_proj.weight") for key in _weight_names(folder)):
        return UniCOIL
    if any(known in name for name in _architectures(folder) for known in _LEXMAE_CLASSES):
        return LexMAE
    return SparseModel


def _class_of_export(folder: Path) -> type[TransformerEncoder]:
    found = read_description(folder).kind
    kind = next((kind for kind in _KINDS.values() if kind.__name__ == found), None)
    if kind is None:
        names = ", ".join(kind.__name__ for kind in _KINDS.values())
        raise damaged(folder / EXPORT_NAME, f"a kind of model ({names})", shown(found))
    return kind


def _class_of_name(name: str) -> type[TransformerEncoder]:
    if is_folder(Path(name)):
        raise ConfigError(
            where=f"'{name}'",
            expected=f"an encoder ({FILE_NAME}, {TABLE_NAME}, {EXPORT_NAME}, modules.json or config.json)",
            got="a folder without one",
        )
    if name == STORED:
        raise ConfigError(
            option="encoder",
            expected="the name or the folder of an encoder",
            got=f"{STORED!r}, which stands for the model that an index names, where one is opened",
            hint="name the model",
        )
    check_name(name, "an encoder")
    spoken = name.lower()
    return UniCOIL if "unicoil" in spoken else LexMAE if "lexmae" in spoken else SparseModel


def _architectures(folder: Path) -> list[str]:
    classes = read_json(folder / "config.json").get("architectures")
    return [str(entry) for entry in classes] if isinstance(classes, list) else []


def _weight_names(folder: Path) -> list[str]:
    """Return the names of a checkpoint's weights, without reading them."""
    safe = folder / "model.safetensors"
    if safe.is_file():
        return list(weight_shapes(safe))
    pickled = folder / "pytorch_model.bin"
    return list(read_pickled(pickled, f"'{pickled}'", device="meta")) if pickled.is_file() else []
