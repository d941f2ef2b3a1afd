"""`segmax search`: search an index for words, or for a file of queries."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from segmax.base.errors import ConfigError
from segmax.cli.opening import opened
from segmax.cli.parser import (
    CommandParser,
    add_index,
    add_max_shards,
    add_query_encoder,
    add_results,
    add_threads,
    read_filter,
    real_number,
    whole_number,
)
from segmax.cli.query_argument import words_or_file
from segmax.cli.search_methods import add_method_options, method_of
from segmax.cli.show import NARROWING, answer, as_json, as_run, show, typed_lines
from segmax.cli.unanswered import Reason, summary, why_nothing, why_unmatched

if TYPE_CHECKING:
    from segmax.search.protocol import Searchable
    from segmax.search.results import BatchHits
    from segmax.text.queries import EncodedQueries

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Search an index. Given words, segmax prints the best documents with the words
highlighted. Given a file of queries, it prints a TREC run: query, Q0, document,
rank, score, tag. Given neither, it asks for queries. Results are exact, unless
you ask for a target recall or choose an approximate method.

A file of queries holds texts (BEIR's queries.jsonl or its folder, TREC topics,
or columns of id and text) or vectors (.npz, lines of JSON, or words repeated as
often as their weights say). irds:ID reads the queries of an ir_datasets
collection. An argument with spaces is a text to search for, and so is one with
a slash if there is no such folder: "how to read data.json", AC/DC.

INDEX may be the address of an index at a service (segmax serve). If the service
asks for a key, set SEGMAX_API_KEY. ray://PATH opens a sharded index on a Ray
cluster; options follow as in a URL, and segmax serve --help lists them.
"""
_EXAMPLES = """\
  segmax search docs.segmax
  segmax search docs.segmax noise of travelling wave tubes -k 3
  segmax search docs.segmax queries.jsonl -k 1000 > bm25.run
  segmax search docs.segmax queries.npz --target-recall 0.99 --json
  segmax search docs.segmax queries.npz --eta 0.95
  segmax search http://localhost:8080/v1/indexes/docs noise of diodes
  segmax search docs.segmax noise --where '{"year": {"$gte": 1960}}' --offset 10
  segmax search ray://docs.sharded noise of diodes --max-shards 2
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax search`."""
    made = CommandParser("search", _HELP, _EXAMPLES, usage="segmax search [options] INDEX [WORD ... | FILE]")
    add_index(made)
    made.add_argument("queries", metavar="WORD|FILE", nargs="*", help="what to search for (default: what you type)")
    made.add_argument("-q", "--query", metavar="TEXT", help="search for this text, even if it names a file")
    add_results(made)
    made.add_argument(
        "--target-recall",
        metavar="X",
        type=real_number,
        help="search approximately, and find this share of the exact results on average (default: search is exact)",
    )
    made.add_argument(
        "--where",
        metavar="JSON",
        help='search only the documents whose metadata match this filter, such as \'{"lang": "en"}\'',
    )
    made.add_argument("--offset", metavar="N", type=whole_number, help="leave out the first N results (default: 0)")
    made.add_argument("--min-score", metavar="X", type=real_number, help="leave out results that score less")
    add_max_shards(made)
    add_threads(made)
    add_query_encoder(made)
    made.add_argument("--json", action="store_true", help="print a line of JSON per query")
    made.add_argument("--tag", metavar="NAME", default="segmax", help="tag of a TREC run (default: %(default)s)")
    add_method_options(made)
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax search`."""
    file, text = words_or_file(args.queries, args.query)
    how: dict[str, Any] = {"k": args.k, "params": method_of(args), "target_recall": args.target_recall}
    how |= {} if args.where is None else {"where": read_filter(args.where)}
    how |= {name: value for name in ("offset", "min_score") if (value := getattr(args, name)) is not None}
    start = time.perf_counter()
    with opened(args.index, args.encoder) as index:
        how |= _shards(index, args.max_shards)
        if file is None:
            _search_texts(index, text, how, args, start)
        else:
            _search_file(index, file, {**how, "threads": args.threads}, args)


def _shards(index: Searchable, max_shards: int | None) -> dict[str, Any]:
    """Return how many shards a search may ask; raise ConfigError if the index has none."""
    if max_shards is None:
        return {}
    if getattr(index, "num_shards", None) is None:
        raise ConfigError(option="max_shards", expected="left out for an index without shards", got=max_shards)
    return {"max_shards": max_shards}


def _search_texts(
    index: Searchable, text: str | None, how: dict[str, Any], args: argparse.Namespace, start: float | None
) -> None:
    """Print the results of a text, or of each that is typed."""
    for each in typed_lines("query> ") if text is None else [text]:
        found = answer(index, each, how, start)
        start = None  # from the second query on, there is nothing to load
        if args.json:
            sys.stdout.write(as_json(found.hits, each, found.encoding, found.reason))
        else:
            show(found)


def _search_file(index: Searchable, file: str, how: dict[str, Any], args: argparse.Namespace) -> None:
    """Print the results of a file of queries, and count those that find nothing on standard error."""
    asked = _read_file(file, index)
    found = index.search_batch(asked.rows, **how)
    reasons = _unanswered(index, asked, found, how)
    for row, (name, hits) in enumerate(zip(asked.ids, found, strict=True)):
        reason = reasons[row].sentence if row in reasons else None
        sys.stdout.write(as_json(hits, name, reason=reason) if args.json else as_run(hits, name, args.tag))
    if reasons:
        sys.stdout.flush()
        sys.stderr.write(f"segmax: {summary(list(reasons.values()), len(asked))}\n")


def _read_file(file: str, index: Searchable) -> EncodedQueries:
    """Read a file of queries."""
    from segmax.cli.reading import note_numbered
    from segmax.text.queries import read_encoded_queries

    return read_encoded_queries(file, index, note=note_numbered)


def _unanswered(
    index: Searchable, asked: EncodedQueries, found: BatchHits, how: Mapping[str, Any]
) -> dict[int, Reason]:
    """Return why queries found nothing, by their row."""
    reasons: dict[int, Reason] = {}
    rows = (found.counts == 0).nonzero()[0].tolist()
    narrowed = not NARROWING.isdisjoint(how)
    unmatched = why_unmatched(index, how.get("where")) if rows else None
    for row in rows:
        text, encoder = (None, None) if asked.texts is None else (asked.texts[row], index.encoder)
        limited = bool(found.stats.budget_hit[row])
        reasons[row] = why_nothing(
            text, asked.num_terms(row), encoder, limited=limited, narrowed=narrowed, unmatched=unmatched
        )
    return reasons
