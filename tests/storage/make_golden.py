"""Make the golden indexes, collections and encoders of today's formats: `python tests/storage/make_golden.py`.

Every version of a format keeps its archive in `golden/`: small ones, and what they answered when they were made. An
archive is never made again, or it would prove nothing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import tokenizers

import segmax
import segmax.shards
from segmax.collection.manifest import MANIFEST_VERSION
from segmax.encoders import BM25, QueryTable
from segmax.encoders.bm25 import BM25_VERSION
from segmax.encoders.table_files import TABLE_VERSION
from segmax.shards.manifest import MANIFEST_VERSION as SHARDED_VERSION
from segmax.storage.meta import FORMAT_VERSION

GOLDEN = Path(__file__).parent / "golden"
#: The settings of each index of vectors.
KINDS = {"eight-bits": {}, "sixteen-bits": {"bits": 16}, "compact": {"compact": True}}
WORDS = ["river", "stone", "cloud", "forest", "engine", "market", "violin", "harbor", "winter", "signal", "garden"]


def vectors(rng: np.random.Generator, count: int, terms: int) -> sp.csr_matrix:
    """Vectors over 300 terms, some of them in nearly every document, most of them rare."""
    shares = np.arange(1, 301) ** -1.0
    drawn = [rng.choice(300, size=terms, replace=False, p=shares / shares.sum()) for _ in range(count)]
    rows = np.repeat(np.arange(count), terms)
    weights = np.round(rng.gamma(2.0, 0.5, count * terms) + 0.01, 2).astype(np.float32)
    return sp.csr_matrix((weights, (rows, np.concatenate(drawn))), shape=(count, 300))


def answers(index: Any, queries: object, **options: Any) -> dict[str, object]:
    """What an index or a collection answers to some queries."""
    hits = index.search_batch(queries, k=10, params=segmax.Exhaustive(), **options)
    return {"ids": [list(row.ids) for row in hits], "scores": [[float(s) for s in row.scores] for row in hits]}


def metadata_of(numbers: range) -> list[dict[str, Any] | None]:
    """Metadata of every kind: numbers, strings, lists, null, a list of lists, a large integer; some have none."""
    about = [{"year": 1900 + n, "lang": ["en", "de", None][n % 3], "tags": [f"t{n % 5}", "all"]} for n in numbers]
    special = {7: None, 8: {"year": 2**70}, 9: {"nested": {"deep": [[1], 2]}, "ratio": 0.5, "open": True}}
    return [special.get(n % 50, one) for n, one in zip(numbers, about, strict=True)]


#: Filters, some of which match nothing.
FILTERS: list[dict[str, Any]] = [
    {"year": {"$gte": 2050}},
    {"lang": {"$in": ["de"]}, "tags": {"$contains": "t2"}},
    {"$not": {"lang": "en"}},
    {"nested.deep": {"$exists": True}},
    {"year": 2**70},
    {"year": "1950"},
]


def indexes(root: Path) -> None:
    """Write indexes of every kind."""
    rng = np.random.default_rng(14)
    docs, queries = vectors(rng, 240, 14), vectors(rng, 12, 8)
    texts = [" ".join(rng.choice(WORDS, size=9)) for _ in range(100)]
    questions = ["river stone", "violin market winter", "harbor"]
    found = {}
    for name, options in KINDS.items():
        with segmax.build(docs, path=root / f"{name}.segmax", num_clusters=5, seed=3, **options) as index:
            found[name] = answers(index, queries)
    ids = [f"doc-{number}" for number in range(docs.shape[0])]
    named = {"ids": ids, "texts": [f"text {name}" for name in ids]}
    with segmax.build(docs, path=root / "texts.segmax", num_clusters=5, seed=3, **named) as index:
        found["texts"] = answers(index, queries)
    about = metadata_of(range(docs.shape[0]))
    with segmax.build(docs, path=root / "metadata.segmax", num_clusters=5, seed=3, metadata=about) as index:
        found["metadata"] = answers(index, queries) | filtered(index, queries)
    with segmax.from_texts(texts, path=root / "encoder.segmax", num_clusters=3) as index:
        found["encoder"] = answers(index, questions)
    sp.save_npz(root / "queries.npz", queries)
    (root / "answers.json").write_text(json.dumps({"questions": questions, "answers": found}))


def filtered(index: Any, queries: object) -> dict[str, Any]:
    """What an index or a collection with metadata answers to filters."""
    return {
        "filters": FILTERS,
        "filtered": [answers(index, queries, where=where) for where in FILTERS],
        "counts": [index.count(where) for where in FILTERS],
        "facets": [list(pair) for pair in index.facets("lang")],
    }


def collections(root: Path) -> None:
    """Write collections with several parts, deleted documents, and changes that only the log has."""
    rng = np.random.default_rng(15)
    docs, queries = vectors(rng, 200, 12), vectors(rng, 12, 8)
    about = metadata_of(range(200))
    ids = [f"doc-{number}" for number in range(200)]
    with segmax.Collection.create(root / "vectors", num_clusters=3) as collection:
        collection.pause_merges()
        for first in (0, 60, 120):
            rows = slice(first, first + 60)
            outgrown = docs[rows] * (40.0 if first == 120 else 1.0)  # such weights take 16 bits
            collection.add(outgrown, ids=ids[rows], metadata=about[rows], texts=[f"text {id}" for id in ids[rows]])
            collection.delete(ids[first + 5 : first + 9])
            collection._open_store.flush({"threads": 1})
        collection.delete(ids[30:34])
        collection._open_store.flush({"threads": 1})
        collection.add(docs[180:], ids=ids[180:], metadata=about[180:])
        collection.delete(where={"year": {"$lt": 1903}})
        collection.update([{"id": ids[40], "metadata": {"year": 2060, "lang": "de"}}])
        collection.upsert(docs[:1], ids=[ids[50]])
        left = list(collection.ids())
        found = answers(collection, queries) | filtered(collection, queries) | {"left": left}
    questions = ["river stone", "violin market winter", "harbor"]
    texts = {f"text-{number}": " ".join(rng.choice(WORDS, size=3 + number % 9)) for number in range(60)}
    with segmax.Collection.create(root / "bm25", encoder="bm25", num_clusters=3) as collection:
        collection.pause_merges()
        listed = list(texts.items())
        collection.add(dict(listed[:40]))
        collection.delete(["text-3", "text-4"])
        collection._open_store.flush({"threads": 1})
        collection.add(dict(listed[40:]))
        collection.delete(["text-41", "text-5"])
        collection.update({"id": "text-6", "text": "a harbor in winter"})
        bm25 = answers(collection, questions) | {"left": list(collection.ids())}
    sp.save_npz(root / "queries.npz", queries)
    found_all = {"questions": questions, "answers": {"vectors": found, "bm25": bm25}}
    (root / "answers.json").write_text(json.dumps(found_all))


def sharded(root: Path) -> None:
    """Write sharded indexes: of vectors, by clusters; of texts, by rows, with metadata."""
    rng = np.random.default_rng(16)
    docs, queries = vectors(rng, 240, 12), vectors(rng, 12, 8)
    ids = [f"doc-{number}" for number in range(docs.shape[0])]
    segmax.shards.build(docs, root / "clusters", shards=3, num_clusters=9, seed=3, ids=ids)
    with segmax.shards.open_local(root / "clusters") as index:
        clusters = answers(index, queries)
    about = metadata_of(range(80))
    records = [
        {"id": f"text-{number}", "text": " ".join(rng.choice(WORDS, size=3 + number % 9)), **(about[number] or {})}
        for number in range(80)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "texts.jsonl"
        source.write_text("\n".join(map(json.dumps, records)))
        segmax.shards.build(source, root / "rows", shards=2, sharding="rows", encoder="bm25", metadata="all")
    questions = ["river stone", "violin market winter", "harbor"]
    with segmax.shards.open_local(root / "rows") as index:
        rows = answers(index, questions) | filtered(index, questions)
    sp.save_npz(root / "queries.npz", queries)
    kept = {"questions": questions, "answers": {"clusters": clusters, "rows": rows}}
    (root / "answers.json").write_text(json.dumps(kept))


def encoded(encoder: Any, texts: list[str]) -> dict[str, Any]:
    """What an encoder makes of texts."""
    rows = encoder.query_rows(texts)
    return {
        "texts": texts,
        "indptr": rows.indptr.tolist(),
        "terms": rows.indices.tolist(),
        "weights": rows.values.tolist(),
    }


def bm25(root: Path) -> None:
    """Write what BM25 learned."""
    rng = np.random.default_rng(17)
    encoder = BM25(k1=0.9, b=0.4, language="english")
    encoder.fit([[segmax.io.Document(str(number), "", " ".join(rng.choice(WORDS, size=9))) for number in range(50)]])
    encoder.save(root / "encoder")
    kept = encoded(encoder, ["river stones", "violin market winter violin", "unheard of"])
    (root / "answers.json").write_text(json.dumps(kept))


def query_table(root: Path) -> None:
    """Write a table of the weights of query tokens."""
    words = {word: number for number, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    weights = np.round(np.random.default_rng(18).gamma(2.0, 0.5, len(words)), 3)
    table = QueryTable(tokenizer, weights, name="golden", max_length=8)
    table.save(root / "table")
    kept = encoded(table, ["River stone river", "violin market winter", "nothing"])
    (root / "answers.json").write_text(json.dumps(kept))


def archive(name: str, write: Callable[[Path], None]) -> None:
    """Write an archive, unless there is one."""
    if (GOLDEN / f"{name}.tar.xz").exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / name
        root.mkdir()
        write(root)
        for lock in root.rglob("writer.lock"):
            lock.unlink()  # names the machine
        GOLDEN.mkdir(exist_ok=True)
        shutil.make_archive(str(GOLDEN / name), "xztar", scratch, name)


def main() -> None:
    """Write the archives of the current versions of the formats, where they are missing."""
    archive(f"version-{FORMAT_VERSION}", indexes)
    archive(f"collection-{MANIFEST_VERSION}", collections)
    archive(f"sharded-{SHARDED_VERSION}", sharded)
    archive(f"bm25-{BM25_VERSION}", bm25)
    archive(f"query-table-{TABLE_VERSION}", query_table)


if __name__ == "__main__":
    main()
