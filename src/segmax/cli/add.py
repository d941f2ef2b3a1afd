"""`segmax add`: add documents to a collection."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import segmax
from segmax.base.display import counted
from segmax.base.errors import ConfigError
from segmax.base.own_folders import own_folder
from segmax.cli.encoder_options import add_encoder_options, encoder_options
from segmax.cli.log_lines import log_lines
from segmax.cli.parser import CommandParser, add_progress, shows_progress
from segmax.cli.reading import named_fields, note_texts
from segmax.cli.show import say
from segmax.cli.spelling import Spelling
from segmax.collection.manifest import read_manifest
from segmax.encoders import load_encoder
from segmax.io import TextReader, open_documents
from segmax.text.fields import Fields, chosen_fields
from segmax.vectors.documents import BaseVectors

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Add documents to a collection, which is created if there is none. IN is one or
more files of texts or of vectors, as for segmax index. Texts are encoded by the
encoder of the collection. Documents can be found as soon as their batch is
added, and are safe on disk by then. What lines of JSON have as "metadata" is
kept, to filter searches by; --metadata keeps other members or columns, too.

A document whose id is there already is an error; with --upsert, it replaces the
document that has the id.
"""
_EXAMPLES = """\
  segmax add papers corpus.jsonl
  segmax add papers 2024.jsonl --upsert
  segmax add papers 2025.csv --metadata year:int,lang
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
    made.add_argument(
        "--metadata",
        metavar="FIELD,...|all",
        help="keep these members or columns of the documents, or all, as metadata. FIELD:TYPE reads a column of CSV or "
        "TSV as int, float or bool",
    )
    add_progress(made)
    add_encoder_options(made, default=None, shown="that of the collection; bm25 for a new one")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax add`."""
    start = time.perf_counter()
    fields = named_fields(getattr(args, "metadata", None))
    documents = open_documents(args.documents)  # before a collection is created
    if not isinstance(documents, BaseVectors):
        note_texts(documents, _kept(fields))
    with _opened(args, documents) as collection, log_lines(Spelling(parser(), {}), "segmax.encoders"):
        put = collection.upsert if "upsert" in args else collection.add
        count = put(documents, metadata=fields, progress=shows_progress(getattr(args, "progress", None)))
        collection.commit()
        seconds = time.perf_counter() - start
        say(f"{args.collection}: added {counted(count, 'document')} in {seconds:.1f} s, now {len(collection):,}")


def _kept(fields: str | list[str] | None) -> Fields:
    """Return the members that are kept; "metadata" always is."""
    return chosen_fields(fields) or Fields(["metadata"])


@contextlib.contextmanager
def _opened(args: argparse.Namespace, documents: TextReader | BaseVectors) -> Iterator[segmax.Collection]:
    """Open the collection, or create it; one that gets no document is not left behind."""
    options = encoder_options(args)
    if own_folder(Path(args.collection)) is not None:  # an index is refused with what to do about it
        with segmax.Collection.open(args.collection, encoder=_same_encoder(args, options)) as collection:
            yield collection
        return
    plain = isinstance(documents, BaseVectors) and args.encoder is None and not options
    made: Any = None if plain or "vectors" in args else load_encoder(args.encoder or "bm25", **options)
    with segmax.Collection.create(args.collection, encoder=made) as collection:
        try:
            yield collection
        except BaseException:
            if not len(collection):
                collection.close()
                shutil.rmtree(args.collection)
            raise


def _same_encoder(args: argparse.Namespace, options: dict[str, Any]) -> Any:
    """Return the encoder that was given for a collection that is there, which refuses another one than its own."""
    has_encoder = read_manifest(Path(args.collection).absolute()).encoder is not None
    if has_encoder and "vectors" in args:
        raise ConfigError(option="vectors", expected="left out, because the collection encodes texts", got="given")
    if not has_encoder and (options or args.encoder == "bm25"):
        option = min(options, default="encoder")
        raise ConfigError(option=option, expected="left out, because the collection has no encoder", got="given")
    return load_encoder(args.encoder or "bm25", **options) if options else args.encoder
