"""The command `segmax evaluate`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.checks import checked_choice
from segmax.base.display import json_text, printable
from segmax.base.errors import ConfigError, WriteError
from segmax.base.text_table import Column, tables
from segmax.cli.parser import Parser, add_query_encoder, read_number
from segmax.drawing.figures import check_plot
from segmax.evaluation import DEFAULT_METHODS, Evaluation, evaluate
from segmax.evaluation.significance import CORRECTIONS, TTest
from segmax.paper import METHODS, method_name

if TYPE_CHECKING:
    from rich.console import RenderableType

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Compare ways to search an index, on queries with judgments: MRR@10, nDCG@10 and
Recall@k by ir_measures, the share of exhaustive search's results that comes
back, mean, median and 99th percentile of latency (one thread, warm, the index
in memory), clusters visited and documents scored. Without judgments, all but
the measures of relevance.

A method is a name, alone or with options of its Python class:
asc, asc:mu=0.9, asc:mu=0.5,eta=0.9, anytime:mu=0.7, anytime:budget_ms=10,
best_first:eta=0.95, maxscore, exhaustive. Separate several with blanks or with
commas; t-tests compare the others with the first.
"""
_EXAMPLES = """\
examples:
  segmax index nfcorpus/ nf.segmax && segmax evaluate nf.segmax --data nfcorpus/
  segmax evaluate docs.segmax --queries queries.npz --qrels qrels.tsv -k 1000
  segmax evaluate docs.segmax --data dl19/ --runs runs --csv x.csv
  segmax evaluate docs.segmax --data scifact/ --methods exhaustive asc:mu=0.7
  segmax evaluate docs.segmax --queries queries.jsonl --plot methods.png --json
"""


def evaluate_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax evaluate`."""
    parser = Parser(
        prog="segmax evaluate",
        usage="segmax evaluate INDEX (--data FOLDER | --queries F [--qrels F]) [options]",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("index", metavar="INDEX", help="the directory of an index")
    what = parser.add_argument_group("queries and judgments")
    what.add_argument("--data", metavar="FOLDER", help="queries and judgments: a BEIR folder or an ir_datasets id")
    what.add_argument("--split", metavar="NAME", default="test", help="which judgments there (default: %(default)s)")
    what.add_argument("--queries", metavar="FILE", help="queries, as for segmax search")
    add_query_encoder(what)
    what.add_argument("--qrels", metavar="FILE", help="judgments, TREC's or BEIR's (default: none)")
    what.add_argument(
        "--min-rel",
        metavar="N",
        default="1",
        help="the lowest grade that is relevant for MRR and Recall (default: %(default)s, as in the paper)",
    )
    what.add_argument(
        "--drop-self",
        action=argparse.BooleanOptionalAction,
        help="leave out the document whose id is the query's (default: where most queries have the id of a document, "
        "as in ArguAna)",
    )
    how = parser.add_argument_group("what to compare")
    how.add_argument(
        "--methods",
        metavar="METHOD",
        nargs="+",
        help=f"of {', '.join(METHODS)}, with options (default: {' '.join(map(method_name, DEFAULT_METHODS))})",
    )
    how.add_argument("-k", metavar="N", default="10", help="results per query (default: %(default)s)")
    how.add_argument("--passes", metavar="N", default="3", help="how often to time them (default: %(default)s)")
    how.add_argument(
        "--correction",
        metavar="|".join(CORRECTIONS),
        default="holm",
        help="of t-tests for their number (default: %(default)s)",
    )
    out = parser.add_argument_group("output")
    out.add_argument("--json", action="store_true", help="print everything as JSON (default: as tables)")
    out.add_argument("--csv", metavar="FILE", help="also write a line per method, as CSV")
    out.add_argument("--runs", metavar="FOLDER", help="also write a TREC run per method")
    out.add_argument("--plot", metavar="FILE", help="also draw measures against latency (.png, .svg or .pdf)")
    out.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show a progress bar (default: on a terminal)"
    )
    return parser


def run_evaluate(args: argparse.Namespace) -> None:
    """Run `segmax evaluate`."""
    if (args.data is None) == (args.queries is None):
        given = "neither" if args.data is None else "both"
        raise ConfigError(expected="--data FOLDER, or --queries FILE and perhaps --qrels FILE", got=given)
    if args.plot is not None:
        check_plot(args.plot)
    checked_choice("--correction", args.correction, CORRECTIONS)
    if args.csv is not None and not Path(args.csv).absolute().parent.is_dir():
        raise WriteError(
            where="--csv", expected="an existing directory", got=f"'{Path(args.csv).parent}'", hint="create it first"
        )
    found = evaluate(
        args.index,
        args.queries,
        args.qrels,
        data=args.data,
        split=args.split,
        encoder=args.encoder,
        methods=_methods(args.methods) if args.methods else DEFAULT_METHODS,
        k=read_number(int, "-k", args.k),
        min_rel=read_number(int, "--min-rel", args.min_rel),
        drop_self=args.drop_self,
        passes=read_number(int, "--passes", args.passes),
        runs=args.runs,
        progress=args.progress,
    )
    if args.csv is not None:
        found.to_csv(args.csv)
    if args.plot is not None:
        found.plot(args.plot)
    if args.json:
        sys.stdout.write(json_text(found.to_dict(args.correction), indent=1) + "\n")
        return
    _show(found, args.correction)


def _show(found: Evaluation, correction: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(found)
    if found.num_queries > 1 and len(found) > 1:
        for part in _tests(found, correction, console.width):
            console.print(part)


def _methods(texts: list[str]) -> list[str]:
    """Return the names of methods; a comma before a method is between two of them, others are between options."""
    between = re.compile(rf",(?=\s*(?:{'|'.join(METHODS)})\b)")
    return [name.strip() for text in texts for name in between.split(text) if name.strip()]


def _tests(found: Evaluation, correction: str, width: int) -> Iterator[RenderableType]:
    """Yield a table of t-tests against the first method, for what differs from it."""
    from rich.text import Text

    baseline = found.methods[0].name
    tests = found.t_tests(baseline=baseline, correction=correction)
    differing = [test for test in tests if found.differs(test.method, baseline, test.measure)]
    if not differing:
        yield Text(f"\nNo t-tests: for every query, all methods have the measures of {printable(baseline)}.")
        return
    yield Text(f"\npaired t-tests against {printable(baseline)}, correction: {correction}", style="bold")
    yield from tables([_test_columns(differing)], width, ["bold" if t.is_significant() else "" for t in differing])
    same = [method.name for method in found.methods[1:] if method.name not in {test.method for test in differing}]
    if same:
        yield Text(f"the same as {printable(baseline)} for every query: {printable(', '.join(same))}", style="dim")


def _test_columns(tests: Sequence[TTest]) -> list[Column]:
    figures = {
        "difference": [f"{test.difference:+.4f}" for test in tests],
        "t": [f"{test.t:.3f}" for test in tests],
        "p": [f"{test.p_value:.4g}" for test in tests],
        "corrected p": [f"{test.corrected_p:.4g}" for test in tests],
    }
    return [
        Column(heading="method", cells=[test.method for test in tests], words=True),
        Column(heading="measure", cells=[test.measure for test in tests], words=True),
        *(Column(heading=heading, cells=cells) for heading, cells in figures.items()),
    ]
