"""`segmax add`: add documents to a collection."""

from __future__ import annotations

import argparse
import time
from typing import Any

import segmax
from segmax.base.display import counted
from segmax.base.errors import ConfigError
from segmax.cli.encoder_options import add_encoder_options, encoder_options
from segmax.cli.parser import CommandParser
from segmax.cli.show import say
from segmax.collection.opening import is_collection
from segmax.encoders import load_encoder

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Add documents to a collection, which is created if there is none. IN is one or
more files of texts or of vectors, as for segmax index. Texts are encoded by the
encoder of the collection. Documents can be found as soon as their batch is
added, and are safe on disk by then.

A document whose id is there already is an error; with --upsert, it replaces the
document that has the id.
"""
_EXAMPLES = """\
  segmax add papers corpus.jsonl
  segmax add papers 2024.jsonl --upsert
  segmax add papers corpus.jsonl --encoder naver/splade-v3
  segmax search papers microwave noise
"""
NAMES = {"path": "COLLECTION", "documents": "IN"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax add`."""
    made = CommandParser("add", _HELP, _EXAMPLES, argument_default=argparse.SUPPRESS)
    made.add_argument("collection", metavar="COLLECTION", help="the directory of the collection")
    made.add_argument("documents", metavar="IN", nargs="+", help="files of texts or vectors")
    made.add_argument("--upsert", action="store_true", help="replace documents whose ids are there already")
    made.add_argument("--vectors", action="store_true", help="create the collection for vectors, without an encoder")
    made.add_argument("--no-progress", action="store_true", help="show no progress")
    add_encoder_options(made)
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax add`."""
    start = time.perf_counter()
    with _opened(args) as collection:
        put = collection.upsert if "upsert" in args else collection.add
        count = sum(put(source, progress="no_progress" not in args) for source in args.documents)
        collection.commit()
        seconds = time.perf_counter() - start
        say(f"{args.collection}: added {counted(count, 'document')} in {seconds:.1f} s, now {len(collection):,}")


def _opened(args: argparse.Namespace) -> segmax.Collection:
    """Open the collection, or create it."""
    options = encoder_options(args)
    if is_collection(args.collection):
        if options or "vectors" in args:
            option = min(options) if options else "vectors"
            raise ConfigError(option=option, expected="left out, because the collection is there already", got="given")
        return segmax.Collection.open(args.collection, encoder=None if args.encoder == "bm25" else args.encoder)
    encoder: Any = None if "vectors" in args else load_encoder(args.encoder, **options)
    return segmax.Collection.create(args.collection, encoder=encoder)
