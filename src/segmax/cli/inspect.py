"""`segmax inspect`: what an index contains."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import segmax
from segmax.base.display import json_text
from segmax.base.errors import ConfigError
from segmax.cli.parser import CommandParser, add_index, add_query_encoder, whole_number
from segmax.drawing.figures import check_plot
from segmax.inspection.inspecting import inspect
from segmax.inspection.plots import plot_summary
from segmax.inspection.summary import STAND_IN_TERMS, IndexSummary
from segmax.ray.address import is_ray_address, parse_ray_address
from segmax.text.queries import read_encoded_queries

if TYPE_CHECKING:
    from segmax.inspection.collections import CollectionSummary
    from segmax.inspection.sharded import ShardedSummary

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Show what an index contains: counts and options, bytes per structure, sizes of
clusters, and how tight the bounds of clusters are. Tightness is the best score
in a cluster (Actual) divided by its bound (MaxSBound, BoundSum or AvgSBound),
averaged over a sample of queries and over the clusters that match them.
Of a collection, show its documents, its parts and their sizes. Of a sharded
index, ray://PATH, show its shards and how many of them searches ask; that reads
its description only, and needs no Ray cluster.
"""
_EXAMPLES = """\
  segmax inspect docs.segmax
  segmax inspect docs.segmax --queries queries.npz --sample 200 --plot docs.png
  segmax inspect docs.segmax --json | jq .tightness.max_bound.mean
  segmax inspect ray://docs.sharded
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax inspect`."""
    made = CommandParser("inspect", _HELP, _EXAMPLES)
    add_index(made)
    queries = made.add_argument_group("queries to measure tightness with")
    queries.add_argument(
        "--queries",
        metavar="FILE",
        help="a file of queries, as for segmax search (default: documents of the index, each cut to its "
        f"{STAND_IN_TERMS} largest weights)",
    )
    add_query_encoder(queries)
    queries.add_argument(
        "--sample",
        metavar="N",
        type=whole_number,
        default=50,
        help="number of queries to use; 0 skips the measurement (default: %(default)s)",
    )
    queries.add_argument(
        "--seed", metavar="N", type=whole_number, default=0, help="random seed of the sample (default: %(default)s)"
    )
    output = made.add_argument_group("output")
    output.add_argument("--plot", metavar="FILE", help="also plot sizes, clusters and tightness (.png, .svg or .pdf)")
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax inspect`."""
    if args.plot is not None:
        check_plot(args.plot)
    summary = _inspected(args)
    if args.plot is not None:
        if not isinstance(summary, IndexSummary):
            expected = "left out for a collection, and for a sharded index"
            raise ConfigError(option="plot", expected=expected, got=f"'{args.plot}'")
        plot_summary(summary, args.plot)
    if args.json:
        sys.stdout.write(json_text(summary.to_dict(), indent=1) + "\n")
    else:
        from rich.console import Console

        Console(highlight=False).print(summary)


def _inspected(args: argparse.Namespace) -> IndexSummary | CollectionSummary | ShardedSummary:
    if is_ray_address(args.index):
        if args.queries is not None:
            expected = "left out for a sharded index, whose shards are not opened"
            raise ConfigError(option="queries", expected=expected, got=f"'{args.queries}'")
        from segmax.shards.opening import open_described

        return inspect(open_described(parse_ray_address(args.index).path))
    with segmax.open(args.index, encoder=args.encoder) as index:
        queries = read_encoded_queries(args.queries, index).rows if args.queries is not None else None
        return inspect(index, queries, args.sample, args.seed)
