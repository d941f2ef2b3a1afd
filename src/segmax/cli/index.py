"""`segmax index`: from texts, or vectors, to an index in one go."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

import segmax
from segmax.base.checks import shown
from segmax.base.errors import ConfigError
from segmax.base.memory import MemoryLimit
from segmax.building.resources import scratch_folder
from segmax.cli.build_arguments import BuildArguments, read_build_arguments, summary
from segmax.cli.encoder_options import add_encoder_options, add_title_option, encoder_options
from segmax.cli.formats import add_from
from segmax.cli.log_lines import log_lines
from segmax.cli.options import CLUSTERINGS, OPTIONS, add_build_options
from segmax.cli.parser import CommandParser, add_inputs_and_output, if_interrupted, inputs_and_output
from segmax.cli.reading import named_fields, note_texts
from segmax.cli.show import say
from segmax.cli.spelling import Spelling
from segmax.encoders import load_encoder
from segmax.io import TEXT_FORMATS, VECTOR_FORMATS, open_documents
from segmax.text.fields import chosen_fields
from segmax.text.pipeline import from_texts
from segmax.vectors.documents import POOLINGS, BaseVectors

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Build an index that is ready to search. IN is one or more files or folders
of texts or of vectors, recognized by their content, an ir_datasets id, or "-"
for standard input. Texts are encoded first, and stored with the index. OUT is
the directory of the index.

texts:
  nfcorpus/        a BEIR folder (corpus.jsonl)
  docs.jsonl       {"id": ..., "title": ..., "text": ...}, a document per line;
                   also a folder of such files
  docs.json        an array of such objects, or of strings
  docs.csv         columns id, title, text under a header; also docs.tsv
  docs.tsv         without a header: id and text, or id, title and text
  docs.txt         a text per line
  notes/           a folder of .txt and .md files, a document each
  beir/scifact     an ir_datasets id
Files may be compressed (.gz, .zst, .xz). The text may also be called contents,
body or passage, the id _id, doc_id or docno. Other columns are ignored, unless
--metadata keeps them, to filter searches by. Without ids, documents are
numbered from 0. Standard input has no file name, so pass --from csv-text or
--from tsv-text if lines of text could be either.

vectors: all formats that segmax convert reads
"""
_EXAMPLES = """\
  segmax index corpus.jsonl docs.segmax
  segmax search docs.segmax -q "noise of travelling wave tubes"
  segmax index corpus.jsonl docs.segmax --overwrite --num-clusters 512
  segmax index nfcorpus/ docs.segmax --encoder naver/splade-v3 --min-weight 0.03
  segmax index 2023.csv 2024.csv docs.segmax --metadata year:int,lang
  zcat dump.jsonl.gz | grep -v draft | segmax index - docs.segmax
  cut -d, -f2 table.csv | segmax index - docs.segmax --from csv-text
  segmax index beir/scifact docs.segmax --k1 0.9 --b 0.4
  segmax index nfcorpus/ docs.segmax --encoder my-model --clustering max

With a large model, use two commands. If the first is interrupted, run it again
to resume it:
  segmax encode corpus.jsonl docs.npz --encoder my-model
  segmax build docs.npz docs.segmax --encoder my-model --texts corpus.jsonl
With BM25, pass the docs.bm25 that encode wrote: --encoder docs.bm25.
"""
NAMES = {"path": "OUT", "texts": "IN", "vectors": "IN", "keep_texts": "--no-texts", "title": "--no-title"}
_FORMATS = (*TEXT_FORMATS, *VECTOR_FORMATS)
_CLUSTERINGS = (*CLUSTERINGS, *POOLINGS)
#: Options of a build that `segmax index` replaces by its own, or finds in the input.
_REPLACED = frozenset({"ids", "terms", "encoder", "texts"})
#: Texts can also be clustered by what their encoder pools.
_CLUSTERING = dataclasses.replace(
    OPTIONS["clustering"],
    metavar="|".join(_CLUSTERINGS),
    help="what documents are clustered by: their sparse vectors, the vectors of --dense, the labels of --labels, or "
    "the token embeddings of a model, pooled",
)
_METADATA = dataclasses.replace(
    OPTIONS["metadata"],
    metavar="FIELD,...|all",
    help="keep these fields or columns of the documents, or all, to filter searches by: segmax search --where. "
    "FIELD:TYPE reads a column of CSV or TSV as int, float or bool",
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax index`."""
    made = CommandParser(
        "index",
        _HELP,
        _EXAMPLES,
        usage="segmax index [options] IN [IN ...] OUT",
        argument_default=argparse.SUPPRESS,
    )
    add_inputs_and_output(made, "texts or vectors", "the index to write")
    add_from(made, _FORMATS)
    made.add_argument("--no-texts", action="store_true", help="do not store the texts with the index")
    add_title_option(made)
    add_encoder_options(made)
    add_build_options(made, leave_out=_REPLACED, instead={"clustering": _CLUSTERING, "metadata": _METADATA})
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax index`."""
    inputs, output = inputs_and_output(args, "index")
    asked = read_build_arguments(args, _CLUSTERINGS)
    start = time.perf_counter()
    with if_interrupted("no part of an index was written"), log_lines(Spelling(parser(), {}), "segmax.encoders"):
        index = _built(inputs, output, asked, args)
    with index:
        say(*summary(index, output, time.perf_counter() - start))


def _built(inputs: list[str], output: str, asked: BuildArguments, args: argparse.Namespace) -> segmax.Index:
    folder = scratch_folder(asked.options.get("scratch"), output)
    limit = MemoryLimit(asked.options.get("memory_limit"))
    documents = open_documents(inputs, format=getattr(args, "format", None), memory_limit=limit, scratch=folder)
    if isinstance(documents, BaseVectors):
        _check_no_text_options(args, asked, inputs[0])
        return segmax.build(documents, path=output, **asked.keywords())
    fields = named_fields(getattr(args, "metadata", None))
    note_texts(documents, chosen_fields(fields))
    return from_texts(
        documents,
        encoder=load_encoder(args.encoder, **encoder_options(args), **asked.pooling),
        path=output,
        keep_texts="no_texts" not in args,
        metadata=fields,
        title="no_title" not in args,
        **asked.keywords(),
    )


def _check_no_text_options(args: argparse.Namespace, asked: BuildArguments, source: str) -> None:
    flags: dict[str, Any] = {name: True for name in ("no_texts", "no_title") if name in args}
    flags |= {"metadata": args.metadata} if "metadata" in args else {}
    given = {**flags, **encoder_options(args)}
    given |= {"encoder": args.encoder} if args.encoder != "bm25" else {}
    given |= {"clustering": asked.kind} if asked.pooling else {}
    if given:
        option = min(given)
        raise ConfigError(
            option=option,
            expected=f"left out, because it applies to texts and '{source}' holds vectors",
            got=shown(given[option]),
        )
