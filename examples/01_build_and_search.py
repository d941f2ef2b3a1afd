"""Build an index from a sparse matrix, save it, open it again, search it."""

import tempfile
from pathlib import Path

import scipy.sparse as sp

import segmax

# A thousand documents over five hundred terms, five per cent of the weights not zero.
vectors = sp.random(1000, 500, density=0.05, format="csr", random_state=1)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "example.segmax"
    segmax.build(vectors, ids=[f"doc{i}" for i in range(1000)], path=path)

    with segmax.open(path) as index:
        print(index)
        hits = index.search({3: 1.2, 17: 0.4, 250: 2.0}, k=3)
        for hit in hits:
            print(f"{hit.id}: {hit.score:.3f}")
        print(f"{hits.stats.docs_scored} documents scored")
