"""The options of encoders, for the commands that encode texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from segmax.cli.parser import real_number, whole_number
from segmax.encoders.bm25_weights import METHODS
from segmax.encoders.exported import BACKENDS
from segmax.encoders.transformer import DTYPES


class _Flag(NamedTuple):
    """How an option is read, its placeholder, and its help."""

    type: Callable[[str], Any]
    metavar: str
    help: str


def _on_or_off(text: str) -> bool:
    if text not in ("on", "off"):
        msg = f"expected 'on' or 'off', got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return text == "on"


class _Nothing(str):
    """The word "none": an option that is switched off, unlike `None`, which means that it was not given."""


def _word_or_none(text: str) -> str:
    return _Nothing(text) if text == "none" else text


#: By the names that the options have in Python.
_BM25: Mapping[str, _Flag] = {
    "k1": _Flag(real_number, "X", "how slowly repeated words saturate (default: 1.5)"),
    "b": _Flag(real_number, "X", "how strongly long documents are penalized, from 0 to 1 (default: 0.75)"),
    "delta": _Flag(real_number, "X", "lower bound for matches, for bm25l and bm25+ (default: 0.5)"),
    "method": _Flag(str, "|".join(METHODS), "formula of BM25, not a method of segmax search (default: lucene)"),
    "stopwords": _Flag(_word_or_none, "LANGUAGE|none", "language of the stop words to leave out (default: en)"),
    "language": _Flag(_word_or_none, "LANGUAGE|none", "language of the stemmer (default: english)"),
    "fold_accents": _Flag(
        _on_or_off, "on|off", "match 'cafe' with 'café' (default: on for English and without a stemmer)"
    ),
    "cjk_bigrams": _Flag(
        _on_or_off, "on|off", "index Chinese, Japanese, Korean and Thai by pairs of characters (default: on)"
    ),
    "workers": _Flag(whole_number, "N", "number of threads that split text into words (default: one per core)"),
}
_MODELS: Mapping[str, _Flag] = {
    "device": _Flag(str, "DEVICE", "cpu, cuda, cuda:1 or mps (default: a GPU if there is one)"),
    "dtype": _Flag(
        str, "|".join(DTYPES), "number type that the model computes with (default: the fastest that is near float32)"
    ),
    "backend": _Flag(
        str, "|".join(BACKENDS), "what runs the model; onnx and openvino are for CPUs (default: by dtype)"
    ),
    "batch_size": _Flag(whole_number, "N", "number of texts per batch (default: what suits the device)"),
    "max_length": _Flag(whole_number, "N", "cut texts after this many tokens (default: the model's limit)"),
    "query_length": _Flag(
        whole_number, "N", "cut queries after this many tokens (default: 128 for uniCOIL, 32 for LexMAE)"
    ),
    "tokenizer": _Flag(str, "FOLDER|NAME", "tokenizer of uniCOIL (default: the one stored with the model)"),
    "top_n": _Flag(whole_number, "N", "keep only the N largest weights of a text (default: all)"),
    "min_weight": _Flag(real_number, "X", "drop weights below this (default: 0)"),
}


def add_encoder_options(parser: argparse.ArgumentParser, *, default: str | None = "bm25", shown: str = "bm25") -> None:
    """Add --encoder and the options of all encoders; help shows what the default is."""
    parser.add_argument(
        "--encoder",
        metavar="bm25|MODEL",
        default=default,
        help="bm25, a folder of a saved BM25, or a model of sentence-transformers, uniCOIL or LexMAE: a folder or a "
        f"name on the Hugging Face hub (default: {shown})",
    )
    _add_group(parser, "BM25", _BM25)
    add_model_options(parser)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of models."""
    group = _add_group(parser, "models", _MODELS)
    group.add_argument(
        "--exact", dest="dtype", action="store_const", const="float32", help="compute in float32: --dtype float32"
    )


def add_title_option(parser: argparse.ArgumentParser) -> None:
    """Add --no-title."""
    parser.add_argument("--no-title", action="store_true", help="encode only the text of documents, not the title")


def _add_group(parser: argparse.ArgumentParser, title: str, flags: Mapping[str, _Flag]) -> argparse._ArgumentGroup:
    group = parser.add_argument_group(title)
    for name, flag in flags.items():
        group.add_argument(
            f"--{name.replace('_', '-')}", dest=name, type=flag.type, metavar=flag.metavar, help=flag.help
        )
    return group


def encoder_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the encoder that were given."""
    given = {name: getattr(args, name, None) for name in (*_BM25, *_MODELS)}
    return {name: None if isinstance(value, _Nothing) else value for name, value in given.items() if value is not None}
