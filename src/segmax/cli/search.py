"""The commands that take queries: `segmax search` and `segmax tune`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import segmax
from segmax.base.errors import ConfigError, InputError
from segmax.cli.parser import Parser, add_query_encoder, in_words_of_the_shell, read_number
from segmax.cli.show import answer, as_json, as_run, say, show, typed_lines
from segmax.cli.unanswered import Reason, summary, why_nothing
from segmax.paper import METHODS
from segmax.search.method_names import simplest
from segmax.search.methods import SearchParams

if TYPE_CHECKING:
    from segmax.search.protocol import Searchable
    from segmax.search.results import BatchHits
    from segmax.text.queries import EncodedQueries

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
Search an index for words, and show the documents with these words marked. With
neither words nor a file, type your queries. For a file of queries it prints a
TREC run: query, Q0, document, rank, score, name. Results are exact, unless you
ask for a target recall or choose an approximate method.

A file holds texts (BEIR's queries.jsonl or its folder, TREC topics, columns of
id and text), which the index encodes, or vectors: an .npz file, lines of JSON,
or lines of words repeated as often as they weigh. "irds:" before an id reads
the queries of ir_datasets. A text with blanks, or a word with a slash that is
in no folder, is a query: "how to read data.json", AC/DC.
"""
_SEARCH_EXAMPLES = """\
examples:
  segmax search docs.segmax
  segmax search docs.segmax noise of travelling wave tubes -k 3
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
    parser.add_argument("queries", metavar="WORDS|FILE", nargs="*", help="what to search for (default: what you type)")
    parser.add_argument("-q", "--query", metavar="TEXT", help="search for this text, even if a file has that name")
    _add_shared(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, a line per query")
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
    file, text = _asked(args.queries, args.query)
    how: dict[str, Any] = {
        "k": read_number(int, "-k", args.k),
        "params": _params(args),
        "target_recall": (
            None if args.target_recall is None else read_number(float, "--target-recall", args.target_recall)
        ),
    }
    threads = None if args.threads is None else read_number(int, "--threads", args.threads)
    start: float | None = time.perf_counter()
    with segmax.open(args.index, encoder=args.encoder) as index:
        if file is not None:
            _search_file(index, file, {**how, "threads": threads}, args)
            return
        for each in typed_lines("query> ") if text is None else [text]:
            found = answer(index, each, how, start)
            start = None  # from the second query on, there is nothing to load
            if args.json:
                sys.stdout.write(as_json(found.hits, each, found.encoding, found.reason))
            else:
                show(found)


def _search_file(index: Searchable, file: str, how: dict[str, Any], args: argparse.Namespace) -> None:
    """Print the results of a file of queries; queries that find nothing are counted on standard error."""
    asked = _read_file(file, index)
    found = index.search_batch(asked.vectors, **how)
    reasons = _unanswered(index, asked, found)
    for row, (name, hits) in enumerate(zip(asked.ids, found, strict=True)):
        reason = reasons[row].sentence if row in reasons else None
        sys.stdout.write(as_json(hits, name, reason=reason) if args.json else as_run(hits, name, args.tag))
    if reasons:
        sys.stdout.flush()
        sys.stderr.write(f"segmax: {summary(list(reasons.values()), len(asked))}\n")


def _read_file(file: str, index: Searchable) -> EncodedQueries:
    """Read a file of queries."""
    from segmax.cli.encode import say_numbered
    from segmax.io import read_queries
    from segmax.text.queries import encode_queries_for, is_matrix_file, read_encoded_queries

    if is_matrix_file(file):
        return read_encoded_queries(file, index)
    with in_words_of_the_shell([("check the name", "check the name, or search for this text with -q")]):
        queries = read_queries(file)
    say_numbered(queries)
    return encode_queries_for(queries, index)


def _unanswered(index: Searchable, asked: EncodedQueries, found: BatchHits) -> dict[int, Reason]:
    """Return why queries found nothing, by the number of each that did not."""
    reasons = {}
    for row in (found.counts == 0).nonzero()[0].tolist():
        text, encoder = (None, None) if asked.texts is None else (asked.texts[row], index.encoder)
        reasons[row] = why_nothing(text, asked.num_terms(row), encoder, limited=bool(found.stats.budget_hit[row]))
    return reasons


#: How the names of files of queries end, before the ending of a compressed file.
_ENDINGS = (".jsonl", ".json", ".npz", ".tsv", ".csv", ".txt", ".xml", ".trec", ".topics", ".csr", ".ciff", ".bin",
            ".parquet", ".arrow", ".feather")  # fmt: skip
_PACKED = (".gz", ".zst", ".xz")


def _asked(words: list[str], text: str | None) -> tuple[str | None, str | None]:
    """Return what to search for: a file, or a text, or neither where queries are typed."""
    if text is not None:
        if words:
            raise ConfigError(expected="a file of queries or -q", got=f"both: '{' '.join(words)}' and {text!r}")
        return None, text
    if not words or words == ["-"]:
        return None, None
    if len(words) == 1 and _is_file(words[0]):
        return words[0], None
    if len(words) > 1 and (file := _file_among(words)) is not None:
        msg = f"expected words or one file of queries, got {len(words)} arguments, of which '{file}' names a file"
        raise InputError(f"{msg}; to search for these words, use -q TEXT")
    return None, " ".join(words)


def _file_among(words: list[str]) -> str | None:
    """Return a word that names a file; sentences mention files that are not there, lists of files do not."""
    files = [word for word in words if _has_ending(word)]
    if len(files) == len(words):
        return files[0]
    return next((word for word in files if _exists(word)), None)


def _is_file(word: str) -> bool:
    """Whether an argument names queries to read; one that can only be a path must name some."""
    if word.startswith("irds:") or _holds_queries(word):
        return True
    if _is_dataset(word):
        return True
    if _can_only_be_path(word):
        wrong = f"the folder '{word}' has no queries.jsonl" if _exists(word) else f"there is no file '{word}'"
        msg = f"{wrong}; to search for this text, use -q {shlex.quote(word)}"
        raise InputError(msg)
    return False


def _holds_queries(word: str) -> bool:
    """Whether there is a file of that name, or a folder with a file of queries; other folders are words, too."""
    from segmax.io.queries import query_files

    if not _exists(word):
        return False
    path = Path(word)
    return not path.is_dir() or bool(query_files(path))


def _exists(path: str) -> bool:
    try:
        return path != "" and Path(path).exists()  # Path("") is the current folder
    except (OSError, ValueError):  # too long for a name, or with characters that no name has
        return False


def _is_dataset(word: str) -> bool:
    """Whether ir_datasets knows an id that has a slash; one without needs `irds:`, since it may be any word."""
    from segmax.io.irds import ir_dataset_id, load_ir_dataset

    if os.sep not in word or ir_dataset_id(word) is None:
        return False
    try:
        load_ir_dataset(word)
    except InputError:
        return False
    return True


def _can_only_be_path(word: str) -> bool:
    """Whether a word starts or ends as paths do, or is in a folder that exists: "and/or" is not, nor is a sentence."""
    if len(word.split()) > 1:
        return False
    if _has_ending(word) or word.startswith(("/", "./", "../", "~/")):
        return True
    return _exists(word.rpartition(os.sep)[0])


def _has_ending(word: str) -> bool:
    name = Path(word.lower())
    return (name.stem if name.suffix in _PACKED else name.name).endswith(_ENDINGS) or name.suffix in _PACKED


def _params(args: argparse.Namespace) -> SearchParams | None:
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.method is None and not given:
        return None
    if args.target_recall is not None:
        flags = [_flag(name) for name in given] or ["--method"]
        raise ConfigError(expected="params or target_recall", got=f"both: {' and '.join(flags)} beside --target-recall")
    method = args.method or "asc"
    if method not in METHODS:
        raise ConfigError(where="--method", expected=f"{' or '.join(map(repr, METHODS))}", got=f"{method!r}")
    for name in given:
        takers = [known for known, kind in METHODS.items() if name in kind.options()]
        if method not in takers:
            msg = f"{_flag(name)} applies to {' and '.join(takers)}, not to {method}"
            raise ConfigError(msg)
    values = {name: read_number(_OPTIONS[name][0], _flag(name), text) for name, text in given.items()}
    if method == "asc" and "eta" in given and "mu" not in given:
        msg = "--eta without --mu: asc expects mu <= eta; add --mu, or --method best_first, which has eta alone"
        raise ConfigError(msg)
    return simplest(METHODS[method], values)(**values)


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
    from segmax.text.queries import read_encoded_queries

    with segmax.open(args.index, encoder=args.encoder) as index:
        told = index.tune(read_encoded_queries(args.queries, index).vectors, k, target, threads=threads)
        if args.json:
            measured = next(m for m in index.calibration.measured if m.k == k)
            sys.stdout.write(json.dumps(measured.to_dict(), indent=1) + "\n")
        else:
            say(str(told))
