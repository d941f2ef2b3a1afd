"""The command `segmax index`: from texts, or vectors, to an index in one go."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import segmax
from segmax.base.errors import ConfigError, InputError
from segmax.building.resources import scratch_folder
from segmax.cli.build import add_options, build_arguments, pooling_of, read_options, summary
from segmax.cli.encode import (
    TEXT_FLAGS,
    add_encoder_options,
    add_from_option,
    add_title_option,
    checked_format,
    encoder_options,
    read_texts,
)
from segmax.cli.parser import Parser, in_words_of_the_shell
from segmax.cli.show import say
from segmax.encoders import load_encoder
from segmax.io import TEXT_FORMATS, VECTOR_FORMATS, format_of, open_vectors
from segmax.io.spooled import Spooled, is_stream
from segmax.io.streams import check_distinct
from segmax.text.pipeline import CLUSTERINGS, from_texts

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Make a searchable index in one go. IN is one or more files or folders of texts
or of vectors, recognized by their content, an ir_datasets id, or "-": standard
input. Texts are encoded on the way and kept with the index. OUT is a directory,
which must not exist.

texts:
  nfcorpus/        a BEIR folder (corpus.jsonl)
  docs.jsonl       {"id": ..., "title": ..., "text": ...}, a document per line;
                   also a folder of such files
  docs.json        an array of such objects, or of strings
  docs.csv         columns id, title, text under a header; docs.tsv as well
  docs.tsv         without a header: id and text, or id, title and text
  docs.txt         a text per line
  notes/           a folder of .txt and .md files, a document each
  beir/scifact     an ir_datasets id
Files may be compressed (.gz, .zst, .xz). The text may also be called contents,
body or passage, the id _id, doc_id or docno. Without ids, documents are
numbered from 0. Other columns are ignored. Standard input has no name to go by:
where lines of text could be CSV, --from csv-text or --from tsv-text decides.
"""
_EXAMPLES = """\
examples:
  segmax index corpus.jsonl docs.segmax
  segmax search docs.segmax -q "noise of travelling wave tubes"
  segmax index nfcorpus/ docs.segmax --encoder naver/splade-v3 --min-weight 0.03
  segmax index 2023.csv 2024.csv docs.segmax
  zcat dump.jsonl.gz | grep -v draft | segmax index - docs.segmax
  cut -d, -f2 table.csv | segmax index - docs.segmax --from csv-text
  segmax index beir/scifact docs.segmax --k1 0.9 --b 0.4
  segmax index nfcorpus/ docs.segmax --encoder my-model --clustering max
  segmax index docs.jsonl.gz docs.segmax --num-clusters 512

With a large model, two commands do the same, of which the first can be
interrupted and resumed:
  segmax encode corpus.jsonl docs.npz --encoder my-model
  segmax build docs.npz docs.segmax --encoder my-model --texts corpus.jsonl
With BM25, the second has --encoder docs.bm25, which the first wrote.
"""
_FORMATS = (*TEXT_FORMATS, *VECTOR_FORMATS)
_CLUSTERINGS = ("dense", "labels", *CLUSTERINGS)
#: What the input tells, or --encoder and --no-texts.
_KNOWN = frozenset({"ids", "terms", "encoder", "texts"})


def index_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax index`."""
    parser = Parser(
        prog="segmax index",
        usage="segmax index [options] IN [IN ...] OUT",
        description=_HELP,
        epilog=_EXAMPLES,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="IN ... OUT",
        help="texts or vectors (files, folders, an ir_datasets id, or - for standard input), then the index to write",
    )
    add_from_option(parser, _FORMATS)
    parser.add_argument("--no-texts", action="store_true", help="do not keep the texts (default: they are kept)")
    add_title_option(parser)
    add_encoder_options(parser)
    add_options(parser, leave_out=_KNOWN)
    return parser


def index(args: argparse.Namespace) -> None:
    """Run `segmax index`."""
    given = vars(args)
    sources, output = _paths(given.get("paths", []))
    options = {name: value for name, value in read_options(args, _CLUSTERINGS).items() if name not in _KNOWN}
    arguments = {name: value for name, value in build_arguments(options).items() if name not in _KNOWN}
    start = time.perf_counter()
    folder = scratch_folder(options.get("scratch"), output)
    spools = {source: Spooled(source, folder) for source in dict.fromkeys(sources) if is_stream(source)}
    inputs = [str(spools[source].path) if source in spools else source for source in sources]
    source = checked_format(given.get("source"), _FORMATS)
    words = [(f"'{spooled.path}'", spooled.name) for spooled in spools.values()]
    with in_words_of_the_shell([*words, *TEXT_FLAGS]):
        if _are_vectors(inputs, source):
            _check_no_text_options(args, sources[0], options)
            check_distinct([[Path(one)] for one in inputs])
            vectors = inputs if source is None else open_vectors(inputs, source, scratch=folder)
            built = segmax.build(vectors, path=output, **arguments)
        else:
            built = from_texts(
                read_texts(inputs, source),
                encoder=load_encoder(args.encoder, **encoder_options(args), **pooling_of(options)),
                path=output,
                keep_texts="no_texts" not in given,
                title="no_title" not in given,
                **arguments,
            )
    with built:
        say(*summary(built, output, time.perf_counter() - start))


def _paths(paths: list[str]) -> tuple[list[str], str]:
    if len(paths) < 2:
        raise ConfigError(
            expected="IN [IN ...] OUT", got=f"{' '.join(paths) or 'nothing'}", hint="see segmax index --help"
        )
    return paths[:-1], paths[-1]


def _are_vectors(inputs: list[str], source: str | None) -> bool:
    """Whether the inputs are vectors; texts may also be ir_datasets ids."""
    if source is not None:
        return source in VECTOR_FORMATS
    kinds = [Path(one).exists() and format_of(one) in VECTOR_FORMATS for one in inputs]
    if any(kinds) and not all(kinds):
        of_vectors, of_texts = inputs[kinds.index(True)], inputs[kinds.index(False)]
        raise InputError(
            expected="texts or vectors", got=f"both: '{of_vectors}' holds vectors, and '{of_texts}' does not"
        )
    return all(kinds)


def _check_no_text_options(args: argparse.Namespace, source: str, options: dict[str, Any]) -> None:
    about_texts = ({"no_texts", "no_title"} & vars(args).keys()) | encoder_options(args).keys()
    about_texts |= {"encoder"} if args.encoder != "bm25" else set()
    about_texts |= {f"clustering {name}" for name in pooling_of(options).get("pooling", ())}
    if about_texts:
        flag = "--" + sorted(about_texts)[0].replace("_", "-")
        msg = f"{flag} is about texts, and '{source}' holds vectors"
        raise ConfigError(msg)
