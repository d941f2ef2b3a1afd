"""The command `segmax index`: from texts, or vectors, to an index in one go."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import segmax
from segmax.cli_build import add_options, build_arguments, pooling_of, read_options, summary
from segmax.cli_encode import add_encoder_options, add_title_option, encoder_options
from segmax.cli_parser import Parser
from segmax.encoders import load_encoder
from segmax.errors import ConfigError
from segmax.io import VECTOR_FORMATS, format_of
from segmax.pipeline import CLUSTER_BY, build_from_texts

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Make a searchable index in one go. IN is a BEIR folder, a file of texts or of
vectors, recognised by its content, or an ir_datasets id; texts are encoded on
the way and kept with the index. OUT is a directory, made anew.
"""
_EXAMPLES = """\
examples:
  segmax index corpus.jsonl docs.segmax
  segmax search docs.segmax -q "noise of travelling wave tubes"
  segmax index nfcorpus/ docs.segmax --encoder naver/splade-v3 --min-weight 0.03
  segmax index beir/scifact docs.segmax --k1 0.9 --b 0.4
  segmax index nfcorpus/ docs.segmax --encoder my-model --cluster-by max
  segmax index docs.jsonl.gz docs.segmax --num-clusters 512

With a large model, two commands do the same, of which the first can be
interrupted and resumed:
  segmax encode corpus.jsonl docs.npz --encoder my-model
  segmax build docs.npz docs.segmax --encoder my-model --texts corpus.jsonl
With BM25, the second has --encoder docs.bm25, which the first wrote.
"""
#: What the input tells, or --encoder and --no-texts.
_KNOWN = frozenset({"ids", "terms", "encoder", "texts"})


def index_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax index`."""
    parser = Parser(
        prog="segmax index",
        usage="segmax index [options] IN OUT",
        description=_HELP,
        epilog=_EXAMPLES,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("input", metavar="IN", help="texts or vectors: a file, a folder, an ir_datasets id")
    parser.add_argument("output", metavar="OUT", help="the index to write")
    parser.add_argument("--no-texts", action="store_true", help="do not keep the texts (default: they are kept)")
    add_title_option(parser)
    add_encoder_options(parser)
    parser.add_argument(
        "--cluster-by",
        metavar="|".join(CLUSTER_BY),
        help="what clusters are made from: the vectors, or the embeddings of a model's tokens, pooled in the same pass "
        "(default: sparse)",
    )
    add_options(parser, leave_out=_KNOWN)
    return parser


def index(args: argparse.Namespace) -> None:
    """Run `segmax index`."""
    given = vars(args)
    options = {name: value for name, value in read_options(args).items() if name not in _KNOWN}
    arguments = {name: value for name, value in build_arguments(options).items() if name not in _KNOWN}
    start = time.perf_counter()
    if Path(args.input).exists() and format_of(args.input) in VECTOR_FORMATS:
        about_texts = ({"no_texts", "no_title", "cluster_by"} & given.keys()) | encoder_options(args).keys()
        about_texts |= {"encoder"} if args.encoder != "bm25" else set()
        if about_texts:
            flag = "--" + sorted(about_texts)[0].replace("_", "-")
            msg = f"{flag} is about texts, and '{args.input}' holds vectors"
            raise ConfigError(msg)
        built = segmax.build(args.input, path=args.output, **arguments)
    else:
        built = build_from_texts(
            args.input,
            encoder=load_encoder(args.encoder, **encoder_options(args), **pooling_of(options)),
            path=args.output,
            keep_texts="no_texts" not in given,
            title="no_title" not in given,
            **arguments,
        )
    with built:
        sys.stdout.write(summary(built, args.output, time.perf_counter() - start))
