"""How fast files are read and written on one core, and how much memory that takes.

Documents are random: `--docs` of them with 190 terms each out of 30,000 words, common words more often, with weights
that are floats (as from SPLADE) or 8-bit impacts. Every file is written once and read twice, each time by a fresh
process. CPU time counts, because the machine may be busy; of the two readings the faster one counts. Memory is the most
anonymous memory after any batch, including Python and its libraries; pages of mapped files do not count.

    python -m benchmarks.formats [--docs 100000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from segmax.base.system import anonymous_memory
from segmax.io import VectorBatch, open_vectors, write_vectors
from segmax.vectors.csr import Csr

_TERMS = 30_000
_TERMS_PER_DOC = 190
_BATCH = 2_000
_FILES = ("impacts.jsonl", "impacts.jsonl.gz", "floats.jsonl", "floats.jsonl.gz", "impacts.ciff", "floats.npz",
          "floats.csr", "floats.bin", "floats.parquet")  # fmt: skip


def words() -> list[str]:
    """Return words of three to ten letters, some of them word pieces."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    made: dict[str, None] = {}
    while len(made) < _TERMS:
        word = "".join(letters[(rng.random(int(rng.integers(3, 11))) ** 2 * 26).astype(int)])
        made.setdefault(f"##{word}" if rng.random() < 0.2 else word)
    return list(made)


def documents(num_docs: int, whole: bool) -> Iterator[VectorBatch]:
    """Draw documents."""
    rng = np.random.default_rng(1)
    for first in range(0, num_docs, _BATCH):
        count = min(_BATCH, num_docs - first)
        drawn = (_TERMS * rng.random((count, _TERMS_PER_DOC * 5 // 4)) ** 2).astype(np.uint32)
        rows = [np.unique(row)[:_TERMS_PER_DOC] for row in drawn]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        weights = rng.gamma(2, 0.4, int(indptr[-1])).astype(np.float32)
        values = np.clip(weights * 50, 1, 255).astype(np.uint8) if whole else weights
        ids = [f"doc-{number}" for number in range(first, first + count)]
        yield VectorBatch(ids, Csr(indptr, np.concatenate(rows), values, _TERMS))


def write(path: Path, num_docs: int) -> dict[str, float]:
    """Write a file; return the time, without that of drawing documents."""
    whole = path.name.startswith("impacts")
    start = time.process_time()
    for _ in documents(num_docs, whole):
        pass
    drawing = time.process_time() - start
    start = time.process_time()
    write_vectors(path, documents(num_docs, whole), terms=words(), overwrite=True)
    return {"seconds": time.process_time() - start - drawing}


def read(path: Path) -> dict[str, float]:
    """Read a file to its end."""
    start = time.process_time()
    postings = text_bytes = peak = 0
    for batch in open_vectors(path).batches():
        postings += len(batch.vectors.indices)
        peak = max(peak, anonymous_memory())
    seconds = time.process_time() - start
    if ".jsonl" in path.name:
        from segmax.io.streams import read_blocks

        text_bytes = sum(map(len, read_blocks(path)))
    return {"seconds": seconds, "postings": postings, "text_bytes": text_bytes, "peak": peak}


def apart(*arguments: str) -> dict[str, float]:
    """Run one step in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.formats", *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(result.stdout)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=100_000)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--read", type=Path)
    args = parser.parse_args()
    if args.write is not None:
        print(json.dumps(write(args.write, args.docs)))
        return
    if args.read is not None:
        print(json.dumps(read(args.read)))
        return
    print("| file | size | read: postings/s | read: text | read: memory | write: postings/s |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in _FILES:
            path = Path(folder, name)
            written = apart("--write", str(path), "--docs", str(args.docs))
            found = min((apart("--read", str(path)) for _ in range(2)), key=lambda one: one["seconds"])
            speed = found["postings"] / found["seconds"] / 1e6
            text = f"{found['text_bytes'] / found['seconds'] / 1e6:.0f} MB/s" if found["text_bytes"] else ""
            print(
                f"| {name} | {path.stat().st_size / 1e6:.0f} MB | {speed:.1f} M | {text} | "
                f"{found['peak'] / 2**20:.0f} MiB | {found['postings'] / written['seconds'] / 1e6:.1f} M |",
                flush=True,
            )
            path.unlink()


if __name__ == "__main__":
    main()
