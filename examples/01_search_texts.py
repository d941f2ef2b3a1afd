"""Index a few texts with BM25, search them, and show why each result was found."""

import segmax

texts = {
    "tubes": "Noise of microwave tubes",
    "copper": "A waveguide of copper",
    "diodes": "Noise in crystal diodes at microwave frequencies",
}

# Without a path the index lives in memory. It keeps the texts, so results come back with them.
index = segmax.from_texts(texts)

hits = index.search("microwave noise", k=2)
for hit, document in zip(hits, hits.texts, strict=True):
    print(f"{hit.score:.3f}  {hit.id}: {document.text}")

# "copper" shares no word with the query.
for doc_id in texts:
    print(index.explain("microwave noise", doc_id))
