"""The race behind docs/benchmarks.md: segmax and its rivals on the wiki vectors: `python -m benchmarks.race --help`.

`segmax.bench.race` measures, as it does for `segmax bench`, which runs on data that anybody can get. What is here loads
the wiki vectors, measures how exact search grows with the collection, and writes tables and plots to the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import scipy.sparse as sp

from benchmarks import race_tables, wiki
from segmax.base.errors import SegmaxError
from segmax.bench.engines.catalog import ENGINES
from segmax.bench.race import Plan, Race, machine
from segmax.bench.task import DOCS, QUERIES

GROWTH_K = 10

Record = dict[str, Any]


class WikiRace:
    """A race on the wiki vectors: its folder of vectors and indexes, and the records so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.records: list[Record] = []

    def _race(self, engines: Sequence[str], ks: Sequence[int]) -> Race:
        args = self._args
        plan = Plan(engines=engines, ks=ks, passes=args.passes, screen=args.screen, core=args.core, reuse=args.reuse)
        return Race(plan, note)

    def prepare(self, race: Race, documents: sp.csr_matrix, queries: sp.csr_matrix) -> Path:
        """Write vectors and exact results to a folder for this number of documents; return it."""
        root: Path = self._args.folder
        folder = (root if self._args.set == "wiki" else root / self._args.set) / str(documents.shape[0])
        folder.mkdir(parents=True, exist_ok=True)
        sp.save_npz(folder / DOCS, documents, compressed=False)
        sp.save_npz(folder / QUERIES, queries, compressed=False)
        if not self._args.build_only:
            race.find_truth(folder)
        return folder

    def run(self) -> None:
        """Build and search everything."""
        args = self._args
        docs, queries = wiki.load_set(args.wiki, args.set, args.documents)
        queries = queries[: args.queries]
        self.records.append(setup(docs, queries, args))
        race = self._race([name for name in ENGINES if name in args.engines], args.k)
        folder = self.prepare(race, docs, queries)
        ready = race.build_all(folder)
        if not args.build_only:
            race.search(folder, ready, documents=docs.shape[0])
        self.records += race.records
        if "segmax" in ready and GROWTH_K in args.k:
            for part in (4, 2):
                self.grow(docs[: docs.shape[0] // part], queries)

    def grow(self, docs: sp.csr_matrix, queries: sp.csr_matrix) -> None:
        """Build and search a part of the collection with segmax alone, exactly."""
        race = self._race(["segmax"], [GROWTH_K])
        folder = self.prepare(race, docs, queries)
        exact = [setting.label for setting in ENGINES["segmax"].grid if setting.exact]
        if race.build(folder, "segmax") and not self._args.build_only:
            race.search(folder, ["segmax"], {GROWTH_K: exact}, documents=docs.shape[0])
        self.records += race.records


def note(text: str) -> None:
    """Print a line about an engine."""
    print(f"{text} (`make race` installs all rivals)" if "skipped" in text else text, file=sys.stderr, flush=True)


def setup(docs: sp.csr_matrix, queries: sp.csr_matrix, args: argparse.Namespace) -> Record:
    """Return the record of what ran where."""
    return {
        "type": "race",
        "date": time.strftime("%Y-%m-%d"),
        "set": args.set,
        "documents": docs.shape[0],
        "postings": int(docs.nnz),
        "queries": queries.shape[0],
        "ks": args.k,
        "engines": args.engines,
        "passes": args.passes,
        "screen": args.screen,
        **machine(),
    }


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.race", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--engines", nargs="+", default=list(ENGINES), choices=ENGINES, metavar="NAME", help=", ".join(ENGINES)
    )
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument(
        "--set", choices=get_args(wiki.Set), default="wiki", help="281,250 documents (wiki) or 656,250 (large)"
    )
    parser.add_argument("--queries", type=int, metavar="N", help="use only the first N")
    parser.add_argument("--documents", type=int, metavar="N", help="use only the first N of the set")
    parser.add_argument("--passes", type=int, default=2, help="processes per engine; a query's fastest counts")
    parser.add_argument("--screen", type=int, default=100, help="even-numbered queries that all settings run on first")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core that searches")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--folder", type=Path, default=Path("build/race"), help="where vectors and indexes are kept")
    parser.add_argument(
        "--reuse", action="store_true", help="reuse the rivals' indexes in --folder; segmax is built again"
    )
    parser.add_argument("--build-only", action="store_true", help="build indexes for --reuse, without searching")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(),
        help="the root of benchmarks/results/race.jsonl (or race-large.jsonl), docs/images and docs/benchmarks.md",
    )
    parser.add_argument(
        "--tables-only", action="store_true", help="only make tables and plots again, from the JSON lines"
    )
    return parser.parse_args()


def main() -> None:
    """Run the race, write the JSON lines, tables and plots."""
    args = arguments()
    lines = args.output / "benchmarks" / "results" / ("race.jsonl" if args.set == "wiki" else f"race-{args.set}.jsonl")
    if not args.tables_only:
        race = WikiRace(args)
        try:
            race.run()
        except (FileNotFoundError, SegmaxError) as error:
            hint = "To measure on data that anybody can get, run `segmax bench`: docs/benchmarks.md has the commands."
            raise SystemExit(f"{error}\n{hint}") from error
        if args.build_only:
            return
        lines.parent.mkdir(parents=True, exist_ok=True)
        lines.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in race.records))
    race_tables.write(lines, args.output / "docs")


if __name__ == "__main__":
    main()
