"""Small collections in files, and comparisons of a sharded index with one index over everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import segmax
from segmax.collection.part import open_part
from segmax.shards.making import pieces


def random_matrix(num_docs: int, kind: str, seed: int = 0, num_terms: int = 120) -> sp.csr_matrix:
    """Documents with floats, small or large whole numbers, or few different weights; every tenth one is empty."""
    rng = np.random.default_rng(seed)
    docs = sp.random(num_docs, num_terms, 0.12, format="csr", random_state=rng)
    docs.data = {
        "floats": lambda n: rng.lognormal(0, 1, n).astype(np.float32),
        "small integers": lambda n: rng.integers(1, 256, n).astype(np.float32),
        "large integers": lambda n: rng.integers(1, 60_000, n).astype(np.float32),
        "ties": lambda n: rng.integers(1, 3, n).astype(np.float32),
    }[kind](len(docs.data))
    keep = sp.diags((np.arange(num_docs) % 10 != 3).astype(np.float32))
    docs = (keep @ docs).tocsr()
    docs.eliminate_zeros()
    return docs


def write_matrices(folder: Path, kind: str = "floats", sizes: tuple[int, ...] = (130, 1, 170)) -> list[str]:
    """Files of vectors without ids."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number, size in enumerate(sizes):
        names.append(str(folder / f"vectors-{number}.npz"))
        sp.save_npz(names[-1], random_matrix(size, kind, number))
    return names


def write_json_vectors(folder: Path, sizes: tuple[int, ...] = (90, 60, 110)) -> list[str]:
    """Files of vectors whose terms are words, with ids and a year."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    names = []
    for number, size in enumerate(sizes):
        path = folder / f"vectors-{number}.jsonl"
        with path.open("w") as file:
            for row in range(size):
                terms = rng.permutation(150)[: rng.integers(0, 20)]
                vector = {f"t{term}": round(float(rng.gamma(2)) + 0.01, 3) for term in terms}
                file.write(json.dumps({"id": f"{number}/{row}", "vector": vector, "year": 2000 + row % 7}) + "\n")
        names.append(str(path))
    return names


def write_texts(folder: Path, sizes: tuple[int, ...] = (100, 40, 120), *, ids: bool = True) -> list[str]:
    """Files of texts with titles and other members; some are empty."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    names = []
    for number, size in enumerate(sizes):
        path = folder / f"texts-{number}.jsonl"
        with path.open("w") as file:
            for row in range(size):
                words = " ".join(f"word{word % 300}" for word in rng.zipf(1.4, rng.integers(0, 30)))
                record: dict[str, Any] = {"title": "Größe" if row % 3 else "", "text": words}
                record |= {"year": 2000 + row % 5, "tags": ["a", "b"][: row % 3]}
                file.write(json.dumps({**({"id": f"{number}/{row}"} if ids else {}), **record}) + "\n")
        names.append(str(path))
    return names


def small_pieces(monkeypatch: Any, num_docs: int = 64) -> None:
    """Let pieces be small, so that a small collection has several."""
    monkeypatch.setattr(pieces, "PIECE_DOCS", num_docs)


def shard_folders(path: Path, manifest: Any) -> list[Path]:
    """The folders of all shards."""
    return [path / "shards" / entry.hash for entry in manifest.shards]


def check_same_documents(path: Path, manifest: Any, whole: segmax.Index) -> None:
    """Every document of one index over everything is in one shard, with the same codes, id, text and metadata."""
    rows: list[int] = []
    for folder, entry in zip(shard_folders(path, manifest), manifest.shards, strict=True):
        part, shard = open_part(folder.parent, folder.name), segmax.open(folder, verify=True)
        own = part.numbers.tolist()
        ids = part.ids.ids_of(np.arange(part.num_docs))
        assert entry.num_docs == part.num_docs
        assert entry.first_row == own[0]
        assert entry.num_postings == part.num_postings
        assert ids == whole._engine.ids.ids_of(np.array(own))
        found, expected = shard.vectors(ids), whole.vectors(ids)
        assert (found != expected).nnz == 0
        assert found.shape == expected.shape
        if whole._engine.ids.stored is not None:
            assert [shard.text(one) for one in ids] == [whole.text(one) for one in ids]
        if whole._engine.metadata is not None:
            assert [shard.metadata(one) for one in ids] == [whole.metadata(one) for one in ids]
        rows += own
    assert sorted(rows) == list(range(whole.num_docs))
