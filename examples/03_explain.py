"""Why is this document not among the results? Search with a trace, then ask."""

import scipy.sparse as sp

import segmax

docs = sp.csr_matrix([[5, 0, 1], [4, 1, 0], [0, 6, 0], [0, 1, 9], [1, 1, 1], [0, 0, 2]])
index = segmax.build(docs, terms=["sea", "ship", "storm"], clustering=[0, 0, 1, 1, 2, 2])

hits = index.search({"sea": 1, "storm": 1}, k=2, trace=True)
for entry in hits.trace or []:
    print(f"cluster {entry.cluster}: {entry.decision}, MaxSBound {entry.max_bound}, θ {entry.threshold}")
for doc_id in range(6):
    print(index.explain({"sea": 1, "storm": 1}, doc_id, k=2))
