"""The command `segmax experiment`: the paper's tables and figures, measured on a collection of the user's."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from segmax.base.checks import checked_choice, checked_int
from segmax.base.display import printable
from segmax.base.errors import ConfigError, WriteError
from segmax.base.text_table import Column, tables
from segmax.cli.parser import Parser, read_number
from segmax.experiments.catalog import LISTED

if TYPE_CHECKING:  # help and list load no experiment, and nothing that one needs
    from rich.console import Console

    from segmax.experiments import Collection, Experiment
    from segmax.experiments.runner import Ran

_QUICK_QUERIES = 50
_CACHE = "cache"

# Lines of at most 80 characters: argparse shows these texts as they are.
_WIDTH = 80
_HELP = """\
Measure one of the paper's results on a collection of yours, and print it beside
the paper's values. Writes NAME.json, NAME.md and NAME.svg, of which segmax
report makes a page. Interrupted, the same command goes on where it stopped.

experiments:
{list}

segmax experiment NAME --help tells more about one.
"""
_EXAMPLES = """\
examples:
  segmax experiment list
  segmax experiment example
  segmax experiment bounds --data beir/scifact --quick
  segmax experiment baselines --data msmarco.json -k 10 1000 --seeds 3
  segmax experiment zero-shot --data beir/scifact --data beir/nfcorpus
"""
_DATA_HELP = """\
DATA is a BEIR folder or an ir_datasets id, whose texts --encoder encodes, or a
JSON file that describes vectors, with paths relative to it:
  {"name": "wiki", "documents": "docs.npz", "queries": "queries.npz",
   "qrels": "qrels.tsv", "drop_self": false, "dense": {"max": "docs.max.npy"},
   "labels": {"max": {"512": "labels.npy"}}}
of which documents (a file or a list of files) and queries are needed.
"""


def experiment_parser(about: Experiment | None = None) -> argparse.ArgumentParser:
    """Return the parser of `segmax experiment`; its help is about one experiment, or about all."""
    parser = Parser(
        prog="segmax experiment",
        usage=f"segmax experiment {'NAME' if about is None else about.name} [--data DATA] ...",
        description=_description(about),
        epilog=_examples(about),
        add_help=False,  # what --help says depends on NAME
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="list", help="which experiment, or list")
    parser.add_argument("-h", "--help", action="store_true", help="tell about the experiment")
    data = parser.add_argument_group("what to measure on")
    data.add_argument("--data", metavar="DATA", action="append", default=[], help="a collection. May be repeated")
    data.add_argument(
        "--encoder",
        metavar="bm25|MODEL",
        action="append",
        default=[],
        help="what encodes texts; repeated, every collection of texts counts once per encoder (default: bm25)",
    )
    data.add_argument("--split", metavar="NAME", default="test", help="judgments of a BEIR folder (default: test)")
    data.add_argument(
        "--min-rel", metavar="N", default="1", help="the lowest grade that is relevant (default: 1, as in the paper)"
    )
    data.add_argument("--max-queries", metavar="N", help="ask the first N queries only (default: all)")
    how = parser.add_argument_group("how")
    how.add_argument("--quick", action="store_true", help="a look within seconds: fewer queries and settings")
    how.add_argument("-k", metavar="N", nargs="+", action="extend", help="numbers of results (default: 10 1000)")
    how.add_argument("--clusters", metavar="N", help="fine clusters (default: by the number of documents)")
    how.add_argument("--seeds", metavar="N", default="1", help="repeat with N seeds (default: %(default)s)")
    how.add_argument("--passes", metavar="N", help="times that queries are timed (default: 3, quick: 1)")
    how.add_argument(
        "--documents",
        metavar="maxscore|blocks",
        default="maxscore",
        help="inside clusters: the paper's way or ours (default: %(default)s)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", default="experiments", help="where to write (default: %(default)s)")
    output.add_argument("--fresh", action="store_true", help="compute everything anew")
    return parser


def _description(about: Experiment | None) -> str:
    if about is None:
        return _HELP.format(list=_wrapped_list())
    needs = f"\n\n{_DATA_HELP}" if about.needs_data else ""
    title = textwrap.fill(f"{about.place}: {about.title}.", _WIDTH)
    return f"{title}\n\n{about.description.strip()}{needs}"


def _examples(about: Experiment | None) -> str:
    if about is None:
        return _EXAMPLES
    if not about.needs_data:
        return f"examples:\n  segmax experiment {about.name}\n"
    lines = ["--data beir/scifact --quick", "--data msmarco.json --seeds 3 --out results"]
    if about.many:
        lines.append("--data beir/scifact --data beir/nfcorpus")
    return "examples:\n" + "".join(f"  segmax experiment {about.name} {line}\n" for line in lines)


def _show_list(console: Console) -> None:
    """Print all experiments as a table that fits the console."""
    names, places, titles = zip(*LISTED.values(), strict=True)
    columns = [
        Column(heading="name", cells=names, words=True),
        Column(heading="in the paper", cells=places, words=True),
        Column(heading="what it measures", cells=titles, words=True),
    ]
    for part in tables([columns], console.width):
        console.print(part)


def _wrapped_list() -> str:
    width = 2 + max(len(name) for name in LISTED) + 2
    return "\n".join(
        textwrap.fill(
            f"{each.title} ({each.place})",
            _WIDTH,
            initial_indent=f"  {name}".ljust(width),
            subsequent_indent=" " * width,
        )
        for name, each in LISTED.items()
    )


def experiment(args: argparse.Namespace) -> None:
    """Run `segmax experiment`."""
    if args.name == "list":
        if args.help:
            _help(None)
        from rich.console import Console

        _show_list(Console(highlight=False))
        return
    if args.name not in LISTED:
        raise ConfigError(expected=f"an experiment ({', '.join(LISTED)})", got=f"{args.name!r}")
    chosen = LISTED[args.name].load()
    if args.help:
        _help(chosen)
    _run(chosen, args)


def _run(chosen: Experiment, args: argparse.Namespace) -> None:
    from segmax.experiments.runner import run_experiment
    from segmax.experiments.steps import Steps
    from segmax.experiments.task import Task

    sources = _sources(args)
    _check_data(chosen, args, len(sources))
    options = _options(args)
    folder = _folder(args.out)
    steps = Steps(folder / f"{chosen.name}.steps.jsonl", fresh=args.fresh)
    try:
        collections = tuple(_opened(args, folder, data, encoder) for data, encoder in sources)
        task = Task(collections=collections, steps=steps, **options)
        with steps.opened():
            ran = run_experiment(chosen, task, folder, _command(args))
    except KeyboardInterrupt:
        sys.stderr.write(f"\nwhat is done is kept in '{printable(folder)}'; the same command goes on from there\n")
        raise
    _tell(ran)


def _help(about: Experiment | None) -> NoReturn:
    sys.stdout.write(experiment_parser(about).format_help())
    raise SystemExit(0)


def _sources(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return every collection with what encodes it: texts once per encoder, vectors once."""
    encoders = args.encoder or ["bm25"]
    return [(data, encoder) for data in args.data for encoder in (encoders[:1] if Path(data).is_file() else encoders)]


def _check_data(chosen: Experiment, args: argparse.Namespace, count: int) -> None:
    """Raise before anything is encoded."""
    for what, given in (("collection", args.data), ("--encoder", args.encoder)):
        if len(set(given)) < len(given):
            raise ConfigError(
                expected=f"every {what} once", got=f"{' '.join(given)}", hint="leave out what comes again"
            )
    from segmax.experiments.runner import check_number

    check_number(chosen, count)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    numbers = [read_number(int, "-k", text) for text in args.k or ()]
    passes = ("1" if args.quick else "3") if args.passes is None else args.passes
    return {
        "quick": args.quick,
        "seeds": tuple(range(checked_int("--seeds", read_number(int, "--seeds", args.seeds), 1))),
        "documents": checked_choice("--documents", args.documents, ("maxscore", "blocks")),
        "passes": checked_int("--passes", read_number(int, "--passes", passes), 1),
        "num_clusters": _number(args.clusters, "--clusters"),
        "min_rel": checked_int("--min-rel", read_number(int, "--min-rel", args.min_rel), 1),
        **({"ks": tuple(dict.fromkeys(checked_int("-k", k, 1) for k in numbers))} if numbers else {}),
    }


def _number(text: str | None, flag: str) -> int | None:
    return None if text is None else checked_int(flag, read_number(int, flag, text), 1)


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"could not make the folder '{folder}' ({error.strerror or error}); choose another --out"
        raise WriteError(msg) from error
    return folder


def _opened(args: argparse.Namespace, folder: Path, data: str, encoder: str) -> Collection:
    from segmax.experiments.collections import open_collection

    most = _number(args.max_queries, "--max-queries")
    if args.quick:
        most = min(most or _QUICK_QUERIES, _QUICK_QUERIES)
    opened = open_collection(data, encoder=encoder, cache=folder / _CACHE, max_queries=most, split=args.split)
    if len(args.encoder) < 2 or Path(data).is_file():
        return opened
    return dataclasses.replace(opened, name=f"{opened.name}, {Path(encoder).name}")


def _command(args: argparse.Namespace) -> str:
    """Return the command that says the same: what has its default is left out."""
    defaults = vars(experiment_parser().parse_args([]))
    parts = ["segmax", "experiment", args.name]
    for name, value in vars(args).items():
        if name in ("name", "help", "fresh") or value == defaults[name]:
            continue
        flag = "-k" if name == "k" else f"--{name.replace('_', '-')}"
        if name in ("data", "encoder"):
            parts += [part for each in value for part in (flag, each)]
        elif value is True:
            parts.append(flag)
        else:
            parts += [flag, *(value if isinstance(value, list) else [value])]
    return shlex.join(parts)


def _tell(ran: Ran) -> None:
    from rich.console import Console

    from segmax.experiments.render import show, spent

    show(ran.outcome, Console(highlight=False))
    sys.stderr.write(f"\n{printable(spent(ran.about))}; written: {printable(' '.join(map(str, ran.files)))}\n")
    if ran.missing:
        sys.stderr.write(f"no pictures: {printable(ran.missing)}\n")
