"""`segmax experiment`: the tables and figures of the paper, measured on your data."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from segmax.base.display import printable
from segmax.base.errors import ConfigError, WriteError
from segmax.base.text_table import Column, tables
from segmax.bench import check_release_build
from segmax.cli.parser import CommandParser, if_interrupted, positive_number, shows_progress
from segmax.experiments.catalog import LISTED

if TYPE_CHECKING:  # help and list load no experiment, and nothing that one needs
    from rich.console import Console

    from segmax.experiments import Collection, Experiment
    from segmax.experiments.runner import Ran

_QUICK_QUERIES = 50
_CACHE = "cache"
_DOCUMENTS = ("maxscore", "blocks")

# Lines of at most 80 characters: argparse shows these texts as they are.
_WIDTH = 80
_HELP = """\
Reproduce a table or figure of the paper on your data, and print the results
beside the paper's. Writes NAME.json, NAME.md and NAME.svg, which segmax report
collects. If an experiment is interrupted, run the same command again to resume.

experiments:
{list}

Run segmax experiment NAME --help to learn more about one.
"""
_EXAMPLES = """\
  segmax experiment list
  segmax experiment example
  segmax experiment bounds --data beir/scifact --quick
  segmax experiment baselines --data msmarco.json -k 10 1000 --seeds 3
  segmax experiment zero-shot --data beir/scifact --data beir/nfcorpus
"""
_DATA_HELP = """\
DATA is a BEIR folder or an ir_datasets id, whose texts --encoder encodes, or a
JSON file that describes vectors, with paths relative to the file:
  {"name": "wiki", "documents": "docs.npz", "queries": "queries.npz",
   "qrels": "qrels.tsv", "drop_self": false, "dense": {"max": "docs.max.npy"},
   "labels": {"max": {"512": "labels.npy"}}}
Only documents (a file or a list of files) and queries are required.
"""
#: Options that have another name in Python.
NAMES = {"ks": "-k"}


def parser(about: Experiment | None = None) -> argparse.ArgumentParser:
    """Return the parser of `segmax experiment`; its help is about one experiment, or about all."""
    made = CommandParser(
        "experiment",
        _description(about),
        _examples(about),
        usage=f"segmax experiment {'NAME' if about is None else about.name} [--data DATA] ...",
        add_help=False,  # what --help shows depends on NAME
    )
    made.add_argument("name", metavar="NAME", nargs="?", default="list", help="name of the experiment, or list")
    made.add_argument("-h", "--help", action="store_true", help="show the help of the experiment and exit")
    _add_data_options(made.add_argument_group("data"))
    _add_settings(made.add_argument_group("settings"))
    output = made.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", default="experiments", help="where to write (default: %(default)s)")
    output.add_argument("--fresh", action="store_true", help="start over instead of resuming")
    return made


def _add_data_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--data", metavar="DATA", action="append", default=[], help="a collection. Can be repeated")
    group.add_argument(
        "--encoder",
        metavar="bm25|MODEL",
        action="append",
        default=[],
        help="encoder of texts. Repeat it to measure every collection of texts with each encoder (default: bm25)",
    )
    group.add_argument(
        "--split", metavar="NAME", default="test", help="which judgments of a BEIR folder to use (default: %(default)s)"
    )
    group.add_argument(
        "--min-rel",
        metavar="N",
        type=positive_number,
        default=1,
        help="lowest grade that counts as relevant (default: %(default)s)",
    )
    group.add_argument(
        "--max-queries", metavar="N", type=positive_number, help="use only the first N queries (default: all)"
    )


def _add_settings(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--quick", action="store_true", help="use few queries and settings, to finish within seconds")
    group.add_argument(
        "-k",
        metavar="N",
        type=positive_number,
        nargs="+",
        action="extend",
        help="numbers of results to measure with (default: 10 1000)",
    )
    group.add_argument(
        "--num-clusters",
        metavar="N",
        type=positive_number,
        help="number of clusters (default: depends on the number of documents)",
    )
    group.add_argument(
        "--seeds",
        metavar="N",
        type=positive_number,
        default=1,
        help="repeat with N random seeds (default: %(default)s)",
    )
    group.add_argument(
        "--passes",
        metavar="N",
        type=positive_number,
        help="how many times to run the queries for latency (default: 3, with --quick 1)",
    )
    group.add_argument(
        "--documents",
        metavar="|".join(_DOCUMENTS),
        choices=_DOCUMENTS,
        default=_DOCUMENTS[0],
        help="how documents of a cluster are scored: maxscore as in the paper, or segmax's blocks "
        "(default: %(default)s)",
    )


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
        return f"  segmax experiment {about.name}\n"
    lines = ["--data beir/scifact --quick", "--data msmarco.json --seeds 3 --out results"]
    if about.many:
        lines.append("--data beir/scifact --data beir/nfcorpus")
    return "".join(f"  segmax experiment {about.name} {line}\n" for line in lines)


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
    width = 2 + max(map(len, LISTED)) + 2
    return "\n".join(
        textwrap.fill(
            f"{each.title} ({each.place})",
            _WIDTH,
            initial_indent=f"  {name}".ljust(width),
            subsequent_indent=" " * width,
        )
        for name, each in LISTED.items()
    )


def run(args: argparse.Namespace) -> None:
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
    check_release_build()
    sources = _sources(args)
    _check_data(chosen, args, len(sources))
    folder = _folder(args.out)
    with if_interrupted(f"finished steps are in '{folder}'; run the same command again to resume"):
        _print(_measured(chosen, args, folder, sources))


def _measured(chosen: Experiment, args: argparse.Namespace, folder: Path, sources: list[tuple[str, str]]) -> Ran:
    from segmax.experiments.runner import run_experiment
    from segmax.experiments.steps import Steps
    from segmax.experiments.task import Task

    steps = Steps(folder / f"{chosen.name}.steps.jsonl", fresh=args.fresh)
    collections = tuple(_opened(args, folder, data, encoder) for data, encoder in sources)
    task = Task(collections=collections, steps=steps, **_options(args))
    with steps.opened(progress=shows_progress(None)):
        return run_experiment(chosen, task, folder, _command(args))


def _help(about: Experiment | None) -> NoReturn:
    sys.stdout.write(parser(about).format_help())
    raise SystemExit(0)


def _sources(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return every collection with its encoder: texts once per encoder, vectors once."""
    encoders = args.encoder or ["bm25"]
    return [(data, encoder) for data in args.data for encoder in (encoders[:1] if Path(data).is_file() else encoders)]


def _check_data(chosen: Experiment, args: argparse.Namespace, count: int) -> None:
    """Raise before anything is encoded."""
    for what, given in (("collection", args.data), ("--encoder", args.encoder)):
        if len(set(given)) < len(given):
            raise ConfigError(expected=f"every {what} once", got=f"{' '.join(given)}", hint="remove the repetition")
    from segmax.experiments.runner import check_number

    check_number(chosen, count)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "quick": args.quick,
        "seeds": tuple(range(args.seeds)),
        "documents": args.documents,
        "passes": args.passes or (1 if args.quick else 3),
        "num_clusters": args.num_clusters,
        "min_rel": args.min_rel,
        **({"ks": tuple(dict.fromkeys(args.k))} if args.k else {}),
    }


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"could not create the folder '{folder}' ({error.strerror or error})"
        raise WriteError(msg, hint="choose another {out}") from error
    return folder


def _opened(args: argparse.Namespace, folder: Path, data: str, encoder: str) -> Collection:
    from segmax.experiments.collections import open_collection

    most = args.max_queries
    if args.quick:
        most = min(most or _QUICK_QUERIES, _QUICK_QUERIES)
    opened = open_collection(data, encoder=encoder, cache=folder / _CACHE, max_queries=most, split=args.split)
    if len(args.encoder) < 2 or Path(data).is_file():
        return opened
    return dataclasses.replace(opened, name=f"{opened.name}, {Path(encoder).name}")


def _command(args: argparse.Namespace) -> str:
    """Return the command that was run, without options that have their defaults."""
    defaults = vars(parser().parse_args([]))
    parts = ["segmax", "experiment", args.name]
    for name, value in vars(args).items():
        if name in ("name", "help", "fresh", "verbose") or value == defaults[name]:
            continue
        flag = "-k" if name == "k" else f"--{name.replace('_', '-')}"
        if name in ("data", "encoder"):
            parts += [part for each in value for part in (flag, each)]
        elif value is True:
            parts.append(flag)
        else:
            parts += [flag, *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(parts)


def _print(ran: Ran) -> None:
    from rich.console import Console

    from segmax.experiments.render import show, spent

    show(ran.outcome, Console(highlight=False))
    sys.stderr.write(f"\n{printable(spent(ran.about))}; wrote {printable(' '.join(map(str, ran.files)))}\n")
    if ran.missing:
        sys.stderr.write(f"no plots: {printable(ran.missing)}\n")
