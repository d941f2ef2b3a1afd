"""Make the golden indexes of today's format: `python tests/storage/make_golden.py`.

Every version of the format keeps its archive in `golden/`: small indexes, and what they answered when they were made.
An archive is never made again, or it would prove nothing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import segmax
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


def answers(index: segmax.Index, queries: object) -> dict[str, object]:
    """What an index answers to some queries."""
    hits = index.search_batch(queries, k=10, params=segmax.Exhaustive())
    return {"ids": [list(row.ids) for row in hits], "scores": [[float(s) for s in row.scores] for row in hits]}


def main() -> None:
    """Write the archive of the current version of the format."""
    rng = np.random.default_rng(14)
    docs, queries = vectors(rng, 1200, 16), vectors(rng, 12, 8)
    texts = [" ".join(rng.choice(WORDS, size=9)) for _ in range(200)]
    questions = ["river stone", "violin market winter", "harbor"]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / f"version-{FORMAT_VERSION}"
        root.mkdir()
        found = {}
        for name, options in KINDS.items():
            with segmax.build(docs, path=root / f"{name}.segmax", num_clusters=9, seed=3, **options) as index:
                found[name] = answers(index, queries)
        ids = [f"doc-{number}" for number in range(len(docs.indptr) - 1)]
        named = {"ids": ids, "texts": [f"text {name}" for name in ids]}
        with segmax.build(docs, path=root / "texts.segmax", num_clusters=9, seed=3, **named) as index:
            found["texts"] = answers(index, queries)
        with segmax.from_texts(texts, path=root / "encoder.segmax", num_clusters=3) as index:
            found["encoder"] = answers(index, questions)
        sp.save_npz(root / "queries.npz", queries)
        (root / "answers.json").write_text(json.dumps({"questions": questions, "answers": found}))
        GOLDEN.mkdir(exist_ok=True)
        shutil.make_archive(str(GOLDEN / root.name), "xztar", scratch, root.name)


if __name__ == "__main__":
    main()
