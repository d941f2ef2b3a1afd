"""Find out why a document is or is not among the results, and what a search did with each cluster."""

import scipy.sparse as sp

import segmax

docs = sp.csr_matrix([[5, 0, 1], [4, 1, 0], [0, 6, 0], [0, 1, 9], [1, 1, 1], [0, 0, 2]])
clustering = segmax.clustering.Labels([0, 0, 1, 1, 2, 2])
index = segmax.build(docs, terms=["sea", "ship", "storm"], clustering=clustering)
query = {"sea": 1, "storm": 1}

# A trace records the decision about each cluster. No score in a cluster exceeds its bound, and a cluster is pruned if
# its bound does not pass the threshold, the score of the k-th best result so far.
hits = index.search(query, k=2, trace=True)
for entry in hits.trace or []:
    print(f"cluster {entry.cluster}: {entry.decision}, bound {entry.max_bound}, threshold {entry.threshold}")

# An explanation gives the rank of a document or the reason why it has none, and what each term adds to its score.
for doc_id in range(6):
    print(index.explain(query, doc_id, k=2))
