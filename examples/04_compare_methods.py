"""Run the same queries with every method, and compare how many documents they score and how many results they miss."""

import numpy as np
import scipy.sparse as sp

import segmax

NUM_DOCS, TERMS_PER_DOC, TOPICS, TERMS_PER_TOPIC = 60_000, 20, 100, 200

rng = np.random.default_rng(0)
# Each document draws its terms from the vocabulary of one topic. Real documents are less tidy, so pruning looks better
# here than it is on them: docs/benchmarks.md has real ones.
topics = rng.integers(0, TOPICS, NUM_DOCS)
shape = (NUM_DOCS, TERMS_PER_DOC)
terms = (topics[:, None] * TERMS_PER_TOPIC + rng.integers(0, TERMS_PER_TOPIC, shape)).ravel()
weights = rng.gamma(2.0, 1.0, len(terms))
rows = np.repeat(np.arange(NUM_DOCS), TERMS_PER_DOC)
docs = sp.csr_matrix((weights, (rows, terms)), shape=(NUM_DOCS, TOPICS * TERMS_PER_TOPIC))
queries = docs[rng.integers(0, NUM_DOCS, 200)]

index = segmax.build(docs)
exact = index.search_batch(queries, k=10, params=segmax.Exhaustive())
for params in (
    segmax.Exhaustive(),
    segmax.paper.MaxScore(),
    segmax.ASC(),
    segmax.ASC(mu=0.5),
    segmax.ASC(eta=0.9),
    segmax.ASC(query_mass=0.9),
):
    found = index.search_batch(queries, k=10, params=params)
    recall = np.mean([np.isin(e, f).mean() for e, f in zip(exact.rows, found.rows, strict=True)])
    # A swept query was answered by scoring everything, because that is faster.
    scored, swept = found.stats.docs_scored.mean(), found.stats.swept.mean()
    print(
        f"{segmax.paper.method_name(params):26} recall {recall:.3f}, {scored:8.1f} documents scored, {swept:.0%} swept"
    )
