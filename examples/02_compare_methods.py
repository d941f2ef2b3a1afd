"""The same queries by every method: what is pruned, what is kept, what it costs in recall."""

import numpy as np
import scipy.sparse as sp

import segmax

rng = np.random.default_rng(0)
# Documents with topics: each draws most of its terms from one of fifty small vocabularies.
topics = rng.integers(0, 50, 20_000)
terms = (topics[:, None] * 20 + rng.integers(0, 20, (20_000, 8))).ravel()
weights = rng.gamma(2.0, 1.0, len(terms))
rows = np.repeat(np.arange(20_000), 8)
docs = sp.csr_matrix((weights, (rows, terms)), shape=(20_000, 1000))
queries = docs[rng.integers(0, 20_000, 200)]

index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=100))
exact = index.search_batch(queries, k=10, params=segmax.Exhaustive())
for params in (
    segmax.Exhaustive(),
    segmax.paper.MaxScore(),
    segmax.paper.Anytime(),
    segmax.ASC(),
    segmax.ASC(mu=0.5),
    segmax.BestFirst(eta=0.9),
):
    found = index.search_batch(queries, k=10, params=params)
    recall = np.mean([np.isin(e, f).mean() for e, f in zip(exact.rows, found.rows, strict=True)])
    print(f"{params.method:10} recall {recall:.3f}, {found.stats.docs_scored.mean():8.1f} documents scored")
