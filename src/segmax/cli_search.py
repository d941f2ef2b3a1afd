"""The commands that take queries: `segmax search` and `segmax tune`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import segmax
from segmax.cli_parser import Parser, add_query_encoder, read_number
from segmax.cli_show import as_json, as_run, show, typed_lines
from segmax.errors import ConfigError
from segmax.methods import METHODS
from segmax.params import SearchParams
from segmax.questions import read_questions

#: Options of the methods: how they are read, their placeholder, and what they do. `ASC` documents them.
_OPTIONS: Mapping[str, tuple[type, str, str]] = {
    "mu": (float, "X", "prune clusters by θ/μ; 1 is exact"),
    "eta": (float, "X", "prune documents (asc) or blocks (best_first) by θ/η; 1 is exact"),
    "query_mass": (float, "X", "use the fewest heaviest terms that hold this share of a query's mass"),
    "max_terms": (int, "N", "use so many of a query's heaviest terms only"),
    "dropped": (str, "ignored|bounded", "leave the other terms out, or let them count in bounds and scores"),
    "max_blocks": (int, "N", "look at so many blocks only, the best ones (best_first only)"),
    "max_clusters": (int, "N", "visit at most so many clusters"),
    "budget_ms": (float, "MS", "stop after so many milliseconds per query"),
}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


# --- search ----------------------------------------------------------------------------------------------------------

# Lines of at most 80 characters: argparse shows these texts as they are.
_SEARCH_HELP = """\
Search an index. For a file of queries it prints a TREC run: query, Q0,
document, rank, score, name. For -q TEXT, or for what you type where no queries
are given, it shows the documents, with the words that were asked for marked.
Exact, unless a target of recall or an option says otherwise.

QUERIES is a file of texts (BEIR's queries.jsonl or its folder, TREC topics,
columns of id and text), which the index encodes, or of vectors: an .npz file,
lines of JSON, or lines of words repeated as often as they weigh.
"""
_SEARCH_EXAMPLES = """\
examples:
  segmax search docs.segmax
  segmax search docs.segmax -q "noise of travelling wave tubes" -k 3
  segmax search docs.segmax queries.jsonl -k 1000 > bm25.run
  segmax search docs.segmax queries.npz --target-recall 0.99 --json
  segmax search docs.segmax queries.npz --method best_first --eta 0.95
"""


def search_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax search`."""
    parser = Parser(
        prog="segmax search",
        description=_SEARCH_HELP,
        epilog=_SEARCH_EXAMPLES,
    )
    parser.add_argument("index", metavar="INDEX", help="the directory of an index")
    parser.add_argument("queries", metavar="QUERIES", nargs="?", help="a file of queries (default: those you type)")
    parser.add_argument("-q", "--query", metavar="TEXT", help="search for this text")
    _add_shared(parser)
    parser.add_argument("--json", action="store_true", help="print a line of JSON per query")
    parser.add_argument("--tag", metavar="NAME", default="segmax", help="the name in a run (default: %(default)s)")
    parser.add_argument(
        "--target-recall",
        metavar="X",
        help="find this share of the exact results, by what the index was calibrated for (default: search is exact)",
    )
    group = parser.add_argument_group("how to search, instead of a target")
    group.add_argument("--method", metavar="|".join(METHODS), help="default: asc")
    for name, (_, metavar, text) in _OPTIONS.items():
        group.add_argument(_flag(name), dest=name, metavar=metavar, help=text)
    return parser


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-k", metavar="N", default="10", help="results per query (default: %(default)s)")
    parser.add_argument("--threads", metavar="N", help="threads to use (default: one per core)")
    add_query_encoder(parser)


def search(args: argparse.Namespace) -> None:
    """Run `segmax search`."""
    if args.query is not None and args.queries is not None:
        msg = f"expected a file of queries or -q, got both: '{args.queries}' and {args.query!r}"
        raise ConfigError(msg)
    how: dict[str, Any] = {
        "k": read_number(int, "-k", args.k),
        "params": _params(args),
        "target_recall": (
            None if args.target_recall is None else read_number(float, "--target-recall", args.target_recall)
        ),
    }
    threads = None if args.threads is None else read_number(int, "--threads", args.threads)
    with segmax.open(args.index, encoder=args.encoder) as index:
        if args.queries is not None:
            asked = read_questions(args.queries, index)
            found = index.search_batch(asked.vectors, **how, threads=threads)
            for name, hits in zip(asked.ids, found, strict=True):
                sys.stdout.write(as_json(hits, name) if args.json else as_run(hits, name, args.tag))
        elif args.query is not None:
            _answer(index, args.query, how, args.json)
        else:
            for text in typed_lines("query> "):
                _answer(index, text, how, args.json)


def _answer(index: segmax.Index, text: str, how: dict[str, Any], json_wanted: bool) -> None:
    hits = index.search(text, **how)
    if json_wanted:
        sys.stdout.write(as_json(hits, text))
    else:
        show(hits, text, index.encoder)


def _params(args: argparse.Namespace) -> SearchParams | None:
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.method is None and not given:
        return None
    if args.target_recall is not None:
        flags = [_flag(name) for name in given] or ["--method"]
        msg = f"expected params or target_recall, got both: {' and '.join(flags)} beside --target-recall"
        raise ConfigError(msg)
    method = args.method or "asc"
    if method not in METHODS:
        msg = f"--method: expected {' or '.join(map(repr, METHODS))}, got {method!r}"
        raise ConfigError(msg)
    for name in given:
        takers = [known for known, kind in METHODS.items() if name in kind.options()]
        if method not in takers:
            msg = f"{_flag(name)} applies to {' and '.join(takers)}, not to {method}"
            raise ConfigError(msg)
    values = {name: read_number(_OPTIONS[name][0], _flag(name), text) for name, text in given.items()}
    if method == "asc" and "eta" in given and "mu" not in given:
        msg = "--eta without --mu: asc expects mu <= eta; add --mu, or --method best_first, which has eta alone"
        raise ConfigError(msg)
    return METHODS[method](**values)


# --- tune ------------------------------------------------------------------------------------------------------------

_TUNE_HELP = """\
Measure what approximate settings keep and cost on queries of yours, and store
that with the index: searches with --target-recall then rely on it. Without this
they rely on queries that the build made of documents.
"""
_TUNE_EXAMPLES = """\
examples:
  segmax tune docs.segmax queries.npz
  segmax tune docs.segmax queries.npz -k 1000 --target-recall 0.95 --json
"""


def tune_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax tune`."""
    parser = Parser(
        prog="segmax tune",
        description=_TUNE_HELP,
        epilog=_TUNE_EXAMPLES,
    )
    parser.add_argument("index", metavar="INDEX", help="the directory of an index")
    parser.add_argument("queries", metavar="QUERIES", help="a file of queries, as for segmax search")
    _add_shared(parser)
    parser.add_argument(
        "--target-recall", metavar="X", default="0.99", help="what to report about (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    return parser


def tune(args: argparse.Namespace) -> None:
    """Run `segmax tune`."""
    target = read_number(float, "--target-recall", args.target_recall)
    k = read_number(int, "-k", args.k)
    threads = None if args.threads is None else read_number(int, "--threads", args.threads)
    with segmax.open(args.index, encoder=args.encoder) as index:
        told = index.tune(read_questions(args.queries, index).vectors, k, target, threads=threads)
        if args.json:
            measured = next(m for m in index.calibration.measured if m.k == k)
            sys.stdout.write(json.dumps(measured.to_dict(), indent=1) + "\n")
        else:
            sys.stdout.write(f"{told}\n")
