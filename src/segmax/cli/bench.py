"""`segmax bench`: segmax beside other engines, on data that anybody can get."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.errors import ConfigError, WriteError
from segmax.base.progress import progress_of
from segmax.base.system import on_stop
from segmax.bench import check_release_build
from segmax.cli.parser import (
    CommandParser,
    add_progress,
    if_interrupted,
    positive_number,
    shows_progress,
    whole_number,
)
from segmax.cli.reading import note
from segmax.drawing.figures import check_plot

if TYPE_CHECKING:  # help loads no engine
    from segmax.bench.outcome import Outcome
    from segmax.bench.sources import Source

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Measure segmax and the other engines that are installed on the same vectors:
latency by recall, the time to build, the size of the index, and relevance if
there are judgments. pip install 'segmax[rivals]' installs the other engines:
Seismic, BMP, PISA, SINDI of VSAG, splade-index and Qdrant Edge. Those that are
not installed are skipped.

DATA is one of these:
  scifact/         a BEIR folder, whose texts --encoder encodes
  beir/scifact     an ir_datasets id, which ir_datasets downloads
  docs.npz         vectors in any format that segmax reads, with --queries
  docs.segmax      an index, with --queries. Only segmax can search it
  wiki.json        a description of vectors, as for segmax experiment
Or leave it out, and generate a collection of any size with --generate. It
flatters pruning, because its topics are tidier than those of real texts.

Each engine builds in a process of its own, and searches on one core, one query
at a time, in turn with the others. The fastest of several passes counts. Half
of the queries choose the settings of each engine, and the tables show the other
half. Recall is the share of exact results. Weights are rounded to 8 bits first,
so that exact search means the same to all engines.
"""
_EXAMPLES = """\
  segmax bench --generate 100000
  segmax bench scifact/ --encoder naver/splade-v3 --json scifact.json
  segmax bench beir/nfcorpus/test -k 10 --engines segmax seismic
  segmax bench docs.npz --queries queries.npz --plot race.png
  segmax bench docs.segmax --queries queries.jsonl --passes 5
"""
#: Options that have another name in Python.
NAMES = {"data": "DATA"}
_KS = (10, 100, 1000)
_FOLDER = "segmax-bench"


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax bench`."""
    made = CommandParser(
        "bench", _HELP, _EXAMPLES, usage="segmax bench DATA [options]\n       segmax bench --generate N [options]"
    )
    made.add_argument("data", metavar="DATA", nargs="?", help="what to measure on, as described above")
    _add_data_options(made.add_argument_group("data"))
    _add_generated_options(made.add_argument_group("generated collections"))
    _add_race_options(made.add_argument_group("measuring"))
    _add_output_options(made.add_argument_group("output"))
    return made


def _add_data_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--encoder",
        metavar="bm25|MODEL",
        help="encoder of texts: bm25, or a model, a folder or a name on the Hugging Face hub (default: bm25)",
    )
    group.add_argument(
        "--queries",
        metavar="FILE",
        help="queries for vectors or an index. For an index, also a BEIR folder or an ir_datasets id",
    )
    group.add_argument("--qrels", metavar="FILE", help="judgments of --queries (default: none)")
    group.add_argument(
        "--split", metavar="NAME", default="test", help="which judgments of a BEIR folder to use (default: %(default)s)"
    )
    group.add_argument(
        "--max-queries",
        metavar="N",
        type=positive_number,
        default=1000,
        help="use only the first N queries, or generate N (default: %(default)s)",
    )


def _add_generated_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--generate", metavar="N", type=positive_number, help="generate this many documents")
    group.add_argument(
        "--doc-terms", metavar="N", type=positive_number, default=190, help="terms per document (default: %(default)s)"
    )
    group.add_argument(
        "--query-terms", metavar="N", type=positive_number, default=24, help="terms per query (default: %(default)s)"
    )
    group.add_argument(
        "--seed",
        metavar="N",
        type=whole_number,
        default=0,
        help="random seed; the same seed generates the same collection (default: %(default)s)",
    )


def _add_race_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-k",
        metavar="N",
        dest="ks",
        type=positive_number,
        nargs="+",
        action="extend",
        help=f"numbers of results to measure with (default: {' '.join(map(str, _KS))})",
    )
    group.add_argument(
        "--engines",
        metavar="NAME",
        nargs="+",
        action="extend",
        help="scatter-add, segmax, seismic, bmp, pisa, sindi, splade-index, qdrant-edge, or a single index of theirs, "
        "such as bmp-8 (default: all that are installed)",
    )
    group.add_argument(
        "--passes",
        metavar="N",
        type=positive_number,
        default=3,
        help="how many times to run the queries; a query's fastest time counts (default: %(default)s)",
    )
    group.add_argument(
        "--screen",
        metavar="N",
        type=positive_number,
        default=40,
        help="how many queries all settings of an engine run on, before the best run on all (default: %(default)s)",
    )
    group.add_argument(
        "--core", metavar="N", type=whole_number, help="the core to search on (default: the last one that is allowed)"
    )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--json", metavar="FILE", help="also write everything as JSON: the machine, versions, each query's latency"
    )
    group.add_argument("--plot", metavar="FILE", help="also plot latency against recall (.png, .svg or .pdf)")
    group.add_argument(
        "--folder",
        metavar="DIR",
        default=_FOLDER,
        help="where to keep encoded texts, and vectors and indexes for a while (default: %(default)s)",
    )
    group.add_argument(
        "--keep",
        action="store_true",
        help="keep vectors and indexes in --folder; the next run with the same data reuses indexes of other engines",
    )
    add_progress(group)


def run(args: argparse.Namespace) -> None:
    """Run `segmax bench`."""
    _check(args)
    with if_interrupted("nothing was written but what --folder holds"), on_stop(_stop):
        outcome = _measured(args)
    if args.json is not None:
        outcome.to_json(Path(args.json))
    if args.plot is not None:
        from segmax.bench.picture import draw_race

        draw_race(outcome.settings["ks"], outcome.runs, outcome.screened, Path(args.plot))
    from rich.console import Console

    Console(highlight=False).print(outcome)
    if not outcome.runs:
        raise ConfigError("no engine could be measured", hint="the notes above say why")


def _stop(number: int, frame: object) -> None:
    """End like Ctrl-C does: with the process that measures, and without its folder."""
    raise KeyboardInterrupt


def _check(args: argparse.Namespace) -> None:
    """Raise before anything is measured."""
    check_release_build()
    if (args.data is None) == (args.generate is None):
        raise ConfigError(expected="DATA, or --generate N", got="neither" if args.data is None else "both")
    if args.plot is not None:
        check_plot(args.plot)
    if args.json is not None and not Path(args.json).absolute().parent.is_dir():
        raise WriteError(
            where="--json", expected="an existing directory", got=f"'{Path(args.json).parent}'", hint="create it first"
        )


def _measured(args: argparse.Namespace) -> Outcome:
    from segmax.bench.engines.catalog import ENGINES, chosen
    from segmax.bench.measuring import measure
    from segmax.bench.race import Plan
    from segmax.bench.sources import Source

    names = list(ENGINES) if args.engines is None else chosen(args.engines)
    source = Source(
        data=args.data,
        generate=args.generate,
        queries=args.queries,
        qrels=args.qrels,
        split=args.split,
        encoder=args.encoder,
        max_queries=args.max_queries,
        doc_terms=args.doc_terms,
        query_terms=args.query_terms,
        seed=args.seed,
    )
    folder = Path(args.folder)
    shows = shows_progress(args.progress)
    material = source.material(folder, shows)
    if material.docs is None:
        names = _only_segmax(names, args, source)
    given = {} if args.core is None else {"core": args.core}
    plan = Plan(
        engines=names,
        ks=tuple(sorted(set(args.ks or _KS))),
        passes=args.passes,
        screen=args.screen,
        reuse=args.keep,
        **given,
    )
    if material.grades is not None and not material.measures_relevance:
        note("relevance is not measured: run pip install 'segmax[evaluate]'")
    with progress_of(shows) as progress:
        return measure(
            material,
            plan,
            folder / material.folder_name(),
            command=shlex.join(["segmax", *sys.argv[1:]]),
            keep=args.keep,
            note=(lambda _: None) if shows else note,  # the tables say it again
            progress=progress,
        )


def _only_segmax(names: list[str], args: argparse.Namespace, source: Source) -> list[str]:
    """Return segmax alone: no other engine can read an index of ours."""
    if args.engines is not None and names != ["segmax"]:
        raise ConfigError(
            option="engines",
            expected=f"segmax alone, because '{source.data}' is an index of segmax",
            got=", ".join(args.engines),
            hint="pass the vectors or texts that it was built from",
        )
    return ["segmax"]
