"""The command `segmax convert`: vectors from one format to another."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from segmax.base.display import counted
from segmax.base.errors import ConfigError, InputError
from segmax.cli.parser import Parser, in_words_of_the_shell
from segmax.cli.show import say
from segmax.io import SCALES, VECTOR_FORMATS, WRITTEN_FORMATS, open_vectors, write_vectors

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Convert sparse vectors from one format to another. What IN holds is recognized
by its content; what OUT becomes, by its name. Ids and terms are kept. Several
INs of one kind are written as one. Everything is streamed: memory does not grow
with the files. OUT appears once it is whole.

formats:
  npz            .npz       scipy.sparse.save_npz, with ids and terms in it
  jsonl          .jsonl     Anserini, Pyserini: {"id": ..., "vector": {...}};
                            also .jsonl.gz, .jsonl.zst, .jsonl.xz, and folders
  seismic-jsonl             the same for Seismic: ids have to be whole numbers,
                            and are written as such
  ciff           .ciff      Common Index File Format: PISA, Lucene and others
  csr            .csr       BigANN, also .csr.gz and so on; ids and terms go
                            into text files beside it
  seismic        .bin       Seismic's binary vectors; ids and terms go into
                            files beside it, OUT.doc_ids.npy and
                            OUT.token_to_id_mapping.json
  parquet        .parquet   columns id, tokens, weights; datasets folders, too,
                            are read
  tokens         .tsv       queries for PISA and Anserini: words repeated as
                            often as they weigh
"""
_EXAMPLES = """\
examples:
  segmax convert docs.jsonl.gz docs.npz
  segmax convert shards/ docs.ciff --scale /5x256
  segmax convert docs.ciff docs.jsonl.zst
  segmax convert base_full.csr docs.parquet
  segmax convert queries.jsonl queries.tsv --scale x100
"""
# What arguments of functions are on the command line.
_FLAGS = (
    ("say which with format=...", "say which with --to FORMAT"),
    ("say so with format='tokens'", "say so with --from tokens"),
    ("expected scale to be", "--scale: expected"),
    ("choose a scale that", "choose a --scale that"),
    ("overwrite=True", "--overwrite"),
    ("; choose another folder with scratch=...", "; make room, or choose another folder for OUT"),
)


def convert_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax convert`."""
    parser = Parser(
        prog="segmax convert",
        usage="segmax convert [options] IN [IN ...] OUT",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "paths", nargs="*", metavar="IN ... OUT", help="files or folders of vectors, then the file to write"
    )
    parser.add_argument(
        "--scale",
        metavar="NAME|FACTOR",
        help="what is done to weights (default: none). "
        + "; ".join(f"{name}: {text}" for name, (_, text) in SCALES.items()),
    )
    parser.add_argument("--from", dest="source", metavar="FORMAT", help="what IN is (default: as its content says)")
    parser.add_argument("--to", dest="target", metavar="FORMAT", help="what OUT becomes (default: as its name says)")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar (default: on a terminal)",
    )
    return parser


def convert(args: argparse.Namespace) -> None:
    """Run `segmax convert`."""
    if len(args.paths) < 2:
        raise ConfigError(
            expected="IN [IN ...] OUT", got=f"{' '.join(args.paths) or 'nothing'}", hint="see segmax convert --help"
        )
    *inputs, output = args.paths
    _check_format("--from", args.source, tuple(VECTOR_FORMATS))
    _check_format("--to", args.target, WRITTEN_FORMATS)
    target = Path(output)
    if any(target.exists() and Path(one).exists() and target.samefile(one) for one in inputs):
        raise InputError(expected="OUT to be another file than IN", got=f"'{output}' as both")
    start = time.perf_counter()
    with in_words_of_the_shell(_FLAGS):
        reader = open_vectors(inputs, args.source, scale=args.scale, scratch=target.absolute().parent)
        count = write_vectors(target, reader, args.target, overwrite=args.overwrite, progress=args.progress)
    seconds = time.perf_counter() - start
    terms = f", {counted(len(reader.terms), 'term')}" if reader.terms is not None else ""
    say(f"wrote '{output}' in {seconds:,.1f} s: {counted(count, 'vector')}{terms}, {target.stat().st_size:,} bytes")


def _check_format(flag: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise ConfigError(where=flag, expected=f"{', '.join(known)}", got=f"{value!r}")
