"""`segmax convert`: vectors from one file format to another."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from segmax.base.display import counted
from segmax.base.errors import InputError
from segmax.cli.formats import add_from, add_scale, add_to
from segmax.cli.parser import (
    CommandParser,
    add_inputs_and_output,
    add_progress,
    inputs_and_output,
    shows_progress,
)
from segmax.cli.show import say
from segmax.io import VECTOR_FORMATS, open_vectors, write_vectors

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Convert sparse vectors from one file format to another. The format of IN is
recognized by its content, that of OUT by its name. Document ids and terms are
kept. Several INs of one format are joined. Files are streamed, so they may be
larger than memory.

formats:
  npz            .npz       scipy.sparse.save_npz, with ids and terms in it
  jsonl          .jsonl     Anserini, Pyserini: {"id": ..., "vector": {...}};
                            also .jsonl.gz, .jsonl.zst, .jsonl.xz, and folders
  seismic-jsonl             the same for Seismic, where ids are whole numbers
  ciff           .ciff      Common Index File Format: PISA, Lucene and others
  csr            .csr       BigANN, also .csr.gz and so on; ids and terms go
                            into text files beside it
  seismic        .bin       Seismic's binary vectors; ids and terms go into
                            files beside it, OUT.doc_ids.npy and
                            OUT.token_to_id_mapping.json
  parquet        .parquet   columns id, tokens, weights; also reads folders of
                            the datasets library
  tokens         .tsv       queries for PISA and Anserini: each word is repeated
                            as often as its weight says
"""
_EXAMPLES = """\
  segmax convert docs.jsonl.gz docs.npz
  segmax convert shards/ docs.ciff --scale /5x256
  segmax convert docs.ciff docs.jsonl.zst
  segmax convert base_full.csr docs.parquet
  segmax convert queries.jsonl queries.tsv --scale x100
"""
NAMES = {"path": "OUT", "vectors": "IN", "format=...": "--to FORMAT"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax convert`."""
    made = CommandParser("convert", _HELP, _EXAMPLES, usage="segmax convert [options] IN [IN ...] OUT")
    add_inputs_and_output(made, "files or folders of vectors", "the file to write")
    add_from(made, VECTOR_FORMATS)
    add_to(made)
    add_scale(made)
    made.add_argument(
        "--scratch", metavar="DIR", help="directory for temporary files (default: the one that holds OUT)"
    )
    made.add_argument("--overwrite", action="store_true", help="replace OUT")
    add_progress(made)
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax convert`."""
    inputs, output = inputs_and_output(args, "convert")
    target = Path(output)
    if any(target.exists() and Path(one).exists() and target.samefile(one) for one in inputs):
        raise InputError(expected="different files for IN and OUT", got=f"'{output}' as both")
    start = time.perf_counter()
    reader = open_vectors(inputs, args.format, scale=args.scale, scratch=args.scratch or target.absolute().parent)
    progress = shows_progress(args.progress)
    count = write_vectors(target, reader, args.to, overwrite=args.overwrite, progress=progress)
    seconds = time.perf_counter() - start
    terms = f", {counted(len(reader.terms), 'term')}" if reader.terms is not None else ""
    say(f"wrote '{output}' in {seconds:,.1f} s: {counted(count, 'vector')}{terms}, {target.stat().st_size:,} bytes")
