"""`segmax evaluate`: compare search methods on queries, with or without judgments."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.display import json_text, printable
from segmax.base.errors import ConfigError, WriteError
from segmax.base.text_table import Column, tables
from segmax.cli.opening import opened
from segmax.cli.parser import (
    CommandParser,
    add_index,
    add_max_shards,
    add_progress,
    add_query_encoder,
    add_results,
    shows_progress,
    whole_number,
)
from segmax.drawing.figures import check_plot
from segmax.evaluation import DEFAULT_METHODS, Evaluation, evaluate
from segmax.evaluation.significance import CORRECTIONS, TTest
from segmax.paper import METHODS, method_name

if TYPE_CHECKING:
    from rich.console import RenderableType

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Compare search methods on an index, with queries and relevance judgments. Prints
MRR@10, nDCG@10 and Recall@k (by ir_measures), the share of exact results that
each method finds, mean, median and 99th percentile of latency (one thread, the
index in memory), clusters visited and documents scored. Without judgments, it
leaves out the relevance measures.

A method is a name, alone or with options of its Python class: asc,
asc:eta=0.95, asc:mu=0.7,eta=0.9, asc:budget_ms=0.5, exhaustive, and the paper's
sequential:mu=0.9 (ASC step by step), anytime:mu=0.9 and maxscore.
Separate methods with spaces or commas. t-tests compare each with the first.

INDEX may be ray://PATH, for a sharded index on a Ray cluster, or the address of
an index at a service, as for segmax search. Latency includes other machines
then, if a query waits for them.
"""
_EXAMPLES = """\
  segmax index nfcorpus/ nf.segmax && segmax evaluate nf.segmax --data nfcorpus/
  segmax evaluate docs.segmax --queries queries.npz --qrels qrels.tsv -k 1000
  segmax evaluate docs.segmax --data dl19/ --runs runs --csv dl19.csv
  segmax evaluate docs.segmax --data scifact/ --methods exhaustive asc:eta=0.9
  segmax evaluate docs.segmax --queries queries.jsonl --plot methods.png --json
  segmax evaluate ray://docs.sharded --queries queries.npz --max-shards 4
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax evaluate`."""
    made = CommandParser(
        "evaluate",
        _HELP,
        _EXAMPLES,
        usage="segmax evaluate [options] INDEX --data DATA\n"
        "       segmax evaluate [options] INDEX --queries FILE [--qrels FILE]",
    )
    add_index(made)
    _add_data_options(made.add_argument_group("queries and judgments"))
    _add_method_options(made.add_argument_group("methods"))
    _add_output_options(made.add_argument_group("output"))
    return made


def _add_data_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--data", metavar="DATA", help="queries and judgments: a BEIR folder or an ir_datasets id")
    group.add_argument(
        "--split", metavar="NAME", default="test", help="which judgments of --data to use (default: %(default)s)"
    )
    group.add_argument("--queries", metavar="FILE", help="a file of queries, as for segmax search")
    group.add_argument(
        "--qrels", metavar="FILE", help="a file of judgments, in TREC's or BEIR's format (default: none)"
    )
    add_query_encoder(group)
    group.add_argument(
        "--min-rel",
        metavar="N",
        type=whole_number,
        default=1,
        help="lowest grade that counts as relevant for MRR and Recall (default: %(default)s)",
    )
    group.add_argument(
        "--drop-self",
        action=argparse.BooleanOptionalAction,
        help="leave out the document that has the id of the query, as ArguAna requires (default: if most queries have "
        "the id of a document)",
    )


def _add_method_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--methods",
        metavar="METHOD",
        nargs="+",
        help=f"{', '.join(METHODS)}, each with options if you like "
        f"(default: {' '.join(map(method_name, DEFAULT_METHODS))})",
    )
    add_results(group)
    add_max_shards(group)
    group.add_argument(
        "--passes",
        metavar="N",
        type=whole_number,
        default=3,
        help="how many times to run the queries for latency (default: %(default)s)",
    )
    group.add_argument(
        "--correction",
        metavar="|".join(CORRECTIONS),
        choices=CORRECTIONS,
        default="holm",
        help="correction of t-tests for multiple comparisons (default: %(default)s)",
    )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--json", action="store_true", help="print JSON instead of tables")
    group.add_argument("--csv", metavar="FILE", help="also write a CSV file with a row per method")
    group.add_argument("--runs", metavar="FOLDER", help="also write a TREC run per method")
    group.add_argument("--plot", metavar="FILE", help="also plot measures against latency (.png, .svg or .pdf)")
    add_progress(group)


def run(args: argparse.Namespace) -> None:
    """Run `segmax evaluate`."""
    _check(args)
    with opened(args.index, args.encoder, preload=True) as index:
        found = evaluate(
            index,
            args.queries,
            args.qrels,
            data=args.data,
            split=args.split,
            methods=_methods(args.methods) if args.methods else DEFAULT_METHODS,
            k=args.k,
            min_rel=args.min_rel,
            drop_self=args.drop_self,
            passes=args.passes,
            max_shards=args.max_shards,
            runs=args.runs,
            progress=shows_progress(args.progress),
        )
    if args.csv is not None:
        found.to_csv(args.csv)
    if args.plot is not None:
        found.plot(args.plot)
    if args.json:
        sys.stdout.write(json_text(found.to_dict(args.correction), indent=1) + "\n")
        return
    _show(found, args.correction)


def _check(args: argparse.Namespace) -> None:
    """Raise before anything is measured."""
    if (args.data is None) == (args.queries is None):
        given = "neither" if args.data is None else "both"
        raise ConfigError(expected="--data DATA, or --queries FILE with or without --qrels FILE", got=given)
    if args.plot is not None:
        check_plot(args.plot)
    if args.csv is not None and not Path(args.csv).absolute().parent.is_dir():
        raise WriteError(
            where="--csv", expected="an existing directory", got=f"'{Path(args.csv).parent}'", hint="create it first"
        )


def _show(found: Evaluation, correction: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(found)
    if found.num_queries > 1 and len(found) > 1:
        for part in _tests(found, correction, console.width):
            console.print(part)


def _methods(texts: list[str]) -> list[str]:
    """Return the names of methods. A comma before the name of a method separates methods, others separate options."""
    between = re.compile(rf",(?=\s*(?:{'|'.join(METHODS)})\b)")
    return [name.strip() for text in texts for name in between.split(text) if name.strip()]


def _tests(found: Evaluation, correction: str, width: int) -> Iterator[RenderableType]:
    """Yield a table of t-tests of the methods that differ from the first."""
    from rich.text import Text

    baseline = found.methods[0].name
    tests = found.t_tests(baseline=baseline, correction=correction)
    differing = [test for test in tests if found.differs(test.method, baseline, test.measure)]
    if not differing:
        yield Text(f"\nNo t-tests: all methods give the same measures as {printable(baseline)} for every query.")
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
