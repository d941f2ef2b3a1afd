"""Documents per second and milliseconds per query of every way to run a model: `python -m benchmarks.encoders`.

All ways encode the same passages in one run, in turn, for several passes; the fastest pass counts, because other
programs can only add time. Cosines are to sentence-transformers in float32, whose own figures are the first row. With
`--device cuda` only what runs there is measured; passages are repeated until there are `--texts` of them.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from segmax.encoders import SparseModel
from segmax.encoders.choosing import agreement_of
from segmax.vectors.csr import Csr, matrix_to_csr
from segmax.vectors.documents import Document
from segmax.vectors.rows import join_rows, slice_rows

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODEL = SHARED / "models" / "splade-mini"
PASSAGES = SHARED / "data" / "wiki" / "text-00.tsv.xz"
CPU: dict[str, dict[str, Any]] = {
    "torch, float32": {"dtype": "float32"},
    "ONNX Runtime, float32": {"backend": "onnx", "dtype": "float32"},
    "OpenVINO, bfloat16": {"backend": "openvino", "dtype": "bfloat16"},
    "ONNX Runtime, int8": {"backend": "onnx", "dtype": "int8"},
}
GPU: dict[str, dict[str, Any]] = {
    "torch, float32": {"dtype": "float32"},
    "torch, float16": {"dtype": "float16"},
    "torch, bfloat16": {"dtype": "bfloat16"},
}
QUERIES = ("who wrote the first symphony", "microwave noise", "what does the liver do with alcohol at night")


class Way(NamedTuple):
    """A way to run the model."""

    name: str
    documents: Callable[[list[Document]], Csr]
    query: Callable[[str], object]


def passages(count: int) -> list[Document]:
    """Return texts, repeated where there are fewer."""
    with lzma.open(PASSAGES, "rt", encoding="utf-8", newline="\n") as file:
        texts = [line.rstrip("\n").split("\t")[2] for line in itertools.islice(file, count)]
    return [Document(str(number), "", texts[number % len(texts)]) for number in range(count)]


def library(model: str, device: str, max_length: int) -> Way:
    """Return sentence-transformers itself, with its defaults, in float32."""
    import sentence_transformers

    encoder = sentence_transformers.SparseEncoder(model, device=device).float().eval()
    encoder.max_seq_length = max_length

    def documents(docs: list[Document]) -> Csr:
        found = encoder.encode_document([doc.text for doc in docs], save_to_cpu=True).coalesce()
        import scipy.sparse as sp

        rows, columns = found.indices().numpy()
        return matrix_to_csr(sp.csr_matrix((found.values().numpy(), (rows, columns)), shape=tuple(found.shape)))

    return Way("sentence-transformers, float32", documents, lambda text: encoder.encode_query([text]))


def ours(name: str, model: str, device: str, max_length: int, options: dict[str, Any]) -> Way:
    """Return one of our ways."""
    encoder = SparseModel(model, device=device, max_length=max_length, **options)

    def documents(docs: list[Document]) -> Csr:
        return join_rows([batch.vectors for batch in encoder.encode_documents([docs])], len(encoder.vocabulary))

    return Way(name, documents, lambda text: encoder.encode_queries([text]))  # which remembers nothing


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(ways: list[Way], docs: list[Document], few: int, passes: int) -> Iterator[str]:
    """Yield the rows of the table; the first way, which is slow, encodes `few` documents."""
    taken = {way.name: float("inf") for way in ways}
    query = dict(taken)
    vectors: dict[str, Csr] = {}
    for _ in range(passes):
        for number, way in enumerate(ways):
            some = docs[:few] if number == 0 else docs
            start = time.perf_counter()
            vectors[way.name] = way.documents(some)
            taken[way.name] = min(taken[way.name], (time.perf_counter() - start) / len(some))
            times = [seconds(lambda way=way, text=text: way.query(text)) for text in QUERIES * 5]  # type: ignore[misc]
            query[way.name] = min(query[way.name], float(np.median(times)))
    first = ways[0].name
    for way in ways:
        found = agreement_of(vectors[first], slice_rows(vectors[way.name], 0, few))
        yield (
            f"| {way.name} | {1 / taken[way.name]:,.1f} | {taken[first] / taken[way.name]:.1f}x "
            f"| {1e3 * query[way.name]:.2f} | {query[first] / query[way.name]:.1f}x "
            f"| {found.mean:.5f} | {found.minimum:.5f} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(MODEL))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--few", type=int, default=200, help="documents that sentence-transformers encodes")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--max-length", type=int, default=160)
    args = parser.parse_args()
    if not PASSAGES.exists():
        sys.exit(f"{PASSAGES} is not there")
    docs = passages(args.texts)
    settings = CPU if args.device == "cpu" else GPU
    ways = [library(args.model, args.device, args.max_length)]
    ways += [ours(name, args.model, args.device, args.max_length, options) for name, options in settings.items()]
    print("| | documents/s | | one query, ms | | cosine, mean | smallest |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in measure(ways, docs, min(args.few, len(docs)), args.passes):
        print(row)


if __name__ == "__main__":
    main()
