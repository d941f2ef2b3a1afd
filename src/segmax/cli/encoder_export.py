"""`segmax encoder export`: a model for ONNX Runtime and OpenVINO, in float32 and in 8 bits."""

from __future__ import annotations

import argparse
import time

from segmax.cli.formats import add_from
from segmax.cli.parser import CommandParser
from segmax.cli.reading import read_texts
from segmax.cli.show import say
from segmax.encoders import ExportReport, export_encoder, load_encoder
from segmax.evaluation import evaluate
from segmax.io import TEXT_FORMATS
from segmax.search.methods import ASC
from segmax.text.pipeline import from_texts

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Export a model, so that ONNX Runtime or OpenVINO can run it on a CPU: in float32
and in 8 bits, which is several times as fast. OUT is a folder for the export,
and an encoder by itself: pass it as --encoder OUT, also on machines without
torch. Without OUT, the export is kept in your cache, and used from then on
wherever you name the model with --dtype int8 or --backend.

The command prints how near vectors are to those of the model itself: the mean
and the smallest cosine on the texts of --texts, or on a few sentences. With
--data, a BEIR folder with judgments, it also prints nDCG@10 of both.
"""
_EXAMPLES = """\
  segmax encoder export naver/splade-v3
  segmax encoder export naver/splade-v3 splade-onnx
  segmax encoder export my-model --texts corpus.jsonl
  segmax encoder export my-model --data beir/nfcorpus
  segmax index corpus.jsonl docs.segmax --encoder my-model --dtype int8
"""
NAMES = {"name": "MODEL", "folder": "OUT"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax encoder export`."""
    made = CommandParser("encoder export", _HELP, _EXAMPLES, usage="segmax encoder export [options] MODEL [OUT]")
    made.add_argument("model", metavar="MODEL", help="a folder or a name on the hub")
    made.add_argument("out", metavar="OUT", nargs="?", help="the folder to write (default: one in your cache)")
    made.add_argument("--texts", metavar="IN", help="texts to compare vectors on: a file or a BEIR folder")
    add_from(made, TEXT_FORMATS)
    made.add_argument("--data", metavar="FOLDER", help="a BEIR folder to measure nDCG@10 on, which encodes it twice")
    made.add_argument("--overwrite", action="store_true", help="export again what is there already, and replace OUT")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax encoder export`."""
    start = time.perf_counter()
    given = args.texts or args.data
    texts = {} if given is None else {"texts": read_texts(given, args.format)}
    report = export_encoder(args.model, args.out, overwrite=args.overwrite, **texts)
    say(*_summary(report, time.perf_counter() - start))
    if args.data is not None:
        figures = {dtype: _ndcg(args.out or args.model, dtype, args.data) for dtype in report.agreements}
        say(*(f"{dtype}: nDCG@10 {figure:.4f}" for dtype, figure in figures.items()))


def _summary(report: ExportReport, seconds: float) -> list[str]:
    return [
        f"{report.folder}: exported in {seconds:.1f} s",
        *(
            f"{dtype}: {report.num_bytes[dtype] / 1e6:.1f} MB, cosine to the model: mean {found.mean:.4f}, "
            f"smallest {found.minimum:.4f}"
            for dtype, found in report.agreements.items()
        ),
    ]


def _ndcg(model: str, dtype: str, data: str) -> float:
    encoder = load_encoder(model, dtype=dtype, backend="onnx")
    with from_texts(data, encoder=encoder, keep_texts=False) as index:
        return float(evaluate(index, data=data, methods=[ASC()], passes=1).methods[0].relevance["nDCG@10"])
