"""Build an index from a sparse matrix, save it, open it again, and search it."""

import tempfile
from pathlib import Path

import scipy.sparse as sp

import segmax

# 20,000 documents over 500 terms; 5 % of the weights are not zero.
vectors = sp.csr_matrix(sp.random(20_000, 500, density=0.05, random_state=1))
names = [f"doc{row}" for row in range(20_000)]
query = {3: 1.2, 17: 0.4, 250: 2.0}  # term to weight

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "example.segmax"
    segmax.build(vectors, ids=names, path=path)

    with segmax.open(path) as index:
        print(index)
        for hit in index.search(query, k=3):
            print(f"{hit.id}: {hit.score:.3f}")

        # Many queries at once, on two threads. Results come back as arrays.
        batch = index.search_batch(vectors[:100], k=10, threads=2)
        print(batch.rows.shape, batch.scores.shape)

        # Settle for 95 % of the exact results. segmax picks the setting.
        print(index.expectation(k=10, target_recall=0.95))
        print(index.search(query, k=3, target_recall=0.95).ids)
