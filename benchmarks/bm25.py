"""BM25 from texts to a searchable index, in segmax, bm25s and tantivy: `python -m benchmarks.bm25 --docs 1000000`.

Every system reads the same file of JSON lines ({"id", "text"}) and writes an index to disk, in a fresh process and on
the same cores; the clock runs from opening the file to the written index. Systems take turns, and the fastest of
several passes counts. Then every system answers the same queries, one at a time, with text in and ids out.

- segmax stores ids; once more with texts, which it keeps by default and the others do not.
- bm25s removes the same stop words and stems with the same stemmer, so that its results have to be the same, but for
  accents, codes of 8 bits, and ties. It splits text in one thread; numba makes its index and its searches faster.
- tantivy parses the lines itself, which is faster than documents made in Python. Words are stemmed, positions are not
  stored, a thread per core indexes, and the last merge is awaited. Its BM25 has other parameters and no stop words.

Texts are repeated: a passage of 57 words is three stretches of 19 words, each drawn from the first 31,250 passages of
Wikipedia. All passages differ, but 1 M real ones would have a vocabulary several times as large. Without these texts
(`--wiki`), words are drawn from a generated vocabulary by Zipf's law.
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import wiki
from segmax.base.system import peak_memory

_STRETCH_WORDS, _STRETCHES = 19, 3
_QUERY_WORDS = 5
_ZIPF_WORDS = 200_000
_HEAP_BYTES = 1 << 30  # what tantivy may collect before it writes a segment

#: Returns the ids of the ten best documents for a query.
Search = Callable[[str], list[str]]


class System(NamedTuple):
    """How an index is built from FOLDER/texts.jsonl, and opened to be searched."""

    package: str
    build: Callable[[Path, Path], None]
    open: Callable[[Path], Search]


# --- texts -----------------------------------------------------------------------------------------------------------


def stretches(folder: Path) -> list[str]:
    """Return stretches of 19 words, of the wiki texts or of words by Zipf's law."""
    path = folder / "text-00.tsv.xz"
    if path.is_file():
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            words = [word for line in lines for word in line.rstrip("\n").split("\t")[2].split()]
    else:
        drawn = np.random.default_rng(0).zipf(1.2, 2_000_000) % _ZIPF_WORDS
        words = [f"w{number:x}" for number in drawn.tolist()]
    starts = range(0, len(words) - _STRETCH_WORDS, _STRETCH_WORDS)
    return [" ".join(words[start : start + _STRETCH_WORDS]) for start in starts]


def write_texts(path: Path, parts: list[str], num_docs: int) -> None:
    """Write passages of three stretches each."""
    drawn = np.random.default_rng(1).integers(0, len(parts), (num_docs, _STRETCHES))
    with path.open("w", encoding="utf-8") as file:
        for row, chosen in enumerate(drawn.tolist()):
            text = " ".join(parts[number] for number in chosen)
            file.write(json.dumps({"id": f"p{row}", "text": text}, ensure_ascii=False) + "\n")


def queries(parts: list[str], count: int) -> list[str]:
    """Return queries: five words of a stretch each."""
    rng = np.random.default_rng(2)
    chosen = rng.integers(0, len(parts), count).tolist()
    return [" ".join(rng.choice(parts[number].split(), _QUERY_WORDS, replace=False)) for number in chosen]


def _records(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


# --- systems ---------------------------------------------------------------------------------------------------------


def _build_segmax(texts: Path, target: Path, *, keep_texts: bool = False) -> None:
    import segmax

    segmax.from_texts(texts, path=target, keep_texts=keep_texts)


def _build_segmax_texts(texts: Path, target: Path) -> None:
    _build_segmax(texts, target, keep_texts=True)


def _open_segmax(target: Path) -> Search:
    import segmax

    index = segmax.open(target)
    return lambda query: [str(one) for one in index.search(query, k=10).ids]


def _build_bm25s(texts: Path, target: Path, *, backend: str = "numba") -> None:
    import bm25s
    import Stemmer

    ids, bodies = [], []
    for record in _records(texts):
        ids.append(record["id"])
        bodies.append(record["text"])
    stemmer = Stemmer.Stemmer("english")
    tokens = bm25s.tokenize(bodies, stopwords="en", stemmer=stemmer, show_progress=False)
    model = bm25s.BM25(backend=backend, csc_backend="auto")
    model.index(tokens, show_progress=False)
    model.save(target, corpus=None, show_progress=False)
    (target / "ids.json").write_text(json.dumps(ids))


def _build_bm25s_numpy(texts: Path, target: Path) -> None:
    _build_bm25s(texts, target, backend="numpy")


def _open_bm25s(target: Path) -> Search:
    import bm25s
    import Stemmer

    model = bm25s.BM25.load(target, mmap=True)
    ids = json.loads((target / "ids.json").read_text())
    stemmer = Stemmer.Stemmer("english")

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize(query, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)
        rows, _ = model.retrieve(tokens, k=10, show_progress=False)
        return [ids[row] for row in rows[0].tolist()]

    return search


def _build_tantivy(texts: Path, target: Path) -> None:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("text", stored=False, tokenizer_name="en_stem", index_option="freq")
    target.mkdir()
    writer = tantivy.Index(builder.build(), path=str(target)).writer(_HEAP_BYTES, num_threads=os.cpu_count() or 1)
    with texts.open(encoding="utf-8") as file:
        for line in file:
            writer.add_json(line)
    writer.commit()
    writer.wait_merging_threads()


def _open_tantivy(target: Path) -> Search:
    import tantivy

    index = tantivy.Index.open(str(target))
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        parsed, _ = index.parse_query_lenient(query, ["text"])
        found = searcher.search(parsed, limit=10, count=False).hits
        return [searcher.doc(address)["id"][0] for _, address in found]

    return search


SYSTEMS = {
    "segmax": System("segmax", _build_segmax, _open_segmax),
    "segmax, with texts": System("segmax", _build_segmax_texts, _open_segmax),
    "bm25s": System("bm25s", _build_bm25s, _open_bm25s),
    "bm25s, numpy": System("bm25s", _build_bm25s_numpy, _open_bm25s),
    "tantivy": System("tantivy", _build_tantivy, _open_tantivy),
}


# --- measuring -------------------------------------------------------------------------------------------------------


def _target(name: str, folder: Path) -> Path:
    return folder / name.replace(", ", "-").replace(" ", "-")


def build_one(name: str, folder: Path) -> dict[str, Any]:
    """Build one index; return its cost."""
    target = _target(name, folder)
    shutil.rmtree(target, ignore_errors=True)
    importlib.import_module(SYSTEMS[name].package)  # which takes as long for ten documents
    start = time.perf_counter()
    SYSTEMS[name].build(folder / "texts.jsonl", target)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    return {"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak": peak_memory(), "size": size}


def search_one(name: str, folder: Path) -> dict[str, Any]:
    """Answer all queries, twice; return the results and the time of the faster round."""
    search = SYSTEMS[name].open(_target(name, folder))
    asked = json.loads((folder / "queries.json").read_text())
    times = []
    found: list[list[str]] = []
    for _ in range(2):
        start = time.perf_counter()
        found = [search(query) for query in asked]
        times.append(time.perf_counter() - start)
    return {"query_ms": min(times) / len(asked) * 1000, "found": found}


def in_fresh_process(step: str, name: str, folder: Path) -> dict[str, Any]:
    """Run `build_one` or `search_one` in a fresh process."""
    program = [sys.executable, "-m", "benchmarks.bm25", "--folder", str(folder), f"--{step}", name]
    output = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(output.splitlines()[-1])
    return row


def overlap(one: list[list[str]], two: list[list[str]]) -> float:
    """Return the mean share of results that two systems have in common."""
    shares = [len(set(a) & set(b)) / max(len(a), 1) for a, b in zip(one, two, strict=True)]
    return float(np.mean(shares))


def measured(names: list[str], folder: Path, passes: int) -> dict[str, dict[str, Any]]:
    """Return the fastest build of every system, with the rest of what there is to say about it."""
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(passes):
        for name in names:
            row = in_fresh_process("build", name, folder)
            if name not in rows or row["seconds"] < rows[name]["seconds"]:
                rows[name] = row
    for name in names:
        rows[name] |= in_fresh_process("search", name, folder) | {"version": version(SYSTEMS[name].package)}
    return rows


def main() -> None:
    """Parse, write texts, measure, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bm25", description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--wiki", type=Path, default=wiki.DEFAULT_FOLDER, help="the folder of the wiki texts")
    parser.add_argument("--folder", type=Path, default=Path("build/bm25"), help="where texts and indexes are written")
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, help="by default all but 'bm25s, numpy'")
    parser.add_argument("--build", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--search", choices=SYSTEMS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build or args.search:
        print(json.dumps(build_one(args.build, args.folder) if args.build else search_one(args.search, args.folder)))
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    parts = stretches(args.wiki)
    write_texts(args.folder / "texts.jsonl", parts, args.docs)
    (args.folder / "queries.json").write_text(json.dumps(queries(parts, args.queries)))
    names = args.systems or [name for name in SYSTEMS if name != "bm25s, numpy"]
    rows = measured(names, args.folder, args.passes)
    first = rows[names[0]]
    print(f"{args.docs:,} passages, {os.cpu_count()} cores, the fastest of {args.passes} passes\n")
    print(f"| system | version | s | CPU s | times {names[0]} | peak GB | index MB | ms per query | overlap@10 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        print(
            f"| {name} | {row['version']} | {row['seconds']:.1f} | {row['cpu']:.1f} "
            f"| {row['seconds'] / first['seconds']:.1f} | {row['peak'] / 1e9:.2f} | {row['size'] / 1e6:.0f} "
            f"| {row['query_ms']:.2f} | {overlap(first['found'], row['found']):.3f} |"
        )


if __name__ == "__main__":
    main()
