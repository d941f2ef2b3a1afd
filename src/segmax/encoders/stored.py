"""What an index records about its encoder, and which encoder it gets for queries.

An index may come from a stranger. BM25 is made from what the index records without asking, since that is only numbers
and words. A model is code and files: it is loaded only if the caller asks for it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from segmax.base.checks import checked_bool, checked_choice, checked_int
from segmax.base.errors import ConfigError, FormatError, InputError, SegmaxError
from segmax.encoders.base import Encoder
from segmax.encoders.bm25 import BM25, stored_options
from segmax.encoders.exported import BACKENDS, can_run
from segmax.encoders.lexmae import LexMAE
from segmax.encoders.loading import STORED, encoder_class, load_encoder, load_for_queries
from segmax.encoders.model_files import is_export, is_there
from segmax.encoders.query_table import QueryTable
from segmax.encoders.sparse_model import SparseModel, is_sparse_encoder
from segmax.encoders.transformer import DTYPES, LARGEST, TransformerEncoder, checked_min_weight
from segmax.encoders.unicoil import UniCOIL

#: What the error about a model that an index names expects.
_YOUR_CHOICE = "an encoder of your choice (segmax loads no model that an index names unless you ask for it)"
_SHARED_OPTIONS = frozenset({"dtype", "backend", "top_n", "min_weight", "max_length"})
#: The options of every kind of model that queries depend on, as a description may have them.
_OPTIONS: Mapping[type[QueryTable | TransformerEncoder], frozenset[str]] = {
    QueryTable: frozenset({"top_n", "min_weight"}),
    SparseModel: _SHARED_OPTIONS,
    UniCOIL: _SHARED_OPTIONS | {"query_length", "tokenizer"},
    LexMAE: _SHARED_OPTIONS | {"query_length", "title"},
}
_MAY_BE_NONE: Mapping[type[QueryTable | TransformerEncoder], frozenset[str]] = {
    QueryTable: frozenset({"top_n"}),
    SparseModel: frozenset({"top_n", "max_length"}),
    UniCOIL: frozenset({"top_n", "tokenizer"}),
    LexMAE: frozenset({"top_n"}),
}
_CHECKS: Mapping[str, Callable[[object], object]] = {
    "dtype": lambda value: checked_choice("dtype", value, DTYPES),
    "backend": lambda value: checked_choice("backend", value, BACKENDS),
    "top_n": lambda value: checked_int("top_n", value, 1, LARGEST),
    "min_weight": checked_min_weight,
    "max_length": lambda value: checked_int("max_length", value, 1, LARGEST),
    "query_length": lambda value: checked_int("query_length", value, 1, LARGEST),
    "title": lambda value: checked_bool("title", value),
    "tokenizer": str,  # looked at once it is used
}
_MODELS = {kind.__name__: kind for kind in _OPTIONS}
#: Entries of a description about documents, or about where the encoder comes from; queries need none of them.
_ORIGIN = frozenset({"encoder", "model", "files", "pooling"})
_LONGEST_NAME = 1000  # far more than a path or a name on the hub has
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def encoder_for_index(choice: object, description: object, terms: Iterable[str] | None, where: str) -> Encoder:
    """Return the encoder of queries for an index.

    Parameters
    ----------
    choice
        What the caller chose: an object with `encode_queries`, a loaded `SparseEncoder`, a name or a folder, "stored"
        for the model that the index names; None: nothing, so that only BM25 is possible.
    description
        What the index records, as `Encoder.to_dict` returned it; None: nothing.
    terms
        The vocabulary of the index, if it has one.
    where
        The file that `description` is from, for messages; "the index" for one in memory.

    Raises
    ------
    SegmaxError
        There is no encoder, it is not allowed, or it does not fit the index.
    """
    if choice is None or (isinstance(choice, str) and choice == STORED):
        return _fitted(_stored(description, terms, where, trusted=choice is not None), terms)
    if isinstance(choice, (str, os.PathLike)):
        return _fitted(_named(choice, description, terms, where), terms)
    if is_sparse_encoder(choice):
        return _fitted(
            SparseModel(
                choice, **_same_options(SparseModel, description, where, leave_out={"dtype", "backend", "max_length"})
            ),
            terms,
        )
    if not callable(getattr(choice, "encode_queries", None)):
        raise ConfigError(
            expected=(
                "an encoder: an object with encode_queries, a SparseEncoder of "
                f"sentence-transformers, a name, a folder, or {STORED!r}"
            ),
            got=type(choice).__name__,
        )
    return _fitted(cast("Encoder", choice), terms)


# --- what the index keeps --------------------------------------------------------------------------------------------


def _stored(description: object, terms: Iterable[str] | None, where: str, *, trusted: bool) -> Encoder:
    """Return the encoder that an index describes."""
    if description is None:
        raise InputError(
            where=where,
            expected="an encoder, to search for text",
            got="an index that does not know what made its vectors",
            hint="encode queries first, or choose an encoder with {encoder=MODEL}",
        )
    kind = _kind(description, where)
    if kind == "bm25" and terms is not None:
        with _naming_file(where):
            return BM25.of_vocabulary(terms, **stored_options(_options(description, where)))
    if kind not in _MODELS:
        raise FormatError(
            where=where, expected="an encoder that segmax can load", got=f"{kind[:80]!r}", hint="assign index.encoder"
        )
    if not trusted:
        raise _not_trusted(cast("Mapping[str, Any]", description), where)
    return _stored_model(_MODELS[kind], cast("Mapping[str, Any]", description), where)


def _stored_model(kind: type[QueryTable | TransformerEncoder], description: Mapping[str, Any], where: str) -> Encoder:
    options = _model_options(kind, description, where)
    name = _checked_name(description.get("model"), where)
    if options.get("tokenizer") is not None:
        options["tokenizer"] = _checked_name(options["tokenizer"], where)
    with _naming_file(where):
        return load_for_queries(name, _as_here(options, name, kind), kind)


def _not_trusted(description: Mapping[str, Any], where: str) -> InputError:
    """Return the error about an index that names a model, where the caller has not allowed to load it."""
    name = description.get("model")
    if name is None:
        return _loaded_by_caller(where)
    if not _is_hub_name(name):
        return InputError(
            where=where,
            expected=_YOUR_CHOICE,
            got=f"none, and the index names the folder {str(name)[:200]!r}",
            hint="pass the folder or the model that made the index, as in {encoder='path/to/model'}",
        )
    return InputError(
        where=where,
        expected=_YOUR_CHOICE,
        got=f"none, and the index names the model {name!r}",
        hint="pass {encoder='stored'} if you trust the index, or the name or folder of the model",
    )


def _loaded_by_caller(where: str) -> InputError:
    """Return the error about an index that was made with a model that only its owner has."""
    return InputError(
        where=where,
        expected="the model that made the index",
        got="only a note that it was loaded in Python",
        hint="pass that model with {encoder=MODEL}",
    )


def _kind(description: object, where: str) -> str:
    kind = description.get("encoder") if isinstance(description, Mapping) else None
    if not isinstance(kind, str):
        raise FormatError(
            where=where,
            expected="the description of an encoder",
            got=f"{str(description)[:80]!r}",
            hint="assign index.encoder",
        )
    return kind


def _options(description: object, where: str) -> dict[str, Any]:
    _kind(description, where)
    return {name: value for name, value in cast("Mapping[str, Any]", description).items() if name not in _ORIGIN}


def _model_options(kind: type[QueryTable | TransformerEncoder], description: object, where: str) -> dict[str, Any]:
    options = _options(description, where)
    unknown = sorted(options.keys() - _OPTIONS[kind])
    if unknown:
        raise FormatError(
            where=where,
            expected=f"options of {kind.__name__}",
            got=f"{str(unknown[0])[:80]!r}",
            hint="assign index.encoder",
        )
    with _naming_file(where):
        for name, value in options.items():
            if value is not None or name not in _MAY_BE_NONE[kind]:
                _CHECKS[name](value)
    return options


def _checked_name(name: object, where: str) -> str:
    """Return a name on the hub that an index brings along; folders have to come from the caller."""
    if name is None:
        raise _loaded_by_caller(where)
    if isinstance(name, str) and len(name) > _LONGEST_NAME:
        raise FormatError(
            where=where,
            expected="the name of a model",
            got=f"{len(name):,} characters",
            hint="assign index.encoder",
        )
    if not isinstance(name, str) or not _is_hub_name(name):
        raise InputError(
            where=where,
            expected="a name on the hub, because segmax takes no folders from an index",
            got=f"{str(name)[:200]!r}",
            hint="if you trust this folder, pass its path, as in {encoder='path/to/model'}",
        )
    if is_there(Path(name)):
        raise InputError(
            where=where,
            expected="a name on the hub",
            got=f"{name!r}, which is also a folder here",
            hint="to use the folder, pass it with ./ before its name, as in {encoder='./path/to/model'}",
        )
    return name


def _is_hub_name(name: object) -> bool:
    """Return whether this can be the name of a model on the hub."""
    return (
        isinstance(name, str)
        and len(name) <= _LONGEST_NAME
        and ".." not in name
        and _HUB_NAME.fullmatch(name) is not None
    )


@contextlib.contextmanager
def _naming_file(where: str) -> Iterator[None]:
    """Add the name of the file to errors about its content."""
    try:
        yield
    except SegmaxError as error:
        place = f"{where}: {error.where}" if error.where else where
        raise error.edited(lambda part: part[:200]).at(place[:400]) from error
    except Exception as error:
        raise FormatError(
            where=where,
            expected="the description of an encoder",
            got=f"one that cannot be used ({str(error)[:200]})",
            hint="assign index.encoder",
        ) from error


# --- what the caller names -------------------------------------------------------------------------------------------


def _named(name: str | os.PathLike[str], description: object, terms: Iterable[str] | None, where: str) -> Encoder:
    """Return an encoder by name, with the options that the index was made with where it is of the same kind."""
    kind = encoder_class(name)
    if kind is not BM25:
        model = cast("type[QueryTable | TransformerEncoder]", kind)
        # A tokenizer is files again, and the caller said nothing about those.
        options = _same_options(model, description, where, leave_out={"tokenizer"})
        return load_for_queries(name, _as_here(options, os.fspath(name), model))
    if os.fspath(name) == "bm25" and description is not None and _kind(description, where) == "bm25":
        return _stored(description, terms or (), where, trusted=False)
    return load_encoder(name)


def _same_options(
    kind: type[QueryTable | TransformerEncoder], description: object, where: str, *, leave_out: set[str]
) -> dict[str, Any]:
    if description is None or _kind(description, where) != kind.__name__:
        return {}
    options = _model_options(kind, description, where)
    return {name: value for name, value in options.items() if name not in leave_out}


def _as_here(options: dict[str, Any], name: str, kind: type[QueryTable | TransformerEncoder]) -> dict[str, Any]:
    """Leave out how documents were computed where queries are computed better, or only, in another way."""
    backend = options.get("backend", "torch")
    model = name.partition(":")[2] or name
    if backend == "torch":  # half precision suits some devices and slows others down
        fits = options.get("dtype") not in ("float16", "bfloat16") and not is_export(Path(model))
    else:
        fits = can_run(backend, model, kind.__name__)
    return options if fits else {key: value for key, value in options.items() if key not in ("dtype", "backend")}


def _fitted(encoder: Encoder, terms: Iterable[str] | None) -> Encoder:
    """Return an encoder whose columns are those of the index."""
    return encoder if terms is None or not isinstance(encoder, Encoder) else encoder.for_terms(list(terms))
