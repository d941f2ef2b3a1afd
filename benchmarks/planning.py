"""The figures that `segmax plan` rests on, measured: `python -m benchmarks.planning --help`.

Every part replaces its figures in a file, by default the one that comes with segmax; `segmax plan --figures FILE` plans
with another. Parts that start Ray run in a network namespace that has the loopback device alone, because Ray takes the
machine's outer address. That needs root, `unshare` and `ip`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import segmax
from benchmarks import (
    planning_build,
    planning_calls,
    planning_growth,
    planning_pages,
    planning_shards,
    planning_validate,
    wiki,
)
from segmax import _core
from segmax.base.system import cpu_name, num_cores
from segmax.planning import Figures

FILE = Path(__file__).resolve().parents[1] / "src" / "segmax" / "planning" / "figures.json"
ON_RAY = ("calls", "build", "validate")


class Measurement:
    """A file of figures, and where to find and put what measuring needs."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.values: dict[str, Any] = json.loads(args.figures.read_text()) if args.figures.exists() else {}

    @property
    def figures(self) -> Figures:
        """The figures so far."""
        return Figures.from_file(self.args.figures)

    def keep(self, part: str, **values: Any) -> None:
        """Replace figures, and say when and where they were measured."""
        about = self.values.setdefault("about", {})
        about |= {
            "cpu": cpu_name(),
            "cores": num_cores(),
            "simd": _core.simd_level(),
            "collection": "Wikipedia passages",
            "segmax": segmax.__version__,
            "python": platform.python_version(),
        }
        measured = about.setdefault("measured", {})
        measured[part] = {"date": time.strftime("%Y-%m-%d"), "command": f"python -m benchmarks.planning {part}"}
        self.values |= values
        self.args.figures.write_text(json.dumps(self.values, indent=1) + "\n")


def growth(to: Measurement) -> None:
    """Measure bytes, building and searching of one shard, against its documents: five minutes."""
    found = planning_growth.measure(to.args.wiki, to.args.scratch, list(planning_growth.SIZES), to.args.queries, 7)
    others = [each for each in to.values.get("growth", []) if each["set"] == "generated"]
    to.keep("growth", growth=found + others)


def generated(to: Measurement) -> None:
    """Measure the same of generated documents, of which there are more: ten minutes."""
    found = planning_growth.measure_generated(
        to.args.wiki, to.args.scratch, list(planning_growth.GENERATED), to.args.queries, 5
    )
    to.keep("generated", growth=[each for each in to.values["growth"] if each["set"] != "generated"] + found)


def shards(to: Measurement) -> None:
    """Measure shards asked, the recall of the best shards, and what the router takes: ten minutes."""
    found = planning_shards.measure(to.args.wiki, to.args.scratch, planning_shards.CASES, to.args.queries, 3)
    to.keep("shards", asked=found["asked"], max_shards=found["max_shards"], rounds={"router": found["router"]})


def calls(to: Measurement) -> None:
    """Measure a call of a shard on Ray: one minute."""
    to.keep("calls", calls=planning_calls.measure(to.args.wiki, to.args.scratch))


def build(to: Measurement) -> None:
    """Measure a build on Ray: two minutes."""
    to.keep("build", building=planning_build.measure(to.figures, to.args.wiki, to.args.scratch, 328_000))


def validate(to: Measurement) -> None:
    """Compare predictions for 2, 4 and 8 shards on this machine with a real cluster: five minutes."""
    found = planning_validate.measure(to.figures, to.args.wiki, to.args.scratch, None, 5)
    to.keep("validate", validated=found)
    print(planning_pages.validated_table(found))


def pages(to: Measurement) -> None:
    """Simulate 10^8 to 10^10 documents, and write the plots and tables of docs/scale.md: ten minutes."""
    planning_pages.write(to.figures, to.values.get("validated", []))


PARTS: dict[str, Callable[[Measurement], None]] = {
    part.__name__: part for part in (growth, generated, shards, calls, build, validate, pages)
}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parts = "\n".join(f"  {name:10} {part.__doc__}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planning",
        description=f"{__doc__}\nparts:\n{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to measure; all parts by default")
    parser.add_argument("--validate", action="store_true", help="the same as the part validate")
    parser.add_argument("--figures", type=Path, default=FILE, help="the file of figures (default: that of segmax)")
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki vectors")
    parser.add_argument("--queries", type=int, default=600, help="how many queries")
    parser.add_argument("--scratch", type=Path, help="a folder with a short name, for indexes and for Ray")
    args = parser.parse_args(argv)
    args.parts = ["validate"] if args.validate else args.parts or list(PARTS)
    unknown = [part for part in args.parts if part not in PARTS]
    if unknown:
        parser.error(f"expected parts among {', '.join(PARTS)}, got {', '.join(unknown)}")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the parts that were asked for, one after the other."""
    args = arguments(argv)
    if any(part in ON_RAY for part in args.parts) and "SEGMAX_LOOPBACK" not in os.environ:
        _enter_namespace()
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        args.scratch = Path(scratch)
        for part in args.parts:
            PARTS[part](Measurement(args))


def _enter_namespace() -> None:
    """Run this program again where there is the loopback device alone."""
    os.environ |= {"SEGMAX_LOOPBACK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    shell = 'ip link set lo up && exec "$@"'
    os.execvp(
        "unshare",
        ["unshare", "-n", "sh", "-c", shell, "sh", sys.executable, "-m", "benchmarks.planning", *sys.argv[1:]],
    )


if __name__ == "__main__":
    main()
