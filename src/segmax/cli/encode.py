"""`segmax encode`: from texts to a file of vectors."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from segmax.base.display import counted
from segmax.base.errors import ConfigError, InputError
from segmax.cli.encoder_options import add_encoder_options, add_title_option, encoder_options
from segmax.cli.formats import add_from, add_scale, add_to
from segmax.cli.log_lines import log_lines
from segmax.cli.parser import CommandParser, add_progress, if_interrupted, shows_progress
from segmax.cli.reading import note_numbered, read_texts
from segmax.cli.show import say
from segmax.cli.spelling import Spelling
from segmax.encoders import load_encoder
from segmax.io import TEXT_FORMATS, Document, Queries, read_queries
from segmax.text import encode_texts
from segmax.text.queries import matrix_format
from segmax.text.shards import Encoding
from segmax.vectors.documents import POOLINGS

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Encode texts into sparse vectors. IN is a file of texts, a BEIR folder or an
ir_datasets id. OUT is a file of vectors with document ids and the vocabulary,
which segmax build reads: .npz, or any other format that segmax convert writes.
With --queries, the queries in IN are encoded instead of the documents.

If encoding is interrupted, run the same command again to resume it.
"""
_EXAMPLES = """\
  segmax encode corpus.jsonl docs.npz
  segmax build docs.npz docs.segmax --encoder docs.bm25 --texts corpus.jsonl
  segmax encode queries.jsonl queries.npz --queries --encoder docs.bm25
  segmax encode corpus.jsonl docs.npz --encoder naver/splade-v3 --top-n 200
  segmax encode corpus.jsonl docs.npz --encoder my-model --dense max
  segmax encode beir/scifact docs.npz --k1 0.9 --b 0.4
  segmax encode corpus.jsonl docs.ciff --scale x100
"""
NAMES = {"path": "OUT", "texts": "IN", "format=...": "--to FORMAT", "pooling": "--dense"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax encode`."""
    made = CommandParser("encode", _HELP, _EXAMPLES, usage="segmax encode [options] IN OUT")
    made.add_argument("input", metavar="IN", help="texts: a file, a BEIR folder or an ir_datasets id")
    made.add_argument("output", metavar="OUT", help="the file of vectors to write")
    add_from(made, TEXT_FORMATS)
    add_to(made)
    made.add_argument("--queries", action="store_true", help="encode queries instead of documents")
    made.add_argument(
        "--dense",
        metavar="|".join(POOLINGS),
        action="append",
        help="also write the token embeddings of a model, pooled to one vector per document, for segmax build --dense: "
        "docs.max.npy beside docs.npz. Can be repeated",
    )
    add_scale(made)
    made.add_argument(
        "--overwrite", action="store_true", help="replace OUT, and the encoder or dense vectors beside it"
    )
    add_progress(made)
    add_title_option(made)
    add_encoder_options(made)
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax encode`."""
    if args.queries and args.dense:
        raise ConfigError(
            option="dense", expected="left out with --queries, which encodes no documents", got=", ".join(args.dense)
        )
    texts = _queries(args.input) if args.queries else read_texts(args.input, args.format)
    pooling = {"pooling": tuple(args.dense)} if args.dense else {}
    encoder = load_encoder(args.encoder, **encoder_options(args), **pooling)
    start = time.perf_counter()
    resuming = f"finished work is in '{args.output}.encoding'; run the same command again to resume"
    with if_interrupted(resuming), log_lines(Spelling(parser(), {}), "segmax.encoders"):
        done = encode_texts(
            encoder,
            texts,
            args.output,
            queries=args.queries,
            title=not args.no_title,
            format=args.to,
            scale=args.scale,
            overwrite=args.overwrite,
            progress=shows_progress(args.progress),
        )
    what = ("query", "queries") if args.queries else ("document", "documents")
    say(*_summary(done, what, time.perf_counter() - start))


def _summary(done: Encoding, what: tuple[str, str], seconds: float) -> list[str]:
    rate = (done.num_docs - done.num_resumed) / max(seconds, 1e-9)
    resumed = f", {done.num_resumed:,} of them resumed" if done.num_resumed else ""
    lines = [
        f"{done.path}: {counted(done.num_docs, *what)}{resumed}, "
        f"{counted(done.num_postings, 'weight')}, {seconds:.1f} s ({rate:,.0f}/s)"
    ]
    lines += [f"{path}: dense vectors ({name})" for name, path in done.dense.items()]
    if done.encoder is not None:
        lines.append(f"{done.encoder}: the encoder, for queries (--encoder {done.encoder} --queries)")
    return lines


def _queries(path: str) -> Iterable[Document]:
    """Read the texts of queries."""
    queries = read_queries(path) if matrix_format(path) is None else Queries([], None, None)
    note_numbered(queries)
    ids, texts, _ = queries
    if texts is None:
        raise InputError(
            where=f"'{path}'",
            expected="queries with texts to encode",
            got="vectors",
            hint="pass vectors to segmax search as they are",
        )
    return [Document(name, "", text) for name, text in zip(ids, texts, strict=True)]
