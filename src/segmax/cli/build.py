"""`segmax build`: from files of vectors to an index."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import segmax
from segmax.base.checks import shown
from segmax.base.errors import ConfigError
from segmax.building.given_metadata import MatchedMetadata
from segmax.cli.build_arguments import BuildArguments, read_build_arguments, summary
from segmax.cli.encoder_options import add_model_options, encoder_options
from segmax.cli.options import CLUSTERINGS, add_build_options
from segmax.cli.parser import CommandParser, add_inputs_and_output, if_interrupted, inputs_and_output
from segmax.cli.show import say

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Build an index from files of sparse vectors. IN is an .npz file that
scipy.sparse.save_npz wrote, with a row per document and a column per term, or
any other format that segmax convert reads. Several files are indexed one after
the other. OUT is the directory of the index.
"""
_EXAMPLES = """\
  segmax build docs.npz docs.segmax
  segmax build part-0.npz part-1.npz docs.segmax --ids ids.txt --terms vocab.txt
  segmax build docs.npz docs.segmax --dense embeddings.npy --num-clusters 4096 \\
      --pruning mass-share=0.9 --pruning max-postings=100000 --memory-limit 8GiB
  segmax build docs.npz docs.segmax --encoder docs.bm25 --texts corpus.jsonl
  segmax build docs.npz docs.segmax --metadata metadata.jsonl
  segmax build --bits 16 --print-config > build.toml
  segmax build docs.npz docs.segmax --config build.toml --overwrite
"""
NAMES = {"path": "OUT", "vectors": "IN"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax build`."""
    made = CommandParser(
        "build",
        _HELP,
        _EXAMPLES,
        usage="segmax build [options] IN [IN ...] OUT",
        argument_default=argparse.SUPPRESS,
    )
    add_inputs_and_output(made, "files of vectors", "the index to write")
    add_build_options(made)
    add_model_options(made)
    files = made.add_argument_group("configuration files")
    files.add_argument(
        "--config",
        metavar="FILE.toml",
        help="read options from a file, by the same names: num_clusters = 512, pruning = ['top-terms=64']. Options on "
        "the command line take precedence. Paths are relative to the working directory",
    )
    files.add_argument(
        "--print-config", action="store_true", help="print the options in effect as such a file, and exit"
    )
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax build`."""
    asked = read_build_arguments(args, CLUSTERINGS)
    if "print_config" in args:
        sys.stdout.write(asked.to_toml())
        return
    inputs, output = inputs_and_output(args, "build")
    start = time.perf_counter()
    with if_interrupted("no part of an index was written"):
        index = _built(inputs, output, asked, encoder_options(args))
    with index:
        say(*summary(index, output, time.perf_counter() - start))


def _metadata(path: str) -> MatchedMetadata:
    """Open a file of metadata; an id in it has to be that of its document."""
    from segmax.io.records import read_json_lines

    return MatchedMetadata((record for _, record in read_json_lines(Path(path))), path)


def _built(inputs: list[str], output: str, asked: BuildArguments, of_encoder: Mapping[str, Any]) -> segmax.Index:
    name, texts = asked.options.get("encoder"), asked.options.get("texts")
    if of_encoder and name is None:
        option, value = next(iter(of_encoder.items()))
        raise ConfigError(
            option=option,
            expected="left out without a model",
            got=shown(value),
            hint="name the model with {encoder}",
        )
    if name == "bm25":
        raise ConfigError(
            option="encoder",
            expected="the BM25 that made the vectors, a folder such as docs.bm25 that segmax encode wrote",
            got="'bm25'",
        )
    arguments = asked.keywords()
    if "metadata" in asked.options:
        arguments["metadata"] = _metadata(asked.options["metadata"])
    if name is None and texts is None:
        return segmax.build(inputs, path=output, **arguments)
    from segmax.encoders import load_encoder
    from segmax.text.pipeline import from_vectors

    encoder = None if name is None else load_encoder(name, **of_encoder)
    return from_vectors(inputs, encoder=encoder, texts=texts, path=output, **arguments)
