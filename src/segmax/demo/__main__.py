"""`python -m segmax.demo`: relevance on a small collection, speed on a large one, and an index to search yourself."""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

import segmax
from segmax.base.display import counted, printable
from segmax.base.errors import MissingPackageError
from segmax.base.text_table import Column, tables
from segmax.bench.generated import Generator
from segmax.cli.show import answer, show
from segmax.demo import FOLDER
from segmax.demo.speed import draw_speed, relevance_columns, speed_columns
from segmax.drawing.figures import check_matplotlib
from segmax.encoders import Encoder, load_encoder
from segmax.io import Document, Queries, open_texts, read_qrels, read_queries
from segmax.io.streams import read_blocks
from segmax.io.writing import write_whole
from segmax.search.methods import SearchParams

#: Far more clusters than the default for so few documents, so that there is something to prune.
CONFIG = segmax.BuildConfig(num_clusters=128)
METHODS: Mapping[str, SearchParams] = {
    "exhaustive": segmax.Exhaustive(),
    "asc": segmax.ASC(),
    "asc, μ = 0.7": segmax.ASC(mu=0.7),
    "asc, η = 0.9": segmax.ASC(eta=0.9),
}
QUERY = "noise of microwave tubes"
NAME = "vaswani"
MODEL_DOCS = 1000
LARGE_DOCS = 200_000
LARGE_QUERIES = 200
DOC_TERMS, QUERY_TERMS = 64, 24


def main() -> None:
    """Run the demo: index, search, evaluate, print."""
    parser = argparse.ArgumentParser(prog="python -m segmax.demo", description=__doc__)
    parser.add_argument("-k", type=int, default=10, help="results per query (default: %(default)s)")
    parser.add_argument("--model", help="the folder or name of a sparse encoder, to compare with BM25")
    parser.add_argument("--out", default="segmax-demo", help="the folder to write to (default: %(default)s)")
    args = parser.parse_args()
    try:
        demonstrate(Path(args.out), args.k, args.model)
    except (segmax.SegmaxError, OSError) as error:
        raise SystemExit(f"segmax.demo: error: {printable(error)}") from error


def demonstrate(out: Path, k: int, model: str | None) -> None:
    """Show relevance and speed, with a model if one is given, and a command to try next."""
    console = Console(highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    unpack(out / NAME)
    queries = read_queries(FOLDER)
    _head(console, "Relevance: Vaswani, a small judged collection, indexed with BM25")
    compare(console, list(open_texts(FOLDER)), load_encoder("bm25"), queries, k, out / f"{NAME}.segmax")
    _head(console, f"Speed: {LARGE_DOCS:,} generated documents")
    race(console, k, out / "speed.png")
    if model is not None:
        few = _relevant()
        _head(console, f"BM25 and a model, on only {len(few):,} documents because the model is slow")
        for name in ("bm25", model):
            compare(console, few, load_encoder(name), queries, k)
    _head(console, "Now try it yourself")
    path = str(out / f"{NAME}.segmax")
    console.print(Text(f"  {_command('search', path, QUERY)}\n"), soft_wrap=True)
    console.print(Text("Or look at it in a browser: run this, and open http://127.0.0.1:8080\n"))
    console.print(Text(f"  {_command('serve', path)}\n"), soft_wrap=True)


def _head(console: Console, text: str) -> None:
    console.print(Text(f"\n{text}\n", style="bold"))


def unpack(folder: Path) -> None:
    """Write the collection as a BEIR folder, which other commands can use."""
    folder.mkdir(exist_ok=True)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        packed = FOLDER / f"{name}.gz"
        with write_whole(folder / name, overwrite=True) as file:
            for block in read_blocks(packed if packed.is_file() else FOLDER / name):
                file.write(block)


def _relevant() -> list[Document]:
    """Return the first documents that are relevant to a query."""
    wanted = {document for labels in read_qrels(FOLDER / "qrels.tsv").values() for document in labels}
    return list(itertools.islice((document for document in open_texts(FOLDER) if document.id in wanted), MODEL_DOCS))


def compare(
    console: Console, documents: list[Document], encoder: Encoder, queries: Queries, k: int, path: Path | None = None
) -> None:
    """Index documents with an encoder, compare the relevance of the methods, and show the results of a query."""
    start = time.perf_counter()
    with segmax.from_texts(
        documents, encoder=encoder, config=CONFIG, path=path, overwrite=path is not None, progress=False
    ) as index:
        seconds = time.perf_counter() - start
        console.print(Text(printable(f"{encoder!r}, {counted(index.num_docs, 'document')} indexed in {seconds:.1f} s")))
        found = segmax.evaluate(index, queries, FOLDER, methods=METHODS, k=k, passes=1, progress=False)
        _print(console, relevance_columns(found))
        console.print(Text(f"of exact: the share of exhaustive search's {k} results that a method finds", style="dim"))
        console.print(Text(f"\nquery: {QUERY}", style="bold"))
        show(answer(index, QUERY, {"k": 3}))
        next_one = index.search(QUERY, k=4).ids[-1]
        explanation = index.explain(QUERY, next_one, k=3)
        console.print(Text(printable(f"why not {next_one}? {explanation.reason}")))


def race(console: Console, k: int, picture: Path) -> None:
    """Generate a large collection, and compare and draw the speed of the methods on it."""
    generator = Generator()
    start = time.perf_counter()
    docs, queries = generator.vectors(LARGE_DOCS, DOC_TERMS), generator.vectors(LARGE_QUERIES, QUERY_TERMS)
    generated = time.perf_counter()
    with segmax.build(docs, config=segmax.BuildConfig(calibrate=False), progress=False) as index:
        built = time.perf_counter()
        console.print(
            Text(
                f"generated in {generated - start:.1f} s, indexed in {built - generated:.1f} s: "
                f"{counted(index.num_postings, 'posting')}, {counted(index.num_clusters, 'cluster')}"
            )
        )
        found = segmax.evaluate(index, queries, methods=METHODS, k=k, passes=5, progress=False)
    _print(console, speed_columns(found))
    console.print(
        Text(
            f"{counted(found.num_queries, 'query', 'queries')}, one thread, k = {k}. Generated collections flatter "
            "pruning, because their topics are tidier than real ones; docs/benchmarks.md measures real collections.",
            style="dim",
        )
    )
    try:
        check_matplotlib()
    except MissingPackageError as error:
        console.print(Text(f"no picture: {error}", style="dim"))
    else:
        draw_speed(found, picture)
        console.print(Text(printable(f"picture: {picture}")))


def _print(console: Console, columns: list[Column]) -> None:
    for part in tables([columns], console.width):
        console.print(part)


def _command(*arguments: str) -> str:
    """Return a segmax command that works in this shell."""
    script = Path(sys.executable).with_name("segmax")
    known = shutil.which("segmax")
    if not script.is_file():
        start = [sys.executable, "-m", "segmax.cli"]
    elif known is not None and Path(known).samefile(script):
        start = ["segmax"]
    else:
        start = [min(str(script), os.path.relpath(script), key=len)]
    return shlex.join([*start, *arguments])


if __name__ == "__main__":
    main()
