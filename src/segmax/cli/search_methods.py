"""`--method` of `segmax search`, and the options of the methods."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from segmax.base.checks import shown
from segmax.base.errors import ConfigError
from segmax.cli.parser import real_number, whole_number
from segmax.paper import METHODS
from segmax.search.methods import SearchParams


class _Flag(NamedTuple):
    """How an option is read, its placeholder, and its help."""

    type: Callable[[str], Any]
    metavar: str
    help: str


#: Options of the methods. `segmax.ASC` and `segmax.paper.Anytime` document them.
_OPTIONS: Mapping[str, _Flag] = {
    "mu": _Flag(
        real_number,
        "X",
        "skip clusters whose bounds are at most θ/μ; 1 is exact. asc does so only with --max-clusters (asc, "
        "sequential, anytime)",
    ),
    "eta": _Flag(
        real_number,
        "X",
        "skip blocks of documents whose bound is at most θ/η; 1 is exact. With sequential, also pass --mu, which must "
        "be at most η (asc, sequential)",
    ),
    "bound_mass": _Flag(
        real_number,
        "X",
        "make bounds of the heaviest terms that hold this share of a query's weight; scores have all terms (asc)",
    ),
    "query_mass": _Flag(real_number, "X", "use only the heaviest terms that hold this share of a query's weight"),
    "max_terms": _Flag(whole_number, "N", "use only the N heaviest terms of a query"),
    "dropped": _Flag(
        str,
        "ignored|bounded",
        "what becomes of the terms that --query-mass or --max-terms leaves out: ignored does not score them, which is "
        "faster; bounded, for --max-terms only, counts them in bounds and scores (default: ignored)",
    ),
    "max_blocks": _Flag(whole_number, "N", "score only the N best blocks (asc)"),
    "max_clusters": _Flag(whole_number, "N", "visit at most N clusters, the best first (asc, sequential, anytime)"),
    "budget_ms": _Flag(real_number, "MS", "stop after this many milliseconds per query (asc, sequential, anytime)"),
}


def add_method_options(parser: argparse.ArgumentParser) -> None:
    """Add --method and the options of the methods."""
    group = parser.add_argument_group(
        "search method, instead of --target-recall", "θ is the score of the k-th result so far."
    )
    group.add_argument(
        "--method",
        metavar="|".join(METHODS),
        choices=METHODS,
        help="how to search; sequential is ASC as in the paper (default: asc)",
    )
    for name, flag in _OPTIONS.items():
        group.add_argument(_typed(name), dest=name, type=flag.type, metavar=flag.metavar, help=flag.help)


def method_of(args: argparse.Namespace) -> SearchParams | None:
    """Return the method that was chosen, with its options; None if there is none."""
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.method is None and not given:
        return None
    if args.target_recall is not None:
        flags = [_typed(name) for name in given] or ["--method"]
        raise ConfigError(
            expected="--target-recall or a method", got=f"both: --target-recall and {' and '.join(flags)}"
        )
    method = args.method or "asc"
    _check_applicable(method, given)
    return METHODS[method](**given)


def _check_applicable(method: str, given: Mapping[str, Any]) -> None:
    for name in given:
        takers = [known for known, kind in METHODS.items() if name in kind.options()]
        if method not in takers:
            raise ConfigError(
                option=name,
                expected=f"left out with the method {method} (it applies to {', '.join(takers)})",
                got=shown(given[name]),
            )


def _typed(name: str) -> str:
    return "--" + name.replace("_", "-")
