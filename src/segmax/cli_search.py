"""The commands that take queries, `segmax search` and `segmax tune`, and what all commands share."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import scipy.sparse as sp

import segmax
from segmax.errors import ConfigError, InputError
from segmax.inputs import NpzFile
from segmax.params import SearchParams

_METHODS: Mapping[str, type[SearchParams]] = {
    "asc": segmax.ASC,
    "best_first": segmax.BestFirst,
    "anytime": segmax.Anytime,
    "maxscore": segmax.MaxScore,
    "exhaustive": segmax.Exhaustive,
}
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


class Parser(argparse.ArgumentParser):
    """Shows its texts as they are, and raises ConfigError where argparse would print its usage and exit."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        msg = f"{message}; see {self.prog} --help"
        raise ConfigError(msg)


def read_matrix(path: str) -> Any:
    """Read the sparse matrix of an .npz file."""
    NpzFile(Path(path))  # raises where there is no such file
    try:
        return sp.load_npz(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        msg = f"'{path}': expected an .npz file of scipy.sparse.save_npz ({error})"
        raise InputError(msg) from error


def _number(kind: type, flag: str, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        msg = f"{flag}: expected {expected}, got {text!r}"
        raise ConfigError(msg) from None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


# --- search ----------------------------------------------------------------------------------------------------------

# Lines of at most 80 characters: argparse shows these texts as they are.
_SEARCH_HELP = """\
Search an index for queries: an .npz file of scipy.sparse.save_npz with a query
per row. Prints a line per result: query number, rank, document id, score, with
tabs in between. Exact, unless a target of recall or an option says otherwise.
"""
_SEARCH_EXAMPLES = """\
examples:
  segmax search docs.segmax queries.npz -k 100 > results.tsv
  segmax search docs.segmax queries.npz --target-recall 0.99
  segmax search docs.segmax queries.npz --method best_first --eta 0.95
"""


def search_parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax search`."""
    parser = Parser(
        prog="segmax search",
        description=_SEARCH_HELP,
        epilog=_SEARCH_EXAMPLES,
    )
    _add_shared(parser)
    parser.add_argument(
        "--target-recall",
        metavar="X",
        help="find this share of the exact results, by what the index was calibrated for (default: search is exact)",
    )
    group = parser.add_argument_group("how to search, instead of a target")
    group.add_argument("--method", metavar="|".join(_METHODS), help="default: asc")
    for name, (_, metavar, text) in _OPTIONS.items():
        group.add_argument(_flag(name), dest=name, metavar=metavar, help=text)
    return parser


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="the directory of an index")
    parser.add_argument("queries", metavar="QUERIES.npz", help="queries, a row each")
    parser.add_argument("-k", metavar="N", default="10", help="results per query (default: %(default)s)")
    parser.add_argument("--threads", metavar="N", help="threads to use (default: one per core)")


def search(args: argparse.Namespace) -> None:
    """Run `segmax search`."""
    params = _params(args)
    target = None if args.target_recall is None else _number(float, "--target-recall", args.target_recall)
    k = _number(int, "-k", args.k)
    threads = None if args.threads is None else _number(int, "--threads", args.threads)
    with segmax.open(args.index) as index:
        queries = read_matrix(args.queries)
        found = index.search_batch(queries, k, params, target_recall=target, threads=threads)
        for number, hits in enumerate(found):
            lines = [f"{number}\t{rank}\t{hit.doc_id}\t{hit.score:.6g}\n" for rank, hit in enumerate(hits, start=1)]
            sys.stdout.write("".join(lines))


def _params(args: argparse.Namespace) -> SearchParams | None:
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.method is None and not given:
        return None
    if args.target_recall is not None:
        flags = [_flag(name) for name in given] or ["--method"]
        msg = f"expected params or target_recall, got both: {' and '.join(flags)} beside --target-recall"
        raise ConfigError(msg)
    method = args.method or "asc"
    if method not in _METHODS:
        msg = f"--method: expected {' or '.join(map(repr, _METHODS))}, got {method!r}"
        raise ConfigError(msg)
    for name in given:
        takers = [
            known for known, kind in _METHODS.items() if name in {field.name for field in dataclasses.fields(kind)}
        ]
        if method not in takers:
            msg = f"{_flag(name)} applies to {' and '.join(takers)}, not to {method}"
            raise ConfigError(msg)
    values = {name: _number(_OPTIONS[name][0], _flag(name), text) for name, text in given.items()}
    if method == "asc" and "eta" in given and "mu" not in given:
        msg = "--eta without --mu: asc expects mu <= eta; add --mu, or --method best_first, which has eta alone"
        raise ConfigError(msg)
    return _METHODS[method](**values)


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
    _add_shared(parser)
    parser.add_argument(
        "--target-recall", metavar="X", default="0.99", help="what to report about (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    return parser


def tune(args: argparse.Namespace) -> None:
    """Run `segmax tune`."""
    target = _number(float, "--target-recall", args.target_recall)
    k = _number(int, "-k", args.k)
    threads = None if args.threads is None else _number(int, "--threads", args.threads)
    with segmax.open(args.index) as index:
        told = index.tune(read_matrix(args.queries), k, target, threads=threads)
        if args.json:
            measured = next(m for m in index.calibration.measured if m.k == k)
            sys.stdout.write(json.dumps(measured.to_dict(), indent=1) + "\n")
        else:
            sys.stdout.write(f"{told}\n")
