"""A small collection that ships with segmax, and a demonstration on it.

The collection is Vaswani, or NPL: 11,429 abstracts, 93 queries and 2,083 judgments, in `FOLDER`.
"""

from pathlib import Path

#: A BEIR folder: corpus.jsonl.gz, queries.jsonl.gz and qrels.tsv.
FOLDER = Path(__file__).parent / "data"
