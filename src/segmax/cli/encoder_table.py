"""`segmax encoder table`: a table that encodes queries without the model."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from segmax.base.display import counted
from segmax.base.errors import ConfigError
from segmax.cli.formats import add_from
from segmax.cli.parser import CommandParser, add_progress, shows_progress, whole_number
from segmax.cli.reading import read_texts
from segmax.cli.show import say
from segmax.io import TEXT_FORMATS

if TYPE_CHECKING:
    from segmax.text import TableReport

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Make a table of weights by token for a model that encodes documents. Queries are
then a tokenizer and a lookup: no model runs. OUT is a folder to pass as
--encoder to search the documents of that model.

The weight of a token is its idf in the texts. With --queries and --qrels
weights are learned from judged (or clicked) documents; with --queries alone,
from the weights that the model gives to the tokens of queries. Some queries are
held out: if the learned table is worse on these, the idf table is written.
"""
_EXAMPLES = """\
  segmax encoder table naver/splade-v3 my-table --texts corpus.jsonl
  segmax encoder table naver/splade-v3 my-table --texts beir/scifact \\
      --queries beir/scifact --qrels beir/scifact --index docs.segmax
  segmax search docs.segmax microwave noise --encoder my-table
"""
NAMES = {"path": "OUT", "model": "MODEL"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax encoder table`."""
    made = CommandParser("encoder table", _HELP, _EXAMPLES, usage="segmax encoder table [options] MODEL OUT")
    made.add_argument("model", metavar="MODEL", help="the encoder of documents: a folder or a name on the hub")
    made.add_argument("path", metavar="OUT", help="the folder to write")
    made.add_argument(
        "--texts", metavar="IN", help="texts to count tokens in: a file, a BEIR folder or an ir_datasets id"
    )
    add_from(made, TEXT_FORMATS)
    made.add_argument("--queries", metavar="FILE", help="learn from these queries, as segmax search takes them")
    made.add_argument("--qrels", metavar="FILE", help="judgments of documents: a TREC or BEIR file, or a BEIR folder")
    made.add_argument(
        "--index",
        metavar="INDEX",
        help="an index of documents that MODEL encoded, to learn from (default: encode the texts)",
    )
    length, seed = (
        "cut queries after N tokens (default: %(default)s)",
        "random seed of the split (default: %(default)s)",
    )
    made.add_argument("--max-length", metavar="N", type=whole_number, default=512, help=length)
    made.add_argument("--seed", metavar="N", type=whole_number, default=0, help=seed)
    made.add_argument("--overwrite", action="store_true", help="replace the table that is at OUT")
    add_progress(made)
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax encoder table`."""
    from segmax.search.opening import open_index
    from segmax.text import make_query_table

    if args.texts is None:
        raise ConfigError(option="texts", expected="given, to count tokens in", got="nothing")
    start = time.perf_counter()
    report = make_query_table(
        args.model,
        args.path,
        texts=read_texts(args.texts, args.format),
        queries=args.queries,
        qrels=args.qrels,
        index=None if args.index is None else open_index(args.index),
        max_length=args.max_length,
        seed=args.seed,
        overwrite=args.overwrite,
        progress=shows_progress(args.progress),
    )
    say(*_summary(report, time.perf_counter() - start))


def _summary(report: TableReport, seconds: float) -> list[str]:
    lines = [
        f"{report.path}: {counted(report.num_terms, 'token')}, {_SOURCES[report.kept]} "
        f"{counted(report.num_texts, 'text')}, {seconds:.1f} s"
    ]
    if report.learned is not None:
        choice = "wrote the idf table" if report.kept == "idf" else "wrote the learned table"
        lines.append(
            f"{report.measure} on {counted(report.num_held_out, 'held-out query', 'held-out queries')} of "
            f"{report.num_queries:,}: idf {report.idf:.4f}, learned {report.learned:.4f}; {choice}"
        )
    return lines


_SOURCES = {
    "idf": "weighted by idf in",
    "teacher": "learned from the model's queries, and from idf in",
    "judged": "learned from judged documents, and from idf in",
}
