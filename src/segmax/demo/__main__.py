"""`python -m segmax.demo`: index Vaswani from its text with BM25, and with a model if there is one, and compare."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Mapping

from rich.console import Console

import segmax
from segmax.cli_show import show
from segmax.demo import FOLDER
from segmax.encoders import Encoder, load_encoder
from segmax.evaluation.outcome import wide_console
from segmax.io import Document, Queries, open_texts, read_qrels, read_queries
from segmax.params import SearchParams

#: Far more clusters than the default for so few documents, so that there is something to prune; and nothing is swept:
#: with so few, adding up everything would be the fastest way.
CONFIG = segmax.BuildConfig(num_clusters=128)
METHODS: Mapping[str, SearchParams] = {
    "exhaustive": segmax.Exhaustive(),
    "maxscore": segmax.MaxScore(),
    "anytime": segmax.Anytime(sweep=False),
    "asc": segmax.ASC(sweep=False),
    "asc, μ = 0.7": segmax.ASC(mu=0.7),
    "best first, η = 0.9": segmax.BestFirst(eta=0.9, sweep=False),
}
PASSES = 5
MODEL_DOCS = 1000


def main() -> None:
    """Index, search, evaluate, print."""
    parser = argparse.ArgumentParser(prog="python -m segmax.demo", description=__doc__)
    parser.add_argument("-k", type=int, default=10, help="results per query (default 10)")
    parser.add_argument("--model", help="the folder or name of a sparse encoder, to compare with BM25")
    args = parser.parse_args()
    console = Console()
    queries = read_queries(FOLDER / "queries.jsonl.gz")
    demonstrate(console, list(open_texts(FOLDER)), load_encoder("bm25"), queries, args.k)
    if args.model is not None:
        few = _relevant()
        console.rule(f"{len(few):,} relevant documents, since a model takes its time: BM25, then the model")
        for name in ("bm25", args.model):
            demonstrate(console, few, load_encoder(name), queries, args.k)


def _relevant() -> list[Document]:
    """Return the first documents that are relevant to a query."""
    wanted = {document for labels in read_qrels(FOLDER / "qrels.tsv").values() for document in labels}
    return list(itertools.islice((document for document in open_texts(FOLDER) if document.id in wanted), MODEL_DOCS))


def demonstrate(console: Console, documents: list[Document], encoder: Encoder, queries: Queries, k: int) -> None:
    """Index documents with an encoder, compare the methods on them, and show the results of a query."""
    start = time.perf_counter()
    index = segmax.build_from_texts(documents, encoder=encoder, config=CONFIG)
    console.print(f"{encoder!r}\nindexed from text in {time.perf_counter() - start:.1f} s: {index}")
    found = segmax.evaluate(index, queries, FOLDER, methods=METHODS, k=k, passes=PASSES)
    wide_console(found).print(found)
    text = "noise of microwave tubes"
    console.print(f"\nquery: {text}", style="bold")
    show(index.search(text, k=3), text, encoder)
    next_one = index.search(text, k=4).ids[-1]
    console.print(f"\nwhy not {next_one}? {index.explain(text, next_one, k=3).reason}\n")


if __name__ == "__main__":
    main()
