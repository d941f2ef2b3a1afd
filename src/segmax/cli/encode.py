"""`segmax encode`: from texts to a file of vectors."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segmax.base.checks import checked_choice
from segmax.base.display import counted, printable
from segmax.base.errors import ConfigError, InputError
from segmax.cli.parser import Parser, in_words_of_the_shell, read_number
from segmax.cli.show import say
from segmax.encoders import load_encoder
from segmax.encoders.bm25_weights import METHODS
from segmax.encoders.transformer import DTYPES
from segmax.io import SCALES, TEXT_FORMATS, Document, Queries, TextReader, open_texts, read_queries
from segmax.text import encode_texts
from segmax.text.questions import is_matrix_file
from segmax.vectors.documents import POOLINGS

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Encode texts into sparse vectors: IN is a file of texts, a BEIR folder or an
ir_datasets id, OUT.npz a file of vectors with their ids and the vocabulary,
which segmax build takes. With --queries, the queries of IN are encoded.
Interrupted, the same command goes on where it stopped; a changed input or
option is refused. OUT may have any format that segmax convert writes.
"""
_EXAMPLES = """\
examples:
  segmax encode corpus.jsonl docs.npz
  segmax build docs.npz docs.segmax --encoder docs.bm25 --texts corpus.jsonl
  segmax encode queries.jsonl queries.npz --queries --encoder docs.bm25
  segmax encode corpus.jsonl docs.npz --encoder naver/splade-v3 --top-n 200
  segmax encode corpus.jsonl docs.npz --encoder my-model --dense max
  segmax encode beir/scifact docs.npz --encoder bm25 --k1 0.9 --b 0.4
  segmax encode corpus.jsonl docs.ciff --scale x100
"""
#: Options of the encoders, by the name that they have in Python: how they are read, their placeholder, what they do.
_BM25: Mapping[str, tuple[type, str, str]] = {
    "k1": (float, "X", "how slowly repeated words saturate (default: 1.5)"),
    "b": (float, "X", "how much long documents lose, 0 to 1 (default: 0.75)"),
    "delta": (float, "X", "of the formulas bm25l and bm25+ (default: 0.5)"),
    "method": (str, "|".join(METHODS), "the formula (default: lucene)"),
    "stopwords": (str, "LANGUAGE|none", "words to leave out (default: en)"),
    "language": (str, "LANGUAGE|none", "of the stemmer (default: english)"),
    "fold_accents": (bool, "on|off", "let 'cafe' find 'café' (default: on for English and without a stemmer)"),
    "cjk_bigrams": (bool, "on|off", "index Chinese, Japanese, Korean and Thai by pairs of characters (default: on)"),
    "workers": (int, "N", "processes that split text (default: one per core)"),
}
_MODELS: Mapping[str, tuple[type, str, str]] = {
    "device": (str, "DEVICE", "cpu, cuda, cuda:1, mps (default: a GPU if there is one)"),
    "dtype": (str, "|".join(DTYPES), "what the model computes in (default: float32)"),
    "batch_size": (int, "N", "texts that go through the model together (default: 32)"),
    "max_length": (int, "N", "cut texts after so many word pieces (default: as the model has it)"),
    "query_length": (int, "N", "the same for queries, of uniCOIL (default: 128) and LexMAE (default: 32)"),
    "tokenizer": (str, "FOLDER|NAME", "of uniCOIL, where it is not with the model"),
    "top_n": (int, "N", "keep so many of a text's largest weights (default: all)"),
    "min_weight": (float, "X", "drop smaller weights (default: 0)"),
}
# What arguments of functions are on the command line.
#: What messages about texts say to a shell.
TEXT_FLAGS = [(f"format='{name}'", f"--from {name}") for name in TEXT_FORMATS]
_FLAGS = (
    ("say which with format=...", "say which with --format FORMAT"),
    ("expected a format out of", "--format: expected"),
    ("expected scale to be", "--scale: expected"),
    ("scale='x100' or '/5x256'", "--scale x100 or --scale /5x256"),
    ("call fit, or load one that was saved with BM25.load", "name one that was saved with --encoder docs.bm25"),
    ("overwrite=True", "--overwrite"),
)


def encode_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax encode`."""
    parser = Parser(prog="segmax encode", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("input", metavar="IN", help="texts: a file, a BEIR folder, an ir_datasets id")
    parser.add_argument("output", metavar="OUT.npz", help="the file of vectors to write")
    add_encoder_options(parser)
    add_from_option(parser, TEXT_FORMATS)
    parser.add_argument("--queries", action="store_true", help="encode as queries, not as documents")
    add_title_option(parser)
    parser.add_argument(
        "--dense",
        metavar="|".join(POOLINGS),
        action="append",
        help="also write the pooled embeddings of a model's tokens, to OUT.max.npy for instance, for segmax build "
        "--dense. May be repeated",
    )
    parser.add_argument("--format", metavar="FORMAT", help="of OUT (default: by its name)")
    parser.add_argument(
        "--scale",
        metavar="NAME|FACTOR",
        help="what is done to weights (default: none). "
        + "; ".join(f"{name}: {text}" for name, (_, text) in SCALES.items()),
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace OUT, and the encoder or dense vectors beside it"
    )
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show progress bars (default: on a terminal)"
    )
    return parser


def add_from_option(parser: argparse.ArgumentParser, formats: Iterable[str]) -> None:
    """Add --from."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FORMAT",
        help=f"what IN is (default: as its content says): {', '.join(formats)}",
    )


def checked_format(name: str | None, formats: Iterable[str] = TEXT_FORMATS) -> str | None:
    """Return the value of --from."""
    if name is not None and name not in formats:
        raise ConfigError(where="--from", expected=f"{', '.join(formats)}", got=f"{name!r}")
    return name


def add_encoder_options(parser: argparse.ArgumentParser) -> None:
    """Add --encoder and what goes with it."""
    parser.add_argument(
        "--encoder",
        metavar="bm25|MODEL",
        default="bm25",
        help="bm25, a folder of one that was saved, or a model of sentence-transformers, uniCOIL or LexMAE: a folder "
        "or a name on the hub (default: %(default)s)",
    )
    _add_group(parser, "BM25", _BM25)
    add_model_options(parser)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add what goes with a model."""
    _add_group(parser, "models", _MODELS)


def add_title_option(parser: argparse.ArgumentParser) -> None:
    """Add --no-title; what LexMAE's title=False does, and the same for every encoder."""
    parser.add_argument("--no-title", action="store_true", help="encode documents without their titles")


def _add_group(parser: argparse.ArgumentParser, title: str, options: Mapping[str, tuple[type, str, str]]) -> None:
    group = parser.add_argument_group(title)
    for name, (_, metavar, text) in options.items():
        group.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar=metavar, help=text)


def encode(args: argparse.Namespace) -> None:
    """Run `segmax encode`."""
    if args.queries and args.dense:
        raise ConfigError("--dense is for the clusters of documents, and --queries encodes none")
    with in_words_of_the_shell(TEXT_FLAGS):
        texts = _queries(args.input) if args.queries else read_texts(args.input, checked_format(args.source))
    pooling = {"pooling": tuple(args.dense)} if args.dense else {}
    encoder = load_encoder(args.encoder, **encoder_options(args), **pooling)
    start = time.perf_counter()
    try:
        with in_words_of_the_shell(_FLAGS):
            done = encode_texts(
                encoder,
                texts,
                args.output,
                queries=args.queries,
                title=not args.no_title,
                format=args.format,
                scale=args.scale,
                overwrite=args.overwrite,
                progress=args.progress,
            )
    except KeyboardInterrupt:
        sys.stderr.write(f"\nwhat is done is kept in '{printable(args.output)}.encoding'; the same command resumes\n")
        raise
    seconds = time.perf_counter() - start
    fresh = done.num_docs - done.num_resumed
    resumed = f", {done.num_resumed:,} of them before" if done.num_resumed else ""
    what = ("query", "queries") if args.queries else ("document", "documents")
    lines = [
        f"{done.path}: {counted(done.num_docs, *what)}{resumed}, "
        f"{counted(done.num_postings, 'weight')}, {seconds:.1f} s ({fresh / max(seconds, 1e-9):,.0f}/s)"
    ]
    lines += [f"{path}: dense vectors ({name})" for name, path in done.dense.items()]
    if done.encoder is not None:
        lines.append(f"{done.encoder}: the encoder, for queries (--encoder {done.encoder} --queries)")
    say(*lines)


def read_texts(inputs: str | Sequence[str], format: str | None = None) -> TextReader:
    """Open texts, and say so if they get numbers as ids, or if columns are ignored."""
    reader = open_texts(inputs, format=format)
    if getattr(reader, "numbered", False):
        sys.stderr.write("segmax: the texts have no ids; documents are numbered from 0\n")
    used, ignored = getattr(reader, "partly_read", lambda: ([], []))()
    if ignored:
        told = f"segmax: columns read: {', '.join(used)}; columns ignored: {', '.join(ignored)[:200]}"
        sys.stderr.write(f"{printable(told)}\n")
    return reader


def say_numbered(queries: Queries) -> None:
    """Say so if queries get numbers as ids."""
    if queries.numbered:
        sys.stderr.write("segmax: the queries have no ids; they are numbered from 0\n")


def _queries(path: str) -> Iterable[Document]:
    """Read the texts of queries."""
    queries = Queries([], None, None) if is_matrix_file(path) else read_queries(path)
    say_numbered(queries)
    ids, texts, _ = queries
    if texts is None:
        raise InputError(
            where=f"'{path}'",
            expected="queries with texts to encode",
            got="vectors",
            hint="segmax search takes those as they are",
        )
    return [Document(name, "", text) for name, text in zip(ids, texts, strict=True)]


def encoder_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the encoder that were given."""
    options: dict[str, Any] = {}
    for name, (kind, _, _) in {**_BM25, **_MODELS}.items():
        text = getattr(args, name, None)
        if text is not None:
            options[name] = _value(kind, name, text)
    return options


def _value(kind: type, name: str, text: str) -> Any:
    if name in ("stopwords", "language") and text == "none":
        return None
    if kind is bool:
        return checked_choice(f"--{name.replace('_', '-')}", text, ("on", "off")) == "on"
    return read_number(kind, f"--{name.replace('_', '-')}", text)
