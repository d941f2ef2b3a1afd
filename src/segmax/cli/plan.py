"""`segmax plan`: how many machines a collection needs, and what they cost."""

from __future__ import annotations

import argparse
import sys

from segmax.base.display import json_text
from segmax.cli.parser import CommandParser, add_results, positive_number, real_number, whole_number
from segmax.planning import Figures, Machine, Plan, Simulated, plan, simulate
from segmax.planning.request import MAX_SHARD_DOCS

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Plan a cluster: machines, memory, disk, build hours and money for a number of
documents and of queries per second. The plan is the cheapest cluster that keeps
the 99th percentile of latencies, also while machines are down.

It comes from a model of measured figures, which it prints with their spread.
They were measured with Wikipedia passages on one small machine, so take a plan
for an estimate, and try a part of your collection before you buy. Prices are
examples: pass your own.
"""
_EXAMPLES = """\
  segmax plan --docs 1e9 --terms 120 --qps 2000 --p99-ms 30
  segmax plan --docs 1e7 --terms 120 --qps 500 --p99-ms 100 --recall 0.9
  segmax plan --docs 1e8 --terms 200 --qps 50 --p99-ms 100 --failures 0 \\
      --cores 8 --memory-gb 64 --price-per-hour 0.4
  segmax plan --docs 1e8 --terms 120 --qps 500 --p99-ms 50 --json | jq .machines
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax plan`."""
    made = CommandParser("plan", _HELP, _EXAMPLES)
    _add_load(made.add_argument_group("documents and queries"))
    _add_searching(made.add_argument_group("searching"))
    _add_machines(made.add_argument_group("machines"))
    output = made.add_argument_group("output")
    output.add_argument(
        "--simulate",
        metavar="N",
        type=positive_number,
        help="also simulate N queries on the planned cluster (needs segmax[ray])",
    )
    output.add_argument(
        "--figures", metavar="FILE", help="figures that python -m benchmarks.planning measured on your machine"
    )
    output.add_argument("--json", action="store_true", help="print JSON instead of a page")
    return made


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--docs", metavar="N", type=real_number, required=True, help="number of documents, like 1e9")
    group.add_argument(
        "--terms", metavar="N", type=real_number, required=True, help="mean number of terms of a document"
    )
    group.add_argument(
        "--qps", metavar="N", type=real_number, required=True, help="queries per second at the busiest time"
    )
    group.add_argument(
        "--p99-ms", metavar="MS", type=real_number, required=True, help="99 of 100 queries take at most this long"
    )
    add_results(group)
    group.add_argument(
        "--batch",
        metavar="N",
        type=positive_number,
        default=1,
        help="queries per call; --p99-ms is then for a whole batch (default: %(default)s)",
    )
    group.add_argument(
        "--extra-bytes",
        metavar="N",
        type=real_number,
        default=0.0,
        help="bytes of ids, texts and metadata to store per document (default: 0)",
    )
    group.add_argument(
        "--encode-rate",
        metavar="N",
        type=real_number,
        default=0.0,
        help="documents per second that all encoders together encode (default: you have vectors)",
    )


def _add_searching(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sharding",
        metavar="clusters|rows",
        choices=("clusters", "rows"),
        help="how documents are divided: by clusters, so that a query need not ask every shard, or by rows "
        "(default: what is cheaper)",
    )
    group.add_argument(
        "--mu", metavar="X", type=real_number, default=1.0, help="mu of ASC for whole shards; 1 is exact (default: 1)"
    )
    group.add_argument(
        "--max-shards",
        metavar="N",
        type=whole_number,
        default=0,
        help="ask only the N best shards, which is approximate (default: as many as exact results need)",
    )
    group.add_argument(
        "--recall",
        metavar="X",
        type=real_number,
        default=1.0,
        help="ask as few shards as this share of the exact results needs (default: 1)",
    )


def _add_machines(group: argparse._ArgumentGroup) -> None:
    usual = Machine()
    group.add_argument(
        "--cores",
        metavar="N",
        type=positive_number,
        default=usual.cores,
        help="cores of a machine (default: %(default)s)",
    )
    for name, value, text in (
        ("--memory-gb", usual.memory_gb, "memory of a machine"),
        ("--disk-gb", usual.disk_gb, "disk of a machine"),
        ("--price-per-hour", usual.price_per_hour, "price of a machine per hour"),
        ("--price-per-gb-month", usual.price_per_gb_month, "price of a GB of disk per month"),
        ("--network-ms", 0.0, "time to another machine and back"),
        ("--headroom", 0.3, "share of cores, memory and disk that stays free"),
        ("--max-shard-docs", float(MAX_SHARD_DOCS), "most documents of a shard"),
    ):
        group.add_argument(name, metavar="X", type=real_number, default=value, help=f"{text} (default: {value:g})")
    group.add_argument(
        "--failures",
        metavar="N",
        type=whole_number,
        default=1,
        help="how many machines may be down at once (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Run `segmax plan`."""
    found = plan(
        args.docs,
        args.terms,
        qps=args.qps,
        p99_ms=args.p99_ms,
        k=args.k,
        sharding=args.sharding,
        mu=args.mu,
        max_shards=args.max_shards,
        recall=args.recall,
        batch=args.batch,
        machine=Machine(
            cores=args.cores,
            memory_gb=args.memory_gb,
            disk_gb=args.disk_gb,
            price_per_hour=args.price_per_hour,
            price_per_gb_month=args.price_per_gb_month,
        ),
        headroom=args.headroom,
        failures=args.failures,
        extra_bytes=args.extra_bytes,
        max_shard_docs=args.max_shard_docs,
        network_ms=args.network_ms,
        encode_rate=args.encode_rate,
        figures=None if args.figures is None else Figures.from_file(args.figures),
    )
    simulated = None if args.simulate is None else simulate(found.scenario, queries=args.simulate)
    sys.stdout.write(_json(found, simulated) if args.json else _page(found, simulated))


def _page(found: Plan, simulated: Simulated | None) -> str:
    if simulated is None:
        return f"{found}\n"
    return (
        f"{found}\n\nSimulated, {len(simulated.latencies_ms):,} queries: {simulated.mean_ms:,.1f} ms on average, "
        f"p99 {simulated.quantile_ms(0.99):,.1f} ms\n"
    )


def _json(found: Plan, simulated: Simulated | None) -> str:
    values = found.to_dict()
    if simulated is not None:
        values["simulated"] = simulated.to_dict()
    return json_text(values, indent=1) + "\n"
